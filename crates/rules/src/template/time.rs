//! Go's `time.Time` and `time.Duration`, as far as templates reach them.
//!
//! **Invariant:** times are UTC and whole milliseconds, as Prometheus makes them.

/// Milliseconds since the epoch.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct TimeMs(pub(super) i64);

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct DurationNs(pub(super) i64);

/// The parts of a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Civil {
    pub(super) year: i64,
    /// From 1.
    pub(super) month: u8,
    /// From 1.
    pub(super) day: u8,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) millisecond: i64,
    /// From Sunday, 0.
    pub(super) weekday: u8,
    /// From 1.
    pub(super) year_day: i64,
}

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

const DAY_MS: i64 = 86_400_000;

impl TimeMs {
    pub(super) fn civil(self) -> Civil {
        let (days, ms) = (self.0.div_euclid(DAY_MS), self.0.rem_euclid(DAY_MS));
        let (year, month, day) = date(days);
        let year_start = days_before(year);
        Civil {
            year,
            month,
            day,
            hour: ms / 3_600_000,
            minute: ms / 60_000 % 60,
            second: ms / 1000 % 60,
            millisecond: ms % 1000,
            weekday: small((days + 4).rem_euclid(7)),
            year_day: days - year_start + 1,
        }
    }

    /// Formats as Go's `String`.
    pub(super) fn show(self) -> String {
        self.format("2006-01-02 15:04:05.999999999 -0700 MST")
    }

    /// Formats by one of Go's layouts.
    pub(super) fn format(self, layout: &str) -> String {
        let civil = self.civil();
        let (mut out, mut rest) = (String::new(), layout);
        'layout: while !rest.is_empty() {
            for (name, write) in ELEMENTS {
                if let Some(behind) = rest.strip_prefix(name)
                    && !(*name == "Jan" && behind.starts_with(|c: char| c.is_ascii_lowercase()))
                    && !(*name == "Mon" && behind.starts_with(|c: char| c.is_ascii_lowercase()))
                {
                    out.push_str(&write(&civil));
                    rest = behind;
                    continue 'layout;
                }
            }
            if let Some((text, behind)) = fraction(rest, &civil) {
                out.push_str(&text);
                rest = behind;
                continue;
            }
            let mut chars = rest.chars();
            out.extend(chars.next());
            rest = chars.as_str();
        }
        out
    }
}

type Write = fn(&Civil) -> String;

/// Elements of layouts, longer ones first.
const ELEMENTS: &[(&str, Write)] = &[
    ("January", |c| month(c).to_owned()),
    ("Jan", |c| month(c).chars().take(3).collect()),
    ("Monday", |c| weekday(c).to_owned()),
    ("Mon", |c| weekday(c).chars().take(3).collect()),
    ("MST", |_| "UTC".to_owned()),
    ("2006", |c| format!("{:04}", c.year)),
    ("-07:00:00", |_| "+00:00:00".to_owned()),
    ("-07:00", |_| "+00:00".to_owned()),
    ("-070000", |_| "+000000".to_owned()),
    ("-0700", |_| "+0000".to_owned()),
    ("-07", |_| "+00".to_owned()),
    ("Z07:00:00", |_| "Z".to_owned()),
    ("Z07:00", |_| "Z".to_owned()),
    ("Z070000", |_| "Z".to_owned()),
    ("Z0700", |_| "Z".to_owned()),
    ("Z07", |_| "Z".to_owned()),
    ("002", |c| format!("{:03}", c.year_day)),
    ("01", |c| format!("{:02}", c.month)),
    ("02", |c| format!("{:02}", c.day)),
    ("03", |c| format!("{:02}", (c.hour + 11) % 12 + 1)),
    ("04", |c| format!("{:02}", c.minute)),
    ("05", |c| format!("{:02}", c.second)),
    ("06", |c| format!("{:02}", c.year.rem_euclid(100))),
    ("15", |c| format!("{:02}", c.hour)),
    ("__2", |c| format!("{:3}", c.year_day)),
    ("_2006", |c| format!("_{:04}", c.year)),
    ("_2", |c| format!("{:2}", c.day)),
    ("PM", |c| if c.hour < 12 { "AM" } else { "PM" }.to_owned()),
    ("pm", |c| if c.hour < 12 { "am" } else { "pm" }.to_owned()),
    ("1", |c| c.month.to_string()),
    ("2", |c| c.day.to_string()),
    ("3", |c| ((c.hour + 11) % 12 + 1).to_string()),
    ("4", |c| c.minute.to_string()),
    ("5", |c| c.second.to_string()),
];

