//! Rules and alerts as the API shows them.
//!
//! **Invariant:** keys, values and their order are Prometheus'.

use super::params::{Filter, invalid};
use crate::{
    eval::{ActiveAlert, AlertState, Group, LiveRule},
    file::{RuleKind, Texts},
};
use narthex_model::{LabelSet, date};
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use std::{collections::BTreeMap, sync::Arc};
use xxhash_rust::xxh64::xxh64;

/// Bytes of JSON of a rule or an alert, roughly.
const ENTRY_BYTES: usize = 1024;

type Groups = BTreeMap<(String, String), Arc<Group>>;

/// A page of groups.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    groups: Vec<GroupJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_next_token: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupJson {
    name: String,
    file: String,
    rules: Vec<RuleJson>,
    interval: f64,
    limit: u64,
    evaluation_time: f64,
    last_evaluation: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RuleJson {
    Alerting(AlertingJson),
    Recording(RecordingJson),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AlertingJson {
    state: &'static str,
    name: String,
    query: String,
    duration: f64,
    keep_firing_for: f64,
    labels: Texts,
    annotations: Texts,
    alerts: Option<Vec<AlertJson>>,
    #[serde(flatten)]
    last: LastJson,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordingJson {
    name: String,
    query: String,
    labels: Texts,
    #[serde(flatten)]
    last: LastJson,
}

/// The last evaluation of a rule.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LastJson {
    health: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    evaluation_time: f64,
    last_evaluation: String,
    r#type: &'static str,
}

/// An alert that is pending or firing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AlertJson {
    #[serde(serialize_with = "label_map")]
    labels: LabelSet,
    #[serde(serialize_with = "shared_texts")]
    annotations: Arc<Texts>,
    state: &'static str,
    active_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_firing_since: Option<String>,
    value: String,
}

/// Returns about how many bytes a list of everything takes.
pub(super) fn bytes_of(groups: &Groups) -> u64 {
    let rules = groups.values().flat_map(|group| &group.rules);
    let entries: usize = rules.map(|rule| 1 + rule.alerts().len()).sum();
    ((entries + groups.len()) * ENTRY_BYTES) as u64
}

/// Lists the groups that `filter` asks for.
///
/// # Errors
/// Fails when the page's first group does not exist.
pub(super) fn rules(groups: &Groups, filter: &Filter) -> Result<Page, String> {
    let mut page = Page {
        groups: Vec::new(),
        group_next_token: None,
    };
    let mut awaited = filter.first_group.as_deref();
    for group in groups.values() {
        if awaited.is_some_and(|first| first != token(group)) {
            continue;
        }
        awaited = None;
        let is_wanted = (filter.groups.is_empty() || filter.groups.contains(&group.name))
            && (filter.files.is_empty() || filter.files.contains(&group.file));
        if !is_wanted {
            continue;
        }
        let rules: Vec<RuleJson> = group
            .rules
            .iter()
            .filter_map(|rule| rule_json(rule, filter))
            .collect();
        if rules.is_empty() {
            continue;
        }
        if filter.group_limit == Some(page.groups.len()) {
            page.group_next_token = Some(token(group));
            break;
        }
        page.groups.push(group_json(group, rules));
    }
    match awaited {
        Some(first) => {
            let message = format!("invalid group_next_token '{first}'. were rule groups changed?");
            Err(invalid("group_next_token", &message))
        }
        None => Ok(page),
    }
}

/// Lists all pending and firing alerts.
pub(super) fn alerts(groups: &Groups) -> Vec<AlertJson> {
    let rules = groups.values().flat_map(|group| &group.rules);
    rules.flat_map(active).collect()
}

/// Returns a text that names a group; only this process reads it.
fn token(group: &Group) -> String {
    let half = |seed| xxh64(group.key.as_bytes(), seed);
    format!("{:016x}{:016x}", half(0), half(1))
}

fn group_json(group: &Group, rules: Vec<RuleJson>) -> GroupJson {
    let status = group.status();
    GroupJson {
        name: group.name.clone(),
        file: group.file.clone(),
        rules,
        interval: seconds(group.schedule.interval_ms()),
        limit: group.limit.unwrap_or_default(),
        evaluation_time: status.duration.as_secs_f64(),
        last_evaluation: time(status.last_ms),
    }
}

