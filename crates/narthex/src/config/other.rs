//! Checks of sections that are accepted although this version ignores them or does not need them.
//!
//! **Invariant:** what Prometheus rejects in them is rejected, so that a file does not become invalid later. Sections
//! that are rejected as a whole (remote ends, tracing) have a row in the table of keys and no checks.

use super::{
    ConfigError,
    access::{Access as _, show_size},
};
use narthex_model::NameScheme;
use narthex_yaml::{Node, Value};
use std::collections::BTreeSet;

/// Checks everything but the global section and the jobs.
///
/// # Errors
/// Fails, in Prometheus' words, at the first unusable setting.
pub(super) fn check(root: &Node, scheme: NameScheme) -> Result<(), ConfigError> {
    if let Some(otlp) = root.given("otlp") {
        check_otlp(otlp, scheme)?;
    }
    match root
        .get("storage")
        .and_then(|storage| storage.given("tsdb"))
    {
        Some(tsdb) => check_tsdb(tsdb),
        None => Ok(()),
    }
}

/// Checks the patterns of file paths, as they are written.
///
/// # Errors
/// Fails, in Prometheus' words, at the first invalid pattern.
pub(super) fn check_patterns(root: &Node) -> Result<(), ConfigError> {
    let what = "invalid rule file path";
    patterns(root, "rule_files", what)?;
    let what = "invalid scrape config file path";
    patterns(root, "scrape_config_files", what)
}

/// Allows one `*` in a path, and only in its last part.
fn patterns(root: &Node, key: &str, message: &str) -> Result<(), ConfigError> {
    for item in root.items(key) {
        let path = item.as_text();
        let star_elsewhere = path
            .split_once('*')
            .is_some_and(|(_, behind)| behind.contains('/'));
        if star_elsewhere {
            return Err(item.error(format!("{message} {path:?}")));
        }
    }
    Ok(())
}

fn check_otlp(node: &Node, scheme: NameScheme) -> Result<(), ConfigError> {
    let promoted = node.texts("promote_resource_attributes");
    let ignored = node.texts("ignore_resource_attributes");
    let fault = if node.flag("promote_all_resource_attributes") {
        if !promoted.is_empty() {
            Some("'promote_all_resource_attributes' and 'promote_resource_attributes' cannot be configured simultaneously".to_owned())
        } else {
            attributes(&ignored, "ignored")
                .map(|faults| format!("invalid 'ignore_resource_attributes': {faults}"))
        }
    } else if !ignored.is_empty() {
        Some("'ignore_resource_attributes' cannot be configured unless 'promote_all_resource_attributes' is true".to_owned())
    } else {
        attributes(&promoted, "promoted")
            .map(|faults| format!("invalid 'promote_resource_attributes': {faults}"))
    };
    if let Some(fault) = fault {
        return Err(node.error(fault));
    }
    match node.text_of("translation_strategy") {
        "" | "UnderscoreEscapingWithSuffixes" | "UnderscoreEscapingWithoutSuffixes" => Ok(()),
        strategy @ ("NoTranslation" | "NoUTF8EscapingWithSuffixes") => match scheme {
            NameScheme::Utf8 => Ok(()),
            NameScheme::Legacy => Err(node.error(format!(
                "OTLP translation strategy {strategy:?} is not allowed when UTF8 is disabled"
            ))),
        },
        strategy => Err(node.error(format!(
            "unsupported OTLP translation strategy {strategy:?}"
        ))),
    }
}

/// Trims the spaces around attributes.
pub(super) fn tidy_otlp(root: &mut Node) {
    let Some(otlp) = root.get_mut("otlp") else {
        return;
    };
    for key in ["promote_resource_attributes", "ignore_resource_attributes"] {
        for item in otlp.items_mut(key) {
            if let Value::Scalar(scalar) = &mut item.value {
                scalar.text = scalar.text.trim().to_owned();
            }
        }
    }
}

/// Returns the errors in a list of attributes, a line each.
fn attributes(list: &[String], adjective: &str) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut faults = Vec::new();
    for attribute in list.iter().map(|attribute| attribute.trim()) {
        if attribute.is_empty() {
            faults.push(format!("empty {adjective} OTel resource attribute"));
        } else if !seen.insert(attribute) {
            faults.push(format!(
                "duplicated {adjective} OTel resource attribute {attribute:?}"
            ));
        }
    }
    (!faults.is_empty()).then(|| faults.join("\n"))
}

fn check_tsdb(node: &Node) -> Result<(), ConfigError> {
    if let Some(encoding) = node.given("chunk_encoding") {
        let floats = encoding.text_of("floats");
        if !matches!(floats, "" | "xor" | "xor2") {
            return Err(encoding.error(format!(
                "'storage.tsdb.chunk_encoding.floats' must be 'xor' or 'xor2', or the field must be omitted entirely, got {floats:?}"
            )));
        }
    }
    let Some(retention) = node.given("retention") else {
        return Ok(());
    };
    let size = retention.size_of("size");
    if size < 0 {
        let shown = show_size(size);
        return Err(retention.error(format!(
            "'storage.tsdb.retention.size' must be greater than or equal to 0, got {shown}"
        )));
    }
    let percentage = retention.float("percentage");
    if !(0.0..=100.0).contains(&percentage) {
        return Err(retention.error(format!(
            "'storage.tsdb.retention.percentage' must be in the range [0, 100], got {percentage}"
        )));
    }
    Ok(())
}
