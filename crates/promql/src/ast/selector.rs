//! Selectors and subqueries.
//!
//! **Invariant:** `offset_ns` is 0 while `offset_expr` is set: an expression gets its value per query, in the plan.

use super::{DurationExpr, Expr};
use crate::span::Span;
use narthex_model::{LabelSet, Matcher};

/// The time an `@` modifier pins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum At {
    /// Milliseconds since the epoch.
    Time(i64),
    /// The first step of the query.
    Start,
    /// The last step of the query.
    End,
}

/// How a selector treats the edges of its range.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Extension {
    /// Only samples inside count.
    #[default]
    None,
    /// The last sample before the range counts as its first.
    Anchored,
    /// Values at both edges are interpolated.
    Smoothed,
}

/// An instant vector selector.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorSelector {
    /// The metric name when written before the braces, else empty.
    pub name: String,
    /// All matchers; the one for `name` is the last.
    pub matchers: Vec<Matcher>,
    /// How far back it looks, in nanoseconds.
    pub offset_ns: i64,
    /// The offset, when it is an expression.
    pub offset_expr: Option<DurationExpr>,
    /// The pinned time.
    pub at: Option<At>,
    /// Treatment of the range's edges.
    pub extension: Extension,
    /// Whether it is the second argument of `info`, which selects labels, not series.
    pub selects_labels: bool,
    /// Where it stands, modifiers included.
    pub span: Span,
}

impl VectorSelector {
    /// Reports whether a series with these labels is selected.
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
    /// What is selected, with the modifiers.
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
    /// What is evaluated at each step.
    pub expr: Expr,
    /// The length of the range in nanoseconds.
    pub range_ns: i64,
    /// The length, when it is an expression.
    pub range_expr: Option<DurationExpr>,
    /// Nanoseconds between steps; 0 for the default.
    pub step_ns: i64,
    /// The step, when it is an expression.
    pub step_expr: Option<DurationExpr>,
    /// How far back it looks, in nanoseconds.
    pub offset_ns: i64,
    /// The offset, when it is an expression.
    pub offset_expr: Option<DurationExpr>,
    /// The pinned time.
    pub at: Option<At>,
    /// One past the last byte.
    pub end: u32,
}
