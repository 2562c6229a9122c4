//! Which rules of a group may be evaluated at once.
//!
//! A rule waits for an earlier one if it may read what that writes, write what that reads (which must still see what
//! was there before), or write the same series. What a template asks is not known, so its rule waits for all before it,
//! and all behind it wait for it.
//!
//! **Invariant:** evaluating batches in order, each in any order, has the result of evaluating all rules in order.

use super::{
    alerting::{ALERT_NAME, ALERTS, ALERTS_FOR_STATE},
    rule::LiveRule,
};
use narthex_model::{METRIC_NAME, MatchOp};
use narthex_promql::ast::{Expr, VectorSelector};
use std::{collections::HashMap, iter};

/// A group's rules by batches, each a list of places in the group.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Batches(pub(super) Vec<Vec<usize>>);

impl Batches {
    pub(super) fn new(rules: &[LiveRule]) -> Self {
        let accesses: Vec<Access<'_>> = rules.iter().map(Access::new).collect();
        let mut levels: Vec<usize> = Vec::with_capacity(rules.len());
        for (at, access) in accesses.iter().enumerate() {
            let earlier = accesses.iter().zip(&levels).take(at);
            let awaited = earlier.filter(|(earlier, _)| access.must_follow(earlier));
            levels.push(awaited.map(|(_, level)| level + 1).max().unwrap_or(0));
        }
        let count = levels.iter().max().map_or(0, |last| last + 1);
        let mut batches = vec![Vec::new(); count];
        for (at, level) in levels.into_iter().enumerate() {
            if let Some(batch) = batches.get_mut(level) {
                batch.push(at);
            }
        }
        Self(batches)
    }
}

/// The rules of a group, evaluated in order, whose results are stored before theirs are computed.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Commits(Vec<bool>);

impl Commits {
    pub(super) fn new(rules: &[LiveRule]) -> Self {
        let mut waiting = Waiting::default();
        let before = rules.iter().map(|rule| {
            let must = waiting.concerns(&Access::new(rule));
            if must {
                waiting = Waiting::default();
            }
            waiting.add(rule);
            must
        });
        Self(before.collect())
    }

    /// Reports whether the rule at place `at` must see what those before it made.
    pub(super) fn are_due_before(&self, at: usize) -> bool {
        self.0.get(at).copied().unwrap_or(true)
    }
}

/// Rules whose results are not stored yet: a group may have thousands, of which few concern another one.
#[derive(Default)]
struct Waiting<'a> {
    all: Vec<&'a LiveRule>,
    by_name: HashMap<&'a str, Vec<&'a LiveRule>>,
    /// Alerting rules by their own names: all write series called alike.
    alerting: HashMap<&'a str, Vec<&'a LiveRule>>,
    /// Whether a recording rule's series are called as those of alerts.
    records_alerts: bool,
}

impl<'a> Waiting<'a> {
    fn add(&mut self, rule: &'a LiveRule) {
        self.all.push(rule);
        for name in names(rule) {
            self.by_name.entry(name).or_default().push(rule);
        }
        if rule.is_alerting() {
            self.alerting.entry(&rule.name).or_default().push(rule);
        } else if [ALERTS, ALERTS_FOR_STATE].contains(&&*rule.name) {
            self.records_alerts = true;
        }
    }

    fn called(&self, name: &str) -> &[&'a LiveRule] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Reports whether a rule reads or writes what one of these writes.
    fn concerns(&self, access: &Access<'_>) -> bool {
        if access.reads_all {
            return !self.all.is_empty();
        }
        let is_read = access.selectors.iter().any(|selector| {
            let fixed = selector.matchers.iter().find(|matcher| {
                matcher.name.as_ref() == METRIC_NAME && matcher.op == MatchOp::Equal
            });
            let writers = fixed.map_or(&*self.all, |matcher| self.called(&matcher.value));
            writers.iter().any(|writer| may_select(selector, writer))
        });
        let rule = access.rule;
        let is_written = |others: &[&LiveRule]| {
            let mut others = others.iter();
            others.any(|other| may_write_the_same(rule, other))
        };
        let alike = self
            .alerting
            .get(&*rule.name)
            .filter(|_| rule.is_alerting());
        is_read
            || alike.is_some_and(|alike| is_written(alike))
            || !rule.is_alerting() && is_written(self.called(&rule.name))
            || rule.is_alerting() && self.records_alerts
    }
}

/// What a rule reads and writes.
struct Access<'a> {
    rule: &'a LiveRule,
    selectors: Vec<VectorSelector>,
    /// Whether it may read anything.
    reads_all: bool,
}

impl<'a> Access<'a> {
    fn new(rule: &'a LiveRule) -> Self {
        let mut access = Self {
            rule,
            selectors: Vec::new(),
            reads_all: rule.asks_in_templates(),
        };
        rule.expr().walk(&mut |expr| match expr {
            Expr::Vector(selector) => access.selectors.push((**selector).clone()),
            Expr::Matrix(matrix) => access.selectors.push(matrix.selector.clone()),
            // It reads series that no selector of the expression names.
            Expr::Call(call) if call.function.name == "info" => access.reads_all = true,
            _ => {}
        });
        access
    }

    fn must_follow(&self, earlier: &Self) -> bool {
        self.reads(earlier.rule)
            || earlier.reads(self.rule)
            || may_write_the_same(self.rule, earlier.rule)
    }

    fn reads(&self, writer: &LiveRule) -> bool {
        self.reads_all || self.selectors.iter().any(|own| may_select(own, writer))
    }
}

