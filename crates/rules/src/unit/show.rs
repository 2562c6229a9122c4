//! Labels, alerts and samples as promtool prints them.

use super::ExpectedAlert;
use crate::file::Texts;
use narthex_model::labels::is_legacy_name;
use narthex_promql::fmt::{float_e, quote};
use std::fmt::Write as _;

/// Indentation of expected and actual alerts.
const INDENT: &str = "            ";

/// Formats labels as Go does, the metric's name among them.
pub(super) fn labels(texts: &Texts) -> String {
    let pairs: Vec<String> = texts
        .iter()
        .map(|(name, text)| {
            let quoted = if is_legacy_name(name) {
                name.clone()
            } else {
                quote(name)
            };
            format!("{quoted}={}", quote(text))
        })
        .collect();
    format!("{{{}}}", pairs.join(", "))
}

/// Formats a float as Go's `%E` with as many digits as it needs.
pub(super) fn value(value: f64) -> String {
    float_e(value).replace('e', "E")
}

/// Lists alerts, numbered and indented.
pub(super) fn alerts(alerts: &[ExpectedAlert]) -> String {
    if alerts.is_empty() {
        return "[]".to_owned();
    }
    let mut text = "[".to_owned();
    for (at, alert) in alerts.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let (shown, annotations) = (labels(&alert.labels), labels(&alert.annotations));
        let _ = write!(
            text,
            "{comma}\n{at}:\n  Labels:{shown}\n  Annotations:{annotations}"
        );
    }
    indented(&(text + "\n]"))
}

/// Indents all lines but the first.
pub(super) fn indented(text: &str) -> String {
    text.replace('\n', &format!("\n{INDENT}"))
}
