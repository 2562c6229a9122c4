//! The query engine's entry points.
//!
//! **Invariant:** no clock, no global state: the same query over the same view with the same options gives the same
//! result, bit for bit.

use crate::{
    ast::{Expr, ValueType},
    cost::{CostEstimate, CostLimits, ReadLimits},
    error::QueryError,
    eval::{Eval, Limits, Rules, Source, Watch},
    kept_steps::KeptSteps,
    notes::Note,
    observe::{Observer, Query},
    parse::{self, ParseOptions},
    plan::{self, Plan, Settings},
    result::{QueryResult, QueryStats, ResultMemory, StepSamples, Value},
    stack,
    trace::{Phase, Trace, Tracer},
};
use narthex_model::storage::{Context, Helpers, Lease, Store, TimeRange};
use narthex_model::{KeptPatterns, Patterns};
use std::{io, sync::Arc};

/// Options for evaluating queries.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Maximum age of a sample at an evaluation time, in milliseconds.
    pub lookback_delta_ms: i64,
    /// Most samples a query may hold at once.
    pub max_samples: u64,
    /// Longest label value that a query may create, in bytes.
    pub max_label_bytes: usize,
    /// Memory of all regular expressions of a query or call, in bytes.
    pub pattern_memory_bytes: u64,
    /// Step of subqueries that specify none.
    pub default_subquery_step_ms: i64,
    /// Enabled parts of the language.
    pub parse: ParseOptions,
    /// Whether metric names are dropped at the end of a query rather than by each operation.
    pub delayed_name_removal: bool,
    /// Whether the labels `__type__` and `__unit__` are used.
    pub type_and_unit_labels: bool,
    /// Whether start times of counters are used.
    pub use_start_timestamps: bool,
}

impl Default for EngineOptions {
    /// Returns Prometheus' defaults with the whole language enabled.
    fn default() -> Self {
        Self {
            lookback_delta_ms: 300_000,
            max_samples: 50_000_000,
            max_label_bytes: 1 << 20,
            pattern_memory_bytes: 128 << 20,
            default_subquery_step_ms: 60_000,
            parse: ParseOptions::default(),
            delayed_name_removal: false,
            type_and_unit_labels: false,
            use_start_timestamps: false,
        }
    }
}

/// Evaluates queries over stores.
#[derive(Clone, Debug)]
pub struct Engine {
    options: EngineOptions,
    observer: Option<Arc<dyn Observer>>,
    helpers: Helpers,
    kept: Option<Arc<KeptSteps>>,
    kept_patterns: Option<Arc<KeptPatterns>>,
    /// What all queries may read, and what this engine's may.
    cost_limits: Option<Arc<CostLimits>>,
    most_read: ReadLimits,
}

impl Engine {
    /// Returns an engine with these options.
    #[must_use]
    pub fn new(options: EngineOptions) -> Self {
        Self {
            options,
            observer: None,
            helpers: Helpers::none(),
            kept: None,
            kept_patterns: None,
            cost_limits: None,
            most_read: ReadLimits::default(),
        }
    }

    /// Returns the same engine whose queries `observer` observes.
    #[must_use]
    pub fn observed(&self, observer: Arc<dyn Observer>) -> Self {
        Self {
            observer: Some(observer),
            ..self.clone()
        }
    }

    /// Returns the same engine for the queries of one group of rules in a file.
    #[must_use]
    pub fn of_group(&self, file: &str, group: &str) -> Self {
        let observer = self.observer.as_ref();
        let of_group = observer.and_then(|observer| observer.of_group(file, group));
        match of_group {
            Some(observer) => self.observed(observer),
            None => self.clone(),
        }
    }

    /// Returns the engine with threads that help its large queries; they change no result.
    #[must_use]
    pub fn with_helpers(self, helpers: Helpers) -> Self {
        Self { helpers, ..self }
    }

    /// Returns the same engine that keeps the steps of its range queries, or none; all must be over one store.
    #[must_use]
    pub fn keeping(self, kept: Option<Arc<KeptSteps>>) -> Self {
        Self { kept, ..self }
    }

    /// Returns the same engine that keeps the regular expressions of its queries.
    #[must_use]
    pub fn keeping_patterns(self, kept: Arc<KeptPatterns>) -> Self {
        Self {
            kept_patterns: Some(kept),
            ..self
        }
    }

    /// Returns the same engine whose queries obey limits that may change.
    #[must_use]
    pub fn limited(self, limits: Arc<CostLimits>) -> Self {
        Self {
            cost_limits: Some(limits),
            ..self
        }
    }

