//! Builds a plan from a syntax tree.
//!
//! **Invariant:** every selector's time range covers all samples that any of its steps may read.

use super::{
    Aggregate, Binary, Call, Node, NodeKind, Over, Plan, Select, Settings, Source, Steps, Subquery,
    Window, fold,
    limits::{check_extension, check_label, check_label_function},
    repeated,
    share::Selectors,
    step_invariant::StepInvariance,
};
use crate::{
    ast::{
        AggregateExpr, At, BinaryExpr, DurationExpr, Expr, Extension, MatrixSelector, SubqueryExpr,
        ValueType, VectorSelector,
    },
    error::QueryError,
    functions::FunctionId,
    kept_groups::KeptGroups,
    lex::{AggregateOp, BinaryOp},
    math,
    span::Span,
};
use narthex_model::storage::{Grouping, Hints, TimeRange};

/// Plans `expr` for the instants from `start_ms` to `end_ms`; `step_ms` 0 means one instant.
pub(crate) fn build(
    expr: &Expr,
    start_ms: i64,
    end_ms: i64,
    step_ms: i64,
    settings: Settings,
) -> Result<Plan, QueryError> {
    let steps = if step_ms == 0 {
        Steps::one(start_ms)
    } else {
        Steps::range(start_ms, end_ms, step_ms)
    };
    settings.check(steps)?;
    let mut builder = Builder {
        start_ms,
        end_ms,
        step_ms,
        settings,
        selectors: Selectors::default(),
        finds: None,
    };
    let context = Context {
        steps,
        function: None,
        grouping: None,
        wants_stats: false,
        needs_buckets: false,
        invariant: false,
    };
    let mut root = builder.node(expr, &context)?;
    fold::fold(&mut root, steps);
    let uses = if builder.selectors.has_repeated() {
        repeated::find(&mut root, steps)
    } else {
        Vec::new()
    };
    let (selectors, selector_uses) = builder.selectors.finish();
    Ok(Plan {
        root,
        steps,
        uses,
        selectors,
        selector_uses,
        finds: builder.finds,
    })
}

struct Builder {
    start_ms: i64,
    end_ms: i64,
    step_ms: i64,
    settings: Settings,
    selectors: Selectors,
    /// The times at which `info` reads.
    finds: Option<TimeRange>,
}

/// Facts about the enclosing nodes.
#[derive(Clone)]
struct Context {
    steps: Steps,
    function: Option<&'static str>,
    grouping: Option<Grouping>,
    wants_stats: bool,
    needs_buckets: bool,
    invariant: bool,
}

impl Builder {
    fn node(&mut self, expr: &Expr, context: &Context) -> Result<Node, QueryError> {
        let expr = expr.without_parens();
        if !context.invariant && context.steps.count > 1 && StepInvariance::of_expr(expr).wrap {
            return self.once(expr, context);
        }
        self.bare_node(expr, context)
    }

    /// Returns a node that evaluates `expr` once for all steps.
    fn once(&mut self, expr: &Expr, context: &Context) -> Result<Node, QueryError> {
        let context = Context {
            steps: context.steps.first(),
            invariant: true,
            ..context.clone()
        };
        let inner = self.bare_node(expr, &context)?;
        let (span, value_type) = (inner.span, inner.value_type);
        let kind = NodeKind::StepInvariant(Box::new(inner));
        Ok(Node::new(kind, span, value_type))
    }

