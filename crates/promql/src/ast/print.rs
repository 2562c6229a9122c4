//! Prints trees as canonical queries.
//!
//! **Invariant:** the text equals Prometheus' for the same tree, and parses back to an equal tree.

use super::{
    AggregateExpr, At, BinaryExpr, Cardinality, DurationExpr, DurationNode, DurationOp, Expr,
    Extension, MatrixSelector, NumberLiteral, SubqueryExpr, VectorMatching, VectorSelector,
};
use crate::fmt::{float_f, float_g, quote_bytes, quote_name};
use narthex_model::{METRIC_NAME, MatchOp, Matcher, duration};
use std::fmt::{self, Display, Formatter};

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aggregate(e) => e.fmt(f),
            Self::Binary(e) => e.fmt(f),
            Self::Call(e) => {
                write!(f, "{}(", e.function.name)?;
                for (i, arg) in e.args.iter().enumerate() {
                    write!(f, "{}{arg}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            Self::Matrix(e) => e.fmt(f),
            Self::Number(e) => e.fmt(f),
            Self::Paren(e) => write!(f, "({})", e.expr),
            Self::String(e) => f.write_str(&quote_bytes(&e.value)),
            Self::Subquery(e) => e.fmt(f),
            Self::Unary(e) => write!(f, "{}{}", if e.negative { "-" } else { "+" }, e.expr),
            Self::Vector(e) => e.fmt(f),
        }
    }
}

impl Display for AggregateExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head())?;
        match &self.param {
            Some(param) => write!(f, "({param}, {})", self.expr),
            None => write!(f, "({})", self.expr),
        }
    }
}

impl AggregateExpr {
    /// Returns the text before the parentheses.
    pub(super) fn head(&self) -> String {
        let op = self.op.as_str();
        if self.without {
            format!("{op} without ({}) ", names(&self.grouping))
        } else if !self.grouping.is_empty() {
            format!("{op} by ({}) ", names(&self.grouping))
        } else {
            op.to_owned()
        }
    }
}

impl Display for BinaryExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.lhs, self.middle(), self.rhs)
    }
}

impl BinaryExpr {
    /// Returns the text between the operands.
    pub(super) fn middle(&self) -> String {
        let bool_word = if self.return_bool { " bool" } else { "" };
        let matching = self.matching.as_ref().map(ToString::to_string);
        let matching = matching.unwrap_or_default();
        format!("{}{bool_word}{matching}", self.op.as_str())
    }
}

impl Display for VectorMatching {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let group = match self.cardinality {
            Cardinality::ManyToOne => Some("left"),
            Cardinality::OneToMany => Some("right"),
            Cardinality::OneToOne | Cardinality::ManyToMany => None,
        };
        if !self.labels.is_empty() || self.on || group.is_some() {
            let word = if self.on { "on" } else { "ignoring" };
            write!(f, " {word} ({})", names(&self.labels))?;
        }
        if let Some(side) = group {
            write!(f, " group_{side} ({})", names(&self.include))?;
        }
        match (self.fill_left, self.fill_right) {
            (Some(left), Some(right)) if left == right => write!(f, " fill ({})", float_g(left)),
            (left, right) => {
                if let Some(value) = left {
                    write!(f, " fill_left ({})", float_g(value))?;
                }
                if let Some(value) = right {
                    write!(f, " fill_right ({})", float_g(value))?;
                }
                Ok(())
            }
        }
    }
}

impl Display for NumberLiteral {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_duration {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the parser refuses longer durations"
            )]
            let ns = (self.value.abs() * 1e9) as i64;
            let sign = if self.value < 0.0 { "-" } else { "" };
            write!(f, "{sign}{}", duration_text(ns))
        } else {
            f.write_str(&float_f(self.value))
        }
    }
}

impl Display for VectorSelector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.write_matchers(f)?;
        write_at(f, self.at)?;
        write_extension(f, self.extension)?;
        write_offset(f, self.offset_ns, self.offset_expr.as_ref())
    }
}

impl VectorSelector {
    fn write_matchers(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_own_name = |m: &Matcher| {
            &*m.name == METRIC_NAME
                && m.op == MatchOp::Equal
                && *m.value == *self.name
                && !m.value.is_empty()
        };
        let others = self.matchers.iter().filter(|m| !is_own_name(m));
        let mut texts: Vec<String> = others.map(ToString::to_string).collect();
        texts.sort_unstable();
        f.write_str(&self.name)?;
        if texts.is_empty() && !self.name.is_empty() {
            return Ok(());
        }
        write!(f, "{{{}}}", texts.join(","))
    }
}

