//! Times and durations of parameters.
//!
//! **Invariant:** everything Prometheus accepts is accepted: seconds with a fraction, RFC 3339, and for durations
//! also the units of `narthex_model::duration`.

use narthex_model::duration;

/// Earliest and latest time, in milliseconds, that a range without bounds means; far beyond any sample.
pub(crate) const MIN_TIME_MS: i64 = i64::MIN / 1000;
pub(crate) const MAX_TIME_MS: i64 = i64::MAX / 1000;

/// Reads a time and returns milliseconds since the epoch.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    if let Some(seconds) = parse_seconds(text) {
        return to_ms(seconds);
    }
    parse_rfc3339(text)
}

/// Reads a duration and returns milliseconds; why not, in Prometheus' words, if it is none.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let unread = || format!("cannot parse {text:?} to a valid duration");
    match parse_seconds(text) {
        // Prometheus counts nanoseconds.
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

/// Reads `2006-01-02T15:04:05.999Z` or with an offset `+01:00`.
fn parse_rfc3339(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        digits
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    let bytes = text.as_bytes();
    if separators.iter().any(|(at, byte)| {
        bytes
            .get(*at)
            .is_none_or(|found| !found.eq_ignore_ascii_case(byte))
    }) {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days_in_month).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
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
            sign * (number(from + 1..from + 3)? * 60 + number(from + 4..from + 6)?)
        }
    };
    let days = days_since_epoch(year, month, day);
    let seconds = ((days * 24 + hour) * 60 + minute - offset_minutes) * 60 + second;
    Some(seconds * 1000 + fraction_ms)
}

/// Days from 1970-01-01 (H. Hinnant, "chrono-compatible low-level date algorithms").
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
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
