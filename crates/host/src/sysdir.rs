//! Directories of sysfs: their entries, and small files read once.
//!
//! Invariant: names are sorted, so that the order of series does not depend on the kernel's.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::cost;
use crate::error::HostError;
use crate::open_file::{ReadBuf, read_once};
use crate::scan::{label_text, number, trim};

/// Lists a directory's names, sorted. Names that are not UTF-8 are left out: the kernel has none.
///
/// # Errors
///
/// `NoData` if the directory does not exist or may not be read, `Read` otherwise.
pub(crate) fn list(directory: &Path) -> Result<Vec<String>, HostError> {
    cost::count(0);
    let entries = std::fs::read_dir(directory).map_err(|error| {
        let source = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let path = directory.to_path_buf();
        match source {
            Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::PERM => {
                HostError::NoData { path }
            }
            source => HostError::Read { path, source },
        }
    })?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// Lists the names that consist of `prefix` and digits, with their numbers, ascending by number.
pub(crate) fn numbered(directory: &Path, prefix: &str) -> Result<Vec<(String, u64)>, HostError> {
    let mut found: Vec<(String, u64)> = list(directory)?
        .into_iter()
        .filter_map(|name| {
            let at = number(name.strip_prefix(prefix)?.as_bytes())?;
            Some((name, at))
        })
        .collect();
    found.sort_unstable_by_key(|(_, at)| *at);
    Ok(found)
}

/// Reads a small file as a label value: trimmed, invalid bytes replaced. `None` if it can't be read.
pub(crate) fn text(path: &Path, buf: &mut ReadBuf) -> Option<String> {
    read_once(path, buf).map(|text| label_text(trim(text)))
}

/// Reports whether there is a directory at `path`, following links.
pub(crate) fn is_dir(path: &Path) -> bool {
    cost::count(0);
    std::fs::metadata(path).is_ok_and(|found| found.is_dir())
}

/// As `list`; a missing directory has no entries.
pub(crate) fn list_if_there(directory: &Path) -> Result<Vec<String>, HostError> {
    match list(directory) {
        Err(error) if error.is_no_data() => Ok(Vec::new()),
        listed => listed,
    }
}

/// As `numbered`, with the entries' paths and the numbers as text; a missing directory has no entries.
pub(crate) fn numbered_if_there(
    directory: &Path,
    prefix: &str,
) -> Result<Vec<(PathBuf, String)>, HostError> {
    match numbered(directory, prefix) {
        Ok(found) => Ok(found
            .into_iter()
            .map(|(name, number)| (directory.join(name), number.to_string()))
            .collect()),
        Err(error) if error.is_no_data() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Replaces every character that is invalid in a metric's name by an underscore.
pub(crate) fn metric_name(text: &str) -> String {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.chars()
        .map(|c| if valid(c) { c } else { '_' })
        .collect()
}

/// Replaces every run of characters that are invalid in a metric's name, with underscores around it, by one underscore.
pub(crate) fn sanitized(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            // An underscore after such a run belongs to it.
            let is_of_run = c == '_' && out.ends_with(INVALID);
            if !is_of_run {
                out.push(c);
            }
        } else {
            out.truncate(out.trim_end_matches(['_', INVALID]).len());
            out.push(INVALID);
        }
    }
    out.replace(INVALID, "_")
}

/// Stands for an invalid run while a name is built.
const INVALID: char = '\0';

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_invalid_characters_become_one_underscore() {
        for (text, name) in [
            ("fs.file-nr", "fs_file_nr"),
            ("a__b", "a__b"),
            ("a_-_b", "a_b"),
            ("a--.b", "a_b"),
            ("-a-", "_a_"),
            ("", ""),
        ] {
            assert_eq!(sanitized(text), name, "{text}");
        }
    }
}
