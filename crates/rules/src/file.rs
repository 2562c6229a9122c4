//! Rule files as they are used.

use crate::error::Place;
use narthex_promql::ast::Expr;
use std::collections::BTreeMap;

/// Names and values of labels or annotations, sorted by name.
pub type Texts = BTreeMap<String, String>;

/// A valid rule file.
#[derive(Clone, Debug, Default)]
pub struct RuleFile {
    /// Its groups, in the order of the file.
    pub groups: Vec<Group>,
    /// What is suspicious without being an error.
    pub warnings: Vec<String>,
}

/// Rules that are evaluated together, in order.
#[derive(Clone, Debug)]
pub struct Group {
    /// The name, unique in its file.
    pub name: String,
    /// The interval between evaluations; `None` for the configuration's.
    pub interval_ms: Option<i64>,
    /// How far in the past the rules are evaluated; `None` for the configuration's, which `Some(0)` is not.
    pub query_offset_ms: Option<i64>,
    /// Most series or alerts of one rule; `None` for no limit.
    pub limit: Option<u64>,
    /// Labels for the results of all rules; a rule's own win.
    pub labels: Texts,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Where the rule begins in its file.
    pub place: Place,
    /// The metric it records, or the alert's name.
    pub name: String,
    /// The expression, as it is written.
    pub text: String,
    /// The expression.
    pub expr: Expr,
    /// The rule's own labels; templates for an alert.
    pub labels: Texts,
    /// What becomes of the result.
    pub kind: RuleKind,
}

/// What becomes of a rule's result.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RuleKind {
    /// Series.
    Recording,
    /// Alerts.
    Alerting {
        /// How long an element must be there before its alert fires.
        for_ms: i64,
        /// How long an alert goes on firing when its element is gone.
        keep_firing_for_ms: i64,
        /// Templates of texts for people.
        annotations: Texts,
    },
}
