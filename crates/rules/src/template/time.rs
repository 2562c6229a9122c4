//! Go's `time.Time` and `time.Duration`, as far as templates reach them.
//!
//! **Invariant:** times are UTC and whole milliseconds, as Prometheus makes them.

use narthex_promql::date::Date;

/// Milliseconds since the epoch.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct TimeMs(pub(super) i64);

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct DurationNs(pub(super) i64);

const MONTHS: [&str; 12] = [
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

const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// Returns the name of a month, from 1.
pub(super) fn month_name(month: i64) -> &'static str {
    named(&MONTHS, month - 1)
}

/// Returns the name of a day of the week, from Sunday, 0.
pub(super) fn weekday_name(day: i64) -> &'static str {
    named(&WEEKDAYS, day)
}

fn named(names: &[&'static str], at: i64) -> &'static str {
    let name = usize::try_from(at).ok().and_then(|at| names.get(at));
    name.copied().unwrap_or_default()
}

impl TimeMs {
    pub(super) fn date(self) -> Date {
        Date::from_unix(self.0.div_euclid(1000))
    }

    /// Returns the milliseconds of the second.
    pub(super) fn millisecond(self) -> i64 {
        self.0.rem_euclid(1000)
    }

    /// Formats as Go's `String`.
    pub(super) fn show(self) -> String {
        self.format("2006-01-02 15:04:05.999999999 -0700 MST")
    }

    /// Formats by one of Go's layouts.
    pub(super) fn format(self, layout: &str) -> String {
        let date = self.date();
        let (mut out, mut rest) = (String::new(), layout);
        'layout: while !rest.is_empty() {
            for (name, write) in ELEMENTS {
                if let Some(behind) = rest.strip_prefix(name)
                    && !(*name == "Jan" && behind.starts_with(|c: char| c.is_ascii_lowercase()))
                    && !(*name == "Mon" && behind.starts_with(|c: char| c.is_ascii_lowercase()))
                {
                    out.push_str(&write(date));
                    rest = behind;
                    continue 'layout;
                }
            }
            if let Some((text, behind)) = fraction(rest, self.millisecond()) {
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

type Write = fn(Date) -> String;

/// Elements of layouts, longer ones first.
const ELEMENTS: &[(&str, Write)] = &[
    ("January", |d| month_name(d.month()).to_owned()),
    ("Jan", |d| month_name(d.month()).chars().take(3).collect()),
    ("Monday", |d| weekday_name(d.weekday()).to_owned()),
    ("Mon", |d| {
        weekday_name(d.weekday()).chars().take(3).collect()
    }),
    ("MST", |_| "UTC".to_owned()),
    ("2006", |d| format!("{:04}", d.year)),
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
    ("002", |d| format!("{:03}", d.day_of_year())),
    ("01", |d| format!("{:02}", d.month())),
    ("02", |d| format!("{:02}", d.day())),
    ("03", |d| format!("{:02}", (d.clock().0 + 11) % 12 + 1)),
    ("04", |d| format!("{:02}", d.clock().1)),
    ("05", |d| format!("{:02}", d.clock().2)),
    ("06", |d| format!("{:02}", d.year.rem_euclid(100))),
    ("15", |d| format!("{:02}", d.clock().0)),
    ("__2", |d| format!("{:3}", d.day_of_year())),
    ("_2006", |d| format!("_{:04}", d.year)),
    ("_2", |d| format!("{:2}", d.day())),
    ("PM", |d| {
        if d.clock().0 < 12 { "AM" } else { "PM" }.to_owned()
    }),
    ("pm", |d| {
        if d.clock().0 < 12 { "am" } else { "pm" }.to_owned()
    }),
    ("1", |d| d.month().to_string()),
    ("2", |d| d.day().to_string()),
    ("3", |d| ((d.clock().0 + 11) % 12 + 1).to_string()),
    ("4", |d| d.clock().1.to_string()),
    ("5", |d| d.clock().2.to_string()),
];

/// Formats a fraction of a second, such as `.000` or `,999`.
fn fraction(rest: &str, millisecond: i64) -> Option<(String, &str)> {
    let sign = rest.chars().next().filter(|c| matches!(c, '.' | ','))?;
    let digits = rest.get(1..)?;
    let digit = digits.chars().next().filter(|c| matches!(c, '0' | '9'))?;
    let length = digits.len() - digits.trim_start_matches(digit).len();
    let behind = digits.get(length..)?;
    if behind.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let nanoseconds = format!("{millisecond:03}000000");
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
