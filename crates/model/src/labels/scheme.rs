//! Which names labels and metrics may have.

use super::{is_legacy_metric_name, is_legacy_name};

/// Which names are valid: any text, or only the letters of old.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum NameScheme {
    /// Any text that is not empty.
    #[default]
    Utf8,
    /// `[a-zA-Z_][a-zA-Z0-9_]*`; metric names may have colons too.
    Legacy,
}

impl NameScheme {
    /// Returns the scheme's name in configuration files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Utf8 => "utf8",
            Self::Legacy => "legacy",
        }
    }

    /// Reports whether a label may be called `name`.
    #[must_use]
    pub fn allows_label(self, name: &str) -> bool {
        match self {
            Self::Utf8 => !name.is_empty(),
            Self::Legacy => is_legacy_name(name),
        }
    }

    /// Reports whether a metric may be called `name`.
    #[must_use]
    pub fn allows_metric(self, name: &str) -> bool {
        match self {
            Self::Utf8 => !name.is_empty(),
            Self::Legacy => is_legacy_metric_name(name),
        }
    }
}
