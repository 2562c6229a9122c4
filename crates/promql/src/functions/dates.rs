//! Parts of dates.
//!
//! **Invariant:** UTC, Gregorian; Sunday is 0, months and days count from 1.

use super::FunctionId;
use crate::date::Date;

/// Returns the function of seconds since the epoch for `id`.
pub(crate) fn part(id: FunctionId) -> Option<fn(f64) -> f64> {
    use FunctionId as F;
    Some(match id {
        F::DaysInMonth => |s| number(Date::from_float(s).days_in_month()),
        F::DayOfMonth => |s| number(Date::from_float(s).day()),
        F::DayOfWeek => |s| number(Date::from_float(s).weekday()),
        F::DayOfYear => |s| number(Date::from_float(s).day_of_year()),
        F::Hour => |s| number(Date::from_float(s).clock().0),
        F::Minute => |s| number(Date::from_float(s).clock().1),
        F::Month => |s| number(Date::from_float(s).month()),
        F::Year => |s| number(Date::from_float(s).year),
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "years stay below 2^53")]
fn number(x: i64) -> f64 {
    x as f64
}
