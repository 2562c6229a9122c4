//! Labels and bytes of alerts on their way to Alertmanagers.
//!
//! **Invariant:** the bytes are those that Prometheus posts for the same alert, down to Go's escapes. The rule's own alert
//! is never changed.

use narthex_model::{
    LabelSet,
    date::rfc3339,
    relabel::{self, Rule},
};
use narthex_rules::Alert;
use serde_json::Value;

/// Returns an alert's labels with `external` ones where it has none, relabelled; `None` if a rule drops it.
pub(crate) fn relabelled(
    labels: &LabelSet,
    external: &LabelSet,
    rules: &[Rule],
) -> Option<LabelSet> {
    let mut all = labels.to_builder();
    for label in external {
        let is_absent = labels.get(label.name()).is_none_or(str::is_empty);
        if is_absent && !label.value().is_empty() {
            all.set(label.name(), label.value());
        }
    }
    relabel::process(&all.finish(), rules)
}

/// Returns an alert as an element of the list that Alertmanager's version 2 takes.
pub(crate) fn encode(alert: &Alert, labels: &LabelSet) -> String {
    let mut out = String::with_capacity(512);
    out.push('{');
    if !alert.annotations.is_empty() {
        out.push_str("\"annotations\":");
        let pairs = alert.annotations.iter();
        object(&mut out, pairs.map(|(name, value)| (&**name, &**value)));
        out.push(',');
    }
    out.push_str("\"endsAt\":\"");
    out.push_str(&rfc3339(alert.ends_at_ms));
    out.push_str("\",\"startsAt\":\"");
    out.push_str(&rfc3339(alert.starts_at_ms));
    out.push_str("\",");
    if !alert.generator_url.is_empty() {
        out.push_str("\"generatorURL\":");
        string(&mut out, &alert.generator_url);
        out.push(',');
    }
    out.push_str("\"labels\":");
    let pairs = labels.iter();
    object(&mut out, pairs.map(|label| (label.name(), label.value())));
    out.push('}');
    out
}

/// Joins encoded alerts to a request's body.
pub(crate) fn body<'a>(alerts: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut out = vec![b'['];
    for (at, alert) in alerts.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(alert.as_bytes());
    }
    out.push(b']');
    out
}

fn object<'a>(out: &mut String, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
    out.push('{');
    for (at, (name, value)) in pairs.enumerate() {
        if at > 0 {
            out.push(',');
        }
        string(out, name);
        out.push(':');
        string(out, value);
    }
    out.push('}');
}

/// Writes a JSON string as Go's `encoding/json` does, with its escapes for HTML.
fn string(out: &mut String, text: &str) {
    for c in Value::from(text).to_string().chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::{
        NameScheme,
        relabel::{Action, RelabelConfig},
    };

    fn drop_team() -> Rule {
        let config = RelabelConfig {
            regex: Some("team".to_owned()),
            action: Some(Action::LabelDrop),
            ..RelabelConfig::default()
        };
        Rule::new(config, NameScheme::Utf8).unwrap()
    }

    /// Prometheus' TestExternalLabels, and relabelling behind it.
    #[test]
    fn external_labels_fill_gaps_and_are_relabelled() {
        let external = LabelSet::new([("alertname", "other"), ("a", "b"), ("team", "x")]);
        let own = LabelSet::new([("alertname", "A"), ("team", "y")]);
        let shown = |rules: &[Rule]| relabelled(&own, &external, rules).unwrap().to_string();
        assert_eq!(shown(&[]), r#"{a="b", alertname="A", team="y"}"#);
        assert_eq!(shown(&[drop_team()]), r#"{a="b", alertname="A"}"#);
        assert_eq!(own.to_string(), r#"{alertname="A", team="y"}"#);
    }

    #[test]
    fn a_dropped_alert_has_no_labels() {
        let config = RelabelConfig {
            source_labels: vec!["alertname".to_owned()],
            regex: Some("A".to_owned()),
            action: Some(Action::Drop),
            ..RelabelConfig::default()
        };
        let drop = Rule::new(config, NameScheme::Utf8).unwrap();
        let own = LabelSet::new([("alertname", "A")]);
        assert_eq!(relabelled(&own, &LabelSet::empty(), &[drop]), None);
    }

    #[test]
    fn strings_have_gos_escapes() {
        let mut out = String::new();
        string(&mut out, "a\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}<>&\u{2028}é");
        let escaped =
            r#""a\"\\\n\r\t\b\f\u0001"#.to_owned() + "\u{7f}" + r#"\u003c\u003e\u0026\u2028é""#;
        assert_eq!(out, escaped);
    }

    #[test]
    fn bodies_are_lists() {
        let text = |alerts: &[&str]| String::from_utf8(body(alerts.iter().copied())).unwrap();
        assert_eq!(text(&[]), "[]");
        assert_eq!(text(&["{}", "{}"]), "[{},{}]");
    }
}
