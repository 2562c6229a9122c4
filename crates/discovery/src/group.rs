//! Target groups: the result of every mechanism, which the manager publishes.
//!
//! Invariant: a group replaces the one with the same source; one without targets removes it.

use std::collections::BTreeMap;

use narthex_net::read_yaml;
use serde::Deserialize;

/// Label names and values; empty values are kept until relabelling drops them.
pub type LabelMap = BTreeMap<String, String>;

/// The label with a target's host and port.
pub const ADDRESS_LABEL: &str = "__address__";

/// Targets with common labels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TargetGroup {
    /// Identifies a group within its mechanism: a file and an index, a Kubernetes object.
    pub source: String,
    /// Labels of all targets.
    pub labels: LabelMap,
    /// Labels of each target, including [`ADDRESS_LABEL`]; they take precedence over the group's.
    pub targets: Vec<LabelMap>,
}

impl TargetGroup {
    /// Returns a group of plain addresses, as in `static_configs`.
    #[must_use]
    pub fn of_addresses(
        source: impl Into<String>,
        addresses: impl IntoIterator<Item = String>,
        labels: LabelMap,
    ) -> Self {
        let target = |address| LabelMap::from([(ADDRESS_LABEL.to_owned(), address)]);
        Self {
            source: source.into(),
            labels,
            targets: addresses.into_iter().map(target).collect(),
        }
    }

    /// Returns the group that removes the group of this source.
    #[must_use]
    pub fn gone(source: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            ..Self::default()
        }
    }
}

/// A group in files and HTTP responses.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenGroup {
    // Go's JSON decoder ignores the case of names; these are the spellings people use.
    #[serde(alias = "Targets")]
    targets: Option<Vec<Option<String>>>,
    #[serde(alias = "Labels")]
    labels: Option<BTreeMap<String, Option<String>>>,
}

/// Notation of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    Json,
    Yaml,
}

/// Parses a list of groups; the n-th gets the source `prefix:n`, and each gets `label` set to `prefix`.
///
/// The error starts with line and column.
pub(crate) fn read_groups(
    bytes: &[u8],
    notation: Notation,
    label: &str,
    prefix: &str,
) -> Result<Vec<TargetGroup>, String> {
    let written: Option<Vec<Option<WrittenGroup>>> = match notation {
        Notation::Json => serde_json::from_slice(bytes).map_err(|error| error.to_string())?,
        Notation::Yaml => {
            let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
            read_yaml(text)?
        }
    };
    let mut groups = Vec::new();
    for (at, group) in written.unwrap_or_default().into_iter().enumerate() {
        let group = group.ok_or("nil target group item found")?;
        let mut labels = LabelMap::new();
        for (name, value) in group.labels.unwrap_or_default() {
            if name.is_empty() {
                return Err("\"\" is not a valid label name".to_owned());
            }
            labels.insert(name, value.unwrap_or_default());
        }
        labels.insert(label.to_owned(), prefix.to_owned());
        let targets = group.targets.unwrap_or_default().into_iter();
        groups.push(TargetGroup::of_addresses(
            source(prefix, at),
            targets.map(Option::unwrap_or_default),
            labels,
        ));
    }
    Ok(groups)
}

/// Returns the source of the n-th group of a document.
pub(crate) fn source(prefix: &str, at: usize) -> String {
    format!("{prefix}:{at}")
}

#[cfg(test)]
mod tests;
