//! Rules and alerts as the API shows them.
//!
//! **Invariant:** keys, values and their order are Prometheus'. A list holds the rules it will write, and the alerts of
//! one rule.

use super::params::{Filter, invalid};
use crate::{
    eval::{ActiveAlert, AlertState, Alerts, Group, LiveRule},
    file::{RuleKind, Texts},
    thresholds::{Graph, graphs},
};
use narthex_model::{LabelSet, date};
use narthex_net::{Comma, Listing};
use narthex_promql::fmt::float_e;
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use std::{collections::BTreeMap, ops::Bound, sync::Arc};
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
    health: &'static str,
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

/// `/api/v1/rules`: groups with their rules, and alerting rules with their alerts.
pub(super) struct RuleList {
    begun: bool,
    comma: Comma,
    groups: std::vec::IntoIter<Selected>,
    next_token: Option<String>,
    exclude_alerts: bool,
    group: Option<OpenGroup>,
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

/// A group that is being written.
struct OpenGroup {
    group: Arc<Group>,
    rules: std::vec::IntoIter<SelectedRule>,
    comma: Comma,
    rule: Option<OpenRule>,
}

/// An alerting rule that is being written.
struct OpenRule {
    alerts: ActiveAlerts,
    /// What comes behind the alerts.
    tail: Vec<u8>,
}

impl RuleList {
    /// Lists the groups that `filter` asks for; `was_read` tells of a recorded metric.
    ///
    /// # Errors
    /// Fails when the page's first group does not exist.
    pub(super) fn new(
        groups: &Groups,
        filter: &Filter,
        was_read: &dyn Fn(&str) -> bool,
    ) -> Result<Self, String> {
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
        Ok(Self {
            begun: false,
            comma: Comma::default(),
            groups: listed.into_iter(),
            next_token,
            exclude_alerts: filter.exclude_alerts,
            group: None,
        })
    }

    fn end(&self, out: &mut Vec<u8>) {
        out.push(b']');
        if let Some(token) = &self.next_token {
            out.extend_from_slice(br#","groupNextToken":"#);
            write_json(out, token);
        }
        out.extend_from_slice(b"}}");
    }
}

impl Listing for RuleList {
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            out.extend_from_slice(br#"{"status":"success","data":{"groups":["#);
            return true;
        }
        if let Some(group) = &mut self.group {
            if !group.write(out, self.exclude_alerts) {
                self.group = None;
            }
            return true;
        }
        let Some(Selected { group, rules }) = self.groups.next() else {
            self.end(out);
            return false;
        };
        self.comma.write(out);
        let (name, file) = (&*group.name, &*group.file);
        write_head(out, &GroupHead { name, file });
        out.extend_from_slice(br#""rules":["#);
        self.group = Some(OpenGroup {
            group,
            rules: rules.into_iter(),
            comma: Comma::default(),
            rule: None,
        });
        true
    }
}

impl OpenGroup {
    /// Writes the next item; reports whether the group has more.
    fn write(&mut self, out: &mut Vec<u8>, exclude_alerts: bool) -> bool {
        if let Some(open) = &mut self.rule {
            if !open.alerts.write(out) {
                out.extend_from_slice(&open.tail);
                self.rule = None;
            }
            return true;
        }
        let next = self.rules.next();
        let next = next.and_then(|next| Some((self.group.rules.get(next.at)?, next.was_read)));
        let Some((rule, was_read)) = next else {
            out.extend_from_slice(b"],");
            write_tail(out, &group_tail(&self.group));
            return false;
        };
        self.comma.write(out);
        self.rule = write_rule(out, rule, was_read, exclude_alerts);
        true
    }
}

/// Writes a rule up to its alerts, or all of it if it has none to list.
fn write_rule(
    out: &mut Vec<u8>,
    rule: &LiveRule,
    was_read: bool,
    exclude_alerts: bool,
) -> Option<OpenRule> {
    let (name, query, labels) = (&*rule.name, &*rule.query, &rule.labels);
    let RuleKind::Alerting {
        for_ms,
        keep_firing_for_ms,
        annotations,
    } = &rule.kind
    else {
        write_head(
            out,
            &RecordingHead {
                name,
                query,
                labels,
                was_read,
            },
        );
        write_tail(out, &last(rule, "recording"));
        return None;
    };
    write_head(
        out,
        &AlertingHead {
            state: state(rule),
            name,
            query,
            duration: seconds(*for_ms),
            keep_firing_for: seconds(*keep_firing_for_ms),
            labels,
            annotations,
        },
    );
    let last = last(rule, "alerting");
    if exclude_alerts {
        out.extend_from_slice(br#""alerts":null,"#);
        write_tail(out, &last);
        return None;
    }
    out.extend_from_slice(br#""alerts":["#);
    let mut tail = b"],".to_vec();
    write_tail(&mut tail, &last);
    Some(OpenRule {
        alerts: ActiveAlerts::new(rule),
        tail,
    })
}

/// `/api/v1/alerts`: all pending and firing alerts.
pub(super) struct AlertList {
    begun: bool,
    comma: Comma,
    groups: std::vec::IntoIter<Arc<Group>>,
    group: Option<(Arc<Group>, usize)>,
    alerts: Option<ActiveAlerts>,
}

impl AlertList {
    pub(super) fn new(groups: &Groups) -> Self {
        let groups: Vec<Arc<Group>> = groups.values().cloned().collect();
        Self {
            begun: false,
            comma: Comma::default(),
            groups: groups.into_iter(),
            group: None,
            alerts: None,
        }
    }
}

impl Listing for AlertList {
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            out.extend_from_slice(br#"{"status":"success","data":{"alerts":["#);
        }
        if let Some(alerts) = &mut self.alerts {
            if !alerts.write_after(out, &mut self.comma) {
                self.alerts = None;
            }
            return true;
        }
        if let Some((group, next)) = &mut self.group {
            match group.rules.get(*next) {
                Some(rule) => {
                    *next += 1;
                    self.alerts = rule.is_alerting().then(|| ActiveAlerts::new(rule));
                }
                None => self.group = None,
            }
            return true;
        }
        self.group = self.groups.next().map(|group| (group, 0));
        if self.group.is_none() {
            out.extend_from_slice(b"]}}");
        }
        self.group.is_some()
    }
}

/// The pending and firing alerts of a rule, as they were when the rule's turn came.
struct ActiveAlerts {
    alerts: Arc<Alerts>,
    /// Labels of the alert before the next one.
    before: Option<LabelSet>,
    comma: Comma,
}

impl ActiveAlerts {
    fn new(rule: &LiveRule) -> Self {
        Self {
            alerts: rule.alerts(),
            before: None,
            comma: Comma::default(),
        }
    }

    /// Writes the next alert; reports whether there was one.
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let mut comma = std::mem::take(&mut self.comma);
        let was_there = self.write_after(out, &mut comma);
        self.comma = comma;
        was_there
    }

    /// Like `write`, with the separator of a longer list.
    fn write_after(&mut self, out: &mut Vec<u8>, comma: &mut Comma) -> bool {
        let from = self
            .before
            .as_ref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.alerts.range::<LabelSet, _>((from, Bound::Unbounded));
        let next = rest.find(|(_, alert)| alert.resolved_at_ms.is_none());
        let Some((labels, alert)) = next else {
            return false;
        };
        comma.write(out);
        write_json(out, &alert_json(labels, alert));
        self.before = Some(labels.clone());
        true
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
        health: status.health.as_str(),
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
