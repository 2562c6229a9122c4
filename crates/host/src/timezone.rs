//! The local time zone: TZif files (RFC 9636) and POSIX `TZ` rules, enough to name the offset of an instant.
//!
//! Invariant: any bytes give a zone or nothing; what can't be read is UTC, as in Go.

use std::ops::Range;
use std::path::Path;

use crate::kept::{ReadBuf, read_once};

const DAY_S: i64 = 86_400;

/// A zone's name and offset, and the seconds since 1970 for which they hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) name: String,
    pub(crate) seconds: i32,
    pub(crate) valid_s: Range<i64>,
}

/// A time zone's history and future.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Zone {
    kinds: Vec<Kind>,
    /// Instants, ascending, at which the kind changes.
    transitions: Vec<(i64, usize)>,
    /// What holds after the last transition.
    rule: Option<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Kind {
    name: String,
    seconds: i32,
    is_dst: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Rule {
    standard: Kind,
    daylight: Option<(Kind, Switch, Switch)>,
}

/// When daylight saving time starts or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Switch {
    day: Day,
    /// Seconds after midnight, local time; may be negative or beyond a day.
    time_s: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Day {
    /// Day 1 to 365 of the year; February 29th is never counted.
    Julian(i64),
    /// Day 0 to 365 of the year.
    Zero(i64),
    /// Month, week (5 is the last), day of the week (0 is Sunday).
    Month(i64, i64, i64),
}

impl Zone {
    /// Loads the zone that `TZ` names as Go does: not set, `/etc/localtime`; empty, UTC; else a file of the database,
    /// or an absolute path.
    pub(crate) fn load(tz: Option<&str>) -> Self {
        const DATABASES: [&str; 4] = [
            "/usr/share/zoneinfo",
            "/usr/share/lib/zoneinfo",
            "/usr/lib/locale/TZ",
            "/etc/zoneinfo",
        ];
        let mut buf = ReadBuf::new();
        let mut read = |path: &Path| read_once(path, &mut buf).and_then(Self::parse);
        let loaded = match tz.map(|tz| tz.strip_prefix(':').unwrap_or(tz)) {
            // Go calls this zone "Local" only as a location; its offsets have the file's names.
            None => read(Path::new("/etc/localtime")),
            Some("") => None,
            Some(path) if path.starts_with('/') => read(Path::new(path)),
            Some(name) if name.split('/').any(|part| part == "..") => None,
            Some(name) => DATABASES
                .iter()
                .find_map(|database| read(&Path::new(database).join(name))),
        };
        loaded.unwrap_or_else(Self::utc)
    }

    fn utc() -> Self {
        let kind = Kind {
            name: "UTC".into(),
            seconds: 0,
            is_dst: false,
        };
        Self {
            kinds: vec![kind],
            transitions: Vec::new(),
            rule: None,
        }
    }

    /// Returns the offset at an instant, in seconds since 1970.
    pub(crate) fn offset_at(&self, now_s: i64) -> Offset {
        let next = self.transitions.partition_point(|(at, _)| *at <= now_s);
        let start = next
            .checked_sub(1)
            .map_or(i64::MIN, |at| self.transitions[at].0);
        let end = self.transitions.get(next).map_or(i64::MAX, |(at, _)| *at);
        if next == self.transitions.len()
            && let Some(rule) = &self.rule
        {
            let (kind, valid) = rule.kind_at(now_s);
            let valid_s = valid.start.max(start)..valid.end;
            return Offset {
                name: kind.name.clone(),
                seconds: kind.seconds,
                valid_s,
            };
        }
        let kind = match next.checked_sub(1) {
            Some(at) => &self.kinds[self.transitions[at].1],
            // Before the first transition: the first kind that is not daylight saving time.
            None => self
                .kinds
                .iter()
                .find(|kind| !kind.is_dst)
                .unwrap_or(&self.kinds[0]),
        };
        Offset {
            name: kind.name.clone(),
            seconds: kind.seconds,
            valid_s: start..end,
        }
    }

    /// Parses a TZif file of any version; `None` when it is none.
    pub(crate) fn parse(data: &[u8]) -> Option<Self> {
        let first = Header::parse(data)?;
        if first.version == 0 {
            return Body::parse(data.get(Header::BYTES..)?, &first, 4)?.zone(None);
        }
        // Version 2 and later repeat everything with 64-bit times, then add the rule as text.
        let second = data.get(Header::BYTES + first.body_bytes(4)?..)?;
        let header = Header::parse(second)?;
        let body = second.get(Header::BYTES..)?;
        let footer = body.get(header.body_bytes(8)?..)?.strip_prefix(b"\n")?;
        let text = &footer[..memchr::memchr(b'\n', footer)?];
        let rule = if text.is_empty() {
            None
        } else {
            Some(parse_rule(text)?)
        };
        Body::parse(body, &header, 8)?.zone(rule)
    }
}

struct Header {
    version: u8,
    /// UT indicators, standard indicators, leap seconds, transitions, kinds, bytes of names.
    counts: [usize; 6],
}

impl Header {
    const BYTES: usize = 44;

    fn parse(data: &[u8]) -> Option<Self> {
        let rest = data.strip_prefix(b"TZif")?;
        let version = *rest.first()?;
        let mut counts = [0; 6];
        for (at, count) in counts.iter_mut().enumerate() {
            *count = usize::try_from(be_u32(rest, 16 + at * 4)?).ok()?;
        }
        Some(Self { version, counts })
    }

    fn body_bytes(&self, time_bytes: usize) -> Option<usize> {
        let [ut, standard, leaps, transitions, kinds, names] = self.counts;
        let parts = [
            (transitions, time_bytes + 1),
            (kinds, 6),
            (names, 1),
            (leaps, time_bytes + 4),
            (standard, 1),
            (ut, 1),
        ];
        parts.iter().try_fold(0_usize, |sum, (count, bytes)| {
            sum.checked_add(count.checked_mul(*bytes)?)
        })
    }
}

struct Body {
    kinds: Vec<Kind>,
    transitions: Vec<(i64, usize)>,
}

impl Body {
    fn parse(data: &[u8], header: &Header, time_bytes: usize) -> Option<Self> {
        let [_, _, _, transition_count, kind_count, name_bytes] = header.counts;
        // Also keeps the counts from asking for more memory than the file is long.
        let data = data.get(..header.body_bytes(time_bytes)?)?;
        let (times, rest) = data.split_at_checked(transition_count * time_bytes)?;
        let (indexes, rest) = rest.split_at_checked(transition_count)?;
        let (records, rest) = rest.split_at_checked(kind_count * 6)?;
        let names = rest.get(..name_bytes)?;
        let kinds: Vec<Kind> = records
            .chunks_exact(6)
            .map(|record| {
                let name = names.get(usize::from(record[5])..)?;
                let name = &name[..memchr::memchr(0, name)?];
                let seconds = be_u32(record, 0)?.cast_signed();
                Some(Kind {
                    name: String::from_utf8(name.to_vec()).ok()?,
                    seconds,
                    is_dst: record[4] != 0,
                })
            })
            .collect::<Option<_>>()?;
        let transitions: Vec<(i64, usize)> = times
            .chunks_exact(time_bytes)
            .zip(indexes)
            .map(|(time, kind)| {
                let at = match time_bytes {
                    4 => i64::from(be_u32(time, 0)?.cast_signed()),
                    _ => i64::from_be_bytes(time.try_into().ok()?),
                };
                let kind = usize::from(*kind);
                (kind < kinds.len()).then_some((at, kind))
            })
            .collect::<Option<_>>()?;
        let sorted = transitions.is_sorted_by(|a, b| a.0 <= b.0);
        (sorted && !kinds.is_empty()).then_some(Self { kinds, transitions })
    }

    fn zone(self, rule: Option<Rule>) -> Option<Zone> {
        Some(Zone {
            kinds: self.kinds,
            transitions: self.transitions,
            rule,
        })
    }
}

impl Rule {
    fn kind_at(&self, now_s: i64) -> (&Kind, Range<i64>) {
        let Some((daylight, start, end)) = &self.daylight else {
            return (&self.standard, i64::MIN..i64::MAX);
        };
        // The switches of three years surround any instant of the middle one, also south of the equator.
        let year = year_of(now_s.saturating_add(i64::from(self.standard.seconds)));
        let mut switches: Vec<(i64, &Kind)> = (year - 1..=year + 1)
            .flat_map(|year| {
                let at = |switch: &Switch, before: &Kind| {
                    switch.local_s(year) - i64::from(before.seconds)
                };
                [
                    (at(start, &self.standard), daylight),
                    (at(end, daylight), &self.standard),
                ]
            })
            .collect();
        switches.sort_by_key(|switch| switch.0);
        let next = switches.partition_point(|switch| switch.0 <= now_s);
        let from = next.checked_sub(1).map(|at| switches[at]);
        let until = switches.get(next).map_or(i64::MAX, |switch| switch.0);
        match from {
            Some((from, kind)) => (kind, from..until),
            None => (&self.standard, i64::MIN..until),
        }
    }
}

impl Switch {
    /// Returns local seconds since 1970 at which it happens in `year`.
    fn local_s(self, year: i64) -> i64 {
        let first_day = days_before(year);
        let leap = i64::from(is_leap(year));
        let day = match self.day {
            Day::Julian(day) => first_day + day - 1 + if day >= 60 { leap } else { 0 },
            Day::Zero(day) => first_day + day,
            Day::Month(month, week, weekday) => {
                let start = first_day + month_start(month, leap);
                let length = month_start(month + 1, leap) - month_start(month, leap);
                // January 1st 1970 was a Thursday.
                let first = (weekday - (start + 4)).rem_euclid(7);
                let mut day = first + (week - 1) * 7;
                while day >= length {
                    day -= 7;
                }
                start + day
            }
        };
        day * DAY_S + self.time_s
    }
}

fn month_start(month: i64, leap: i64) -> i64 {
    const STARTS: [i64; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
    let start = usize::try_from(month - 1)
        .ok()
        .and_then(|at| STARTS.get(at))
        .copied()
        .unwrap_or(365);
    if month > 2 { start + leap } else { start }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the days from January 1st 1970 to January 1st of `year`.
fn days_before(year: i64) -> i64 {
    let before = year - 1;
    365 * (year - 1970) + (before.div_euclid(4) - 492) - (before.div_euclid(100) - 19)
        + (before.div_euclid(400) - 4)
}

fn year_of(seconds: i64) -> i64 {
    // Bounded, so that no instant of a damaged clock overflows what follows.
    let days = seconds.div_euclid(DAY_S).clamp(-3_000_000, 3_000_000);
    let mut year = 1970 + days.div_euclid(366);
    while days_before(year + 1) <= days {
        year += 1;
    }
    while days_before(year) > days {
        year -= 1;
    }
    year
}

/// Parses a rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
///
/// `rule = name offset [name [offset] "," switch "," switch]`, `switch = day ["/" time]`,
/// `name = letters | "<" printable ">"`, `day = "J" n | n | "M" m "." w "." d`.
pub(crate) fn parse_rule_text(text: &[u8]) -> bool {
    parse_rule(text).is_some()
}

fn parse_rule(text: &[u8]) -> Option<Rule> {
    const HOUR_S: i32 = 3600;
    let mut rest = text;
    let name = take_name(&mut rest)?;
    let standard = Kind {
        name,
        seconds: -seconds_of(take_time(&mut rest)?)?,
        is_dst: false,
    };
    if rest.is_empty() {
        return Some(Rule {
            standard,
            daylight: None,
        });
    }
    let name = take_name(&mut rest)?;
    let seconds = match rest.first()? {
        b',' => standard.seconds + HOUR_S,
        _ => -seconds_of(take_time(&mut rest)?)?,
    };
    let daylight = Kind {
        name,
        seconds,
        is_dst: true,
    };
    let start = take_switch(&mut rest)?;
    let end = take_switch(&mut rest)?;
    rest.is_empty().then_some(Rule {
        standard,
        daylight: Some((daylight, start, end)),
    })
}

fn seconds_of(time_s: i64) -> Option<i32> {
    // POSIX allows 24 hours.
    (time_s.abs() <= 25 * 3600)
        .then(|| i32::try_from(time_s).ok())
        .flatten()
}

fn take_name(rest: &mut &[u8]) -> Option<String> {
    let text: &[u8] = rest;
    let (name, after) = match text.strip_prefix(b"<") {
        Some(quoted) => {
            let end = memchr::memchr(b'>', quoted)?;
            (&quoted[..end], &quoted[end + 1..])
        }
        None => text.split_at(
            text.iter()
                .position(|b| !b.is_ascii_alphabetic())
                .unwrap_or(text.len()),
        ),
    };
    *rest = after;
    if name.len() < 3 {
        return None;
    }
    String::from_utf8(name.to_vec()).ok()
}

/// Takes `[+-]h[:m[:s]]` as seconds.
fn take_time(rest: &mut &[u8]) -> Option<i64> {
    let sign = match rest.first()? {
        b'-' => -1,
        b'+' => 1,
        _ => 0,
    };
    if sign != 0 {
        *rest = &rest[1..];
    }
    let mut seconds = take_number(rest, 167)? * 3600;
    for unit in [60, 1] {
        if rest.first() != Some(&b':') {
            break;
        }
        *rest = &rest[1..];
        seconds += take_number(rest, 59)? * unit;
    }
    Some(if sign < 0 { -seconds } else { seconds })
}

fn take_number(rest: &mut &[u8], max: i64) -> Option<i64> {
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let value = i64::try_from(crate::scan::number(&rest[..digits])?).ok()?;
    *rest = &rest[digits..];
    (value <= max).then_some(value)
}

fn take_switch(rest: &mut &[u8]) -> Option<Switch> {
    const DEFAULT_TIME_S: i64 = 2 * 3600;
    *rest = rest.strip_prefix(b",")?;
    let day = match rest.first()? {
        b'J' => {
            *rest = &rest[1..];
            Day::Julian(take_number(rest, 365).filter(|day| *day >= 1)?)
        }
        b'M' => {
            *rest = &rest[1..];
            let month = take_number(rest, 12).filter(|month| *month >= 1)?;
            *rest = rest.strip_prefix(b".")?;
            let week = take_number(rest, 5).filter(|week| *week >= 1)?;
            *rest = rest.strip_prefix(b".")?;
            Day::Month(month, week, take_number(rest, 6)?)
        }
        _ => Day::Zero(take_number(rest, 365)?),
    };
    let time_s = match rest.strip_prefix(b"/") {
        Some(after) => {
            *rest = after;
            take_time(rest)?
        }
        None => DEFAULT_TIME_S,
    };
    Some(Switch { day, time_s })
}

fn be_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..at + 4)?
        .try_into()
        .ok()
        .map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests;
