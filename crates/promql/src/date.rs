//! Calendar dates in UTC.
//!
//! **Invariant:** proleptic Gregorian, as in Go's `time` package, for every `i64` of seconds within Go's range;
//! beyond its ends time wraps around.

use jiff::{Timestamp, civil::DateTime, tz::Offset};

/// A moment in any year.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Date {
    /// The year, which may be before the first.
    pub year: i64,
    /// The same moment in another era: the calendar, weekdays included, repeats every 400 years.
    of_era: DateTime,
}

/// Seconds in 400 years.
const ERA_SECONDS: i64 = 146_097 * 86_400;

/// 2^63.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// Seconds from Go's year zero, 292,277,022,400 years before March 1 of year 0, to the epoch.
const ZERO_TO_EPOCH: i64 = 292_277_022_400 / 400 * 146_097 * 86_400 + 719_468 * 86_400;

impl Date {
    /// Returns the date `x` seconds after the epoch; a value outside `i64` becomes its minimum, as on Go's main
    /// platform.
    pub(crate) fn from_float(x: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
        Self::from_unix(if (-TWO_63..TWO_63).contains(&x) {
            x as i64
        } else {
            i64::MIN
        })
    }

    /// Returns the date `seconds` after the epoch.
    #[must_use]
    pub fn from_unix(seconds: i64) -> Self {
        // Go counts from the start of a year far back, in unsigned 64 bits.
        let since_zero = seconds.wrapping_add(ZERO_TO_EPOCH);
        let wrapped = i128::from(since_zero.cast_unsigned()) - i128::from(ZERO_TO_EPOCH);
        let (era, second) = (
            wrapped.div_euclid(i128::from(ERA_SECONDS)),
            wrapped.rem_euclid(i128::from(ERA_SECONDS)),
        );
        let era = i64::try_from(era).expect("2^65 seconds have fewer than 2^63 eras");
        let second = i64::try_from(second).expect("it is below an era");
        let moment = Timestamp::from_second(second).expect("it is before the year 2370");
        let of_era = Offset::UTC.to_datetime(moment);
        Self {
            year: i64::from(of_era.year()) + 400 * era,
            of_era,
        }
    }

    /// Returns hour, minute and second.
    #[must_use]
    pub fn clock(self) -> (i64, i64, i64) {
        let (hour, minute) = (self.of_era.hour(), self.of_era.minute());
        (hour.into(), minute.into(), self.of_era.second().into())
    }

    /// Returns the month, 1 to 12.
    #[must_use]
    pub fn month(self) -> i64 {
        self.of_era.month().into()
    }

    /// Returns the day of the month, from 1.
    #[must_use]
    pub fn day(self) -> i64 {
        self.of_era.day().into()
    }

    /// Returns the day of the week, 0 for Sunday.
    #[must_use]
    pub fn weekday(self) -> i64 {
        self.of_era.weekday().to_sunday_zero_offset().into()
    }

    /// Returns the day of the year, from 1.
    #[must_use]
    pub fn day_of_year(self) -> i64 {
        self.of_era.day_of_year().into()
    }

    /// Returns the number of days in the month.
    pub(crate) fn days_in_month(self) -> i64 {
        self.of_era.days_in_month().into()
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
            let date = Date::from_unix(seconds);
            assert_eq!((date.year, date.month(), date.day()), (year, month, day));
            assert_eq!((date.weekday(), date.day_of_year()), (weekday, day_of_year));
        }
        assert_eq!(Date::from_unix(-1).clock(), (23, 59, 59));
        assert_eq!(Date::from_unix(951_782_400).days_in_month(), 29);
    }
}
