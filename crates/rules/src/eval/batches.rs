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
use narthex_model::METRIC_NAME;
use narthex_promql::ast::{Expr, VectorSelector};

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
            return names(writer).iter().any(|name| matcher.matches(name));
        }
        match fixed_label(writer, &matcher.name) {
            Some(value) => matcher.matches(value),
            None => true,
        }
    })
}

fn may_write_the_same(a: &LiveRule, b: &LiveRule) -> bool {
    let share_name = names(a).iter().any(|name| names(b).contains(name));
    let differ = |name: &str| match (fixed_label(a, name), fixed_label(b, name)) {
        (Some(a), Some(b)) => a != b,
        _ => false,
    };
    share_name && !a.labels.keys().any(|name| differ(name)) && !differ(ALERT_NAME)
}

fn names(rule: &LiveRule) -> Vec<&str> {
    if rule.is_alerting() {
        vec![ALERTS, ALERTS_FOR_STATE]
    } else {
        vec![&rule.name]
    }
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

    /// Returns the batches of rules, each given as its flow of YAML.
    fn batches(rules: &[&str]) -> Vec<Vec<usize>> {
        let lines: String = rules.iter().map(|rule| format!("  - {rule}\n")).collect();
        let text = format!("groups:\n- name: g\n  rules:\n{lines}");
        let file = parse(&text, ParseOptions::default()).unwrap();
        let rules = file.groups[0].rules.iter();
        let rules: Vec<LiveRule> = rules
            .map(|rule| LiveRule::new(rule, &Texts::new()))
            .collect();
        Batches::new(&rules).0
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
