//! Finds expressions with the same value at every step.
//!
//! **Invariant:** finds the same expressions as Prometheus, including its oddities: an aggregation is invariant when its
//! input is, whatever its parameter.

use crate::{ast::Expr, functions::FunctionId};

/// Whether an expression has one value for all steps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct StepInvariance {
    /// The value is the same at every step.
    pub(super) invariant: bool,
    /// Evaluating it only once saves work.
    pub(super) wrap: bool,
}

impl StepInvariance {
    const NO: Self = Self {
        invariant: false,
        wrap: false,
    };
    const YES: Self = Self {
        invariant: true,
        wrap: true,
    };
    const LITERAL: Self = Self {
        invariant: true,
        wrap: false,
    };

    pub(super) fn of_expr(expr: &Expr) -> Self {
        match expr {
            Expr::Number(_) | Expr::String(_) => Self::LITERAL,
            Expr::Vector(v) if v.at.is_some() => Self::YES,
            Expr::Vector(_) => Self::NO,
            // Functions over ranges read these themselves.
            Expr::Matrix(m) => Self {
                invariant: m.selector.at.is_some(),
                wrap: false,
            },
            Expr::Subquery(s) => Self {
                invariant: s.at.is_some(),
                wrap: false,
            },
            Expr::Paren(p) => Self::of_expr(&p.expr),
            Expr::Unary(u) => Self::of_expr(&u.expr),
            Expr::Aggregate(a) => Self::of_expr(a.expr.without_parens()),
            Expr::Binary(b)
                if Self::of_expr(&b.lhs).invariant && Self::of_expr(&b.rhs).invariant =>
            {
                Self::YES
            }
            Expr::Binary(_) => Self::NO,
            Expr::Call(c) => {
                let invariant_args = c
                    .args
                    .iter()
                    .all(|arg| Self::of_expr(arg.without_parens()).invariant);
                let pinned_timestamp = c.function.id == FunctionId::Timestamp
                    && c.args
                        .iter()
                        .all(|arg| matches!(arg.without_parens(), Expr::Vector(_)));
                if c.function.id == FunctionId::Info && !is_read_at_one_time(&c.args) {
                    return Self::NO;
                }
                if invariant_args && (!depends_on_time(c.function.id) || pinned_timestamp) {
                    Self::YES
                } else {
                    Self::NO
                }
            }
        }
    }
}

/// Reports whether all series of the first argument are certainly read at the same time.
fn is_read_at_one_time(args: &[Expr]) -> bool {
    let (mut first, mut differs) = (None, false);
    let Some(base) = args.first() else {
        return false;
    };
    base.walk(&mut |expr| {
        let selector = match expr {
            Expr::Vector(selector) => selector,
            Expr::Matrix(matrix) => &matrix.selector,
            Expr::Subquery(_) => return differs = true,
            Expr::Call(call) => return differs |= call.function.id == FunctionId::Vector,
            _ => return,
        };
        let own = (selector.at, selector.offset_ns);
        differs |= *first.get_or_insert(own) != own || selector.offset_expr.is_some();
    });
    !differs
}

/// Reports whether a function's value can change with the evaluation time even when its arguments do not.
pub(crate) fn depends_on_time(function: FunctionId) -> bool {
    matches!(
        function,
        FunctionId::DaysInMonth
            | FunctionId::DayOfMonth
            | FunctionId::DayOfWeek
            | FunctionId::DayOfYear
            | FunctionId::End
            | FunctionId::Hour
            | FunctionId::Minute
            | FunctionId::Month
            | FunctionId::Year
            | FunctionId::PredictLinear
            | FunctionId::Range
            | FunctionId::Start
            | FunctionId::Step
            | FunctionId::Time
            | FunctionId::Timestamp
    )
}
