//! Queries of rules, and what all evaluations share.
//!
//! **Invariant:** every query has a deadline and leases its memory from the budget of queries.

use super::{RuleSet, permits::Permits};
use crate::{AlertSink, Element, file::Texts};
use narthex_model::{
    LabelSet,
    storage::{Budget, Context, Sink, Stop, Store, Warnings},
    sync::Whole as _,
};
use narthex_promql::{
    Engine, QueryError, QueryResult, ResultMemory, SampleValue, Value, VectorSample,
};
use std::{
    sync::{
        Arc, RwLock,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

/// What evaluations work with.
pub struct EvalOptions {
    /// Evaluates expressions.
    pub engine: Engine,
    /// Memory of queries.
    pub queries: Budget,
    /// Memory of what is kept of results between evaluations.
    pub state: Budget,
    /// Longest time of a query.
    pub timeout: Duration,
    /// The wall clock, in milliseconds since the epoch.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Takes alerts; `None` if they go nowhere.
    pub alerts: Option<Arc<dyn AlertSink>>,
    /// Longest outage after which alerts are restored.
    pub outage_tolerance: Duration,
    /// Shortest time between a restart and the firing of an alert that was pending before it.
    pub grace_period: Duration,
    /// Time after which a firing alert is sent again.
    pub resend_delay: Duration,
}

/// What evaluations use, the same for all groups.
pub(crate) struct Tools {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) settings: Arc<Settings>,
}

/// Settings of all evaluations.
pub(crate) struct Settings {
    pub(crate) options: EvalOptions,
    /// Query offset of groups that name none.
    pub(crate) query_offset_ms: AtomicI64,
    /// For rules of one group that are evaluated at once.
    pub(super) permits: Permits,
    pub(crate) server: RwLock<Arc<ServerTexts>>,
}

/// What templates know of this server.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct ServerTexts {
    pub(crate) external_labels: Texts,
    pub(crate) external_url: String,
}

impl Settings {
    pub(crate) fn new(options: EvalOptions) -> Self {
        Self {
            options,
            query_offset_ms: AtomicI64::new(0),
            permits: Permits::default(),
            server: RwLock::default(),
        }
    }

    /// Adopts the settings of a configuration.
    pub(crate) fn follow(&self, rules: &RuleSet) {
        self.query_offset_ms
            .store(ms(rules.query_offset), Ordering::Relaxed);
        *self.server.write().whole() = Arc::new(ServerTexts {
            external_labels: texts_of(&rules.external_labels),
            external_url: rules.external_url.clone(),
        });
    }

    pub(crate) fn server(&self) -> Arc<ServerTexts> {
        Arc::clone(&self.server.read().whole())
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.options.now_ms)()
    }

    pub(crate) fn default_offset_ms(&self) -> i64 {
        self.query_offset_ms.load(Ordering::Relaxed)
    }

    /// Returns the context of one rule's queries, and what cancels them.
    pub(crate) fn context(&self) -> (Context, Stop) {
        let limits = self.options.engine.cost_limits();
        let timeout = limits.and_then(|limits| limits.duration());
        let stop = Stop::at(Instant::now() + timeout.unwrap_or(self.options.timeout));
        let queries = &self.options.queries;
        let ctx = Context {
            budget: queries.child("the rule", queries.limit_bytes() / 2),
            stop: stop.clone(),
            warnings: Warnings::default(),
        };
        (ctx, stop)
    }
}

impl Tools {
    /// Evaluates a query of a template.
    ///
    /// # Errors
    /// As [`Elements::new`], and on an invalid query.
    pub(crate) fn query(
        &self,
        text: &str,
        time_ms: i64,
        ctx: &Context,
    ) -> Result<Vec<Element>, String> {
        let engine = &self.settings.options.engine;
        let result = Elements::new(engine.instant(&*self.store, text, time_ms, ctx))?;
        let elements = result.samples.into_iter();
        Ok(elements
            .map(|sample| (texts_of(&sample.labels), sample.value))
            .collect())
    }
}

/// A result, with its memory.
pub(crate) struct Elements {
    pub(crate) samples: Vec<VectorSample>,
    /// Samples read from the store.
    pub(crate) samples_read: u64,
    _held: ResultMemory,
}

impl Elements {
    /// # Errors
    /// Fails when the query did, or has a result of another kind.
    pub(crate) fn new(result: Result<QueryResult, QueryError>) -> Result<Self, String> {
        let result = result.map_err(|error| error.to_string())?;
        let QueryResult {
            value, held, stats, ..
        } = result;
        let samples = match value {
            Value::Vector(samples) => samples,
            Value::Scalar { time_ms, value } => vec![VectorSample {
                labels: LabelSet::empty(),
                time_ms,
                value: SampleValue::Float(value),
            }],
            _ => return Err("rule result is not a vector or scalar".to_owned()),
        };
        Ok(Self {
            samples,
            samples_read: stats.samples_read,
            _held: held,
        })
    }
}

/// Returns labels by name.
pub(crate) fn texts_of(labels: &LabelSet) -> Texts {
    let pairs = labels.iter();
    pairs
        .map(|label| (label.name().to_owned(), label.value().to_owned()))
        .collect()
}

pub(crate) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
