//! Reads relabelling rules from a tree.

use super::{ConfigError, access::Access as _};
use narthex_model::{
    NameScheme,
    relabel::{RelabelConfig, RelabelError, Rule},
};
use narthex_yaml::Node;

/// Reads the rules under `key`; `empty` is the error for a null rule.
///
/// # Errors
/// Fails, in Prometheus' words, at the first unusable rule.
pub(super) fn rules(
    node: &Node,
    key: &str,
    scheme: NameScheme,
    empty: &str,
) -> Result<Vec<Rule>, ConfigError> {
    let items = node.items(key).iter();
    items.map(|item| rule(item, scheme, empty)).collect()
}

fn rule(node: &Node, scheme: NameScheme, empty: &str) -> Result<Rule, ConfigError> {
    if node.is_null() {
        return Err(node.error(empty));
    }
    let fail = |error: RelabelError| node.error(error.to_string());
    let action = match node.text_of("action") {
        "" => None,
        name => Some(name.parse().map_err(fail)?),
    };
    let config = RelabelConfig {
        source_labels: node.texts("source_labels"),
        separator: node.text_of("separator").to_owned(),
        // A default has no position; only a written value counts as given.
        regex: node
            .is_written("regex")
            .then(|| node.text_of("regex").to_owned()),
        modulus: node.count("modulus"),
        target_label: node.text_of("target_label").to_owned(),
        replacement: node.text_of("replacement").to_owned(),
        action,
    };
    Rule::new(config, scheme).map_err(fail)
}
