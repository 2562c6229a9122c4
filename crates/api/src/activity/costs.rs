//! Metrics of what queries cost.

use narthex_client::{CounterVec, Histogram, Registry};
use narthex_promql::{QueryError, QueryStats};

static REJECTED: CounterVec<1> = CounterVec::new(
    "prometheus_engine_query_rejected_total",
    "Queries refused for what they cost, by the limit: max_series, max_samples_read or max_duration.",
    &["reason"],
);

static SERIES_TOUCHED: Histogram = Histogram::new(
    "prometheus_engine_query_series_touched",
    "Series that a query read, summed over its selectors.",
    &[
        1.0,
        4.0,
        16.0,
        64.0,
        256.0,
        1024.0,
        4096.0,
        16384.0,
        65536.0,
        262_144.0,
        1_048_576.0,
        4_194_304.0,
    ],
);

static SAMPLES_READ: Histogram = Histogram::new(
    "prometheus_engine_query_samples_read",
    "Samples that a query read.",
    &[
        100.0,
        400.0,
        1600.0,
        6400.0,
        25_600.0,
        102_400.0,
        409_600.0,
        1_638_400.0,
        6_553_600.0,
        26_214_400.0,
        104_857_600.0,
        419_430_400.0,
    ],
);

/// Registers the metrics of the costs of queries.
///
/// # Errors
/// Fails when a name is taken.
pub fn register_cost_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[&REJECTED, &SERIES_TOUCHED, &SAMPLES_READ])
}

/// Counts what a query cost, or why it was refused.
pub(super) fn count(outcome: Result<&QueryStats, &QueryError>, is_limited: bool) {
    let reason = match outcome {
        Ok(stats) => {
            SERIES_TOUCHED.observe(stats.series as f64);
            SAMPLES_READ.observe(stats.samples_read as f64);
            return;
        }
        Err(QueryError::TooManySeries { .. }) => "max_series",
        Err(QueryError::TooManySamplesRead { .. }) => "max_samples_read",
        Err(QueryError::TimedOut) if is_limited => "max_duration",
        Err(_) => return,
    };
    REJECTED.with(&[reason]).inc();
}
