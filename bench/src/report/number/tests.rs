//! Tests of `number`.

use super::*;

#[test]
fn numbers_are_short() {
    assert_eq!(
        [
            0.001234, 0.01234, 0.9996, 3.3812, 9.996, 45.67, 99.96, 1234.5, 7.0
        ]
        .map(digits),
        [
            "0.0012", "0.012", "1.00", "3.38", "10.0", "45.7", "100", "1234", "7"
        ]
    );
}

#[test]
fn a_spread_is_shown_when_there_is_one() {
    let one = Spread::new([6.7]).unwrap();
    assert_eq!(
        (spread(&one), ratio(&one)),
        ("6.70".to_owned(), "6.70x".to_owned())
    );
    let three = Spread::new([7.0, 6.125, 6.5]).unwrap();
    assert_eq!(ratio(&three), "6.50x (6.12..7)");
    assert_eq!(spread(&three), "6.50 (6.12..7)");
}

#[test]
fn ratios_read_as_people_say_them() {
    for (ratio, words) in [
        (3.42, "3.4 times as much"),
        (2.0, "2 times as much"),
        (12.7, "13 times as much"),
        (1.2, "20 % more"),
        (1.01, "about as much"),
        (0.8, "20 % less"),
        (0.24, "1/4.2 as much"),
        (0.0, "nothing"),
    ] {
        assert_eq!(compared(ratio), words);
    }
}
