//! Times and durations of parameters.
//!
//! **Invariant:** everything Prometheus accepts is accepted: seconds with a fraction, RFC 3339, and for durations
//! also the units of `narthex_model::duration`.

pub(crate) use narthex_model::date::parse_time;

use narthex_model::{
    date::{parse_seconds, seconds_to_ms},
    duration,
};

/// Earliest and latest time, in milliseconds, of a range without bounds; far beyond any sample.
pub(crate) const MIN_TIME_MS: i64 = i64::MIN / 1000;
pub(crate) const MAX_TIME_MS: i64 = i64::MAX / 1000;

/// Parses a duration into milliseconds; fails in Prometheus' words.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let unread = || format!("cannot parse {text:?} to a valid duration");
    match parse_seconds(text) {
        // Prometheus holds nanoseconds in an int64.
        Some(seconds) => seconds_to_ms(seconds)
            .filter(|ms| ms.abs() <= i64::MAX / 1_000_000)
            .ok_or_else(|| format!("{}. It overflows int64", unread())),
        None => duration::parse(text).map_err(|_| unread()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
