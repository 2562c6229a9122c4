//! Tests of `exposition`.

use narthex_testkit::exposition::{Line, unescape};

fn labels(line: &str) -> Vec<(&str, &str)> {
    let line = Line::parse(line).unwrap_or_else(|| panic!("{line}"));
    line.labels
        .iter()
        .map(|label| (label.name, label.value))
        .collect()
}

#[test]
fn lines_as_exporters_write_them() {
    let line = Line::parse("a_total{x=\"1\", y=\"a,}b\\\"c\\\\\",} 1e+09 123").unwrap();
    assert_eq!(
        (line.name, line.value, line.timestamp),
        ("a_total", "1e+09", Some("123"))
    );
    assert_eq!(labels("a{x=\"1\", y=\"\"} 1"), [("x", "1"), ("y", "")]);
    assert_eq!(
        labels("a{y=\"a,}b\\\"c\\\\\",} 1"),
        [("y", "a,}b\\\"c\\\\")]
    );
    assert_eq!(labels("a 1"), []);
    assert_eq!(labels("a{} NaN"), []);
    assert_eq!(unescape("a\\\"b\\\\n\\n"), "a\"b\\n\n");
}

#[test]
fn what_is_no_line_gives_nothing() {
    for line in [
        "",
        "# HELP a b",
        "a",
        "a{",
        "a{x=\"1\"}",
        "a{x=1} 1",
        "a{x=\"1} 1",
        "a 1 2 3",
        "{} 1",
    ] {
        assert_eq!(Line::parse(line), None, "{line}");
    }
}
