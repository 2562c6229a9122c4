//! Which rule dropped a target, for people and for programs.

use narthex_model::relabel::{Action, Rule};
use serde_json::{Value, json};

/// Describes the rule of `relabel_configs` that drops a target; equal for all targets it drops.
pub(crate) fn dropped(at: usize, rule: &Rule) -> String {
    let config = rule.config();
    let source = format!("[{}]", config.source_labels.join(", "));
    let regex = config.regex_text();
    let target = &config.target_label;
    let why = match config.action {
        Some(Action::Keep) => format!("keep: {source} does not match {regex:?}"),
        Some(Action::Drop) => format!("drop: {source} matches {regex:?}"),
        Some(Action::KeepEqual) => format!("keepequal: {source} is not {target}"),
        Some(Action::DropEqual) => format!("dropequal: {source} is {target}"),
        // No other action drops anything.
        other => other.map_or("", Action::as_str).to_owned(),
    };
    format!("relabel_configs[{at}] {why}")
}

/// Returns a rule as Prometheus' API shows it.
pub(crate) fn rule(rule: &Rule) -> Value {
    let config = rule.config();
    let mut shown = json!({
        "separator": config.separator,
        "regex": config.regex_text(),
        "replacement": config.replacement,
    });
    if let Some(shown) = shown.as_object_mut() {
        let mut add = |key: &str, value: Value| shown.insert(key.to_owned(), value);
        if !config.source_labels.is_empty() {
            add("source_labels", config.source_labels.as_slice().into());
        }
        if config.modulus > 0 {
            add("modulus", config.modulus.into());
        }
        if !config.target_label.is_empty() {
            add("target_label", config.target_label.as_str().into());
        }
        if let Some(action) = config.action {
            add("action", action.as_str().into());
        }
    }
    shown
}
