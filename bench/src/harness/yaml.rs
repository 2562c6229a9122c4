//! Parses YAML documents: scenario files and lists of queries.
//!
//! **Invariant:** an error begins with `file:line:column: `.

use super::error::BenchError;
use serde::de::DeserializeOwned;
use serde_saphyr::Location;
use std::{fs, io, path::Path};

/// Maximum size of a file.
const MAX_BYTES: u64 = 1 << 20;

/// Returns a file's text.
pub(crate) fn read_file(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > MAX_BYTES {
        return Err(io::Error::other("longer than 1 MiB"));
    }
    fs::read_to_string(path)
}

/// Parses a text, which errors call `file`.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, file: &str) -> Result<T, BenchError> {
    serde_saphyr::from_str(text).map_err(|error| {
        let message = error.without_snippet().to_string();
        let message = message.lines().next().unwrap_or_default();
        let what = message
            .rsplit_once(" at line ")
            .map_or(message, |(what, _)| what);
        wrong(file, error.location().unwrap_or(Location::UNKNOWN), what)
    })
}

/// Returns the error of the value at a position.
pub(crate) fn wrong(file: &str, at: Location, what: impl AsRef<str>) -> BenchError {
    BenchError::Usage(format!("{}: {}", place(file, at), what.as_ref()))
}

/// Formats a position, such as `storage.yml:3:5`.
pub(crate) fn place(file: &str, at: Location) -> String {
    format!("{file}:{}:{}", at.line().max(1), at.column().max(1))
}
