//! Formats numbers for people.

use crate::record::summary::Spread;

/// Returns three significant digits, or all digits of a whole number.
pub(crate) fn digits(value: f64) -> String {
    // Decide by the rounded value: 0.9996 is 1.00.
    let places = match value.abs() {
        v if v.fract() == 0.0 || v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.01 => 3,
        _ => 4,
    };
    format!("{value:.places$}")
}

/// Returns the median, and the spread if there was more than one value.
pub(crate) fn spread(spread: &Spread) -> String {
    if spread.count < 2 {
        return digits(spread.median);
    }
    let (least, most) = (digits(spread.least), digits(spread.most));
    format!("{} ({least}..{most})", digits(spread.median))
}

/// Returns a ratio with its spread, such as `6.7x (6.1..7.2)`.
pub(crate) fn ratio(ratio: &Spread) -> String {
    let middle = format!("{}x", digits(ratio.median));
    if ratio.count < 2 {
        return middle;
    }
    format!("{middle} ({}..{})", digits(ratio.least), digits(ratio.most))
}

/// Returns a figure's name with its unit.
pub(crate) fn name(key: &str, unit: &str) -> String {
    if unit.is_empty() {
        key.to_owned()
    } else {
        format!("{key}, {unit}")
    }
}

/// Describes a ratio, such as `3.4 times as much`.
pub(super) fn compared(ratio: f64) -> String {
    match ratio {
        r if r >= 1.95 => format!("{} times as much", two_digits(r)),
        r if r >= 1.05 => format!("{:.0} % more", (r - 1.0) * 100.0),
        r if r > 0.95 => "about as much".to_owned(),
        r if r > 0.55 => format!("{:.0} % less", (1.0 - r) * 100.0),
        r if r > 0.0 => format!("1/{} as much", two_digits(1.0 / r)),
        _ => "nothing".to_owned(),
    }
}

/// Rounds to two digits, the precision of a ratio.
fn two_digits(ratio: f64) -> String {
    if ratio < 9.95 {
        return format!("{ratio:.1}").trim_end_matches(".0").to_owned();
    }
    digits(ratio.round())
}

#[cfg(test)]
mod tests {
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
}
