//! Type checks and other rules the grammar cannot express.
//!
//! **Invariant:** a checked tree evaluates without type errors; `matching` is set exactly when both operands of an
//! operator are vectors, and set operators match many to many.

use super::Parser;
use crate::{
    ast::{
        AggregateExpr, AggregateOp, BinaryExpr, Call, Cardinality, Expr, ValueType, VectorSelector,
    },
    fmt::quote,
    functions::FunctionId,
    lex::is_space,
    span::Span,
};
use narthex_model::{METRIC_NAME, Matcher};

impl Parser<'_> {
    /// Reports errors in `expr`, and returns its type.
    pub(super) fn check(&mut self, expr: &mut Expr) -> ValueType {
        let value_type = expr.value_type();
        let span = expr.span();
        match expr {
            Expr::Aggregate(e) => self.check_aggregate(e),
            Expr::Binary(e) => self.check_binary(e, span),
            Expr::Call(e) => self.check_call(e),
            Expr::Paren(e) => {
                self.check(&mut e.expr);
            }
            Expr::Unary(e) => {
                let t = self.check(&mut e.expr);
                if !matches!(t, ValueType::Scalar | ValueType::Vector) {
                    let got = quote(t.documented());
                    let text = format!(
                        "unary expression only allowed on expressions of type scalar or instant vector, got {got}"
                    );
                    self.error(span, &text);
                }
            }
            Expr::Subquery(e) => {
                let t = self.check(&mut e.expr);
                if t != ValueType::Vector {
                    let (rule, got) = ("subquery is only allowed on instant vector", t.as_str());
                    self.error(span, &format!("{rule}, got {got} instead"));
                }
            }
            Expr::Matrix(e) => self.check_selector(&e.selector),
            Expr::Vector(e) => self.check_selector(e),
            Expr::Number(_) | Expr::String(_) => {}
        }
        value_type
    }

    fn check_type(&mut self, expr: &mut Expr, wanted: ValueType, context: &str) {
        let got = self.check(expr);
        if got != wanted {
            let (wanted, got) = (wanted.documented(), got.documented());
            let text = format!("expected type {wanted} in {context}, got {got}");
            self.error(expr.span(), &text);
        }
    }

    fn check_aggregate(&mut self, e: &mut AggregateExpr) {
        self.check_type(&mut e.expr, ValueType::Vector, "aggregation expression");
        if let Some(param) = &mut e.param {
            let wanted = if e.op == AggregateOp::CountValues {
                ValueType::String
            } else {
                ValueType::Scalar
            };
            self.check_type(param, wanted, "aggregation parameter");
        }
    }

    fn check_binary(&mut self, e: &mut BinaryExpr, span: Span) {
        let types = [self.check(&mut e.lhs), self.check(&mut e.rhs)];
        let op = e.op;
        let mut matching = e.matching.take().unwrap_or_default();
        if e.return_bool && !op.is_comparison() {
            let text = "bool modifier can only be used on comparison operators";
            self.error(self.operator_span(e), text);
        }
        if op.is_comparison() && !e.return_bool && types == [ValueType::Scalar; 2] {
            let text = "comparisons between scalars must use BOOL modifier";
            self.error(self.operator_span(e), text);
        }
        if op.is_set() && matching.cardinality == Cardinality::OneToOne {
            matching.cardinality = Cardinality::ManyToMany;
        }
        let is_included = |label: &&String| matching.include.contains(label);
        if matching.on
            && let Some(label) = matching.labels.iter().find(is_included)
        {
            let label = quote(label);
            let text = format!("label {label} must not occur in ON and GROUP clause at once");
            self.error(self.operator_span(e), &text);
        }
        for (t, side) in types.iter().zip([&e.lhs, &e.rhs]) {
            if !matches!(t, ValueType::Scalar | ValueType::Vector) {
                let text = "binary expression must contain only scalar and instant vector types";
                self.error(side.span(), text);
            }
        }
        let fills = matching.fill_left.is_some() || matching.fill_right.is_some();
        if types == [ValueType::Vector; 2] {
            if op.is_set() && matching.cardinality != Cardinality::ManyToMany {
                let op = quote(op.as_str());
                self.error(span, &format!("no grouping allowed for {op} operation"));
            }
            if op.is_set() && fills {
                let text = "filling in missing series not allowed for set operators";
                self.error(span, text);
            }
            e.matching = Some(matching);
        } else {
            if !matching.labels.is_empty() {
                self.error(span, "vector matching only allowed between instant vectors");
            }
            if fills {
                let text = "filling in missing series only allowed between instant vectors";
                self.error(span, text);
            }
        }
        if op.is_set() && types.contains(&ValueType::Scalar) {
            let op = quote(op.as_str());
            let text = format!("set operator {op} not allowed in binary scalar expression");
            self.error(span, &text);
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

    fn check_call(&mut self, e: &mut Call) {
        let function = e.function;
        let name = quote(function.name);
        let (declared, given) = (function.args.len(), e.args.len());
        let least = declared - usize::from(function.variadic != 0);
        let most = usize::try_from(function.variadic).map_or(usize::MAX, |v| least + v);
        let wanted = given.clamp(least, most);
        if given != wanted {
            let bound = match given < least {
                _ if function.variadic == 0 => "",
                true => "at least ",
                false => "at most ",
            };
            let text =
                format!("expected {bound}{wanted} argument(s) in call to {name}, got {given}");
            self.error(e.span, &text);
        }
        let context = format!("call to function {name}");
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
            self.check_type(arg, *wanted, &context);
        }
    }

    /// Marks the second argument of `info`, which names labels rather than a metric.
    fn info_selector(&mut self, e: &mut Call) {
        let Some(arg) = e.args.get_mut(1) else { return };
        let got = arg.value_type();
        if got != ValueType::Vector {
            let (wanted, got) = (ValueType::Vector.documented(), got.documented());
            let text = format!("expected type {wanted} in call to function \"info\", got {got}");
            self.error(e.span, &text);
        }
        match arg {
            Expr::Vector(v) if v.name.is_empty() => v.selects_labels = true,
            Expr::Vector(v) => {
                let text = "expected label selectors only, got vector selector instead";
                self.error(v.span, text);
            }
            _ => self.error(arg.span(), "expected label selectors only"),
        }
    }

    fn check_selector(&mut self, e: &VectorSelector) {
        if e.name.is_empty() {
            if !e.selects_labels && e.matchers.iter().all(Matcher::matches_empty) {
                let text = "vector selector must contain at least one non-empty matcher";
                self.error(e.span, text);
            }
            return;
        }
        if let Some((_own, inside)) = e.matchers.split_last()
            && let Some(matcher) = inside.iter().find(|m| &*m.name == METRIC_NAME)
        {
            let (name, value) = (quote(&e.name), quote(&matcher.value));
            let text = format!("metric name must not be set twice: {name} or {value}");
            self.error(e.span, &text);
        }
    }
}
