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
#[derive(Default)]
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
            ..Self::default()
        }
    }
}

/// Computes an operator on two samples; `span` is the operation's position.
pub(super) fn combine(op: BinaryOp, l: Sample<'_>, r: Sample<'_>, span: Span) -> Combined {
    let refused = || Combined {
        info: Some(Note::incompatible_types(
            op.as_str(),
            type_name(l),
            type_name(r),
            span,
        )),
        ..Combined::default()
    };
    match (l, r) {
        (Sample::Float(l), Sample::Float(r)) => match op {
            BinaryOp::TrimUpper | BinaryOp::TrimLower => refused(),
            _ if op.is_comparison() => Combined {
                keep: compare(op, l, r),
                ..Combined::value(Value::Float(l))
            },
            _ => Combined::value(Value::Float(scalar_operation(op, l, r))),
        },
        (Sample::Float(x), Sample::Histogram(h)) | (Sample::Histogram(h), Sample::Float(x))
            if op == BinaryOp::Mul =>
        {
            changed(h, |h| {
                h.scale(x);
                h.compact();
            })
        }
        (Sample::Histogram(l), Sample::Float(r)) => match op {
            BinaryOp::Div => changed(l, |h| {
                h.divide(r);
                h.compact();
            }),
            BinaryOp::TrimUpper => changed(l, |h| h.trim(r, Keep::Below)),
            BinaryOp::TrimLower => changed(l, |h| h.trim(r, Keep::Above)),
            _ => refused(),
        },
        (Sample::Float(_), Sample::Histogram(_)) => refused(),
        (Sample::Histogram(l), Sample::Histogram(r)) => {
            two_histograms(op, l, r, span).unwrap_or_else(refused)
        }
        _ => Combined::default(),
    }
}

fn type_name(sample: Sample<'_>) -> &'static str {
    match sample {
        Sample::Absent => "nothing",
        Sample::Float(_) => "float",
        Sample::Histogram(_) => "histogram",
    }
}

fn changed(h: &Histogram, change: impl FnOnce(&mut Histogram)) -> Combined {
    let mut h = h.clone();
    change(&mut h);
    Combined::value(Value::Histogram(Arc::new(h)))
}

/// Computes an operator on two histograms; `None` if it does not apply to them.
fn two_histograms(
    op: BinaryOp,
    l: &Arc<Histogram>,
    r: &Arc<Histogram>,
    span: Span,
) -> Option<Combined> {
    if matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
        return Some(Combined {
            keep: l.same_data(r) == (op == BinaryOp::Eq),
            ..Combined::value(Value::Histogram(Arc::clone(l)))
        });
    }
    let mut result = (**l).clone();
    let (operation, notes) = match op {
        BinaryOp::Add => (HistogramOperation::Addition, result.add(r)),
        BinaryOp::Sub => (HistogramOperation::Subtraction, result.subtract(r)),
        _ => return None,
    };
    let Ok(notes) = notes else {
        return Some(Combined {
            warning: Some(Note::incompatible_buckets(op.as_str(), span)),
            ..Combined::default()
        });
    };
    if op == BinaryOp::Sub {
        result.reset_hint = ResetHint::Gauge;
    }
    result.compact();
    let reconciled = notes.bounds_reconciled;
    Some(Combined {
        info: reconciled.then(|| Note::bounds_reconciled(operation, span)),
        warning: notes
            .reset_conflict
            .then(|| Note::reset_conflict(operation, span)),
        ..Combined::value(Value::Histogram(Arc::new(result)))
    })
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
