//! Type checks and other rules the grammar cannot express.
//!
//! **Invariant:** a checked tree evaluates without type errors; `matching` is set exactly when both operands of an
//! operator are vectors, and set operators match many to many.

use super::ParseError;
use crate::{
    ast::{
        AggregateExpr, AggregateOp, BinaryExpr, BinaryOp, Call, Cardinality, Expr, ValueType,
        VectorMatching, VectorSelector,
    },
    fmt::quote,
    functions::FunctionId,
    lex::is_space,
    span::Span,
};
use narthex_model::METRIC_NAME;

/// Appends every error in `expr` to `errors`.
pub(super) fn check(expr: &mut Expr, errors: &mut Vec<ParseError>, query: &str) {
    Checker { errors, query }.expr(expr);
}

struct Checker<'a> {
    errors: &'a mut Vec<ParseError>,
    query: &'a str,
}

impl Checker<'_> {
    fn error(&mut self, span: Span, message: &str) {
        if self.errors.is_empty() {
            self.errors.push(ParseError::new(message, span, self.query));
        }
    }

    fn expr(&mut self, expr: &mut Expr) -> ValueType {
        let value_type = expr.value_type();
        let span = expr.span();
        match expr {
            Expr::Aggregate(e) => self.aggregate(e),
            Expr::Binary(e) => self.binary(e, span),
            Expr::Call(e) => self.call(e),
            Expr::Paren(e) => {
                self.expr(&mut e.expr);
            }
            Expr::Unary(e) => {
                let t = self.expr(&mut e.expr);
                if !matches!(t, ValueType::Scalar | ValueType::Vector) {
                    let got = quote(t.documented());
                    self.error(
                        span,
                        &format!("unary expression only allowed on expressions of type scalar or instant vector, got {got}"),
                    );
                }
            }
            Expr::Subquery(e) => {
                let t = self.expr(&mut e.expr);
                if t != ValueType::Vector {
                    let got = t.as_str();
                    self.error(
                        span,
                        &format!("subquery is only allowed on instant vector, got {got} instead"),
                    );
                }
            }
            Expr::Matrix(e) => self.selector(&e.selector),
            Expr::Vector(e) => self.selector(e),
            Expr::Number(_) | Expr::String(_) => {}
        }
        value_type
    }

    fn expect(&mut self, expr: &mut Expr, wanted: ValueType, context: &str) {
        let got = self.expr(expr);
        if got != wanted {
            let (wanted, got) = (wanted.documented(), got.documented());
            self.error(
                expr.span(),
                &format!("expected type {wanted} in {context}, got {got}"),
            );
        }
    }

    fn aggregate(&mut self, e: &mut AggregateExpr) {
        self.expect(&mut e.expr, ValueType::Vector, "aggregation expression");
        if let Some(param) = &mut e.param {
            let wanted = if e.op == AggregateOp::CountValues {
                ValueType::String
            } else {
                ValueType::Scalar
            };
            self.expect(param, wanted, "aggregation parameter");
        }
    }

    fn binary(&mut self, e: &mut BinaryExpr, span: Span) {
        let (lt, rt) = (self.expr(&mut e.lhs), self.expr(&mut e.rhs));
        let op = e.op;
        let mut matching = e.matching.take().unwrap_or_default();
        if e.return_bool && !op.is_comparison() {
            self.error(
                self.operator_span(e),
                "bool modifier can only be used on comparison operators",
            );
        }
        if op.is_comparison()
            && !e.return_bool
            && lt == ValueType::Scalar
            && rt == ValueType::Scalar
        {
            self.error(
                self.operator_span(e),
                "comparisons between scalars must use BOOL modifier",
            );
        }
        if op.is_set() && matching.cardinality == Cardinality::OneToOne {
            matching.cardinality = Cardinality::ManyToMany;
        }
        if matching.on
            && let Some(label) = matching
                .labels
                .iter()
                .find(|l| matching.include.contains(l))
        {
            let text = format!(
                "label {} must not occur in ON and GROUP clause at once",
                quote(label)
            );
            self.error(self.operator_span(e), &text);
        }
        for (t, side) in [(lt, &e.lhs), (rt, &e.rhs)] {
            if !matches!(t, ValueType::Scalar | ValueType::Vector) {
                self.error(
                    side.span(),
                    "binary expression must contain only scalar and instant vector types",
                );
            }
        }
        if lt == ValueType::Vector && rt == ValueType::Vector {
            self.set_matching(op, &matching, span);
            e.matching = Some(matching);
        } else {
            if !matching.labels.is_empty() {
                self.error(span, "vector matching only allowed between instant vectors");
            }
            if matching.fill_left.is_some() || matching.fill_right.is_some() {
                self.error(
                    span,
                    "filling in missing series only allowed between instant vectors",
                );
            }
        }
        if op.is_set() && (lt == ValueType::Scalar || rt == ValueType::Scalar) {
            let op = quote(op.as_str());
            self.error(
                span,
                &format!("set operator {op} not allowed in binary scalar expression"),
            );
        }
    }

    /// Rejects modifiers that set operators do not allow.
    fn set_matching(&mut self, op: BinaryOp, matching: &VectorMatching, span: Span) {
        if !op.is_set() {
            return;
        }
        if matching.cardinality != Cardinality::ManyToMany {
            let op = quote(op.as_str());
            self.error(span, &format!("no grouping allowed for {op} operation"));
            self.error(span, "set operations must always be many-to-many");
        }
        if matching.fill_left.is_some() || matching.fill_right.is_some() {
            self.error(
                span,
                "filling in missing series not allowed for set operators",
            );
        }
    }

    /// Returns the span between the operands, without surrounding white space.
    fn operator_span(&self, e: &BinaryExpr) -> Span {
        let (start, end) = (e.lhs.span().end as usize, e.rhs.span().start as usize);
        let between = self.query.get(start..end).unwrap_or_default();
        let trimmed = between.trim_start_matches(is_space);
        let start = start + between.len() - trimmed.len();
        let end = start + trimmed.trim_end_matches(is_space).len();
        Span::new(
            u32::try_from(start).unwrap_or(u32::MAX),
            u32::try_from(end).unwrap_or(u32::MAX),
        )
    }

    fn call(&mut self, e: &mut Call) {
        let function = e.function;
        let name = quote(function.name);
        let (declared, given) = (function.args.len(), e.args.len());
        if function.variadic == 0 {
            if declared != given {
                self.error(
                    e.span,
                    &format!("expected {declared} argument(s) in call to {name}, got {given}"),
                );
            }
        } else {
            let least = declared - 1;
            let most = usize::try_from(function.variadic).map_or(usize::MAX, |v| least + v);
            if given < least {
                self.error(
                    e.span,
                    &format!(
                        "expected at least {least} argument(s) in call to {name}, got {given}"
                    ),
                );
            } else if given > most {
                self.error(
                    e.span,
                    &format!("expected at most {most} argument(s) in call to {name}, got {given}"),
                );
            }
        }
        if function.id == FunctionId::Info && given > 1 {
            self.info_selector(e);
        }
        for (i, arg) in e.args.iter_mut().enumerate() {
            if i >= declared && function.variadic == 0 {
                break;
            }
            let Some(wanted) = function.args.get(i).or(function.args.last()) else {
                break;
            };
            let got = self.expr(arg);
            if got != *wanted {
                let (wanted, got, name) =
                    (wanted.documented(), got.documented(), quote(function.name));
                self.error(
                    arg.span(),
                    &format!("expected type {wanted} in call to function {name}, got {got}"),
                );
            }
        }
    }

    /// Marks the second argument of `info`, which names labels rather than a metric.
    fn info_selector(&mut self, e: &mut Call) {
        let Some(arg) = e.args.get_mut(1) else { return };
        let got = arg.value_type();
        if got != ValueType::Vector {
            let got = got.documented();
            self.error(
                e.span,
                &format!("expected type instant vector in call to function \"info\", got {got}"),
            );
        }
        let span = arg.span();
        match arg {
            Expr::Vector(v) if v.name.is_empty() => v.selects_labels = true,
            Expr::Vector(_) => self.error(
                span,
                "expected label selectors only, got vector selector instead",
            ),
            _ => self.error(span, "expected label selectors only"),
        }
    }

    fn selector(&mut self, e: &VectorSelector) {
        if !e.name.is_empty() {
            let inside = e.matchers.len().saturating_sub(1);
            for matcher in e
                .matchers
                .iter()
                .take(inside)
                .filter(|m| &*m.name == METRIC_NAME)
            {
                let (name, value) = (quote(&e.name), quote(&matcher.value));
                self.error(
                    e.span,
                    &format!("metric name must not be set twice: {name} or {value}"),
                );
            }
        } else if !e.selects_labels && e.matchers.iter().all(narthex_model::Matcher::matches_empty)
        {
            self.error(
                e.span,
                "vector selector must contain at least one non-empty matcher",
            );
        }
    }
}
