//! Metrics of scraping, with Prometheus' names.

use narthex_client::{Counter, CounterVec, Gauge, GaugeVec, HistogramVec, SummaryVec};

const QUANTILES: &[f64] = &[0.01, 0.05, 0.5, 0.9, 0.99];
const SECONDS: &[f64] = &[0.01, 0.1, 1.0, 10.0];

narthex_net::metrics! {
    /// Registers the metrics of scraping.
    ///
    /// # Errors
    /// Fails if a name is taken.
    pub fn register_metrics;

    TARGETS: Gauge = "narthex_scrape_targets",
        "Targets being scraped.";
    MISSED: Counter = "narthex_scrape_missed_total",
        "Scrapes left out because the one before took longer than the interval.";
    FAILED: CounterVec<1> = "narthex_scrape_failures_total",
        "Scrapes that failed, by what failed.", &["reason"];
    INTERVAL_LENGTH: SummaryVec<1> = "prometheus_target_interval_length_seconds",
        "Actual intervals between scrapes.", &["interval"], QUANTILES;
    INTERVAL_LENGTH_HISTOGRAM: HistogramVec<1> = "prometheus_target_interval_length_histogram_seconds",
        "Actual intervals between scrapes.", &["interval"], SECONDS;
    POOLS: Counter = "prometheus_target_scrape_pools_total",
        "Attempts to create a scrape pool.";
    POOLS_FAILED: Counter = "prometheus_target_scrape_pools_failed_total",
        "Scrape pools that could not be created.";
    RELOADS: Counter = "prometheus_target_scrape_pool_reloads_total",
        "Times a scrape pool got another configuration.";
    RELOADS_FAILED: Counter = "prometheus_target_scrape_pool_reloads_failed_total",
        "Times a scrape pool could not take another configuration.";
    RELOAD_LENGTH: SummaryVec<1> = "prometheus_target_reload_length_seconds",
        "Time to give a scrape pool another configuration.", &["interval"], QUANTILES;
    POOL_TARGETS: GaugeVec<1> = "prometheus_target_scrape_pool_targets",
        "Targets in this scrape pool.", &["scrape_job"];
    POOL_TARGET_LIMIT: GaugeVec<1> = "prometheus_target_scrape_pool_target_limit",
        "Most targets allowed in this scrape pool.", &["scrape_job"];
    POOL_SYNCS: CounterVec<1> = "prometheus_target_scrape_pool_sync_total",
        "Times a scrape pool was compared with what was discovered.", &["scrape_job"];
    SYNC_FAILED: CounterVec<1> = "prometheus_target_sync_failed_total",
        "Discovered targets that could not be made into one.", &["scrape_job"];
    SYNC_LENGTH: SummaryVec<1> = "prometheus_target_sync_length_seconds",
        "Time to compare a scrape pool with what was discovered.", &["scrape_job"], QUANTILES;
    OVER_TARGET_LIMIT: Counter = "prometheus_target_scrape_pool_exceeded_target_limit_total",
        "Times a scrape pool had more targets than allowed.";
    OVER_LABEL_LIMITS: Counter = "prometheus_target_scrape_pool_exceeded_label_limits_total",
        "Scrapes rejected for a label limit.";
    OVER_BODY_SIZE: Counter = "prometheus_target_scrapes_exceeded_body_size_limit_total",
        "Scrapes rejected for the size of their body.";
    OVER_SAMPLE_LIMIT: Counter = "prometheus_target_scrapes_exceeded_sample_limit_total",
        "Scrapes rejected for the number of their samples.";
    OVER_BUCKET_LIMIT: Counter = "prometheus_target_scrapes_exceeded_native_histogram_bucket_limit_total",
        "Scrapes rejected for the number of buckets of a native histogram.";
    REFUSED_SERIES: CounterVec<1> = "narthex_scrape_refused_series_total",
        "New series left out because memory was short, counted once for each scrape.", &["scrape_job"];
    DUPLICATES: Counter = "prometheus_target_scrapes_sample_duplicate_timestamp_total",
        "Samples rejected for a duplicate timestamp with a different value.";
    OUT_OF_ORDER: Counter = "prometheus_target_scrapes_sample_out_of_order_total",
        "Samples rejected for being out of order.";
    OUT_OF_BOUNDS: Counter = "prometheus_target_scrapes_sample_out_of_bounds_total",
        "Samples rejected for a timestamp outside the accepted bounds.";
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
