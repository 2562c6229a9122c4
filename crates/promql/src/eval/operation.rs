//! An operation between two vectors, independent of how pairs are found.

use super::{Eval, META_LABELS, Series, block::Identity, joined::Given};
use crate::{
    ast::{BinaryOp, Cardinality, VectorMatching},
    error::QueryError,
    fmt::{quote, quote_name},
    plan::Binary,
    span::Span,
};
use narthex_model::LabelSet;
use std::{fmt::Write as _, sync::Arc};

/// One operation between two vectors.
pub(super) struct Operation<'a> {
    pub(super) eval: &'a Eval<'a>,
    pub(super) op: BinaryOp,
    pub(super) matching: &'a VectorMatching,
    pub(super) return_bool: bool,
    pub(super) span: Span,
}

/// The match group of each row, numbered over both sides.
pub(super) struct Groups {
    pub(super) lhs: Vec<usize>,
    pub(super) rhs: Vec<usize>,
    pub(super) count: usize,
}

impl<'a> Operation<'a> {
    pub(super) fn new(eval: &'a Eval<'a>, b: &'a Binary, span: Span) -> Self {
        Self {
            eval,
            op: b.op,
            matching: &b.matching,
            return_bool: b.return_bool,
            span,
        }
    }

    pub(super) fn match_labels(&self, labels: &LabelSet) -> LabelSet {
        let mut names: Vec<&str> = self.matching.labels.iter().map(String::as_str).collect();
        if self.matching.on {
            return labels.only(&names);
        }
        names.extend(META_LABELS);
        labels.without(&names)
    }

    /// Reports whether a pair's result has the labels of its left side, apart from `META_LABELS`.
    pub(super) fn keeps_labels(&self) -> bool {
        let m = self.matching;
        m.cardinality == Cardinality::OneToOne
            && !m.on
            && m.labels.is_empty()
            && m.include.is_empty()
    }

    /// Returns the result series of a pair whose labels are kept.
    pub(super) fn result_with_labels(&self, many: &Series) -> Series {
        let mut series = many.clone();
        if self.drops_name_now() {
            series.forget_name(false);
        }
        series.drop_name = self.return_bool;
        series
    }

    fn drops_name_now(&self) -> bool {
        (self.return_bool && !self.eval.rules.delayed_name_removal) || self.op.changes_meaning()
    }

    /// Returns the result series of a pair.
    pub(super) fn result(&self, many: &LabelSet, one: &LabelSet) -> Series {
        let mut labels = many.clone();
        if self.drops_name_now() {
            labels = labels.without(&META_LABELS);
        }
        if self.matching.cardinality == Cardinality::OneToOne {
            let names: Vec<&str> = self.matching.labels.iter().map(String::as_str).collect();
            labels = if self.matching.on {
                labels.only(&names)
            } else {
                labels.without(&names)
            };
        }
        for name in &self.matching.include {
            labels = labels.with(name, one.get(name).unwrap_or_default());
        }
        let mut series = Series::new(labels);
        series.drop_name = self.return_bool;
        series
    }

    /// Reports whether a pair's result has the labels of the many side, apart from `META_LABELS`, with others of the one side.
    pub(super) fn joins(&self) -> bool {
        let is_meta = |name: &String| META_LABELS.contains(&name.as_str());
        self.matching.cardinality != Cardinality::OneToOne
            && self.drops_name_now()
            && !self.matching.include.iter().any(is_meta)
    }

    /// Returns the result series of a pair that joins, with what the one side gives; `None` where only labels will do.
    pub(super) fn joined(&self, many: &Series, given: &Arc<Given>) -> Option<Series> {
        let Identity::Stored { batch, index, .. } = &many.identity else {
            return None;
        };
        Some(Series {
            identity: Identity::Joined {
                batch: Arc::clone(batch),
                index: *index,
                given: Arc::clone(given),
            },
            drop_name: self.return_bool,
        })
    }

    pub(super) fn duplicate(&self, a: &Series, b: &Series, swapped: bool) -> QueryError {
        let group = braces(&self.match_labels(&a.labels()));
        let side = if swapped { "left" } else { "right" };
        let mut names = [braces(&a.labels()), braces(&b.labels())];
        names.sort();
        let [first, second] = names;
        execution(&format!(
            "found duplicate series for the match group {group} on the {side} hand-side of the operation: [{first}, {second}];many-to-many matching not allowed: matching labels must be unique on one side"
        ))
    }
}

pub(super) fn execution(text: &str) -> QueryError {
    QueryError::Execution(text.to_owned())
}

/// Formats labels like Prometheus' `Labels.String`: the metric name is a label like any other.
pub(super) fn braces(labels: &LabelSet) -> String {
    let mut text = String::from("{");
    for (at, label) in labels.iter().enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        let (name, value) = (quote_name(label.name()), quote(label.value()));
        let _ = write!(text, "{separator}{name}={value}");
    }
    text.push('}');
    text
}
