//! Rules and alerts as the API shows them.
//!
//! **Invariant:** keys, values and their order are Prometheus'. A list holds the rules it will write, and the alerts of
//! one rule.

use super::params::{Filter, invalid};
use crate::{
    eval::{ActiveAlert, AlertState, Alerts, Group, Health, LiveRule},
    file::{RuleKind, Texts},
    thresholds::{Graph, graphs},
};
use narthex_model::{LabelSet, date};
use narthex_net::Listing;
use narthex_promql::fmt::float_e;
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use std::{collections::BTreeMap, iter, ops::Bound, sync::Arc};
use xxhash_rust::xxh64::xxh64;

/// Bytes of a rule or an alert with its texts, roughly.
const ENTRY_BYTES: usize = 1024;

pub(super) type Groups = BTreeMap<(String, String), Arc<Group>>;

/// A number of seconds, written as Go does: without a fraction if it has none.
#[derive(Clone, Copy, Debug)]
struct Seconds(f64);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[expect(clippy::cast_possible_truncation, reason = "compared with what it was")]
        let whole = self.0 as i64;
        #[expect(clippy::cast_precision_loss, reason = "compared with what it was")]
        if whole as f64 == self.0 {
            serializer.serialize_i64(whole)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

/// The beginning of a group, up to its rules.
#[derive(Serialize)]
struct GroupHead<'a> {
    name: &'a str,
    file: &'a str,
}

/// What comes behind a group's rules.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupTail {
    interval: Seconds,
    limit: u64,
    evaluation_time: Seconds,
    last_evaluation: String,
}

/// The beginning of an alerting rule, up to its alerts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AlertingHead<'a> {
    state: &'static str,
    name: &'a str,
    query: &'a str,
    duration: Seconds,
    keep_firing_for: Seconds,
    labels: &'a Texts,
    annotations: &'a Texts,
}

/// The beginning of a recording rule.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordingHead<'a> {
    name: &'a str,
    query: &'a str,
    labels: &'a Texts,
    /// Whether anybody read the metric since it is recorded; Prometheus does not say so.
    was_read: bool,
}

/// The last evaluation of a rule.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LastJson {
    health: Health,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    evaluation_time: Seconds,
    last_evaluation: String,
    r#type: &'static str,
    /// Samples that it read, and series that it stored; Prometheus has neither.
    samples_read: u64,
    series: usize,
    /// What an alerting rule compares with numbers; Prometheus does not say so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    graphs: Vec<Graph>,
}

/// An alert that is pending or firing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AlertJson {
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

/// A list, piece by piece.
struct Pieces<I>(I);

impl<I: Iterator<Item = Vec<u8>> + Send + 'static> Listing for Pieces<I> {
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let piece = self.0.next();
        out.extend_from_slice(piece.as_deref().unwrap_or_default());
        piece.is_some()
    }
}

/// Returns what stands before each item of a list.
fn commas() -> impl Iterator<Item = &'static [u8]> {
    iter::once(&b""[..]).chain(iter::repeat(&b","[..]))
}

/// A group, and which of its rules are listed.
struct Selected {
    group: Arc<Group>,
    rules: Vec<SelectedRule>,
}

/// A listed rule by its place in the group.
struct SelectedRule {
    at: usize,
    was_read: bool,
}

/// `/api/v1/rules`: lists the groups that `filter` asks for with their rules, and alerting rules with their alerts;
/// `was_read` tells of a recorded metric.
///
/// # Errors
/// Fails when the page's first group does not exist.
pub(super) fn rule_list(
    groups: &Groups,
    filter: &Filter,
    was_read: &dyn Fn(&str) -> bool,
) -> Result<impl Listing, String> {
    let mut awaited = filter.first_group.as_deref();
    let (mut listed, mut next_token) = (Vec::new(), None);
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
        let rules = group.rules.iter().enumerate();
        let rules = rules.filter(|(_, rule)| is_listed(rule, filter));
        let rules = rules.map(|(at, rule)| SelectedRule {
            at,
            was_read: !rule.is_alerting() && was_read(&rule.name),
        });
        let rules: Vec<SelectedRule> = rules.collect();
        if rules.is_empty() {
            continue;
        }
        if filter.group_limit == Some(listed.len()) {
            next_token = Some(token(group));
            break;
        }
        let group = Arc::clone(group);
        listed.push(Selected { group, rules });
    }
    if let Some(first) = awaited {
        let message = format!("invalid group_next_token '{first}'. were rule groups changed?");
        return Err(invalid("group_next_token", &message));
    }
    let begin = br#"{"status":"success","data":{"groups":["#.to_vec();
    let exclude_alerts = filter.exclude_alerts;
    let groups = listed.into_iter().zip(commas());
    let groups = groups.flat_map(move |(group, comma)| group_pieces(group, comma, exclude_alerts));
    let mut end = b"]".to_vec();
    if let Some(token) = &next_token {
        end.extend_from_slice(br#","groupNextToken":"#);
        write_json(&mut end, token);
    }
    end.extend_from_slice(b"}}");
    Ok(Pieces(iter::once(begin).chain(groups).chain([end])))
}

