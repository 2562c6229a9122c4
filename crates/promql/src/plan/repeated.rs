//! Finds expressions that a query has more than once.
//!
//! **Invariant:** two nodes have one number only if they give the same values at the same steps; positions in the text,
//! which notes need, may differ.

use super::{Call, Node, NodeKind, Source, Steps, Subquery};
use crate::{ast::ValueType, functions::FunctionId};
use std::collections::HashMap;

/// Numbers the expressions below `root` that are evaluated more than once, and returns how often each is.
pub(super) fn find(root: &mut Node, steps: Steps) -> Vec<usize> {
    let mut classes = Classes::default();
    classes.classify(root, steps);
    let mut uses = vec![0; classes.0.len()];
    count(root, steps, &mut uses);
    let mut numbers = HashMap::new();
    let mut repeated = Vec::new();
    for (class, uses) in uses.into_iter().enumerate().filter(|(_, uses)| *uses > 1) {
        numbers.insert(class, repeated.len());
        repeated.push(uses);
    }
    number(root, steps, &numbers);
    repeated
}

/// Classes of equal nodes, by what a node is and the classes of its inputs.
#[derive(Default)]
struct Classes(HashMap<String, Class>);

#[derive(Clone, Copy)]
struct Class {
    number: usize,
    reads: bool,
}

impl Classes {
    /// Returns the class of a node, and marks it with the class's number if its values can be kept.
    fn classify(&mut self, node: &mut Node, steps: Steps) -> Class {
        let mut key = format!("{steps:?} {}", own_key(node));
        let mut reads = matches!(node.kind, NodeKind::Select(_) | NodeKind::Window(_))
            || matches!(&node.kind, NodeKind::Over(over) if matches!(over.source, Source::Window(_)));
        for (input, steps) in node.inputs_mut(steps) {
            let class = self.classify(input, steps);
            key += &format!(" {}", class.number);
            reads |= class.reads;
        }
        let next = Class {
            number: self.0.len(),
            reads,
        };
        let class = *self.0.entry(key).or_insert(next);
        // What is the same at all steps is kept below the node that repeats it.
        let repeats = matches!(node.kind, NodeKind::StepInvariant(_));
        let is_kept = reads && !repeats && node.value_type == ValueType::Vector;
        node.repeated = is_kept.then_some(class.number);
        if let NodeKind::Call(call) = &mut node.kind {
            leave_out_selectors(call);
        }
        class
    }
}

/// Takes back the marks of selectors that a function does not evaluate.
fn leave_out_selectors(call: &mut Call) {
    let from = match call.function {
        FunctionId::Timestamp | FunctionId::StartTimestamp => 0,
        FunctionId::Info => 1,
        _ => return,
    };
    for arg in call.args.iter_mut().skip(from) {
        if matches!(arg.kind, NodeKind::Select(_)) {
            arg.repeated = None;
        }
    }
}

/// Counts how often each class is evaluated if each is evaluated once.
fn count(node: &mut Node, steps: Steps, uses: &mut [usize]) {
    if let Some(uses) = node.repeated.and_then(|class| uses.get_mut(class)) {
        *uses += 1;
        if *uses > 1 {
            return;
        }
    }
    for (input, steps) in node.inputs_mut(steps) {
        count(input, steps, uses);
    }
}

fn number(node: &mut Node, steps: Steps, numbers: &HashMap<usize, usize>) {
    node.repeated = node.repeated.and_then(|class| numbers.get(&class).copied());
    for (input, steps) in node.inputs_mut(steps) {
        number(input, steps, numbers);
    }
}

/// Describes a node without its inputs and its position.
fn own_key(node: &Node) -> String {
    match &node.kind {
        NodeKind::Number(x) => format!("number {:x}", x.to_bits()),
        NodeKind::Text(text) => format!("text {text:?}"),
        NodeKind::Select(select) => format!("{select:?}"),
        NodeKind::Window(window) => format!("{window:?}"),
        NodeKind::Subquery(subquery) => key_of_subquery(subquery),
        NodeKind::Call(call) => format!("call {:?}", call.function),
        NodeKind::Over(over) => {
            let source = match &over.source {
                Source::Window(window) => format!("{window:?}"),
                Source::Subquery(subquery) => key_of_subquery(subquery),
            };
            format!("over {:?} {source}", over.function)
        }
        NodeKind::Aggregate(a) => {
            let (without, grouping, param) = (a.without, &a.grouping, a.param.is_some());
            format!("aggregate {:?} {without} {grouping:?} {param}", a.op)
        }
        NodeKind::Binary(b) => format!("binary {:?} {:?} {}", b.op, b.matching, b.return_bool),
        NodeKind::Negate(_) => "negate".to_owned(),
        NodeKind::StepInvariant(_) => "once".to_owned(),
    }
}

fn key_of_subquery(s: &Subquery) -> String {
    let range = (s.range_ms, s.range_seconds.to_bits());
    format!("subquery {:?} {} {range:?}", s.at_ms, s.offset_ms)
}

#[cfg(test)]
mod tests {
    use crate::plan::{Plan, Settings, build};

    fn plan(text: &str) -> Plan {
        let settings = Settings {
            max_steps: 1000,
            lookback_ms: 300_000,
            default_subquery_step_ms: 60_000,
            start_times: true,
            is_kept: false,
        };
        build(&crate::parse(text).unwrap(), 0, 600_000, 60_000, settings).unwrap()
    }

    #[test]
    fn equal_expressions_are_found_whatever_they_look_like() {
        let cases: [(&str, &[usize]); 16] = [
            ("a / a", &[2]),
            ("a / b", &[]),
            ("rate(a[1m]) / rate(a[2m])", &[]),
            ("rate(a[1m]) / (rate ( a [60s] ))", &[2]),
            ("a + a offset 1m", &[]),
            ("a + a @ 5", &[]),
            ("sum(a) / count(a)", &[2]),
            ("sum by (x, y) (a) / sum by (y, x) (a) + sum(a)", &[2, 2]),
            ("(sum(a) / count(a)) > (sum(a) / count(a))", &[2, 2]),
            ("a{b=~'c|d'} - a{b=~'c|d'} * a{b=~'c'}", &[2]),
            ("max_over_time(sum(a)[5m:1m]) / sum(a)", &[]),
            (
                "max_over_time(sum(a)[5m:1m]) - min_over_time(sum(a)[5m:1m])",
                &[2],
            ),
            (
                "histogram_quantile(0.5, h) or histogram_quantile(0.9, h)",
                &[2],
            ),
            ("timestamp(a) - a", &[]),
            ("sum(a @ 5) + sum(a @ 5)", &[2]),
            ("quantile(0.1, a) - quantile(0.10000000000000002, a)", &[2]),
        ];
        for (text, uses) in cases {
            assert_eq!(plan(text).uses, uses, "{text}");
        }
        let shown = plan("sum(a) / sum(a)").to_string();
        assert_eq!(shown.matches("kept 0: aggregate sum").count(), 2, "{shown}");
    }
}
