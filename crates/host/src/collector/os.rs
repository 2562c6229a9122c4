//! The distribution's identification: `etc/os-release`, or `usr/lib/os-release`.
//!
//! Invariant: the files are read only at a refresh; in between, the labels stay.

use std::path::Path;

use jiff::civil::{Date, date};

use crate::error::{HostError, ParseError};
use crate::scan::{decimal, each_line, label_text, number};
use crate::sink::Desc;
use crate::sysfs_collector::Plan;

const INFO: Desc<'static> = Desc::gauge(
    "node_os_info",
    "A metric with a constant '1' value labeled by build_id, id, id_like, image_id, image_version, name, \
     pretty_name, variant, variant_id, version, version_codename, version_id.",
);
const VERSION: Desc<'static> = Desc::gauge(
    "node_os_version",
    "Metric containing the major.minor part of the OS version.",
);
const SUPPORT_END: Desc<'static> = Desc::gauge(
    "node_os_support_end_timestamp_seconds",
    "Metric containing the end-of-life date timestamp of the OS.",
);

/// Labels and the file's keys.
const LABELS: [(&str, &str); 12] = [
    ("build_id", "BUILD_ID"),
    ("id", "ID"),
    ("id_like", "ID_LIKE"),
    ("image_id", "IMAGE_ID"),
    ("image_version", "IMAGE_VERSION"),
    ("name", "NAME"),
    ("pretty_name", "PRETTY_NAME"),
    ("variant", "VARIANT"),
    ("variant_id", "VARIANT_ID"),
    ("version", "VERSION"),
    ("version_codename", "VERSION_CODENAME"),
    ("version_id", "VERSION_ID"),
];

pub(crate) fn describe(rootfs: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    let paths = ["etc/os-release", "usr/lib/os-release"].map(|name| rootfs.join(name));
    for path in &paths {
        let Some(text) = plan.bytes(path) else {
            continue;
        };
        let release = parse(text).map_err(|source| HostError::Parse {
            path: path.clone(),
            source,
        })?;
        release.describe(plan);
        return Ok(());
    }
    Err(HostError::no_data(&paths[0]))
}

/// Keys and values of the file.
#[derive(Debug, PartialEq)]
pub(crate) struct Release(Vec<(String, String)>);

impl Release {
    fn describe(&self, plan: &mut Plan<'_>) {
        let labels = LABELS.map(|(label, key)| (label, self.get(key)));
        plan.fixed(&INFO, &labels, 1.0);
        if let Some(version) = major_minor(self.get("VERSION_ID")).filter(|version| *version > 0.0)
        {
            let labels = [("ID", "id"), ("ID_LIKE", "id_like"), ("NAME", "name")];
            let labels = labels.map(|(key, label)| (label, self.get(key)));
            plan.fixed(&VERSION, &labels, version);
        }
        if let Some(seconds) = midnight(self.get("SUPPORT_END")) {
            plan.fixed(&SUPPORT_END, &[], seconds);
        }
    }

    fn get(&self, key: &str) -> &str {
        let mut pairs = self.0.iter().rev();
        let pair = pairs.find(|(known, _)| known == key);
        pair.map_or("", |(_, value)| value.as_str())
    }
}

/// Parses assignments as a shell reads them: quotes, escapes, comments.
pub(crate) fn parse(text: &[u8]) -> Result<Release, ParseError> {
    let error = "KEY=value";
    let mut pairs = Vec::new();
    each_line(text, |line| {
        let line = label_text(line.trim_ascii());
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (key, value) = line.split_once('=').ok_or(error)?;
        let value = unquote(value.trim()).ok_or(error)?;
        pairs.push((key.trim().to_owned(), value));
        Ok(())
    })?;
    Ok(Release(pairs))
}

/// Removes quotes and escapes; `None` when a quote is not closed.
fn unquote(text: &str) -> Option<String> {
    let mut value = String::with_capacity(text.len());
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => value.push(chars.next()?),
            ('#', None) if value.is_empty() || value.ends_with(' ') => break,
            _ => value.push(c),
        }
    }
    match quote {
        None => Some(value.trim_end().to_owned()),
        Some(_) => None,
    }
}

/// Returns the number at the beginning of a version: `20.04.2` gives 20.04.
fn major_minor(version: &str) -> Option<f64> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let major = digits(version);
    let end = match version.as_bytes().get(major) {
        Some(b'.') if major > 0 => major + 1 + digits(&version[major + 1..]),
        _ => major,
    };
    decimal(version[..end].trim_end_matches('.').as_bytes())
}

/// Returns the seconds since the epoch of midnight UTC of a day `2031-12-31`.
fn midnight(day: &str) -> Option<f64> {
    let mut parts = day.split('-').map(|part| number(part.as_bytes()));
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || year < 1970 {
        return None;
    }
    let (year, month, day) = (year.try_into(), month.try_into(), day.try_into());
    let day = Date::new(year.ok()?, month.ok()?, day.ok()?).ok()?;
    Some(day.duration_since(date(1970, 1, 1)).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_a_shell_reads_them() {
        let text =
            b"# a comment\nNAME=\"Ubuntu \\\"L\\\"\"\nID=ubuntu # why\nID_LIKE='a b'\n\nEMPTY=\n";
        let release = parse(text).expect("well formed");
        let values = ["NAME", "ID", "ID_LIKE", "EMPTY", "OTHER"].map(|key| release.get(key));
        assert_eq!(values, ["Ubuntu \"L\"", "ubuntu", "a b", "", ""]);
        let malformed = |text: &[u8]| parse(text).map_err(|error| error.line);
        assert_eq!(malformed(b"A=1\nB\n"), Err(2));
        assert_eq!(malformed(b"A=\"1\n"), Err(1));
    }

    #[test]
    fn versions_and_days() {
        let versions = [
            ("20.04.2", Some(20.04)),
            ("12", Some(12.0)),
            ("7.", Some(7.0)),
            ("rolling", None),
            ("", None),
            (".5", None),
        ];
        for (text, expected) in versions {
            assert_eq!(major_minor(text), expected, "{text}");
        }
        assert_eq!(midnight("1970-01-01"), Some(0.0));
        assert_eq!(midnight("2000-03-01"), Some(951_868_800.0));
        assert_eq!(midnight("2024-02-29"), Some(1_709_164_800.0));
        for bad in [
            "2023-02-29",
            "2023-13-01",
            "2023-00-10",
            "2023-01",
            "x",
            "2023-01-01-01",
            "2023-01-00",
        ] {
            assert_eq!(midnight(bad), None, "{bad}");
        }
    }
}
