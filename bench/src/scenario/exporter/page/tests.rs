//! Tests of `page`.

use super::*;
use narthex_testkit::mutate::Mutator;

const PAGE: &str = "# HELP a_total What a is.\n# TYPE a_total counter\n\
    a_total{z=\"\",y=\"2\",x=\"a \\\"b\\\", {c}\"} 5\na_total 7 1700000000000\n\n\
    # HELP h A histogram.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 4.5\nh_count 3\n\
    # TYPE go_goroutines gauge\ngo_goroutines 8\n# A comment.\nplain{} NaN\n";

#[test]
fn families_have_their_series_whatever_their_names() {
    let page = Page::read(PAGE).unwrap();
    let names: Vec<&String> = page.families.keys().collect();
    assert_eq!(names, ["a_total", "go_goroutines", "h", "plain"]);
    let a = &page.families["a_total"];
    assert_eq!(
        (a.kind.as_str(), a.help.as_str()),
        ("counter", "What a is.")
    );
    assert!(a.is_counter());
    assert_eq!(a.series["a_total{x=\"a \\\"b\\\", {c}\",y=\"2\"}"], 5.0);
    assert_eq!(a.series["a_total{}"], 7.0);
    assert_eq!(page.families["h"].series.len(), 4);
    assert!(page.families["plain"].series["plain{}"].is_nan());
    assert_eq!(page.len(), 8);
    assert!(Page::is_own("go_goroutines") && !Page::is_own("node_load1"));
}

#[test]
fn a_series_without_values_keeps_the_names_of_its_labels() {
    let series = "a_total{x=\"/home/me, y=1\",y=\"2\"}";
    assert_eq!(without_values(series), "a_total{x, y}");
    assert_eq!(without_values("up{}"), "up{}");
}

#[test]
fn a_line_that_does_not_read_is_named() {
    for bad in [
        "a",
        "a b",
        "a{x=\"1\" 5",
        "a{x=1} 5",
        "a{x} 5",
        "{} 5",
        "a{x=\"1\\\"} 5",
    ] {
        let error = Page::read(&format!("ok 1\n{bad}\n")).unwrap_err();
        assert_eq!(error, format!("line 2 does not read: {bad}"));
    }
}

#[test]
fn arbitrary_text_does_no_harm() {
    let iterations = narthex_testkit::scaled(5_000);
    Mutator::new(9).run(&[PAGE.as_bytes()], iterations, |bytes| {
        let _ = Page::read(&String::from_utf8_lossy(bytes));
    });
}
