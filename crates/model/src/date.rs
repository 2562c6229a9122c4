//! Calendar dates in UTC, as numbers and as RFC 3339 has them.
//!
//! **Invariant:** the proleptic Gregorian calendar; `days_of` undoes `civil_of`.

/// Days from 0000-03-01 to the epoch. Years that begin in March end with their leap day.
const MARCH_0_TO_EPOCH: i64 = 719_468;
/// Days of 400 years.
const ERA_DAYS: i64 = 146_097;

/// Returns year, month (from 1) and day (from 1) of a day counted from 1970-01-01.
///
/// After H. Hinnant, "chrono-compatible low-level date algorithms".
#[must_use]
pub fn civil_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + MARCH_0_TO_EPOCH;
    let era = shifted.div_euclid(ERA_DAYS);
    let day_of_era = shifted.rem_euclid(ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Returns the days from 1970-01-01 to a date.
#[must_use]
pub fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA_DAYS + day_of_era - MARCH_0_TO_EPOCH
}

/// Returns the number of days of a month (from 1).
#[must_use]
pub fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns milliseconds since the epoch as `2006-01-02T15:04:05.999Z`, always with three decimals.
#[must_use]
pub fn rfc3339(time_ms: i64) -> String {
    let (year, month, day) = civil_of(time_ms.div_euclid(86_400_000));
    let ms = time_ms.rem_euclid(86_400_000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        ms / 3_600_000,
        ms / 60_000 % 60,
        ms / 1000 % 60,
        ms % 1000
    )
}

/// Reads `2006-01-02T15:04:05.999Z`, or with an offset such as `+01:00`; fractions of milliseconds are cut off.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<i64> {
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
    if !(1..=12).contains(&month)
        || !(1..=days_in(year, month)).contains(&day)
        || hour > 23
        || minute > 59
        || second > 59
    {
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
    let hours = days_of(year, month, day) * 24 + hour;
    let seconds = (hours * 60 + minute - offset_minutes) * 60 + second;
    Some(seconds * 1000 + fraction_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_undo_each_other() {
        for days in (-1_000_000..1_000_000).step_by(377) {
            let (year, month, day) = civil_of(days);
            assert_eq!(days_of(year, month, day), days);
            assert!((1..=days_in(year, month)).contains(&day));
        }
        assert_eq!(civil_of(0), (1970, 1, 1));
        assert_eq!(civil_of(11_016), (2000, 2, 29));
        assert_eq!(civil_of(-719_528), (0, 1, 1));
    }

    #[test]
    fn times_are_written_and_read() {
        for (time_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_709_164_799_123, "2024-02-28T23:59:59.123Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
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