    fn bare_node(&mut self, expr: &Expr, context: &Context) -> Result<Node, QueryError> {
        let kind = match expr {
            Expr::Number(n) => NodeKind::Number(n.value),
            Expr::String(s) => NodeKind::Text(s.text()),
            Expr::Paren(p) => return self.node(&p.expr, context),
            Expr::Unary(u) if !u.negative => return self.node(&u.expr, context),
            Expr::Unary(u) => NodeKind::Negate(Box::new(self.node(&u.expr, context)?)),
            Expr::Vector(v) => NodeKind::Select(self.select(v, context)?),
            Expr::Matrix(m) => NodeKind::Window(self.window(m, context)?),
            Expr::Subquery(s) => NodeKind::Subquery(self.subquery(s, context)?),
            Expr::Aggregate(a) => NodeKind::Aggregate(Box::new(self.aggregate(a, context)?)),
            Expr::Binary(b) => {
                let trims = matches!(b.op, BinaryOp::TrimUpper | BinaryOp::TrimLower);
                if trims && expr.value_type() == ValueType::Scalar {
                    let op = crate::fmt::quote(b.op.as_str());
                    let text = format!("operator {op} not allowed for Scalar operations");
                    return Err(QueryError::Execution(text));
                }
                NodeKind::Binary(Box::new(self.binary(b, trims, context)?))
            }
            Expr::Call(c) => return self.call(expr, c, context),
        };
        Ok(Node::new(kind, expr.span(), expr.value_type()))
    }

    fn aggregate(&mut self, a: &AggregateExpr, context: &Context) -> Result<Aggregate, QueryError> {
        let mut grouping: Vec<Box<str>> =
            a.grouping.iter().map(|name| name.as_str().into()).collect();
        grouping.sort_unstable();
        grouping.dedup();
        let hint = Grouping {
            without: a.without,
            names: grouping.clone(),
        };
        let inner = Context {
            function: Some(a.op.as_str()),
            grouping: Some(hint),
            needs_buckets: context.needs_buckets || a.op == AggregateOp::CountValues,
            ..context.clone()
        };
        let input = self.node(&a.expr, &inner)?;
        let param = a
            .param
            .as_ref()
            .map(|param| self.node(param, context))
            .transpose()?;
        if a.op == AggregateOp::CountValues {
            check_label(a.param.as_ref(), |quoted| {
                format!("invalid label name {quoted}")
            })?;
        }
        Ok(Aggregate {
            op: a.op,
            input,
            param,
            without: a.without,
            grouping,
            kept: self.settings.is_kept.then(KeptGroups::default),
            span: a.span,
        })
    }

    fn binary(
        &mut self,
        b: &BinaryExpr,
        trims: bool,
        context: &Context,
    ) -> Result<Binary, QueryError> {
        let inner = Context {
            function: None,
            grouping: None,
            // Histograms are equal when their buckets are.
            needs_buckets: context.needs_buckets
                || trims
                || matches!(b.op, BinaryOp::Eq | BinaryOp::Ne),
            ..context.clone()
        };
        Ok(Binary {
            op: b.op,
            lhs: self.node(&b.lhs, &inner)?,
            rhs: self.node(&b.rhs, &inner)?,
            matching: b.matching.clone().unwrap_or_default(),
            return_bool: b.return_bool,
        })
    }

    /// Returns the value of a call that depends only on the query's times.
    fn constant(&self, function: FunctionId) -> Option<f64> {
        let seconds = |ms: i64| Some(math::seconds(ms));
        match function {
            FunctionId::Start => seconds(self.start_ms),
            FunctionId::End => seconds(self.end_ms),
            FunctionId::Range => seconds(self.end_ms.saturating_sub(self.start_ms)),
            FunctionId::Step if self.start_ms == self.end_ms => Some(0.0),
            FunctionId::Step => seconds(self.step_ms),
            FunctionId::Pi => Some(std::f64::consts::PI),
            _ => None,
        }
    }

