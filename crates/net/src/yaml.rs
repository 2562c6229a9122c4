//! Small YAML documents: the web configuration here, target files and kubeconfigs in discovery.
//!
//! Invariant: an error is one line that begins with line and column, and quotes no value.

use serde::de::DeserializeOwned;

/// Parses a document; returns `None` for an empty one.
///
/// # Errors
/// Fails with a position and a description of the error.
pub fn read_yaml<T: DeserializeOwned>(text: &str) -> Result<Option<T>, String> {
    let blank = text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "---"
    });
    if blank {
        return Ok(None);
    }
    serde_saphyr::from_str(text)
        .map(Some)
        .map_err(|error| one_line(&error))
}

fn one_line(error: &serde_saphyr::Error) -> String {
    let message = error.without_snippet().to_string();
    let message = message.lines().next().unwrap_or_default();
    let Some(place) = error.location() else {
        return message.to_owned();
    };
    let (line, column) = (place.line(), place.column());
    let message = message
        .strip_suffix(&format!(" at line {line}, column {column}"))
        .unwrap_or(message);
    format!("line {line}, column {column}: {message}")
}
