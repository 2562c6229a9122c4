//! Calendar dates in UTC.
//!
//! **Invariant:** the proleptic Gregorian calendar, as in Go's `time` package, for every `i64` of seconds that
//! stands for an instant of Go's, beyond whose ends time wraps around.

use narthex_model::date::{civil_of, days_in};

/// A day and the seconds into it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Date {
    pub(crate) year: i64,
    /// 1 to 12.
    pub(crate) month: i64,
    /// 1 to 31.
    pub(crate) day: i64,
    days: i64,
    second_of_day: i64,
}

/// 2^63.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// Seconds from Go's year zero, 292,277,022,400 years before March 1 of year 0, to the epoch.
const ZERO_TO_EPOCH: i64 = 292_277_022_400 / 400 * 146_097 * 86_400 + 719_468 * 86_400;

impl Date {
    /// Returns the date `x` seconds after the epoch; what is no `i64` counts as the least one, as on Go's main platform.
    pub(crate) fn of_float(x: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
        Self::of(if (-TWO_63..TWO_63).contains(&x) {
            x as i64
        } else {
            i64::MIN
        })
    }

    /// Returns the date `seconds` after the epoch.
    pub(crate) fn of(seconds: i64) -> Self {
        // Go counts from the start of a year far back, in 64 bits without a sign.
        let since_zero = seconds.wrapping_add(ZERO_TO_EPOCH);
        let wrapped = i128::from(since_zero.cast_unsigned()) - i128::from(ZERO_TO_EPOCH);
        let (days, second_of_day) = (wrapped.div_euclid(86_400), wrapped.rem_euclid(86_400));
        let days = i64::try_from(days).expect("2^65 seconds have fewer than 2^63 days");
        let second_of_day = i64::try_from(second_of_day).expect("it is below 86,400");
        let (year, month, day) = civil_of(days);
        Self {
            year,
            month,
            day,
            days,
            second_of_day,
        }
    }

    /// Returns hour, minute and second.
    pub(crate) fn clock(self) -> (i64, i64, i64) {
        (
            self.second_of_day / 3600,
            self.second_of_day / 60 % 60,
            self.second_of_day % 60,
        )
    }

    /// Returns the day of the week, 0 for Sunday.
    pub(crate) fn weekday(self) -> i64 {
        (self.days + 4).rem_euclid(7)
    }

    /// Returns the day of the year, from 1.
    pub(crate) fn day_of_year(self) -> i64 {
        (1..self.month)
            .map(|month| days_in(self.year, month))
            .sum::<i64>()
            + self.day
    }

    /// Returns the number of days the month has.
    pub(crate) fn days_in_month(self) -> i64 {
        days_in(self.year, self.month)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_gregorian() {
        for (seconds, year, month, day, weekday, day_of_year) in [
            (0, 1970, 1, 1, 4, 1),
            (951_782_400, 2000, 2, 29, 2, 60),
            (1_609_459_199, 2020, 12, 31, 4, 366),
            (-1, 1969, 12, 31, 3, 365),
            (-62_167_219_200, 0, 1, 1, 6, 1),
        ] {
            let date = Date::of(seconds);
            assert_eq!((date.year, date.month, date.day), (year, month, day));
            assert_eq!((date.weekday(), date.day_of_year()), (weekday, day_of_year));
        }
        assert_eq!(Date::of(-1).clock(), (23, 59, 59));
        assert_eq!(Date::of(951_782_400).days_in_month(), 29);
    }
}
