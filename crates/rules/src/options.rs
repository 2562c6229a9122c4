//! How rule files are read.

use narthex_model::NameScheme;

/// How files are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParseOptions {
    /// Which names are valid.
    pub scheme: NameScheme,
    /// Whether to skip unknown keys instead of rejecting them.
    pub ignore_unknown_fields: bool,
    /// Parts of the query language that expressions may use.
    pub language: narthex_promql::ParseOptions,
}
