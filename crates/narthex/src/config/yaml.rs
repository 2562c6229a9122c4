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
        message: error.to_string(),
    })
}
