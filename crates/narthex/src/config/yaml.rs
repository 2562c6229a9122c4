//! The one place that knows which YAML library reads configuration files.

use super::ConfigError;
use serde::de::DeserializeOwned;

/// A value with where it stands.
pub(super) type Spanned<T> = serde_saphyr::Spanned<T>;

/// A value of any shape that is not looked at.
pub(super) type Anything = Spanned<serde::de::IgnoredAny>;

/// Reads a document; an empty one has all defaults.
pub(super) fn parse<T: DeserializeOwned + Default>(text: &str) -> Result<T, ConfigError> {
    let blank = text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "---"
    });
    if blank {
        return Ok(T::default());
    }
    serde_saphyr::from_str(text).map_err(|error| ConfigError::Yaml {
        message: one_line(&error),
    })
}

/// Says in one line what is wrong, behind where it is.
fn one_line(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    let Some(place) = error.location() else {
        return text.to_owned();
    };
    let (line, column) = (place.line(), place.column());
    let text = text
        .strip_suffix(&format!(" at line {line}, column {column}"))
        .unwrap_or(text);
    // The list of all fields there are drowns the one that is wrong.
    let end = text
        .find(", expected one of")
        .filter(|_| text.starts_with("unknown field"));
    format!(
        "line {line}, column {column}: {}",
        &text[..end.unwrap_or(text.len())]
    )
}
