//! Selectors and subqueries.
//!
//! **Invariant:** `offset_ns` is 0 while `offset_expr` is set: the plan evaluates the expression for each query.

use super::{DurationExpr, Expr};
use crate::span::Span;
use narthex_model::{LabelSet, METRIC_NAME, MatchOp, Matcher};

/// The time of an `@` modifier.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum At {
    /// Milliseconds since the epoch.
    Time(i64),
    /// The first step of the query.
    Start,
    /// The last step of the query.
    End,
}

/// Treatment of the edges of a selector's range.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Extension {
    /// Only samples inside the range count.
    #[default]
    None,
    /// The last sample before the range counts as its first.
    Anchored,
    /// Values at both edges are interpolated.
    Smoothed,
}

impl Extension {
    /// Returns how far it looks for samples before and after a range.
    pub(crate) fn reach_ms(self, lookback_ms: i64) -> (i64, i64) {
        match self {
            Self::None => (0, 0),
            Self::Anchored => (lookback_ms, 0),
            Self::Smoothed => (lookback_ms, lookback_ms),
        }
    }
}

/// An instant vector selector.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorSelector {
    /// The metric name when written before the braces, else empty.
    pub name: String,
    /// All matchers; the one for `name` is the last.
    pub matchers: Vec<Matcher>,
    /// The offset into the past, in nanoseconds.
    pub offset_ns: i64,
    /// The offset, when it is an expression.
    pub offset_expr: Option<DurationExpr>,
    /// The pinned time.
    pub at: Option<At>,
    /// Treatment of the range's edges.
    pub extension: Extension,
    /// Whether it is the second argument of `info`, which selects labels, not series.
    pub selects_labels: bool,
    /// Its position, modifiers included.
    pub span: Span,
}

impl VectorSelector {
    /// Reports whether all its series have the same metric name.
    #[must_use]
    pub fn has_one_name(&self) -> bool {
        let is_of_name = |m: &Matcher| &*m.name == METRIC_NAME && m.op == MatchOp::Equal;
        self.matchers.iter().any(is_of_name)
    }

    /// Reports whether the matchers select a series with these labels.
    #[must_use]
    pub fn matches(&self, labels: &LabelSet) -> bool {
        self.matchers
            .iter()
            .all(|m| m.matches(labels.get(&m.name).unwrap_or_default()))
    }
}

/// A range vector selector.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixSelector {
    /// The selector with its modifiers.
    pub selector: VectorSelector,
    /// The length of the range in nanoseconds.
    pub range_ns: i64,
    /// The length, when it is an expression.
    pub range_expr: Option<DurationExpr>,
    /// One past the last byte.
    pub end: u32,
}

/// A subquery.
#[derive(Clone, Debug, PartialEq)]
pub struct SubqueryExpr {
    /// The expression evaluated at each step.
    pub expr: Expr,
    /// The length of the range in nanoseconds.
    pub range_ns: i64,
    /// The length, when it is an expression.
    pub range_expr: Option<DurationExpr>,
    /// Nanoseconds between steps; 0 for the default.
    pub step_ns: i64,
    /// The step, when it is an expression.
    pub step_expr: Option<DurationExpr>,
    /// The offset into the past, in nanoseconds.
    pub offset_ns: i64,
    /// The offset, when it is an expression.
    pub offset_expr: Option<DurationExpr>,
    /// The pinned time.
    pub at: Option<At>,
    /// One past the last byte.
    pub end: u32,
}