/// Formats a fraction of a second, such as `.000` or `,999`.
fn fraction<'a>(rest: &'a str, civil: &Civil) -> Option<(String, &'a str)> {
    let sign = rest.chars().next().filter(|c| matches!(c, '.' | ','))?;
    let digits = rest.get(1..)?;
    let digit = digits.chars().next().filter(|c| matches!(c, '0' | '9'))?;
    let length = digits.len() - digits.trim_start_matches(digit).len();
    let behind = digits.get(length..)?;
    if behind.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let nanoseconds = format!("{:03}000000", civil.millisecond);
    let shown = nanoseconds.get(..length.min(9))?;
    if digit == '0' {
        return Some((format!("{sign}{shown}"), behind));
    }
    let shown = shown.trim_end_matches('0');
    let text = if shown.is_empty() {
        String::new()
    } else {
        format!("{sign}{shown}")
    };
    Some((text, behind))
}

fn month(civil: &Civil) -> &'static str {
    MONTHS
        .get(usize::from(civil.month) - 1)
        .copied()
        .unwrap_or_default()
}

fn weekday(civil: &Civil) -> &'static str {
    WEEKDAYS
        .get(usize::from(civil.weekday))
        .copied()
        .unwrap_or_default()
}

fn small(number: i64) -> u8 {
    u8::try_from(number).unwrap_or_default()
}

/// Returns the days from the epoch to the first of January of a year.
fn days_before(year: i64) -> i64 {
    let before = year - 1;
    before * 365 + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400) - 719_162
}

/// Returns year, month and day, both from 1, of a day since the epoch.
fn date(days: i64) -> (i64, u8, u8) {
    // Years begin in March here, so the leap day is a year's last.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (year + era * 400 + carry, small(month), small(day))
}

impl DurationNs {
    /// Formats as Go's `String`: `1h2m3.5s`.
    pub(super) fn show(self) -> String {
        let ns = self.0.unsigned_abs();
        if ns == 0 {
            return "0s".to_owned();
        }
        let sign = if self.0 < 0 { "-" } else { "" };
        let (unit, digits) = match ns {
            0..1000 => return format!("{sign}{ns}ns"),
            1000..1_000_000 => ("µs", 3),
            1_000_000..1_000_000_000 => ("ms", 6),
            _ => ("s", 9),
        };
        if digits < 9 {
            return format!("{sign}{}{unit}", decimal(ns, digits));
        }
        let (minutes, rest) = (ns / 60_000_000_000, ns % 60_000_000_000);
        let seconds = decimal(rest, 9);
        match (minutes / 60, minutes % 60) {
            (0, 0) => format!("{sign}{seconds}s"),
            (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
            (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
        }
    }
}

/// Formats milliseconds as Go formats a duration: `1h2m3.5s`.
pub(crate) fn go_duration(ms: i64) -> String {
    DurationNs(ms.saturating_mul(1_000_000)).show()
}

/// Formats a number of billionths, millionths or thousandths without trailing zeros.
fn decimal(number: u64, digits: u32) -> String {
    let one = 10_u64.pow(digits);
    let width = usize::try_from(digits).unwrap_or_default();
    let fraction = format!("{:0width$}", number % one);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        (number / one).to_string()
    } else {
        format!("{}.{fraction}", number / one)
    }
}