    /// Returns the same engine whose queries read no more than `most`, nor than other limits allow.
    #[must_use]
    pub fn reading_at_most(self, most: ReadLimits) -> Self {
        Self {
            most_read: self.most_read.and(most),
            ..self
        }
    }

    /// Returns the limits that may change, if there are any.
    #[must_use]
    pub fn cost_limits(&self) -> Option<&Arc<CostLimits>> {
        self.cost_limits.as_ref()
    }

    /// Returns the threads that help its queries.
    #[must_use]
    pub fn helpers(&self) -> &Helpers {
        &self.helpers
    }

    /// Returns the same engine with another lookback.
    #[must_use]
    pub fn with_lookback(mut self, lookback_delta_ms: i64) -> Self {
        self.options.lookback_delta_ms = lookback_delta_ms;
        self
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Evaluates `query` at one instant.
    ///
    /// # Errors
    /// Fails on an invalid query, on data that does not allow it, and beyond the limits of `ctx`.
    pub fn instant(
        &self,
        store: &dyn Store,
        query: &str,
        time_ms: i64,
        ctx: &Context,
    ) -> Result<QueryResult, QueryError> {
        self.run(store, &Query::instant(query, time_ms), ctx)
    }

    /// Returns a parsed query to be evaluated at many instants; `text` is what it was parsed from.
    #[must_use]
    pub fn prepare(&self, expr: Arc<Expr>, text: Arc<str>) -> InstantQuery {
        let depth = expr.depth() as usize;
        InstantQuery {
            engine: self.clone(),
            keeps_plan: stack::is_shallow(depth) && plan::moves_with_time(&expr),
            expr,
            text,
            depth,
            plan: None,
        }
    }

    /// Evaluates `query` at `start_ms` and every `step_ms` from there on up to `end_ms`.
    ///
    /// # Errors
    /// Like `instant`; also when the query's value is not a vector or a scalar, or the step is not positive.
    pub fn range(
        &self,
        store: &dyn Store,
        query: &str,
        start_ms: i64,
        end_ms: i64,
        step_ms: i64,
        ctx: &Context,
    ) -> Result<QueryResult, QueryError> {
        if step_ms <= 0 {
            return Err(QueryError::Invalid(
                "the step of a range query must be positive".to_owned(),
            ));
        }
        let query = Query::range(query, start_ms, end_ms, step_ms);
        self.run(store, &query, ctx)
    }

    /// Returns the regular expressions of a call, which share one memory limit, for `parse_selector_within`.
    #[must_use]
    pub fn patterns(&self, ctx: &Context) -> Patterns {
        let share = self.options.pattern_memory_bytes;
        let ctx = Context {
            budget: ctx.budget.child("the query's regular expressions", share),
            ..ctx.clone()
        };
        Patterns::new(ctx, self.kept_patterns.clone())
    }

    fn parse(&self, query: &str, ctx: &Context) -> Result<(Expr, Lease), QueryError> {
        parse::parse_within(query, self.options.parse, ctx, &self.patterns(ctx))
    }

    /// Parses a query and passes its tree to `look`, on a stack that fits the deepest tree the parser allows.
    ///
    /// # Errors
    /// Fails on an invalid query, and beyond the limits of `ctx`.
    pub fn inspect<T: Send>(
        &self,
        query: &str,
        ctx: &Context,
        look: impl FnOnce(&Expr) -> T + Send,
    ) -> Result<T, QueryError> {
        let (expr, _parsed) = self.parse(query, ctx)?;
        let depth = expr.depth() as usize;
        stack::with_room(depth, || look(&expr)).map_err(no_thread)
    }

    /// Prints the plan of `query`; `step_ms` 0 means an instant query.
    ///
    /// # Errors
    /// Fails on an invalid query.
    pub fn explain(
        &self,
        query: &str,
        start_ms: i64,
        end_ms: i64,
        step_ms: i64,
    ) -> Result<String, QueryError> {
        let expr = parse::parse_with(query, self.options.parse)?;
        let query = Query::range(query, start_ms, end_ms, step_ms);
        let depth = expr.depth() as usize;
        stack::with_room(depth, || {
            self.plan(&expr, &query).map(|plan| plan.to_string())
        })
        .map_err(no_thread)?
    }

    /// Estimates what `query` reads, without evaluating it.
    ///
    /// # Errors
    /// Like `instant` and `range`, except for what the data does not allow.
    pub fn estimate(
        &self,
        store: &dyn Store,
        query: &Query<'_>,
        ctx: &Context,
    ) -> Result<CostEstimate, QueryError> {
        let (expr, _parsed) = self.parse(query.text, ctx)?;
        check_type(&expr, query)?;
        stack::with_room(expr.depth() as usize, || {
            let plan = self.plan(&expr, query)?;
            let source = source(store, &plan);
            let ctx = &ctx.with_own_warnings();
            let prepared = store.prepare(source.range, &plan.selectors, ctx)?;
            let is_partial = plan.finds.is_some();
            let estimate = CostEstimate::new(&*prepared, &plan.selector_uses, is_partial, ctx);
            let mut estimate = estimate?;
            estimate.warnings.extend(ctx.warnings.drain());
            Ok(estimate)
        })
        .map_err(no_thread)?
    }

    /// Evaluates `query`.
    ///
    /// # Errors
    /// Like `instant` and `range`.
    pub fn run(
        &self,
        store: &dyn Store,
        query: &Query<'_>,
        ctx: &Context,
    ) -> Result<QueryResult, QueryError> {
        let tracer = query.clock.map(|clock| Tracer::new(clock, query.text));
        let (expr, _parsed) = self.parse(query.text, ctx)?;
        check_type(&expr, query)?;
        ctx.stop.check()?;
        let tracer = tracer.as_ref();
        stack::with_room(expr.depth() as usize, || {
            if let Some(tracer) = tracer {
                tracer.enter(Phase::Plan);
            }
            let plan = self.plan(&expr, query)?;
            // Counts and traces are of whole evaluations, and types of series may change after their samples came.
            let is_whole =
                query.count_steps || tracer.is_some() || self.options.type_and_unit_labels;
            match self
                .kept
                .as_deref()
                .filter(|_| query.step_ms > 0 && !is_whole)
            {
                Some(kept) => self.evaluate_new(kept, (&expr, &plan), store, query, ctx),
                None => self.evaluate(&plan, store, query, tracer, ctx),
            }
        })
        .map_err(no_thread)?
    }

    /// Evaluates the steps of a range query that are not kept, and keeps all for the next time.
    fn evaluate_new(
        &self,
        kept: &KeptSteps,
        (expr, whole): (&Expr, &Plan),
        store: &dyn Store,
        query: &Query<'_>,
        ctx: &Context,
    ) -> Result<QueryResult, QueryError> {
        let lookback_ms = self.options.lookback_delta_ms;
        let Some(asked) = kept.ask(store, expr, query, lookback_ms) else {
            return self.evaluate(whole, store, query, None, ctx);
        };
        let of_new = asked
            .first_new_ms()
            .map(|start_ms| Query { start_ms, ..*query });
        let new = of_new.map(|of_new| self.plan(expr, &of_new)).transpose()?;
        let plan = new.as_ref().unwrap_or(whole);
        let mut result = self.evaluate(plan, store, query, None, ctx)?;
        if let Value::Matrix(new) = &mut result.value {
            let (limit, mut pace) = (self.options.max_samples, ctx.stop.pace());
            let (all, lease) = asked.join(std::mem::take(new), limit, &ctx.budget, &mut pace)?;
            *new = all;
            result.held.add(lease);
            result.stats.reused_steps = asked.reused_steps();
            if result.warnings.is_empty() && result.infos.is_empty() {
                kept.keep(asked, new);
            }
        }
        Ok(result)
    }

    fn plan(&self, expr: &Expr, times: &Query<'_>) -> Result<Plan, QueryError> {
        self.plan_for(expr, times, false)
    }

    fn plan_for(&self, expr: &Expr, times: &Query<'_>, is_kept: bool) -> Result<Plan, QueryError> {
        let settings = Settings {
            max_steps: self.options.max_samples,
            lookback_ms: self.options.lookback_delta_ms,
            default_subquery_step_ms: self.options.default_subquery_step_ms.max(1),
            start_times: self.options.use_start_timestamps,
            is_kept,
        };
        plan::build(expr, times.start_ms, times.end_ms, times.step_ms, settings)
    }

    fn evaluate(
        &self,
        plan: &Plan,
        store: &dyn Store,
        query: &Query<'_>,
        tracer: Option<&Tracer<'_>>,
        ctx: &Context,
    ) -> Result<QueryResult, QueryError> {
        let observer = self.observer.as_ref();
        let observation = observer.map(|one| one.begin(query, &plan.selectors));
        let outcome = self.evaluate_plan(plan, store, query, tracer, ctx);
        if let Some(observation) = observation {
            observation.end(outcome.as_ref().map(|result| &result.stats));
        }
        outcome
    }

    fn evaluate_plan(
        &self,
        plan: &Plan,
        store: &dyn Store,
        query: &Query<'_>,
        tracer: Option<&Tracer<'_>>,
        ctx: &Context,
    ) -> Result<QueryResult, QueryError> {
        let source = source(store, plan);
        let rules = Rules {
            lookback_ms: self.options.lookback_delta_ms,
            delayed_name_removal: self.options.delayed_name_removal,
            type_and_unit_labels: self.options.type_and_unit_labels,
            start_times: self.options.use_start_timestamps,
        };
        let ctx = &ctx.with_own_warnings();
        let limits = Limits {
            max_samples: self.options.max_samples,
            max_label_bytes: self.options.max_label_bytes,
            reads: match &self.cost_limits {
                Some(limits) => limits.reads().and(self.most_read),
                None => self.most_read,
            },
        };
        let watch = Watch {
            count_steps: query.count_steps,
            tracer,
            helpers: &self.helpers,
            kept_patterns: self.kept_patterns.as_ref(),
        };
        if let Some(tracer) = tracer {
            tracer.enter(Phase::View);
        }
        let eval = Eval::new(plan, rules, source, ctx, limits, watch)?;
        if let Some(tracer) = tracer {
            tracer.enter(Phase::Finish);
        }
        let (value, hold) = eval.answer(plan, query.step_ms > 0)?;
        for warning in ctx.warnings.drain() {
            eval.notes().add(Note::storage(warning));
        }
        let (warnings, infos) = eval.notes().texts(query.text);
        let stats = QueryStats {
            peak_samples: eval.memory.peak_samples(),
            samples_read: eval.memory.read_samples(),
            series: eval.memory.found_series(),
            steps: eval.counts.take_counts().map(|counts| StepSamples {
                start_ms: query.start_ms,
                step_ms: query.step_ms,
                used: counts.used,
                read: counts.read,
            }),
            reused_steps: 0,
        };
        drop(eval);
        let trace = tracer.map(|tracer| Trace {
            nodes: tracer.finish(),
            plan: plan.to_string(),
        });
        Ok(QueryResult {
            value,
            warnings,
            infos,
            stats,
            trace,
            held: ResultMemory::new(hold),
        })
    }
}

/// A query that is evaluated again and again, as those of rules are, and planned once where only the time changes.
#[derive(Debug)]
pub struct InstantQuery {
    engine: Engine,
    expr: Arc<Expr>,
    text: Arc<str>,
    depth: usize,
    /// Whether a plan for one time can be moved to another.
    keeps_plan: bool,
    plan: Option<Plan>,
}

impl InstantQuery {
    /// Evaluates the query at one instant.
    ///
    /// # Errors
    /// Like `Engine::instant`, except for invalid queries.
    pub fn evaluate(
        &mut self,
        store: &dyn Store,
        time_ms: i64,
        ctx: &Context,
    ) -> Result<QueryResult, QueryError> {
        ctx.stop.check()?;
        let engine = &self.engine;
        let query = Query::instant(&self.text, time_ms);
        if !self.keeps_plan {
            let planned = || {
                let plan = engine.plan(&self.expr, &query)?;
                engine.evaluate(&plan, store, &query, None, ctx)
            };
            return stack::with_room(self.depth, planned).map_err(no_thread)?;
        }
        let plan = match &mut self.plan {
            Some(plan) => {
                plan.move_to(time_ms);
                plan
            }
            none => none.insert(engine.plan_for(&self.expr, &query, true)?),
        };
        engine.evaluate(plan, store, &query, None, ctx)
    }
}

/// Fails on a range query whose value is neither a vector nor a scalar.
fn check_type(expr: &Expr, query: &Query<'_>) -> Result<(), QueryError> {
    let value_type = expr.value_type();
    if query.step_ms > 0 && !matches!(value_type, ValueType::Vector | ValueType::Scalar) {
        let got = crate::fmt::quote(value_type.documented());
        let text = format!(
            "invalid expression type {got} for range query, must be Scalar or instant Vector"
        );
        return Err(QueryError::Invalid(text));
    }
    Ok(())
}

/// Returns what a plan reads of a store.
fn source<'a>(store: &'a dyn Store, plan: &Plan) -> Source<'a> {
    let ranges = plan.selectors.iter().map(|selector| selector.range);
    let ranges = ranges.chain(plan.finds);
    Source {
        store,
        range: ranges
            .reduce(TimeRange::hull)
            .unwrap_or(TimeRange::new(0, -1)),
    }
}

fn no_thread(error: io::Error) -> QueryError {
    QueryError::Execution(format!("no thread for a deep query: {error}"))
}
