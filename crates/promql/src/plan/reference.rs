//! The time that info series are read at.
//!
//! **Invariant:** where the series to enrich are not all read at one time, the answer is `None`: info series are then
//! those of the evaluation time, whatever the order of operands.

use super::{Node, NodeKind, Over, Select, Source, Subquery};
use crate::{ast::ValueType, functions::FunctionId};

/// A pinned time and an offset, as selectors have them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reference {
    pub(crate) at_ms: Option<i64>,
    pub(crate) offset_ms: i64,
}

/// What is known of the selectors below a node.
#[derive(Default)]
struct Seen {
    first: Option<Reference>,
    differs: bool,
}

/// Returns the one time at which all series of a vector are read.
pub(crate) fn shared(vector: &Node) -> Option<Reference> {
    let mut seen = Seen::default();
    seen.look(vector, &[]);
    seen.first.filter(|_| !seen.differs)
}

impl Seen {
    /// Looks at a vector below some subqueries, the outermost first; reports whether it has a selector.
    fn look(&mut self, node: &Node, subqueries: &[Reference]) -> bool {
        if !matches!(node.value_type, ValueType::Vector | ValueType::Matrix) {
            return false;
        }
        let inputs: Vec<&Node> = match &node.kind {
            NodeKind::Select(select) => return self.found(select, subqueries),
            NodeKind::Window(window) => return self.found(&window.select, subqueries),
            NodeKind::Subquery(subquery) => return self.below(subquery, subqueries),
            NodeKind::Over(Over { source, .. }) => {
                return match source {
                    Source::Window(window) => self.found(&window.select, subqueries),
                    Source::Subquery(subquery) => self.below(subquery, subqueries),
                };
            }
            NodeKind::Negate(inner) | NodeKind::StepInvariant(inner) => vec![inner],
            NodeKind::Binary(binary) => vec![&binary.lhs, &binary.rhs],
            NodeKind::Aggregate(aggregate) => {
                aggregate.param.iter().chain([&aggregate.input]).collect()
            }
            // The second argument of another `info` is not evaluated.
            NodeKind::Call(call) if call.function == FunctionId::Info => {
                call.args.iter().take(1).collect()
            }
            NodeKind::Call(call) => call.args.iter().collect(),
            NodeKind::Number(_) | NodeKind::Text(_) => Vec::new(),
        };
        let mut has_selector = false;
        for input in inputs {
            has_selector |= self.look(input, subqueries);
        }
        // Vectors made of nothing stored are of the evaluation time.
        self.differs |= !has_selector;
        has_selector
    }

    fn below(&mut self, subquery: &Subquery, subqueries: &[Reference]) -> bool {
        let own = Reference {
            at_ms: subquery.at_ms,
            offset_ms: subquery.offset_ms,
        };
        let subqueries: Vec<Reference> = subqueries.iter().copied().chain([own]).collect();
        self.look(&subquery.inner, &subqueries)
    }

    fn found(&mut self, select: &Select, subqueries: &[Reference]) -> bool {
        let mut reference = Reference {
            at_ms: select.at_ms,
            offset_ms: select.offset_ms,
        };
        // Offsets add up to the innermost pinned time.
        for outer in subqueries.iter().rev() {
            if reference.at_ms.is_none() {
                reference.at_ms = outer.at_ms;
                reference.offset_ms = reference.offset_ms.saturating_add(outer.offset_ms);
            }
        }
        let resolved = |one: &Reference| match one.at_ms {
            Some(at_ms) => (true, at_ms.saturating_sub(one.offset_ms)),
            None => (false, one.offset_ms),
        };
        let first = self.first.get_or_insert(reference);
        self.differs |= resolved(first) != resolved(&reference);
        true
    }
}