    fn call(
        &mut self,
        expr: &Expr,
        call: &crate::ast::Call,
        context: &Context,
    ) -> Result<Node, QueryError> {
        let function = call.function.id;
        let (span, value_type) = (expr.span(), expr.value_type());
        if let Some(value) = self.constant(function) {
            return Ok(Node::new(NodeKind::Number(value), span, value_type));
        }
        if matches!(function, FunctionId::LabelReplace | FunctionId::LabelJoin) {
            check_label_function(call)?;
        }
        let stats = matches!(
            function,
            FunctionId::HistogramCount | FunctionId::HistogramSum | FunctionId::HistogramAvg
        );
        let needs_buckets = matches!(
            function,
            FunctionId::Changes
                | FunctionId::HistogramStddev
                | FunctionId::HistogramStdvar
                | FunctionId::HistogramQuantile
                | FunctionId::HistogramQuantiles
                | FunctionId::HistogramFraction
        );
        let inner = Context {
            function: Some(call.function.name),
            grouping: None,
            wants_stats: context.wants_stats || stats,
            needs_buckets: context.needs_buckets || needs_buckets,
            ..context.clone()
        };
        let mut source = None;
        let mut args = Vec::with_capacity(call.args.len());
        let mut source_span = Span::default();
        for arg in &call.args {
            match arg.without_parens() {
                Expr::Matrix(m) if source.is_none() => {
                    source_span = arg.without_parens().span();
                    source = Some(Source::Window(self.window(m, &inner)?));
                }
                Expr::Subquery(s) if source.is_none() => {
                    source = Some(Source::Subquery(self.subquery(s, &inner)?));
                }
                _ => args.push(self.node(arg, &inner)?),
            }
        }
        if let (FunctionId::Info, Some(base)) = (function, args.first()) {
            let range = self.info_range(base, context.steps);
            self.finds = Some(self.finds.map_or(range, |finds| finds.hull(range)));
        }
        let kind = match source {
            None => NodeKind::Call(Call { function, args }),
            Some(source) => {
                check_extension(&source, call.function.name)?;
                let first_span = match call.args.first().map(Expr::without_parens) {
                    Some(Expr::Matrix(_) | Expr::Subquery(_)) | None => source_span,
                    Some(first) => first.span(),
                };
                NodeKind::Over(Over {
                    function,
                    source,
                    args,
                    source_span,
                    first_span,
                })
            }
        };
        Ok(Node::new(kind, span, value_type))
    }

    /// Returns the times at which `info` may read info series for `base`.
    fn info_range(&self, base: &Node, steps: Steps) -> TimeRange {
        let reference = super::shared_reference(base).unwrap_or_default();
        let at = |time_ms: i64| {
            let at_ms = reference.at_ms.unwrap_or(time_ms);
            at_ms.saturating_sub(reference.offset_ms)
        };
        let first_ms = at(steps.start_ms).saturating_sub(self.settings.lookback_ms - 1);
        TimeRange::new(first_ms, at(steps.last_ms()))
    }

    fn select(&mut self, v: &VectorSelector, context: &Context) -> Result<Select, QueryError> {
        let lookback_ms = self.settings.lookback_ms;
        let after_ms = if v.extension == Extension::Smoothed {
            lookback_ms
        } else {
            0
        };
        // A sample exactly the lookback ago is too old.
        let before_ms = lookback_ms - i64::from(v.extension != Extension::Smoothed);
        self.selector(v, context, 0, before_ms, after_ms)
    }

    fn window(&mut self, m: &MatrixSelector, context: &Context) -> Result<Window, QueryError> {
        let range_ns = self.duration(m.range_ns, m.range_expr.as_ref(), false)?;
        let range_ms = range_ns / 1_000_000;
        let lookback_ms = self.settings.lookback_ms;
        let (more_before, after_ms) = m.selector.extension.reach_ms(lookback_ms);
        let select = self.selector(
            &m.selector,
            context,
            range_ms,
            range_ms + more_before - 1,
            after_ms,
        )?;
        Ok(Window {
            select,
            range_ms,
            range_seconds: seconds_of(range_ns),
        })
    }

