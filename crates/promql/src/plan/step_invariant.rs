//! Finds expressions with the same value at every step.
//!
//! **Invariant:** finds the same expressions as Prometheus, including its oddities: an aggregation is invariant when its
//! input is, whatever its parameter.

use crate::{
    ast::{Call, Expr},
    functions::FunctionId,
};

/// Whether an expression has one value for all steps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct StepInvariance {
    /// The value is the same at every step.
    pub(super) invariant: bool,
    /// Evaluating it only once saves work.
    pub(super) wrap: bool,
}

impl StepInvariance {
    fn new(invariant: bool, saves_work: bool) -> Self {
        Self {
            invariant,
            wrap: invariant && saves_work,
        }
    }

    pub(super) fn of_expr(expr: &Expr) -> Self {
        match expr {
            Expr::Number(_) | Expr::String(_) => Self::new(true, false),
            Expr::Vector(v) => Self::new(v.at.is_some(), true),
            // Functions over ranges read these themselves.
            Expr::Matrix(m) => Self::new(m.selector.at.is_some(), false),
            Expr::Subquery(s) => Self::new(s.at.is_some(), false),
            Expr::Paren(p) => Self::of_expr(&p.expr),
            Expr::Unary(u) => Self::of_expr(&u.expr),
            Expr::Aggregate(a) => Self::of_expr(a.expr.without_parens()),
            Expr::Binary(b) => {
                let sides = [&b.lhs, &b.rhs];
                Self::new(sides.iter().all(|side| Self::of_expr(side).invariant), true)
            }
            Expr::Call(c) => Self::new(Self::of_call(c), true),
        }
    }

    fn of_call(call: &Call) -> bool {
        let function = call.function.id;
        let mut args = call.args.iter().map(Expr::without_parens);
        if function == FunctionId::Info && !is_read_at_one_time(&call.args) {
            return false;
        }
        let pinned_timestamp = function == FunctionId::Timestamp
            && args.clone().all(|arg| matches!(arg, Expr::Vector(_)));
        (pinned_timestamp || !depends_on_time(function))
            && args.all(|arg| Self::of_expr(arg).invariant)
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
