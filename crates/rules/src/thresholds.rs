//! What an alerting expression compares with numbers: the graphs that show how far an alert is.
//!
//! **Invariant:** a graph's expression has a value while nothing is wrong; the filter `lhs > 5` has none then.

use narthex_promql::ast::{BinaryExpr, BinaryOp, Expr};
use serde::Serialize;

/// An expression and the numbers that decide about the alert.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Graph {
    expr: String,
    thresholds: Vec<Threshold>,
}

/// A comparison that the alert is raised for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Threshold {
    op: &'static str,
    value: f64,
}

/// Returns a graph for each side of `and`, `or` and `unless` that is compared with a number, in the order of the text.
/// There is none where nothing is.
pub(crate) fn graphs(expr: &Expr) -> Vec<Graph> {
    let mut found = Vec::new();
    collect(expr, &mut found);
    found
}

fn collect(expr: &Expr, found: &mut Vec<Graph>) {
    let Expr::Binary(binary) = expr.without_parens() else {
        return;
    };
    if matches!(binary.op, BinaryOp::And | BinaryOp::Or | BinaryOp::Unless) {
        collect(&binary.lhs, found);
        collect(&binary.rhs, found);
    } else if let Some((compared, thresholds)) = compared(binary) {
        let expr = compared.without_parens().to_string();
        match found.iter_mut().find(|graph| graph.expr == expr) {
            Some(graph) => {
                let unknown = |new: &Threshold| !graph.thresholds.contains(new);
                let unknown: Vec<Threshold> = thresholds.into_iter().filter(unknown).collect();
                graph.thresholds.extend(unknown);
            }
            None => found.push(Graph { expr, thresholds }),
        }
    }
}

/// Returns what is compared with numbers, and the numbers; of `1 < x < 5` both.
fn compared(binary: &BinaryExpr) -> Option<(&Expr, Vec<Threshold>)> {
    let (side, op, value) = match (constant(&binary.lhs), constant(&binary.rhs)) {
        (None, Some(value)) => (&binary.lhs, binary.op, value),
        (Some(value), None) => (&binary.rhs, mirrored(binary.op), value),
        _ => return None,
    };
    let threshold = Threshold {
        op: match op {
            BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Gt
            | BinaryOp::Lt
            | BinaryOp::Ge
            | BinaryOp::Le => op.as_str(),
            _ => return None,
        },
        value,
    };
    if let Expr::Binary(inner) = side.without_parens()
        && let Some((side, mut thresholds)) = compared(inner)
    {
        // What `bool` returns is 0 or 1, and no value of what it compares.
        if !inner.return_bool {
            thresholds.push(threshold);
        }
        return Some((side, thresholds));
    }
    Some((side, vec![threshold]))
}

/// Returns the operator that means the same with its sides exchanged.
fn mirrored(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Ge => BinaryOp::Le,
        BinaryOp::Le => BinaryOp::Ge,
        other => other,
    }
}

/// Returns the value of a number, or of arithmetic on numbers; JSON has none that are not finite.
fn constant(expr: &Expr) -> Option<f64> {
    let value = match expr.without_parens() {
        Expr::Number(number) => number.value,
        Expr::Unary(unary) => {
            let value = constant(&unary.expr)?;
            if unary.negative { -value } else { value }
        }
        Expr::Binary(binary) => {
            let (lhs, rhs) = (constant(&binary.lhs)?, constant(&binary.rhs)?);
            match binary.op {
                BinaryOp::Add => lhs + rhs,
                BinaryOp::Sub => lhs - rhs,
                BinaryOp::Mul => lhs * rhs,
                BinaryOp::Div => lhs / rhs,
                BinaryOp::Mod => lhs % rhs,
                BinaryOp::Pow => lhs.powf(rhs),
                _ => return None,
            }
        }
        _ => return None,
    };
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::graphs;

    /// Returns graphs as `EXPR | OP VALUE, ..`.
    fn of(query: &str) -> Vec<String> {
        let found = graphs(&narthex_promql::parse(query).unwrap());
        let print = |graph: super::Graph| {
            let all = graph.thresholds.iter();
            let all: Vec<String> = all.map(|one| format!("{} {}", one.op, one.value)).collect();
            format!("{} | {}", graph.expr, all.join(", "))
        };
        found.into_iter().map(print).collect()
    }

    #[test]
    fn a_number_on_either_side_is_a_threshold() {
        assert_eq!(of("up == 0"), ["up | == 0"]);
        assert_eq!(of("((rate(x[5m])) > (0.5))"), ["rate(x[5m]) | > 0.5"]);
        assert_eq!(of("-5 >= x"), ["x | <= -5"]);
        assert_eq!(of("3 != bool x"), ["x | != 3"]);
        assert_eq!(of("100 * a / b > bool 80 + 2 * 5"), ["100 * a / b | > 90"]);
        assert_eq!(of("time() - t > 1h"), ["time() - t | > 3600"]);
        assert_eq!(of("absent(up)"), Vec::<String>::new());
        assert_eq!(of("a > b"), Vec::<String>::new());
        assert_eq!(of("a * 2"), Vec::<String>::new());
        assert_eq!(of("2 > bool 1"), Vec::<String>::new());
        assert_eq!(of("a > Inf"), Vec::<String>::new());
    }

    #[test]
    fn sides_of_sets_are_graphs_of_their_own() {
        assert_eq!(
            of("a / b > 0.9 and on (job) (c unless 10 > d) or (e < 1)"),
            ["a / b | > 0.9", "d | < 10", "e | < 1"]
        );
        assert_eq!(of("a > 5 and b"), ["a | > 5"]);
    }

    #[test]
    fn several_thresholds_of_an_expression_are_in_one_graph() {
        assert_eq!(of("a < 1 or a > 5 or a > 5"), ["a | < 1, > 5"]);
        assert_eq!(of("1 < a < 5"), ["a | > 1, < 5"]);
        assert_eq!(of("(a > bool 5) == 1"), ["a | > 5"]);
    }
}
