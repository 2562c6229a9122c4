//! Tests of `terminal`.

use super::*;
use crate::record::tests::sample;

#[test]
fn a_record_is_a_table_with_ratios_and_their_spread() {
    let text = render(&sample());
    let expected = "2 targets of 50 series, seed 1 with queries: prometheus / narthex
        CPU a sample, µs 1.50 (1..2) 8 (4..12) 5x (4..6)
        samples, a second 1000 (1000..1000) 1x (1..1) instant queries, ms, from due 2.50 family";
    for word in expected.split_whitespace() {
        assert!(text.contains(word), "{word} is missing in {text}");
    }
    assert!(
        text.contains("REFUSED: first byte p99 7 ms (above 5)\n"),
        "{text}"
    );
    assert!(
        text.ends_with("victoria-metrics is not installed\n"),
        "{text}"
    );
}

#[test]
fn columns_stand_below_each_other() {
    let lines = [["a", "1"], ["long", "22"]].map(|line| line.map(str::to_owned).to_vec());
    assert_eq!(aligned(&lines, 1), "a       1\nlong   22\n");
}
