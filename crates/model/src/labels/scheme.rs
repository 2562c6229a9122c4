//! Validation schemes for label and metric names.

use super::{is_legacy_metric_name, is_legacy_name};

crate::named! {
    /// The set of valid names: any text, or only the legacy characters.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub enum NameScheme {
        /// Any nonempty text.
        #[default]
        Utf8 = "utf8",
        /// `[a-zA-Z_][a-zA-Z0-9_]*`; metric names may have colons too.
        Legacy = "legacy",
    }
}

impl NameScheme {
    /// Reports whether `name` is a valid label name.
    #[must_use]
    pub fn allows_label(self, name: &str) -> bool {
        match self {
            Self::Utf8 => !name.is_empty(),
            Self::Legacy => is_legacy_name(name),
        }
    }

    /// Reports whether `name` is a valid metric name.
    #[must_use]
    pub fn allows_metric(self, name: &str) -> bool {
        match self {
            Self::Utf8 => !name.is_empty(),
            Self::Legacy => is_legacy_metric_name(name),
        }
    }
}
