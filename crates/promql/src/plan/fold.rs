//! Folds constants.
//!
//! **Invariant:** a folded number has the same bits as the operators would give.

use super::{Node, NodeKind, Over, Source};
use crate::{ast::ValueType, eval::scalar_operation};

/// Replaces operations on numbers by their results, bottom up.
pub(super) fn fold(mut node: Node) -> Node {
    fold_children(&mut node);
    let value = match &node.kind {
        NodeKind::Negate(inner) => number(inner).map(|x| -x),
        NodeKind::Binary(b) if is_scalar(&node) => match (number(&b.lhs), number(&b.rhs)) {
            (Some(l), Some(r)) => Some(scalar_operation(b.op, l, r)),
            _ => None,
        },
        NodeKind::StepInvariant(inner) => number(inner),
        _ => None,
    };
    if let Some(value) = value {
        node.kind = NodeKind::Number(value);
    }
    node
}

fn number(node: &Node) -> Option<f64> {
    match node.kind {
        NodeKind::Number(value) => Some(value),
        _ => None,
    }
}

fn fold_children(node: &mut Node) {
    match &mut node.kind {
        NodeKind::Negate(inner) | NodeKind::StepInvariant(inner) => fold_in_place(inner),
        NodeKind::Subquery(s) => fold_in_place(&mut s.inner),
        NodeKind::Binary(b) => {
            fold_in_place(&mut b.lhs);
            fold_in_place(&mut b.rhs);
        }
        NodeKind::Aggregate(a) => {
            fold_in_place(&mut a.input);
            a.param.iter_mut().for_each(fold_in_place);
        }
        NodeKind::Call(c) => c.args.iter_mut().for_each(fold_in_place),
        NodeKind::Over(Over { source, args, .. }) => {
            args.iter_mut().for_each(fold_in_place);
            if let Source::Subquery(s) = source {
                fold_in_place(&mut s.inner);
            }
        }
        NodeKind::Number(_) | NodeKind::Text(_) | NodeKind::Select(_) | NodeKind::Window(_) => {}
    }
}

fn fold_in_place(node: &mut Node) {
    let (span, value_type) = (node.span, node.value_type);
    let taken = std::mem::replace(node, Node::new(NodeKind::Number(0.0), span, value_type));
    *node = fold(taken);
}

/// Reports whether the node gives one float per step.
fn is_scalar(node: &Node) -> bool {
    node.value_type == ValueType::Scalar
}