impl Display for MatrixSelector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let selector = &self.selector;
        selector.write_matchers(f)?;
        let range = span_text(self.range_ns, self.range_expr.as_ref());
        write!(f, "[{range}]")?;
        write_extension(f, selector.extension)?;
        write_at(f, selector.at)?;
        write_offset(f, selector.offset_ns, selector.offset_expr.as_ref())
    }
}

impl Display for SubqueryExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let step = match (self.step_ns, &self.step_expr) {
            (0, None) => String::new(),
            (ns, expr) => span_text(ns, expr.as_ref()),
        };
        let range = span_text(self.range_ns, self.range_expr.as_ref());
        write!(f, "{}[{range}:{step}]", self.expr)?;
        write_at(f, self.at)?;
        write_offset(f, self.offset_ns, self.offset_expr.as_ref())
    }
}

impl Display for DurationNode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Expr(e) => e.fmt(f),
        }
    }
}

impl Display for DurationExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.wrapped {
            f.write_str("(")?;
        }
        let side = |node: &Option<DurationNode>| {
            node.as_ref().map(ToString::to_string).unwrap_or_default()
        };
        let (lhs, rhs) = (side(&self.lhs), side(&self.rhs));
        match (self.op, &self.lhs) {
            (DurationOp::Step, _) => f.write_str("step()")?,
            (DurationOp::Range, _) => f.write_str("range()")?,
            (DurationOp::MinOf, _) => write!(f, "min_of({lhs}, {rhs})")?,
            (DurationOp::MaxOf, _) => write!(f, "max_of({lhs}, {rhs})")?,
            (DurationOp::Sub, None) => write!(f, "-{rhs}")?,
            (_, None) => f.write_str(&rhs)?,
            (DurationOp::Add, _) => write!(f, "{lhs} + {rhs}")?,
            (DurationOp::Sub, _) => write!(f, "{lhs} - {rhs}")?,
            (DurationOp::Mul, _) => write!(f, "{lhs} * {rhs}")?,
            (DurationOp::Div, _) => write!(f, "{lhs} / {rhs}")?,
            (DurationOp::Mod, _) => write!(f, "{lhs} % {rhs}")?,
            (DurationOp::Pow, _) => write!(f, "{lhs} ^ {rhs}")?,
        }
        if self.wrapped {
            f.write_str(")")
        } else {
            Ok(())
        }
    }
}

fn names(labels: &[String]) -> String {
    let quoted: Vec<String> = labels.iter().map(|name| quote_name(name)).collect();
    quoted.join(", ")
}

fn write_at(f: &mut Formatter<'_>, at: Option<At>) -> fmt::Result {
    match at {
        None => Ok(()),
        Some(At::Start) => f.write_str(" @ start()"),
        Some(At::End) => f.write_str(" @ end()"),
        Some(At::Time(ms)) => {
            let sign = if ms < 0 { "-" } else { "" };
            let ms = ms.unsigned_abs();
            write!(f, " @ {sign}{}.{:03}", ms / 1000, ms % 1000)
        }
    }
}

fn write_extension(f: &mut Formatter<'_>, extension: Extension) -> fmt::Result {
    f.write_str(match extension {
        Extension::None => "",
        Extension::Anchored => " anchored",
        Extension::Smoothed => " smoothed",
    })
}

fn write_offset(f: &mut Formatter<'_>, offset_ns: i64, expr: Option<&DurationExpr>) -> fmt::Result {
    match expr {
        Some(expr) => write!(f, " offset {expr}"),
        None if offset_ns == 0 => Ok(()),
        None => {
            let sign = if offset_ns < 0 { "-" } else { "" };
            write!(
                f,
                " offset {sign}{}",
                duration_text(offset_ns.saturating_abs())
            )
        }
    }
}

fn span_text(ns: i64, expr: Option<&DurationExpr>) -> String {
    expr.map_or_else(|| duration_text(ns), ToString::to_string)
}

fn duration_text(ns: i64) -> String {
    duration::format(ns / 1_000_000)
}
