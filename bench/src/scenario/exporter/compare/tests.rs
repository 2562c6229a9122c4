//! Tests of `compare`.

use super::*;

fn page(text: &str) -> Page {
    Page::read(text).unwrap()
}

#[test]
fn values_have_the_class_of_what_they_are() {
    for (is_counter, before, value, after, expected) in [
        (true, 5.0, 5.0, 5.0, Class::Equal),
        (true, f64::NAN, f64::NAN, 0.0, Class::Equal),
        (true, 5.0, 6.0, 7.0, Class::MovedOn),
        (true, 100.0, 104.0, 101.0, Class::Near),
        (true, 100.0, 99.0, 101.0, Class::Different),
        (true, 100.0, 200.0, 101.0, Class::Different),
        (false, 7.0, 6.0, 5.0, Class::MovedOn),
        (false, 100.0, 96.0, 100.0, Class::Near),
        (false, 100.0, 90.0, 100.0, Class::Different),
        (false, -100.0, -104.0, -100.0, Class::Near),
        (false, 0.0, 1.0, 0.0, Class::Different),
    ] {
        let got = class(is_counter, before, value, after);
        assert_eq!(got, expected, "{is_counter} {before} {value} {after}");
    }
}

#[test]
fn what_is_on_one_side_and_what_is_described_otherwise_is_listed() {
    let before = page(
        "# HELP a A.\n# TYPE a counter\na{x=\"1\"} 1\na{x=\"2\"} 5\ngone 1\ngo_x 1\n# TYPE g gauge\ng 10\n",
    );
    let other = page(
        "# HELP a a.\n# TYPE a gauge\na{x=\"1\"} 2\na{x=\"3\"} 5\nextra{b=\"1\"} 1\nextra{b=\"2\"} 1\n\
         go_y 1\n# TYPE g gauge\ng 20\n",
    );
    let after = page("# TYPE a counter\na{x=\"1\"} 3\na{x=\"2\"} 5\ngone 1\ng 10\n");
    let got = Comparison::new(&before, &other, &after);
    assert_eq!(
        (got.equal, got.moved_on, got.near, got.shared()),
        (0, 1, 0, 2)
    );
    assert_eq!(got.only_first, [("gone".to_owned(), 1)]);
    assert_eq!(got.only_other, [("extra".to_owned(), 2)]);
    assert_eq!(got.series_only_first, ["a{x=\"2\"}"]);
    assert_eq!(got.series_only_other, ["a{x=\"3\"}"]);
    assert_eq!(got.different, [["g{}", "10", "20"].map(str::to_owned)]);
    assert_eq!(
        got.descriptions,
        [["a", "type", "counter", "gauge"], ["a", "help", "A.", "a."]]
            .map(|row| row.map(str::to_owned))
    );
    let same = Comparison::new(&before, &before, &after);
    assert_eq!((same.equal, same.shared()), (4, 4));
    assert_eq!(same.descriptions.len() + same.only_first.len(), 0);
}
