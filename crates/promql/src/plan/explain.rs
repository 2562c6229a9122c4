//! Prints plans for people.
//!
//! **Invariant:** one line per operation, children indented below it, in evaluation order.

use super::{Aggregate, Node, NodeKind, Over, Plan, Select, Source, Steps, Subquery, Window};
use crate::{ast::Extension, fmt::float_g};
use std::fmt::{self, Display, Formatter};

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "steps {}", self.steps)?;
        for (at, selector) in self.selectors.iter().enumerate() {
            let matchers: Vec<String> = selector.matchers.iter().map(ToString::to_string).collect();
            let (min, max) = (selector.range.min_ms, selector.range.max_ms);
            writeln!(f, "selector {at}: {{{}}} {min}..={max}", matchers.join(","))?;
        }
        write_node(f, &self.root, 0)
    }
}

impl Display for Steps {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} × {} ms from {}",
            self.count, self.step_ms, self.start_ms
        )
    }
}

fn write_node(f: &mut Formatter<'_>, node: &Node, level: usize) -> fmt::Result {
    let indent = "  ".repeat(level);
    write!(f, "{indent}")?;
    if let Some(number) = node.repeated {
        write!(f, "kept {number}: ")?;
    }
    match &node.kind {
        NodeKind::Number(x) => writeln!(f, "number {}", float_g(*x)),
        NodeKind::Text(text) => writeln!(f, "text {text:?}"),
        NodeKind::Select(s) => writeln!(f, "select {}", select(s)),
        NodeKind::Window(w) => writeln!(f, "window {}", window(w)),
        NodeKind::Subquery(s) => write_subquery(f, s, level),
        NodeKind::Call(c) => {
            writeln!(f, "call {:?}", c.function)?;
            c.args
                .iter()
                .try_for_each(|arg| write_node(f, arg, level + 1))
        }
        NodeKind::Over(over) => write_over(f, over, level),
        NodeKind::Aggregate(a) => write_aggregate(f, a, level),
        NodeKind::Binary(b) => {
            let bool_word = if b.return_bool { " bool" } else { "" };
            writeln!(f, "binary {}{bool_word}{}", b.op.as_str(), b.matching)?;
            write_node(f, &b.lhs, level + 1)?;
            write_node(f, &b.rhs, level + 1)
        }
        NodeKind::Negate(inner) => {
            writeln!(f, "negate")?;
            write_node(f, inner, level + 1)
        }
        NodeKind::StepInvariant(inner) => {
            writeln!(f, "once")?;
            write_node(f, inner, level + 1)
        }
    }
}

fn write_subquery(f: &mut Formatter<'_>, s: &Subquery, level: usize) -> fmt::Result {
    writeln!(
        f,
        "subquery {} range {} ms{}",
        s.steps,
        s.range_ms,
        times(s.at_ms, s.offset_ms)
    )?;
    write_node(f, &s.inner, level + 1)
}

fn write_over(f: &mut Formatter<'_>, over: &Over, level: usize) -> fmt::Result {
    write!(f, "over {:?} ", over.function)?;
    match &over.source {
        Source::Window(w) => writeln!(f, "window {}", window(w))?,
        Source::Subquery(s) => write_subquery(f, s, level)?,
    }
    over.args
        .iter()
        .try_for_each(|arg| write_node(f, arg, level + 1))
}

fn write_aggregate(f: &mut Formatter<'_>, a: &Aggregate, level: usize) -> fmt::Result {
    let word = if a.without { "without" } else { "by" };
    writeln!(
        f,
        "aggregate {} {word} ({})",
        a.op.as_str(),
        a.grouping.join(", ")
    )?;
    a.param
        .iter()
        .try_for_each(|param| write_node(f, param, level + 1))?;
    write_node(f, &a.input, level + 1)
}

fn select(s: &Select) -> String {
    let extension = match s.extension {
        Extension::None => "",
        Extension::Anchored => " anchored",
        Extension::Smoothed => " smoothed",
    };
    let stats = if s.stats_only { " counts only" } else { "" };
    format!(
        "selector {}{}{extension}{stats}",
        s.selector,
        times(s.at_ms, s.offset_ms)
    )
}

fn window(w: &Window) -> String {
    format!("{} range {} ms", select(&w.select), w.range_ms)
}

fn times(at_ms: Option<i64>, offset_ms: i64) -> String {
    let at = at_ms.map(|ms| format!(" at {ms}")).unwrap_or_default();
    if offset_ms == 0 {
        at
    } else {
        format!("{at} offset {offset_ms} ms")
    }
}
