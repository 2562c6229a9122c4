//! Tests of `compare`.

use super::*;
use crate::record::tests::sample;

#[test]
fn what_both_have_is_compared_and_chance_is_no_difference() {
    let a = sample();
    let mut b = sample();
    b.seed = 2;
    for run in b.runs.iter_mut().filter(|run| run.subject == 0) {
        run.figures[0].value *= 3.0;
        run.figures[1].value = 2000.0;
    }
    let text = render(&a, &b, ["a.json", "b.json"]);
    assert!(text.contains("note: the seed differs: 1 and 2\n"), "{text}");
    let line = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        line("CPU a sample"),
        "CPU a sample, µs 1.50 (1..2) 4.50 (3..6) 3x worse"
    );
    assert!(line("samples").ends_with("2x better"), "{text}");
    assert!(line("scrapes").ends_with("1x"), "{text}");
    let spread = |least, most| Spread::new([least, most]).unwrap();
    assert_eq!(
        verdict(Better::Less, &spread(1.0, 2.0), &spread(1.9, 4.0)),
        ""
    );
    assert_eq!(
        verdict(Better::Less, &spread(100.0, 101.0), &spread(102.0, 103.0)),
        ""
    );
}

#[test]
fn both_on_one_page_stand_beside_each_other() {
    let both = merged(&sample(), &sample(), ["a.json", "b.json"]);
    let labels: Vec<&str> = both
        .subjects
        .iter()
        .map(|subject| subject.label.as_str())
        .collect();
    assert_eq!(
        labels,
        ["narthex A", "narthex B", "prometheus A", "prometheus B"]
    );
    assert_eq!(both.runs.len(), 10);
    assert!(super::super::html::page(&both).contains("narthex B"));
}
