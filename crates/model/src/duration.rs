//! Durations as Prometheus writes them: `1h30m`, `250ms`, `15d`.
//!
//! **Invariant:** `parse(format(x)) == x` for every whole number of milliseconds from 0 up.

use std::{error::Error, fmt};

const UNITS: [(&str, i64); 7] = [
    ("y", 365 * 24 * 3_600_000),
    ("w", 7 * 24 * 3_600_000),
    ("d", 24 * 3_600_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// A text that is not a duration.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DurationError {
    /// The text is empty.
    Empty,
    /// Not of the form `[0-9]+(y|w|d|h|m|s|ms)`, repeated with falling units.
    Malformed {
        /// The text.
        text: String,
    },
    /// More than about 292 years.
    OutOfRange {
        /// The text.
        text: String,
    },
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty duration string"),
            Self::Malformed { text } => write!(f, "not a valid duration string: {text:?}"),
            Self::OutOfRange { .. } => f.write_str("duration out of range"),
        }
    }
}

impl Error for DurationError {}

/// Parses a duration and returns milliseconds, 0 or more.
///
/// # Errors
/// Fails unless the units are in falling order, each at most once; `0` alone needs no unit.
pub fn parse(text: &str) -> Result<i64, DurationError> {
    let malformed = || DurationError::Malformed {
        text: text.to_owned(),
    };
    let out_of_range = || DurationError::OutOfRange {
        text: text.to_owned(),
    };
    match text {
        "" => return Err(DurationError::Empty),
        "0" => return Ok(0),
        _ => {}
    }
    let (mut rest, mut total_ms, mut next_unit) = (text, 0i64, 0);
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, tail) = rest.split_at(digits);
        let after = tail.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let (unit, tail) = tail.split_at(tail.len() - after.len());
        let index = UNITS.iter().position(|(name, _)| *name == unit);
        let index = index.ok_or_else(malformed)?;
        if number.is_empty() || index < next_unit {
            return Err(malformed());
        }
        next_unit = index + 1;
        let amount: i64 = number.parse().map_err(|_| out_of_range())?;
        // Go's bound: nanoseconds in an i64.
        let part_ms = amount
            .checked_mul(UNITS[index].1)
            .ok_or_else(out_of_range)?;
        total_ms = total_ms
            .checked_add(part_ms)
            .filter(|ms| *ms <= i64::MAX / 1_000_000)
            .ok_or_else(out_of_range)?;
        rest = tail;
    }
    Ok(total_ms)
}

/// Formats `ms` milliseconds the way Prometheus prints durations; negative values get a minus sign.
#[must_use]
pub fn format(ms: i64) -> String {
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    if ms < 0 {
        text.push('-');
    }
    let mut rest = ms.unsigned_abs();
    for (name, unit_ms) in UNITS {
        let unit_ms = unit_ms.unsigned_abs();
        // Years and weeks are printed only when they divide the whole: 7d1h stays days and hours.
        let exact_only = matches!(name, "y" | "w");
        if rest >= unit_ms && (!exact_only || rest.is_multiple_of(unit_ms)) {
            text.push_str(&format!("{}{name}", rest / unit_ms));
            rest %= unit_ms;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_prometheus_parses() {
        for (text, ms) in [
            ("0", 0),
            ("0s", 0),
            ("1ms", 1),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1y2w3d4h5m6s7ms", 33_019_506_007),
        ] {
            assert_eq!(parse(text), Ok(ms), "{text}");
        }
        for text in ["1", "1m1h", "-1m", "1.5h", "h", "1x", "1m1m", " 1m", "1 m"] {
            assert!(
                matches!(parse(text), Err(DurationError::Malformed { .. })),
                "{text}"
            );
        }
        assert_eq!(parse(""), Err(DurationError::Empty));
        assert!(matches!(
            parse("300y"),
            Err(DurationError::OutOfRange { .. })
        ));
        assert!(matches!(
            parse("99999999999999999999s"),
            Err(DurationError::OutOfRange { .. })
        ));
    }

    #[test]
    fn formats_what_it_parses() {
        for ms in [
            0,
            1,
            999,
            1000,
            60_000,
            90_061_001,
            7 * 86_400_000,
            8 * 86_400_000,
            365 * 86_400_000,
            366 * 86_400_000,
        ] {
            assert_eq!(parse(&format(ms)), Ok(ms));
        }
        assert_eq!(format(8 * 86_400_000), "8d");
        assert_eq!(format(14 * 86_400_000), "2w");
        assert_eq!(format(-90_000), "-1m30s");
    }
}
