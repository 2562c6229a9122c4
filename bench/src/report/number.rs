//! Numbers as people read them.

use crate::record::summary::Spread;

/// Returns three significant digits, or all of a whole number.
pub(crate) fn digits(value: f64) -> String {
    // By what it is rounded to: 0.9996 is 1.00.
    let places = match value.abs() {
        v if v.fract() == 0.0 || v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.01 => 3,
        _ => 4,
    };
    format!("{value:.places$}")
}

/// Returns the median, and the spread when there was more than one value.
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
        let one = Spread::of([6.7]).unwrap();
        assert_eq!(
            (spread(&one), ratio(&one)),
            ("6.70".to_owned(), "6.70x".to_owned())
        );
        let three = Spread::of([7.0, 6.125, 6.5]).unwrap();
        assert_eq!(ratio(&three), "6.50x (6.12..7)");
        assert_eq!(spread(&three), "6.50 (6.12..7)");
    }
}
