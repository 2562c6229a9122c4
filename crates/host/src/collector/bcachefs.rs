//! Bcachefs: counters, compression, devices.
//!
//! Invariant: sizes are as precise as the kernel prints them, such as `2.05G`.

use std::path::Path;

use crate::error::HostError;
use crate::scan::{float, label_text, next_field, next_line, section_lines, trim};
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

/// Files of a file system and of a device, and columns of tables.
const NUMBERS: &str = include_str!("bcachefs.txt");

const INFO: Desc<'static> = Desc::gauge(
    "node_bcachefs_info",
    "A mounted file system; the value is 1.",
);
const ERRORS: Desc<'static> = Desc::counter(
    "node_bcachefs_errors_total",
    "Errors in the file system's structures, by kind.",
);
const DEVICE_INFO: Desc<'static> = Desc::gauge(
    "node_bcachefs_device_info",
    "Label and state of a device; the value is 1.",
);
const IO_DONE: Desc<'static> = Desc::counter(
    "node_bcachefs_device_io_done_bytes_total",
    "Bytes read and written, by kind of data.",
);
const IO_ERRORS: Desc<'static> = Desc::counter(
    "node_bcachefs_device_io_errors_total",
    "Errors of the device, by kind.",
);
/// Errors are listed again since they were last reset.
const SINCE_CREATION: &str = "IO errors since filesystem creation";

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    let mut names = sysdir::list(directory)?;
    names.retain(|name| sysdir::is_dir(&directory.join(name)));
    if names.is_empty() {
        return Err(HostError::no_data(directory));
    }
    for name in names {
        describe_filesystem(&name, &directory.join(&name), plan)?;
    }
    Ok(())
}

fn describe_filesystem(name: &str, directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    let uuid = ("uuid", name);
    plan.fixed(&INFO, &[uuid], 1.0);
    describe_files("filesystem", directory, &[uuid], plan);
    describe_table("compression_stats", directory, uuid, "algorithm", plan);
    describe_table("btree_write_stats", directory, uuid, "type", plan);
    let path = directory.join("errors");
    for error in first_words(&path, plan) {
        let decode = Decode::Field(error.as_str().into(), 0, float);
        plan.file(&ERRORS, &[uuid, ("error_type", &error)], &path, decode);
    }
    let counters = directory.join("counters");
    for counter in sysdir::list_if_there(&counters)? {
        let name = format!("node_bcachefs_{}_total", sysdir::sanitized(&counter));
        let help = format!("{counter} since the file system was created.");
        let desc = Desc::counter(&name, &help);
        let decode = Decode::With(since_creation);
        plan.file(&desc, &[uuid], &counters.join(&counter), decode);
    }
    for entry in sysdir::list(directory)? {
        if let Some(device) = entry.strip_prefix("dev-") {
            describe_device(uuid, device, &directory.join(&entry), plan);
        }
    }
    Ok(())
}

fn describe_files(of: &str, directory: &Path, labels: &[(&str, &str)], plan: &mut Plan<'_>) {
    for ([file], desc) in table::rows_of(NUMBERS, of) {
        let decode = Decode::With(human_bytes);
        plan.file(&desc, labels, &directory.join(file), decode);
    }
}

/// Describes a file that is a table with a header, the names of rows first.
fn describe_table(
    file: &str,
    directory: &Path,
    uuid: (&str, &str),
    label: &str,
    plan: &mut Plan<'_>,
) {
    let path = directory.join(file);
    for word in first_words(&path, plan).into_iter().skip(1) {
        let labels = [uuid, (label, word.trim_end_matches(':'))];
        for (at, ([], desc)) in table::rows_of(NUMBERS, file).enumerate() {
            let decode = Decode::Field(word.as_str().into(), at, human_bytes);
            plan.file(&desc, &labels, &path, decode);
        }
    }
}

fn describe_device(uuid: (&str, &str), device: &str, directory: &Path, plan: &mut Plan<'_>) {
    let of_device = [uuid, ("device", device)];
    let label = plan.label(&directory.join("label")).unwrap_or_default();
    let state = plan.label(&directory.join("state")).unwrap_or_default();
    let labels = [
        of_device[0],
        of_device[1],
        ("label", &label),
        ("state", &state),
    ];
    plan.fixed(&DEVICE_INFO, &labels, 1.0);
    describe_files("device", directory, &of_device, plan);
    let path = directory.join("io_done");
    for operation in ["read", "write"] {
        let section = format!("{operation}:");
        for word in words_of_section(&path, &section, plan) {
            let labels = [
                of_device[0],
                of_device[1],
                ("operation", operation),
                ("data_type", &word),
            ];
            let decode = Decode::InSection(section.as_str().into(), word.as_str().into());
            plan.file(&IO_DONE, &labels, &path, decode);
        }
    }
    let path = directory.join("io_errors");
    for word in words_of_section(&path, SINCE_CREATION, plan) {
        let labels = [of_device[0], of_device[1], ("type", &word)];
        let decode = Decode::InSection(SINCE_CREATION.into(), word.as_str().into());
        plan.file(&IO_ERRORS, &labels, &path, decode);
    }
}

/// Returns the first word of each line.
fn first_words(path: &Path, plan: &mut Plan<'_>) -> Vec<String> {
    let mut text = plan.bytes(path).unwrap_or_default();
    let lines = std::iter::from_fn(|| next_line(&mut text));
    let words = lines.filter_map(|mut line| next_field(&mut line).map(label_text));
    words.collect()
}

fn words_of_section(path: &Path, section: &str, plan: &mut Plan<'_>) -> Vec<String> {
    let text = plan.bytes(path).unwrap_or_default();
    let mut words = Vec::new();
    section_lines(text, section.as_bytes(), |word, _| {
        words.push(label_text(word));
    });
    words
}

/// Parses a number with at most one letter for a power of 1024.
pub(crate) fn human_bytes(text: &[u8]) -> Option<f64> {
    let text = trim(text);
    let (last, rest) = text.split_last()?;
    let power = b"kmgtpe"
        .iter()
        .position(|unit| *unit == last.to_ascii_lowercase());
    match power {
        None => float(text),
        Some(power) => {
            let power = i32::try_from(power).ok()? + 1;
            Some((float(trim(rest))? * 1024_f64.powi(power)).trunc())
        }
    }
}

fn since_creation(mut text: &[u8]) -> Option<f64> {
    let lines = std::iter::from_fn(|| next_line(&mut text));
    let mut values = lines.filter_map(|line| line.strip_prefix(b"since filesystem creation:"));
    human_bytes(values.next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_letters() {
        for (text, value) in [
            ("697", Some(697.0)),
            ("28.2k", Some(28_876.0)),
            ("2.05G\n", Some(2_201_170_739.0)),
            ("1 M", Some(1_048_576.0)),
            ("k", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(human_bytes(text.as_bytes()), value, "{text}");
        }
    }
}
