//! Fuzz targets: plain functions over untrusted bytes.

use crate::python::{self, DbName};

/// Parses bytes as a `.db` file of the Python client: no entry is longer than the file.
///
/// # Panics
/// Panics when this does not hold, which is what fuzzing looks for.
pub fn fuzz_db(data: &[u8]) {
    let (entries, _) = python::entries(data);
    let bytes: usize = entries.iter().map(|entry| entry.key.len() + 8).sum();
    assert!(bytes <= data.len());
    python::fuzz_page(data);
}

/// Parses bytes as the name of such a file.
pub fn fuzz_name(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(name) = DbName::parse(&text) {
        let _ = (name.kind, name.pid);
    }
}
