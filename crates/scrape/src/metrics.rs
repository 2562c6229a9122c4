//! What scraping reports about itself, with Prometheus' names.

use narthex_client::{Counter, CounterVec, Gauge, HistogramVec, Registry};

pub(crate) static TARGETS: Gauge = Gauge::new("narthex_scrape_targets", "Targets being scraped.");
pub(crate) static INTERVAL_LENGTH: HistogramVec<1> = HistogramVec::new(
    "narthex_target_interval_length_seconds",
    "Actual intervals between scrapes.",
    &["interval"],
    &[
        0.5, 0.99, 1.0, 1.01, 4.95, 4.99, 5.0, 5.01, 5.05, 10.0, 14.9, 15.0, 15.1, 29.9, 30.0,
        30.1, 60.0, 60.5,
    ],
);
pub(crate) static MISSED: Counter = Counter::new(
    "narthex_scrape_missed_total",
    "Scrapes left out because the one before took longer than the interval.",
);
pub(crate) static FAILED: CounterVec<1> = CounterVec::new(
    "narthex_scrape_failures_total",
    "Scrapes that failed, by what failed.",
    &["reason"],
);
pub(crate) static DUPLICATES: Counter = Counter::new(
    "prometheus_target_scrapes_sample_duplicate_timestamp_total",
    "Samples rejected for a duplicate timestamp with a different value.",
);
pub(crate) static OUT_OF_ORDER: Counter = Counter::new(
    "prometheus_target_scrapes_sample_out_of_order_total",
    "Samples rejected for being out of order.",
);
pub(crate) static OUT_OF_BOUNDS: Counter = Counter::new(
    "prometheus_target_scrapes_sample_out_of_bounds_total",
    "Samples rejected for a timestamp outside the accepted bounds.",
);

/// Registers the metrics of scraping.
///
/// # Errors
/// Fails when a name is taken.
pub fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[
        &TARGETS,
        &INTERVAL_LENGTH,
        &MISSED,
        &FAILED,
        &DUPLICATES,
        &OUT_OF_ORDER,
        &OUT_OF_BOUNDS,
    ])
}
