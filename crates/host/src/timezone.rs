//! The local time zone: the offset and name at an instant.
//!
//! Invariant: any bytes yield a zone or nothing; an unreadable zone is UTC, as in Go.

use std::ops::Range;
use std::path::Path;

use jiff::{Timestamp, tz::TimeZone};

use crate::open_file::{ReadBuf, read_once};

/// A zone's name and offset, and the seconds since 1970 for which they hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) name: String,
    pub(crate) seconds: i32,
    pub(crate) valid_s: Range<i64>,
}

/// A time zone's past and future transitions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Zone(TimeZone);

impl Zone {
    /// Loads the zone that `TZ` names, as Go does: unset means `/etc/localtime`; empty means UTC; else a file of the
    /// database, or an absolute path.
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
            // Go names this zone "Local" only as a location; its offsets have the file's names.
            None => read(Path::new("/etc/localtime")),
            Some("") => None,
            Some(path) if path.starts_with('/') => read(Path::new(path)),
            Some(name) if name.split('/').any(|part| part == "..") => None,
            Some(name) => DATABASES
                .iter()
                .find_map(|database| read(&Path::new(database).join(name))),
        };
        loaded.unwrap_or(Self(TimeZone::UTC))
    }

    /// Returns the offset at an instant, in seconds since 1970, and when it ends.
    pub(crate) fn offset_at(&self, now_s: i64) -> Offset {
        let last = if now_s < 0 {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        };
        let now = Timestamp::from_second(now_s).unwrap_or(last);
        let info = self.0.to_offset_info(now);
        let change = self.0.following(now).next();
        Offset {
            name: info.abbreviation().to_owned(),
            seconds: info.offset().seconds(),
            valid_s: now_s..change.map_or(i64::MAX, |change| change.timestamp().as_second()),
        }
    }

    /// Parses a TZif file of any version (RFC 9636); `None` for anything else.
    pub(crate) fn parse(data: &[u8]) -> Option<Self> {
        TimeZone::tzif("", data).ok().map(Self)
    }
}

#[cfg(test)]
mod tests;
