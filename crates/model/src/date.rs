//! RFC 3339 times in UTC.
//!
//! **Invariant:** the calendar is proleptic Gregorian; input that Go's parser rejects is rejected, even where `jiff`
//! accepts it.

use jiff::{SignedDuration, civil::DateTime};
use std::{ops::Range, str::FromStr};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Formats milliseconds since the epoch as `2006-01-02T15:04:05.999Z`, always with three decimals; times after the
/// year 9999 become its last moment.
#[must_use]
pub fn rfc3339(time_ms: i64) -> String {
    let time = EPOCH.saturating_add(SignedDuration::from_millis(time_ms));
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Parses `2006-01-02T15:04:05.999Z`, or with an offset such as `+01:00`; fractions of a millisecond are cut off.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    let bytes = text.as_bytes();
    for (at, byte) in separators {
        bytes
            .get(at)
            .filter(|found| found.eq_ignore_ascii_case(&byte))?;
    }
    let year = number(text, 0..4)?;
    let [month, day, hour, minute, second] = [5, 8, 11, 14, 17].map(|at| number(text, at..at + 2));
    let (month, day) = (month?, day?);
    let time = DateTime::new(year, month, day, hour?, minute?, second?, 0).ok()?;
    let rest = text.get(19..)?;
    let fraction_len = match rest.strip_prefix('.') {
        Some(fraction) => 1 + fraction.bytes().take_while(u8::is_ascii_digit).count(),
        None => 0,
    };
    let fraction_ms = match fraction_len {
        0 => 0,
        1 => return None,
        len => format!("{:0<3}", &rest[1..len])
            .get(..3)?
            .parse::<i64>()
            .ok()?,
    };
    let offset_minutes = match rest.get(fraction_len..)? {
        "Z" | "z" => 0,
        zone => {
            let sign = match zone.as_bytes().first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let from = 19 + fraction_len;
            if zone.len() != 6 || zone.as_bytes().get(3) != Some(&b':') {
                return None;
            }
            let hours: i64 = number(text, from + 1..from + 3)?;
            let minutes: i64 = number(text, from + 4..from + 6)?;
            sign * (hours * 60 + minutes)
        }
    };
    let seconds = time.duration_since(EPOCH).as_secs() - offset_minutes * 60;
    Some(seconds * 1000 + fraction_ms)
}

/// Bound on times that are given as seconds, in milliseconds; far beyond any sample.
const TIME_BOUND_MS: i64 = i64::MAX / 1000;

/// Parses a time as Prometheus' API and commands take it, seconds since the epoch or RFC 3339, into milliseconds.
#[must_use]
pub fn parse_time(text: &str) -> Option<i64> {
    match parse_seconds(text) {
        Some(seconds) => seconds_to_ms(seconds),
        None => parse_rfc3339(text),
    }
}

/// Parses a decimal number of seconds, with or without fraction and exponent; never NaN or infinity by name.
#[must_use]
pub fn parse_seconds(text: &str) -> Option<f64> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    text.parse().ok().filter(|_: &f64| plain)
}

/// Returns seconds in milliseconds, rounded; `None` far outside the times of samples.
#[must_use]
pub fn seconds_to_ms(seconds: f64) -> Option<i64> {
    let ms = (seconds * 1000.0).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "checked against the bound"
    )]
    (ms.abs() < TIME_BOUND_MS as f64).then_some(ms as i64)
}

/// Parses digits only: `str::parse` would accept a sign too.
fn number<T: FromStr>(text: &str, range: Range<usize>) -> Option<T> {
    let digits = text.get(range)?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_every_form() {
        assert_eq!(parse_time("1700000000"), Some(1_700_000_000_000));
        assert_eq!(parse_time("1700000000.1234"), Some(1_700_000_000_123));
        assert_eq!(parse_time("1.7e9"), Some(1_700_000_000_000));
        assert_eq!(parse_time("-5"), Some(-5000));
        assert_eq!(parse_time("2024-02-29T00:00:00Z"), Some(1_709_164_800_000));
        assert_eq!(
            parse_time("2024-02-29T01:30:00.5+01:30"),
            Some(1_709_164_800_500)
        );
        assert_eq!(parse_time("1969-12-31T23:59:59.999Z"), Some(-1));
        for text in [
            "",
            "now",
            "NaN",
            "inf",
            "2024-02-30T00:00:00Z",
            "2024-02-29",
            "2024-02-29T00:00:00",
            "1e30",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_written_and_read() {
        for (time_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_709_164_799_123, "2024-02-28T23:59:59.123Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(time_ms), text);
            assert_eq!(parse_rfc3339(text), Some(time_ms));
        }
        assert_eq!(
            parse_rfc3339("2024-02-29T01:30:00.5+01:30"),
            Some(1_709_164_800_500)
        );
        for text in [
            "",
            "2024-02-30T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-02-29",
            "2024-02-29T00:00:00",
            "2024-02-29T00:00:00.Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
