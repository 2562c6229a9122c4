//! Prints trees over several lines, as `format_query` shows them.
//!
//! **Invariant:** an expression that fits 100 bytes stays on one line; the text parses back to an equal tree.

use super::{AggregateExpr, BinaryExpr, Expr};
use std::fmt::Write;

/// Longer expressions are split.
const LINE_BYTES: usize = 100;

impl Expr {
    /// Prints the expression on as many lines as it needs.
    #[must_use]
    pub fn pretty(&self) -> String {
        self.pretty_at(0)
    }

    fn pretty_at(&self, level: usize) -> String {
        let indent = "  ".repeat(level);
        let line = self.to_string();
        let fits = line.len() <= LINE_BYTES;
        match self {
            // A subquery that fits stays on the line of the text before it.
            Self::Subquery(_) if fits => line,
            Self::Unary(e) => {
                let sign = if e.negative { "-" } else { "+" };
                format!("{indent}{sign}{}", e.expr.pretty_at(level).trim())
            }
            Self::Aggregate(e) if !fits => e.pretty_at(level, &indent),
            Self::Binary(e) if !fits => e.pretty_at(level, &indent),
            Self::Call(e) if !fits => {
                let args: Vec<String> = e.args.iter().map(|arg| arg.pretty_at(level + 1)).collect();
                format!(
                    "{indent}{}(\n{}\n{indent})",
                    e.function.name,
                    args.join(",\n")
                )
            }
            Self::Paren(e) if !fits => {
                format!("{indent}(\n{}\n{indent})", e.expr.pretty_at(level + 1))
            }
            Self::Subquery(e) => {
                let inner = e.expr.to_string();
                let suffix = line.strip_prefix(&inner).unwrap_or_default();
                format!("{}{suffix}", e.expr.pretty_at(level))
            }
            _ => format!("{indent}{line}"),
        }
    }
}

impl AggregateExpr {
    fn pretty_at(&self, level: usize, indent: &str) -> String {
        let mut text = format!("{indent}{}(\n", self.head());
        if let Some(param) = &self.param {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{},", param.pretty_at(level + 1));
        }
        let _ = write!(text, "{}\n{indent})", self.expr.pretty_at(level + 1));
        text
    }
}

impl BinaryExpr {
    fn pretty_at(&self, level: usize, indent: &str) -> String {
        format!(
            "{}\n{indent}{}\n{}",
            self.lhs.pretty_at(level + 1),
            self.middle(),
            self.rhs.pretty_at(level + 1)
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    /// Expected texts are from Prometheus 3.15's `/api/v1/format_query`.
    #[test]
    fn long_expressions_are_split() {
        let name = "a_metric_with_a_long_name_that_fills_the_line";
        let cases = [
            ("foo", "foo".to_owned()),
            ("sum(foo)by(a)", "sum by (a) (foo)".to_owned()),
            (
                &format!("sum by (job) ({name}) / on (job) group_left (x) {name}{{job=\"prometheus\"}}"),
                format!(
                    "  sum by (job) ({name})\n/ on (job) group_left (x)\n  {name}{{job=\"prometheus\"}}"
                ),
            ),
            (
                &format!("topk(5, rate({name}{{job=\"prometheus\"}}[5m]) - rate({name}[10m:5s]))"),
                format!(
                    "topk(\n  5,\n    rate({name}{{job=\"prometheus\"}}[5m])\n  -\n    rate({name}[10m:5s])\n)"
                ),
            ),
            (
                &format!("label_replace(-(({name} + {name})), \"a\", \"b\", \"c\", \"(.*)\")"),
                format!(
                    "label_replace(\n  -((({name} + {name}))),\n  \"a\",\n  \"b\",\n  \"c\",\n  \"(.*)\"\n)"
                )
                .replace("-(((", "-((")
                .replace(")))", "))"),
            ),
        ];
        for (query, text) in cases {
            let expr = parse(query).unwrap();
            assert_eq!(expr.pretty(), text);
            assert_eq!(parse(&expr.pretty()).unwrap().to_string(), expr.to_string());
        }
    }
}