/// Reports whether a selector may select what a rule writes.
fn may_select(selector: &VectorSelector, writer: &LiveRule) -> bool {
    selector.matchers.iter().all(|matcher| {
        if matcher.name.as_ref() == METRIC_NAME {
            return names(writer).any(|name| matcher.matches(name));
        }
        match fixed_label(writer, &matcher.name) {
            Some(value) => matcher.matches(value),
            None => true,
        }
    })
}

fn may_write_the_same(a: &LiveRule, b: &LiveRule) -> bool {
    let share_name = names(a).any(|name| names(b).any(|other| other == name));
    let differ = |name: &str| match (fixed_label(a, name), fixed_label(b, name)) {
        (Some(a), Some(b)) => a != b,
        _ => false,
    };
    share_name && !a.labels.keys().any(|name| differ(name)) && !differ(ALERT_NAME)
}

fn names(rule: &LiveRule) -> impl Iterator<Item = &str> {
    let (name, second) = if rule.is_alerting() {
        (ALERTS, Some(ALERTS_FOR_STATE))
    } else {
        (&*rule.name, None)
    };
    iter::once(name).chain(second)
}

/// Returns the value that a label has in all series of a rule, if that is known.
fn fixed_label<'a>(rule: &'a LiveRule, name: &str) -> Option<&'a str> {
    if rule.is_alerting() && name == ALERT_NAME {
        return Some(&rule.name);
    }
    let value = rule.labels.get(name)?;
    (!rule.is_alerting() || !value.contains("{{")).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ParseOptions, file::Texts, parse};

    /// Returns rules, each given as its flow of YAML.
    fn rules(rules: &[&str]) -> Vec<LiveRule> {
        let lines: String = rules.iter().map(|rule| format!("  - {rule}\n")).collect();
        let text = format!("groups:\n- name: g\n  rules:\n{lines}");
        let file = parse(&text, ParseOptions::default()).unwrap();
        let rules = file.groups[0].rules.iter();
        rules
            .map(|rule| LiveRule::new(rule, &Texts::new()))
            .collect()
    }

    fn batches(all: &[&str]) -> Vec<Vec<usize>> {
        Batches::new(&rules(all)).0
    }

    #[test]
    fn results_wait_until_a_rule_needs_them() {
        let commits = |all: &[&str]| Commits::new(&rules(all)).0;
        let found = commits(&[
            "{record: a, expr: c}",
            "{record: b, expr: up}",
            "{record: c, expr: up, labels: {l: one}}",
            "{record: d, expr: a}",
            "{record: e, expr: b}",
            "{record: c, expr: up, labels: {l: two}}",
            "{record: c, expr: up}",
            "{alert: A, expr: up}",
            "{alert: B, expr: up}",
            "{alert: C, expr: up, annotations: {t: '{{ query \"up\" }}'}}",
        ]);
        let due: Vec<usize> = (0..found.len()).filter(|at| found[*at]).collect();
        assert_eq!(due, [3, 6, 9]);
        // Series of alerts that are recorded, and alerts of one name with and without a label of their own.
        let found = commits(&[
            "{alert: A, expr: up, labels: {severity: one}}",
            "{alert: A, expr: up, labels: {severity: two}}",
            "{alert: A, expr: up}",
            "{alert: B, expr: up}",
            "{record: ALERTS, expr: up, labels: {alertname: C}}",
            "{alert: C, expr: up}",
            "{record: x, expr: '{__name__=~\"AL.*\", alertname=\"B\"}'}",
            "{record: y, expr: '{__name__=~\"AL.*\", alertname=\"C\"}'}",
        ]);
        let due: Vec<usize> = (0..found.len()).filter(|at| found[*at]).collect();
        assert_eq!(due, [2, 5, 7]);
    }

    #[test]
    fn rules_wait_for_those_that_they_read() {
        let found = batches(&[
            "{record: a, expr: up}",
            "{record: b, expr: down}",
            "{record: c, expr: a + b}",
            "{alert: A, expr: 'c > 1'}",
            "{record: d, expr: 'rate(b[5m])'}",
            "{record: e, expr: 'ALERTS{alertname=\"A\"}'}",
            "{record: f, expr: 'ALERTS{alertname=\"B\"}'}",
        ]);
        assert_eq!(found, [vec![0, 1, 6], vec![2, 4], vec![3], vec![5]]);
    }

    #[test]
    fn rules_wait_for_those_that_read_what_they_write() {
        let found = batches(&[
            "{record: a, expr: b}",
            "{record: b, expr: up}",
            "{record: c, expr: '{__name__=~\"b|x\"}'}",
        ]);
        assert_eq!(found, [[0], [1], [2]]);
    }

    #[test]
    fn rules_wait_for_those_that_write_the_same() {
        let found = batches(&[
            "{record: a, expr: x, labels: {l: one}}",
            "{record: a, expr: y, labels: {l: two}}",
            "{record: a, expr: z}",
            "{record: b, expr: 'a{l=\"two\"}'}",
            "{record: d, expr: 'a{l=\"three\"}'}",
        ]);
        assert_eq!(found, [vec![0, 1], vec![2], vec![3, 4]]);
    }

    #[test]
    fn what_may_read_anything_is_alone() {
        let found = batches(&[
            "{record: a, expr: up}",
            "{record: b, expr: '{job=\"x\"}'}",
            "{record: c, expr: up}",
            "{alert: A, expr: up, annotations: {t: '{{ query \"c\" }}'}}",
            "{record: d, expr: up}",
        ]);
        assert_eq!(found, [[0], [1], [2], [3], [4]]);
    }
}
