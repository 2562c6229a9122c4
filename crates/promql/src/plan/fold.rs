//! Folds constants.
//!
//! **Invariant:** a folded number has the same bits as the operators would give.

use super::{Node, NodeKind, Steps};
use crate::{ast::ValueType, eval::scalar_operation};

/// Replaces operations on numbers below a node at `steps` by their results, bottom up.
pub(super) fn fold(node: &mut Node, steps: Steps) {
    for (input, steps) in node.inputs_mut(steps) {
        fold(input, steps);
    }
    let value = match &node.kind {
        NodeKind::Negate(inner) => number(inner).map(|x| -x),
        NodeKind::Binary(b) if node.value_type == ValueType::Scalar => number(&b.lhs)
            .zip(number(&b.rhs))
            .map(|(l, r)| scalar_operation(b.op, l, r)),
        NodeKind::StepInvariant(inner) => number(inner),
        _ => None,
    };
    if let Some(value) = value {
        node.kind = NodeKind::Number(value);
    }
}

fn number(node: &Node) -> Option<f64> {
    match node.kind {
        NodeKind::Number(value) => Some(value),
        _ => None,
    }
}
