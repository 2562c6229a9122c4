//! Binary operators on two samples.
//!
//! **Invariant:** operands of unsupported types give a note and no sample, never an error.

use super::{Sample, Value};
use crate::{
    ast::BinaryOp,
    notes::{HistogramOperation, Note},
    span::Span,
};
use narthex_model::{
    Histogram,
    histogram::{Keep, ResetHint},
    math,
};
use std::sync::Arc;

/// Computes an operator on two numbers; comparisons return 0 or 1.
pub(crate) fn scalar_operation(op: BinaryOp, l: f64, r: f64) -> f64 {
    match op {
        BinaryOp::Add => l + r,
        BinaryOp::Sub => l - r,
        BinaryOp::Mul => l * r,
        BinaryOp::Div => l / r,
        BinaryOp::Mod => l % r,
        BinaryOp::Pow => math::pow(l, r),
        BinaryOp::Atan2 => math::atan2(l, r),
        _ => f64::from(compare(op, l, r)),
    }
}

/// Result of an operator on two samples.
pub(super) struct Combined {
    pub(super) value: Option<Value>,
    /// Whether a comparison holds; `true` for all other operators.
    pub(super) keep: bool,
    pub(super) info: Option<Note>,
    /// A warning that makes vectors, but not scalars, drop the sample.
    pub(super) warning: Option<Note>,
}

impl Combined {
    fn value(value: Value) -> Self {
        Self {
            value: Some(value),
            keep: true,
            info: None,
            warning: None,
        }
    }

    fn refused(note: Note) -> Self {
        Self {
            value: None,
            keep: false,
            info: Some(note),
            warning: None,
        }
    }
}

/// Computes an operator on two samples; `span` is the operation's position.
pub(super) fn combine(op: BinaryOp, l: Sample<'_>, r: Sample<'_>, span: Span) -> Combined {
    match (l, r) {
        (Sample::Float(l), Sample::Float(r)) => match op {
            BinaryOp::TrimUpper | BinaryOp::TrimLower => Combined::refused(
                Note::incompatible_types(op.as_str(), "float", "float", span),
            ),
            _ if op.is_comparison() => Combined {
                keep: compare(op, l, r),
                ..Combined::value(Value::Float(l))
            },
            _ => Combined::value(Value::Float(scalar_operation(op, l, r))),
        },
        (Sample::Float(l), Sample::Histogram(r)) => match op {
            BinaryOp::Mul => changed(r, |h| {
                h.scale(l);
                h.compact();
            }),
            _ => Combined::refused(Note::incompatible_types(
                op.as_str(),
                "float",
                "histogram",
                span,
            )),
        },
        (Sample::Histogram(l), Sample::Float(r)) => match op {
            BinaryOp::Mul => changed(l, |h| {
                h.scale(r);
                h.compact();
            }),
            BinaryOp::Div => changed(l, |h| {
                h.divide(r);
                h.compact();
            }),
            BinaryOp::TrimUpper => changed(l, |h| h.trim(r, Keep::Below)),
            BinaryOp::TrimLower => changed(l, |h| h.trim(r, Keep::Above)),
            _ => Combined::refused(Note::incompatible_types(
                op.as_str(),
                "histogram",
                "float",
                span,
            )),
        },
        (Sample::Histogram(l), Sample::Histogram(r)) => two_histograms(op, l, r, span),
        _ => Combined {
            value: None,
            keep: false,
            info: None,
            warning: None,
        },
    }
}

fn changed(h: &Histogram, change: impl FnOnce(&mut Histogram)) -> Combined {
    let mut h = h.clone();
    change(&mut h);
    Combined::value(Value::Histogram(Arc::new(h)))
}

fn two_histograms(op: BinaryOp, l: &Arc<Histogram>, r: &Arc<Histogram>, span: Span) -> Combined {
    let operation = match op {
        BinaryOp::Eq | BinaryOp::Ne => {
            let keep = l.same_data(r) == (op == BinaryOp::Eq);
            return Combined {
                keep,
                ..Combined::value(Value::Histogram(Arc::clone(l)))
            };
        }
        BinaryOp::Add => HistogramOperation::Addition,
        BinaryOp::Sub => HistogramOperation::Subtraction,
        _ => {
            return Combined::refused(Note::incompatible_types(
                op.as_str(),
                "histogram",
                "histogram",
                span,
            ));
        }
    };
    let mut result = (**l).clone();
    let notes = if op == BinaryOp::Add {
        result.add(r)
    } else {
        result.subtract(r)
    };
    let Ok(notes) = notes else {
        let warning = Note::incompatible_buckets(op.as_str(), span);
        return Combined {
            value: None,
            keep: false,
            info: None,
            warning: Some(warning),
        };
    };
    if op == BinaryOp::Sub {
        result.reset_hint = ResetHint::Gauge;
    }
    result.compact();
    Combined {
        info: notes
            .bounds_reconciled
            .then(|| Note::bounds_reconciled(operation, span)),
        warning: notes
            .reset_conflict
            .then(|| Note::reset_conflict(operation, span)),
        ..Combined::value(Value::Histogram(Arc::new(result)))
    }
}

pub(super) fn compare(op: BinaryOp, l: f64, r: f64) -> bool {
    match op {
        BinaryOp::Eq => l == r,
        BinaryOp::Ne => l != r,
        BinaryOp::Gt => l > r,
        BinaryOp::Lt => l < r,
        BinaryOp::Ge => l >= r,
        BinaryOp::Le => l <= r,
        _ => false,
    }
}