fn rule_json(rule: &LiveRule, filter: &Filter) -> Option<RuleJson> {
    if !filter.selects(&rule.labels)
        || !(filter.rules.is_empty() || filter.rules.contains(&rule.name))
    {
        return None;
    }
    match &rule.kind {
        RuleKind::Recording => (!filter.without_recording).then(|| {
            RuleJson::Recording(RecordingJson {
                name: rule.name.clone(),
                query: rule.query.clone(),
                labels: rule.labels.clone(),
                last: last(rule, "recording"),
            })
        }),
        RuleKind::Alerting {
            for_ms,
            keep_firing_for_ms,
            annotations,
        } => (!filter.without_alerting).then(|| {
            RuleJson::Alerting(AlertingJson {
                state: state(rule),
                name: rule.name.clone(),
                query: rule.query.clone(),
                duration: seconds(*for_ms),
                keep_firing_for: seconds(*keep_firing_for_ms),
                labels: rule.labels.clone(),
                annotations: annotations.clone(),
                alerts: (!filter.exclude_alerts).then(|| active(rule)),
                last: last(rule, "alerting"),
            })
        }),
    }
}

/// Returns the strongest state of a rule's alerts.
fn state(rule: &LiveRule) -> &'static str {
    if rule.status().last_ms.is_none() {
        return "unknown";
    }
    let alerts = rule.alerts();
    let states = alerts.values().map(|alert| alert.state);
    states.max().unwrap_or(AlertState::Inactive).as_str()
}

fn last(rule: &LiveRule, r#type: &'static str) -> LastJson {
    let status = rule.status();
    LastJson {
        health: status.health.as_str(),
        last_error: status.last_error,
        evaluation_time: status.duration.as_secs_f64(),
        last_evaluation: time(status.last_ms),
        r#type,
    }
}

fn active(rule: &LiveRule) -> Vec<AlertJson> {
    let alerts = rule.alerts();
    let active = alerts
        .iter()
        .filter(|(_, alert)| alert.resolved_at_ms.is_none());
    active
        .map(|(labels, alert)| alert_json(labels, alert))
        .collect()
}

fn alert_json(labels: &LabelSet, alert: &ActiveAlert) -> AlertJson {
    AlertJson {
        labels: labels.clone(),
        annotations: Arc::clone(&alert.annotations),
        state: alert.state.as_str(),
        active_at: go_time(alert.active_at_ms),
        keep_firing_since: alert.keep_firing_since_ms.map(go_time),
        value: exponent(alert.value),
    }
}

fn label_map<S: Serializer>(labels: &LabelSet, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(labels.len()))?;
    for label in labels {
        map.serialize_entry(label.name(), label.value())?;
    }
    map.end()
}

fn shared_texts<S: Serializer>(texts: &Arc<Texts>, serializer: S) -> Result<S::Ok, S::Error> {
    texts.as_ref().serialize(serializer)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "durations of rules are far below 2^53"
)]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

fn time(time_ms: Option<i64>) -> String {
    time_ms.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), go_time)
}

/// Formats a time as Go does: without zeros at the end of its fraction.
fn go_time(time_ms: i64) -> String {
    let text = date::rfc3339(time_ms);
    let text = text.trim_end_matches('Z').trim_end_matches('0');
    // The seconds of a whole time end here, and their own zeros were not reached.
    format!("{}Z", text.trim_end_matches('.'))
}

/// Formats a number as Go's `%e` with as many digits as it needs.
fn exponent(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let text = format!("{value:e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, power) = match power.strip_prefix('-') {
        Some(power) => ('-', power),
        None => ('+', power),
    };
    format!("{digits}e{sign}{power:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_look_like_gos() {
        for (value, text) in [
            (1.0, "1e+00"),
            (-0.25, "-2.5e-01"),
            (1.5e120, "1.5e+120"),
            (0.0, "0e+00"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(exponent(value), text);
        }
        assert_eq!(go_time(0), "1970-01-01T00:00:00Z");
        assert_eq!(go_time(1_200), "1970-01-01T00:00:01.2Z");
        assert_eq!(go_time(10_000), "1970-01-01T00:00:10Z");
        assert_eq!(time(None), "0001-01-01T00:00:00Z");
    }
}
