//! The API's own metrics.

use narthex_client::{Counter, Gauge, HistogramVec, Registry};

pub(crate) static QUERIES: Gauge = Gauge::new(
    "prometheus_engine_queries",
    "Queries being executed or waiting.",
);
pub(crate) static QUERIES_MAX: Gauge = Gauge::new(
    "prometheus_engine_queries_concurrent_max",
    "Queries that may run at once.",
);
pub(crate) static DURATION: HistogramVec<1> = HistogramVec::new(
    "narthex_query_duration_seconds",
    "Time from a query's arrival to its answer, by outcome.",
    &["outcome"],
    &[
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
        120.0,
    ],
);

pub(crate) static KEPT: Counter = Counter::new(
    "narthex_api_kept_answers_total",
    "Calls about labels and series answered with the text of an earlier answer, which would have been the same.",
);

pub(crate) static REUSED_STEPS: Counter = Counter::new(
    "narthex_api_reused_steps_total",
    "Steps of range queries that were answered as an earlier query had them, since nothing came that would change them.",
);

pub(crate) static MOVED: Counter = Counter::new(
    "narthex_api_moved_calls_total",
    "Calls that took longer than the last time, and began anew on a thread where they delay no other request.",
);

/// Registers the metrics of the API.
///
/// # Errors
/// Fails when a name is taken.
pub fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    crate::activity::register_metrics(registry)?;
    registry.register_all(&[
        &QUERIES,
        &QUERIES_MAX,
        &DURATION,
        &KEPT,
        &REUSED_STEPS,
        &MOVED,
    ])
}
