//! Times and durations of parameters.
//!
//! **Invariant:** everything Prometheus accepts is accepted: seconds with a fraction, RFC 3339, and for durations
//! also the units of `narthex_model::duration`.

use narthex_model::{date::parse_rfc3339, duration};

/// Earliest and latest time, in milliseconds, of a range without bounds; far beyond any sample.
pub(crate) const MIN_TIME_MS: i64 = i64::MIN / 1000;
pub(crate) const MAX_TIME_MS: i64 = i64::MAX / 1000;

/// Parses a time into milliseconds since the epoch.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    if let Some(seconds) = parse_seconds(text) {
        return to_ms(seconds);
    }
    parse_rfc3339(text)
}

/// Parses a duration into milliseconds; fails in Prometheus' words.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let unread = || format!("cannot parse {text:?} to a valid duration");
    match parse_seconds(text) {
        // Prometheus holds nanoseconds in an int64.
        Some(seconds) => to_ms(seconds)
            .filter(|ms| ms.abs() <= i64::MAX / 1_000_000)
            .ok_or_else(|| format!("{}. It overflows int64", unread())),
        None => duration::parse(text).map_err(|_| unread()),
    }
}

fn parse_seconds(text: &str) -> Option<f64> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    text.parse().ok().filter(|_: &f64| plain)
}

fn to_ms(seconds: f64) -> Option<i64> {
    let ms = (seconds * 1000.0).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "checked against the bounds"
    )]
    (ms.abs() < MAX_TIME_MS as f64).then_some(ms as i64)
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
    fn durations_in_both_forms() {
        assert_eq!(parse_duration("15"), Ok(15_000));
        assert_eq!(parse_duration("0.5"), Ok(500));
        assert_eq!(parse_duration("1m30s"), Ok(90_000));
        assert_eq!(
            parse_duration("x").unwrap_err(),
            "cannot parse \"x\" to a valid duration"
        );
        assert_eq!(
            parse_duration("1e30").unwrap_err(),
            "cannot parse \"1e30\" to a valid duration. It overflows int64"
        );
    }
}
