//! Block caches.
//!
//! Invariant: the kernel prints sizes in human-readable form (`1.3M`); they are converted as node_exporter does,
//! without the precision that the kernel dropped.

use std::path::Path;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::scan::{float, next_line, number};
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan, SysfsCollector};
use crate::table;

/// The object, a file, and the conversion of its text. Priorities are expensive to read: the kernel sorts every bucket
/// for them.
const READINGS: &str = include_str!("bcache.txt");

pub(crate) fn new(config: &HostConfig) -> SysfsCollector {
    let priorities = config.bcache_priority;
    SysfsCollector::new(config.sysfs.join("fs/bcache"), move |directory, plan| {
        describe(directory, priorities, plan)
    })
}

fn describe(directory: &Path, priorities: bool, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for uuid in sysdir::list_if_there(directory)? {
        // Beside the sets' UUIDs there are files for registering.
        if !uuid.contains('-') {
            continue;
        }
        let directory = directory.join(&uuid);
        describe_files("set", &directory, &[("uuid", &uuid)], plan);
        for name in sysdir::list(&directory)? {
            let directory = directory.join(&name);
            let of = |label| [("uuid", uuid.as_str()), (label, name.as_str())];
            if is_numbered(&name, "bdev") {
                describe_files("backing", &directory, &of("backing_device"), plan);
            } else if is_numbered(&name, "cache") {
                let labels = of("cache_device");
                describe_files("cache", &directory, &labels, plan);
                if priorities {
                    describe_files("priority", &directory, &labels, plan);
                }
            }
        }
    }
    Ok(())
}

fn describe_files(of: &str, directory: &Path, labels: &[(&str, &str)], plan: &mut Plan<'_>) {
    for ([file, reading], desc) in table::rows_of(READINGS, of) {
        let decode = match reading {
            "nanoseconds" => nanoseconds,
            "if_any" => if_any,
            "target" => target,
            "rate" => rate,
            "proportional" => proportional,
            "integral" => integral,
            "change" => change,
            "unused" => unused,
            "metadata" => metadata,
            _ => size,
        };
        plan.file(&desc, labels, &directory.join(file), Decode::With(decode));
    }
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    let number = name.strip_prefix(prefix);
    number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

/// Parses a human-readable size: `1.3M`, where the digit after the point counts 1024ths of hundreds.
pub(crate) fn size(text: &[u8]) -> Option<f64> {
    let unit = text.last().filter(|byte| byte.is_ascii_alphabetic());
    let Some(unit) = unit else {
        return float(text).map(f64::trunc);
    };
    let power = b"kMGTPEZY".iter().position(|known| known == unit)? + 1;
    let digits = &text[..text.len() - 1];
    let mantissa = match memchr::memchr(b'.', digits) {
        None => float(digits)?,
        Some(at) => float(&digits[..at])? + float(&digits[at + 1..])? / 10.24,
    };
    let bytes = mantissa * 1024_f64.powi(i32::try_from(power).ok()?);
    Some(bytes.trunc())
}

fn signed_size(text: &[u8]) -> Option<f64> {
    match text.strip_prefix(b"-") {
        Some(text) => size(text).map(|value| -value),
        None => size(text),
    }
}

fn nanoseconds(text: &[u8]) -> Option<f64> {
    size(text).map(|value| value * 1e-9)
}

/// As `size`; `None` for 0, which is not exported.
fn if_any(text: &[u8]) -> Option<f64> {
    size(text).filter(|value| *value != 0.0)
}

fn target(text: &[u8]) -> Option<f64> {
    field(text, b"target:").and_then(size)
}

fn rate(text: &[u8]) -> Option<f64> {
    let rate = field(text, b"rate:")?;
    size(rate.strip_suffix(b"/sec").unwrap_or(rate))
}

fn proportional(text: &[u8]) -> Option<f64> {
    field(text, b"proportional:").and_then(signed_size)
}

fn integral(text: &[u8]) -> Option<f64> {
    field(text, b"integral:").and_then(signed_size)
}

fn change(text: &[u8]) -> Option<f64> {
    let change = field(text, b"change:")?;
    signed_size(change.strip_suffix(b"/sec").unwrap_or(change))
}

fn unused(text: &[u8]) -> Option<f64> {
    percent(text, b"Unused:")
}

fn metadata(text: &[u8]) -> Option<f64> {
    percent(text, b"Metadata:")
}

fn percent(text: &[u8], key: &[u8]) -> Option<f64> {
    let percent = field(text, key)?.strip_suffix(b"%")?;
    number(percent).map(|percent| percent as f64)
}

/// Returns the last word of the line that begins with `key`.
fn field<'a>(mut text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    while let Some(line) = next_line(&mut text) {
        if let Some(rest) = line.strip_prefix(key) {
            let mut words = rest.split(u8::is_ascii_whitespace);
            return words.rfind(|word| !word.is_empty());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        let cases = [
            ("546", Some(546.0)),
            (
                "1.1M",
                Some(((1.0 + 1.0 / 10.24) * 1_048_576.0_f64).trunc()),
            ),
            ("20.4G", Some(21_894_266_880.0)),
            ("790k", Some(808_960.0)),
            ("x", None),
            ("1.xM", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(size(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(signed_size(b"-321.5k").map(|value| value < 0.0), Some(true));
    }

    #[test]
    fn lines_of_the_writeback_rate() {
        let text = b"rate:\t\t1.1M/sec\ndirty:\t\t20.4G\nchange:\t\t321.5k/sec\n";
        assert!(rate(text).is_some() && change(text).is_some() && integral(text).is_none());
        assert_eq!(unused(b"Unused:\t\t99%\nMetadata:\t0%\n"), Some(99.0));
    }
}
