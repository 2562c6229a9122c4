//! Metrics of scraping, with Prometheus' names.

use narthex_client::{Counter, CounterVec, Gauge, GaugeVec, HistogramVec, Registry, SummaryVec};

const QUANTILES: &[f64] = &[0.01, 0.05, 0.5, 0.9, 0.99];
const SECONDS: &[f64] = &[0.01, 0.1, 1.0, 10.0];

pub(crate) static TARGETS: Gauge = Gauge::new("narthex_scrape_targets", "Targets being scraped.");
pub(crate) static MISSED: Counter = Counter::new(
    "narthex_scrape_missed_total",
    "Scrapes left out because the one before took longer than the interval.",
);
pub(crate) static FAILED: CounterVec<1> = CounterVec::new(
    "narthex_scrape_failures_total",
    "Scrapes that failed, by what failed.",
    &["reason"],
);
pub(crate) static INTERVAL_LENGTH: SummaryVec<1> = SummaryVec::new(
    "prometheus_target_interval_length_seconds",
    "Actual intervals between scrapes.",
    &["interval"],
    QUANTILES,
);
pub(crate) static INTERVAL_LENGTH_HISTOGRAM: HistogramVec<1> = HistogramVec::new(
    "prometheus_target_interval_length_histogram_seconds",
    "Actual intervals between scrapes.",
    &["interval"],
    SECONDS,
);
pub(crate) static POOLS: Counter = Counter::new(
    "prometheus_target_scrape_pools_total",
    "Attempts to create a scrape pool.",
);
pub(crate) static POOLS_FAILED: Counter = Counter::new(
    "prometheus_target_scrape_pools_failed_total",
    "Scrape pools that could not be created.",
);
pub(crate) static RELOADS: Counter = Counter::new(
    "prometheus_target_scrape_pool_reloads_total",
    "Times a scrape pool got another configuration.",
);
pub(crate) static RELOADS_FAILED: Counter = Counter::new(
    "prometheus_target_scrape_pool_reloads_failed_total",
    "Times a scrape pool could not take another configuration.",
);
pub(crate) static RELOAD_LENGTH: SummaryVec<1> = SummaryVec::new(
    "prometheus_target_reload_length_seconds",
    "Time to give a scrape pool another configuration.",
    &["interval"],
    QUANTILES,
);
pub(crate) static POOL_TARGETS: GaugeVec<1> = GaugeVec::new(
    "prometheus_target_scrape_pool_targets",
    "Targets in this scrape pool.",
    &["scrape_job"],
);
pub(crate) static POOL_TARGET_LIMIT: GaugeVec<1> = GaugeVec::new(
    "prometheus_target_scrape_pool_target_limit",
    "Most targets allowed in this scrape pool.",
    &["scrape_job"],
);
pub(crate) static POOL_SYNCS: CounterVec<1> = CounterVec::new(
    "prometheus_target_scrape_pool_sync_total",
    "Times a scrape pool was compared with what was discovered.",
    &["scrape_job"],
);
pub(crate) static SYNC_FAILED: CounterVec<1> = CounterVec::new(
    "prometheus_target_sync_failed_total",
    "Discovered targets that could not be made into one.",
    &["scrape_job"],
);
pub(crate) static SYNC_LENGTH: SummaryVec<1> = SummaryVec::new(
    "prometheus_target_sync_length_seconds",
    "Time to compare a scrape pool with what was discovered.",
    &["scrape_job"],
    QUANTILES,
);
pub(crate) static OVER_TARGET_LIMIT: Counter = Counter::new(
    "prometheus_target_scrape_pool_exceeded_target_limit_total",
    "Times a scrape pool had more targets than allowed.",
);
pub(crate) static OVER_LABEL_LIMITS: Counter = Counter::new(
    "prometheus_target_scrape_pool_exceeded_label_limits_total",
    "Scrapes rejected for a label limit.",
);
pub(crate) static OVER_BODY_SIZE: Counter = Counter::new(
    "prometheus_target_scrapes_exceeded_body_size_limit_total",
    "Scrapes rejected for the size of their body.",
);
pub(crate) static OVER_SAMPLE_LIMIT: Counter = Counter::new(
    "prometheus_target_scrapes_exceeded_sample_limit_total",
    "Scrapes rejected for the number of their samples.",
);
pub(crate) static OVER_BUCKET_LIMIT: Counter = Counter::new(
    "prometheus_target_scrapes_exceeded_native_histogram_bucket_limit_total",
    "Scrapes rejected for the number of buckets of a native histogram.",
);
pub(crate) static REFUSED_SERIES: CounterVec<1> = CounterVec::new(
    "narthex_scrape_refused_series_total",
    "New series left out because memory was short, counted once for each scrape.",
    &["scrape_job"],
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
/// Fails if a name is taken.
pub fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[
        &TARGETS,
        &MISSED,
        &FAILED,
        &INTERVAL_LENGTH,
        &INTERVAL_LENGTH_HISTOGRAM,
        &POOLS,
        &POOLS_FAILED,
        &RELOADS,
        &RELOADS_FAILED,
        &RELOAD_LENGTH,
        &POOL_TARGETS,
        &POOL_TARGET_LIMIT,
        &POOL_SYNCS,
        &SYNC_FAILED,
        &SYNC_LENGTH,
        &OVER_TARGET_LIMIT,
        &OVER_LABEL_LIMITS,
        &OVER_BODY_SIZE,
        &OVER_SAMPLE_LIMIT,
        &OVER_BUCKET_LIMIT,
        &REFUSED_SERIES,
        &DUPLICATES,
        &OUT_OF_ORDER,
        &OUT_OF_BOUNDS,
    ])
}

/// Removes the series of a pool that is gone.
pub(crate) fn remove_pool(name: &str) {
    POOL_TARGETS.remove(&[name]);
    POOL_TARGET_LIMIT.remove(&[name]);
    POOL_SYNCS.remove(&[name]);
    SYNC_FAILED.remove(&[name]);
    SYNC_LENGTH.remove(&[name]);
    REFUSED_SERIES.remove(&[name]);
}