/// Writes a group behind `comma`, rule by rule.
fn group_pieces(
    Selected { group, rules }: Selected,
    comma: &[u8],
    exclude_alerts: bool,
) -> impl Iterator<Item = Vec<u8>> + use<> {
    let mut head = comma.to_vec();
    let (name, file) = (&*group.name, &*group.file);
    write_head(&mut head, &GroupHead { name, file });
    head.extend_from_slice(br#""rules":["#);
    let of_rules = Arc::clone(&group);
    let rules = rules.into_iter().zip(commas());
    let rules = rules.flat_map(move |(selected, comma)| {
        let rule = of_rules.rules.get(selected.at);
        let pieces = rule.map(|rule| rule_pieces(rule, selected.was_read, comma, exclude_alerts));
        pieces.into_iter().flatten()
    });
    let tail = iter::once_with(move || {
        let mut tail = b"],".to_vec();
        write_tail(&mut tail, &group_tail(&group));
        tail
    });
    iter::once(head).chain(rules).chain(tail)
}

/// Writes a rule behind `comma`, alert by alert.
fn rule_pieces(
    rule: &LiveRule,
    was_read: bool,
    comma: &[u8],
    exclude_alerts: bool,
) -> impl Iterator<Item = Vec<u8>> + use<> {
    let (name, query, labels) = (&*rule.name, &*rule.query, &rule.labels);
    let (mut head, mut tail, mut alerts) = (comma.to_vec(), Vec::new(), None);
    match &rule.kind {
        RuleKind::Recording => {
            let recording = RecordingHead {
                name,
                query,
                labels,
                was_read,
            };
            write_head(&mut head, &recording);
            write_tail(&mut tail, &last(rule, "recording"));
        }
        RuleKind::Alerting {
            for_ms,
            keep_firing_for_ms,
            annotations,
        } => {
            let alerting = AlertingHead {
                state: state(rule),
                name,
                query,
                duration: seconds(*for_ms),
                keep_firing_for: seconds(*keep_firing_for_ms),
                labels,
                annotations,
            };
            write_head(&mut head, &alerting);
            if exclude_alerts {
                head.extend_from_slice(br#""alerts":null,"#);
            } else {
                head.extend_from_slice(br#""alerts":["#);
                alerts = Some(ActiveAlerts::new(rule));
                tail.extend_from_slice(b"],");
            }
            write_tail(&mut tail, &last(rule, "alerting"));
        }
    }
    let alerts = alert_pieces(alerts.into_iter().flatten());
    iter::once(head).chain(alerts).chain([tail])
}

/// `/api/v1/alerts`: lists all pending and firing alerts.
pub(super) fn alert_list(groups: &Groups) -> impl Listing + use<> {
    let groups: Vec<Arc<Group>> = groups.values().cloned().collect();
    let alerts = groups.into_iter().flat_map(|group| {
        let count = group.rules.len();
        let of_rule = move |at| {
            let rule = group
                .rules
                .get(at)
                .filter(|rule: &&LiveRule| rule.is_alerting());
            rule.map(ActiveAlerts::new)
        };
        (0..count).filter_map(of_rule).flatten()
    });
    let begin = br#"{"status":"success","data":{"alerts":["#.to_vec();
    let pieces = iter::once(begin).chain(alert_pieces(alerts));
    Pieces(pieces.chain([b"]}}".to_vec()]))
}

fn alert_pieces(alerts: impl Iterator<Item = AlertJson>) -> impl Iterator<Item = Vec<u8>> {
    alerts.zip(commas()).map(|(alert, comma)| {
        let mut piece = comma.to_vec();
        write_json(&mut piece, &alert);
        piece
    })
}

/// The pending and firing alerts of a rule, as they were when the rule's turn came.
struct ActiveAlerts {
    alerts: Arc<Alerts>,
    /// Labels of the alert before the next one.
    before: Option<LabelSet>,
}

impl ActiveAlerts {
    fn new(rule: &LiveRule) -> Self {
        Self {
            alerts: rule.alerts(),
            before: None,
        }
    }
}

impl Iterator for ActiveAlerts {
    type Item = AlertJson;

    fn next(&mut self) -> Option<AlertJson> {
        let from = self.before.as_ref();
        let from = from.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.alerts.range::<LabelSet, _>((from, Bound::Unbounded));
        let (labels, alert) = rest.find(|(_, alert)| alert.resolved_at_ms.is_none())?;
        self.before = Some(labels.clone());
        Some(alert_json(labels, alert))
    }
}

/// Returns about how many bytes a list holds until it is sent: groups that a reload may have replaced since, and the
/// alerts of one rule as they were.
pub(super) fn held_bytes(groups: &Groups) -> usize {
    let rules = || groups.values().flat_map(|group| &group.rules);
    let most_alerts = rules().map(|rule| rule.alerts().len()).max();
    (groups.len() + rules().count() + most_alerts.unwrap_or_default()) * ENTRY_BYTES
}

fn write_json(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("names are texts and no value fails");
}

/// Writes an object up to where its next key goes.
fn write_head(out: &mut Vec<u8>, value: &impl Serialize) {
    write_json(out, value);
    out.pop();
    out.push(b',');
}

/// Writes the rest of an object: the keys of another, and its end.
fn write_tail(out: &mut Vec<u8>, value: &impl Serialize) {
    let at = out.len();
    write_json(out, value);
    out.remove(at);
}

fn is_listed(rule: &LiveRule, filter: &Filter) -> bool {
    let is_left_out = match rule.kind {
        RuleKind::Recording => filter.without_recording,
        RuleKind::Alerting { .. } => filter.without_alerting,
    };
    !is_left_out
        && filter.selects(&rule.labels)
        && (filter.rules.is_empty() || filter.rules.contains(&rule.name))
}

/// Returns a text that names a group; only this process reads it.
fn token(group: &Group) -> String {
    let half = |seed| xxh64(group.key.as_bytes(), seed);
    format!("{:016x}{:016x}", half(0), half(1))
}

fn group_tail(group: &Group) -> GroupTail {
    let status = group.status();
    GroupTail {
        interval: seconds(group.schedule.interval_ms()),
        limit: group.limit.unwrap_or_default(),
        evaluation_time: Seconds(status.duration.as_secs_f64()),
        last_evaluation: time(status.last_ms),
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
        health: status.health,
        last_error: status.last_error,
        evaluation_time: Seconds(status.duration.as_secs_f64()),
        last_evaluation: time(status.last_ms),
        r#type,
        samples_read: status.work.samples_read,
        series: status.work.series,
        graphs: if rule.is_alerting() {
            graphs(rule.expr())
        } else {
            Vec::new()
        },
    }
}

fn alert_json(labels: &LabelSet, alert: &ActiveAlert) -> AlertJson {
    AlertJson {
        labels: labels.clone(),
        annotations: Arc::clone(&alert.annotations),
        state: alert.state.as_str(),
        active_at: go_time(alert.active_at_ms),
        keep_firing_since: alert.keep_firing_since_ms.map(go_time),
        value: float_e(alert.value),
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
fn seconds(ms: i64) -> Seconds {
    Seconds(ms as f64 / 1000.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_look_like_gos() {
        assert_eq!(go_time(0), "1970-01-01T00:00:00Z");
        assert_eq!(go_time(1_200), "1970-01-01T00:00:01.2Z");
        assert_eq!(go_time(10_000), "1970-01-01T00:00:10Z");
        assert_eq!(time(None), "0001-01-01T00:00:00Z");
    }
}
