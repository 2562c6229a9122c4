//! Observation of queries: what is asked, what it costs, where its time goes.
//!
//! **Invariant:** an observer changes nothing about a result. The engine has no clock: who wants times passes one.

use crate::{QueryError, QueryStats};
use narthex_model::storage::Selector;
use std::{fmt::Debug, sync::Arc};

/// A query to evaluate.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// The text.
    pub text: &'a str,
    /// First evaluation time, in milliseconds since the epoch.
    pub start_ms: i64,
    /// Last evaluation time, inclusive.
    pub end_ms: i64,
    /// Step in milliseconds; 0 for an instant query.
    pub step_ms: i64,
    /// Whether samples are counted as Prometheus counts them, for each step.
    pub count_steps: bool,
    /// Returns the nanoseconds since any moment; with it, the query is traced.
    pub clock: Option<&'a (dyn Fn() -> u64 + Sync)>,
}

impl<'a> Query<'a> {
    /// Returns a query at one instant, neither counted nor traced.
    #[must_use]
    pub fn instant(text: &'a str, time_ms: i64) -> Self {
        Self {
            text,
            start_ms: time_ms,
            end_ms: time_ms,
            step_ms: 0,
            count_steps: false,
            clock: None,
        }
    }

    /// Returns a query at `start_ms` and every `step_ms` from there on up to `end_ms`.
    #[must_use]
    pub fn range(text: &'a str, start_ms: i64, end_ms: i64, step_ms: i64) -> Self {
        Self {
            end_ms,
            step_ms,
            ..Self::instant(text, start_ms)
        }
    }
}

/// Observes the queries of an engine.
pub trait Observer: Send + Sync + Debug {
    /// Called when a valid query is about to be evaluated; `selectors` are those of stored series.
    fn begin(&self, query: &Query<'_>, selectors: &[Selector]) -> Box<dyn Observation>;

    /// Returns an observer of the queries of one group of rules in a file, if it tells them apart.
    fn of_group(&self, _file: &str, _group: &str) -> Option<Arc<dyn Observer>> {
        None
    }
}

/// Observes one evaluation.
pub trait Observation: Send {
    /// Called with the outcome.
    fn end(self: Box<Self>, outcome: Result<&QueryStats, &QueryError>);
}