    fn selector(
        &mut self,
        v: &VectorSelector,
        context: &Context,
        window_ms: i64,
        before_ms: i64,
        after_ms: i64,
    ) -> Result<Select, QueryError> {
        let offset_ms = self.duration(v.offset_ns, v.offset_expr.as_ref(), true)? / 1_000_000;
        let at_ms = self.at(v.at);
        let mut select = Select {
            selector: 0,
            at_ms,
            offset_ms,
            extension: v.extension,
            one_name: v.has_one_name(),
            stats_only: context.wants_stats && !context.needs_buckets,
            matchers: v.matchers.clone(),
        };
        let (first, last) = (context.steps.start_ms, context.steps.last_ms());
        let range = TimeRange::new(
            select.reference_ms(first).saturating_sub(before_ms),
            select.reference_ms(last).saturating_add(after_ms),
        );
        // The info function reads its labels with separate selectors.
        if !v.selects_labels {
            let function = context.function.unwrap_or_default();
            let uses_start = matches!(
                function,
                "rate" | "irate" | "increase" | "resets" | "start_timestamp"
            );
            let hints = Hints {
                function: function.into(),
                window_ms,
                step_ms: if context.steps.count > 1 {
                    context.steps.step_ms
                } else {
                    0
                },
                grouping: context.grouping.clone(),
                start_times: self.settings.start_times && uses_start,
                // A pinned time with an offset may look back further than from the newest sample.
                newest: window_ms == 0
                    && context.steps.count == 1
                    && at_ms.is_none()
                    && v.extension == Extension::None,
                ..Hints::default()
            };
            select.selector = self.selectors.add(&v.matchers, range, hints);
        }
        Ok(select)
    }

    fn subquery(&mut self, s: &SubqueryExpr, context: &Context) -> Result<Subquery, QueryError> {
        let range_ns = self.duration(s.range_ns, s.range_expr.as_ref(), false)?;
        let step_ns = match (s.step_ns, &s.step_expr) {
            (0, None) => 0,
            (ns, expr) => self.duration(ns, expr.as_ref(), false)?,
        };
        let offset_ms = self.duration(s.offset_ns, s.offset_expr.as_ref(), true)? / 1_000_000;
        let range_ms = range_ns / 1_000_000;
        let step_ms = match step_ns / 1_000_000 {
            0 => self.settings.default_subquery_step_ms,
            ms => ms,
        };
        let at_ms = self.at(s.at);
        let reference = |time_ms: i64| at_ms.unwrap_or(time_ms).saturating_sub(offset_ms);
        let oldest = reference(context.steps.start_ms).saturating_sub(range_ms);
        // Steps are aligned to multiples of the step; the range is open to the left. Go's division truncates toward
        // zero.
        let mut start_ms = step_ms * (oldest / step_ms);
        if start_ms <= oldest {
            start_ms = start_ms.saturating_add(step_ms);
        }
        let steps = Steps::range(start_ms, reference(context.steps.last_ms()), step_ms);
        self.settings.check(steps)?;
        let inner = Context {
            steps,
            function: None,
            grouping: None,
            wants_stats: context.wants_stats,
            // Resets between the steps of a subquery are visible only in the buckets.
            needs_buckets: true,
            invariant: false,
        };
        let expr = s.expr.without_parens();
        let inner = if StepInvariance::of_expr(expr).invariant && steps.count > 1 {
            self.once(expr, &inner)?
        } else {
            self.node(expr, &inner)?
        };
        let range_seconds = seconds_of(range_ns);
        Ok(Subquery {
            inner: Box::new(inner),
            steps,
            at_ms,
            offset_ms,
            range_ms,
            range_seconds,
        })
    }

    fn at(&self, at: Option<At>) -> Option<i64> {
        at.map(|at| match at {
            At::Time(ms) => ms,
            At::Start => self.start_ms,
            At::End => self.end_ms,
        })
    }

    /// Returns the duration in nanoseconds.
    fn duration(
        &self,
        ns: i64,
        expr: Option<&DurationExpr>,
        negative_ok: bool,
    ) -> Result<i64, QueryError> {
        let Some(expr) = expr else { return Ok(ns) };
        expr.evaluate(
            self.step_ms,
            self.end_ms.saturating_sub(self.start_ms),
            negative_ok,
        )
        .map_err(|e| QueryError::Invalid(e.to_string()))
    }
}

fn seconds_of(ns: i64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "Go's Duration.Seconds rounds the same way"
    )]
    let fraction = (ns % 1_000_000_000) as f64 / 1e9;
    #[expect(clippy::cast_precision_loss, reason = "at most 2^34 seconds")]
    let whole = (ns / 1_000_000_000) as f64;
    whole + fraction
}
