//! Decides whether series stay distinct without their names.
//!
//! **Invariant:** `true` means that no two series of the node's vector become equal without their metric name, type
//! and unit; `false` means unknown.

use super::{Node, NodeKind, Source};
use crate::{
    ast::{AggregateOp, ValueType},
    functions::FunctionId,
};

/// Reports whether no two series of `node` differ only by their metric names.
pub(crate) fn distinct_without_names(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Select(select) => select.one_name,
        NodeKind::Over(over) => {
            // All other functions have dropped the names.
            !matches!(
                over.function,
                FunctionId::LastOverTime | FunctionId::FirstOverTime
            ) || matches!(&over.source, Source::Window(w) if w.select.one_name)
        }
        NodeKind::Aggregate(a) => match a.op {
            AggregateOp::Topk
            | AggregateOp::Bottomk
            | AggregateOp::Limitk
            | AggregateOp::LimitRatio => distinct_without_names(&a.input),
            AggregateOp::CountValues => false,
            _ => !a.without && !a.grouping.iter().any(|name| name.starts_with("__")),
        },
        NodeKind::Negate(_) => true,
        NodeKind::StepInvariant(inner) => distinct_without_names(inner),
        NodeKind::Binary(b) => {
            let vector = match (b.lhs.value_type, b.rhs.value_type) {
                // Pairs of vectors may keep several names.
                (ValueType::Vector, ValueType::Vector) => return false,
                (ValueType::Vector, _) => &b.lhs,
                _ => &b.rhs,
            };
            b.op.changes_meaning() || b.return_bool || distinct_without_names(vector)
        }
        _ => false,
    }
}
