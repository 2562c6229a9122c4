//! Metrics of discovery, with Prometheus' names.

use narthex_client::{Counter, CounterVec, GaugeVec, HistogramVec, Registry, Summary, SummaryVec};

pub(crate) static FAILED_CONFIGS: GaugeVec<1> = GaugeVec::new(
    "prometheus_sd_failed_configs",
    "Current number of service discovery configurations that failed to load.",
    &["name"],
);
pub(crate) static DISCOVERED_TARGETS: GaugeVec<2> = GaugeVec::new(
    "prometheus_sd_discovered_targets",
    "Current number of discovered targets.",
    &["config", "name"],
);
pub(crate) static LAST_UPDATE: GaugeVec<2> = GaugeVec::new(
    "prometheus_sd_last_update_timestamp_seconds",
    "Timestamp of the last update sent to the SD consumers.",
    &["config", "name"],
);
pub(crate) static RECEIVED_UPDATES: CounterVec<1> = CounterVec::new(
    "prometheus_sd_received_updates_total",
    "Total number of update events received from the SD providers.",
    &["name"],
);
pub(crate) static DELAYED_UPDATES: CounterVec<1> = CounterVec::new(
    "prometheus_sd_updates_delayed_total",
    "Total number of update events that couldn't be sent immediately.",
    &["name"],
);
pub(crate) static SENT_UPDATES: CounterVec<1> = CounterVec::new(
    "prometheus_sd_updates_total",
    "Total number of update events sent to the SD consumers.",
    &["name"],
);
pub(crate) static REFRESH_FAILURES: CounterVec<2> = CounterVec::new(
    "prometheus_sd_refresh_failures_total",
    "Number of refresh failures for the given SD mechanism.",
    &["config", "mechanism"],
);
pub(crate) static REFRESH_DURATION: SummaryVec<2> = SummaryVec::new(
    "prometheus_sd_refresh_duration_seconds",
    "The duration of a refresh in seconds for the given SD mechanism.",
    &["config", "mechanism"],
    &[0.5, 0.9, 0.99],
);
pub(crate) static REFRESH_HISTOGRAM: HistogramVec<1> = HistogramVec::new(
    "prometheus_sd_refresh_duration_histogram_seconds",
    "The duration of a refresh for the given SD mechanism.",
    &["mechanism"],
    &[0.01, 0.1, 1.0, 10.0],
);
pub(crate) static DNS_LOOKUPS: Counter = Counter::new(
    "prometheus_sd_dns_lookups_total",
    "The number of DNS-SD lookups.",
);
pub(crate) static DNS_FAILURES: Counter = Counter::new(
    "prometheus_sd_dns_lookup_failures_total",
    "The number of DNS-SD lookup failures.",
);
pub(crate) static HTTP_FAILURES: Counter = Counter::new(
    "prometheus_sd_http_failures_total",
    "Number of HTTP service discovery refresh failures.",
);
pub(crate) static FILE_READ_ERRORS: Counter = Counter::new(
    "prometheus_sd_file_read_errors_total",
    "The number of File-SD read errors.",
);
pub(crate) static FILE_WATCHER_ERRORS: Counter = Counter::new(
    "prometheus_sd_file_watcher_errors_total",
    "The number of File-SD errors caused by filesystem watch failures.",
);
pub(crate) static FILE_SCAN_DURATION: Summary = Summary::new(
    "prometheus_sd_file_scan_duration_seconds",
    "The duration of the File-SD scan in seconds.",
    &[0.5, 0.9, 0.99],
);
pub(crate) static FILE_MTIME: GaugeVec<1> = GaugeVec::new(
    "prometheus_sd_file_mtime_seconds",
    "Timestamp (mtime) of files read by FileSD. Timestamp is set at read time.",
    &["filename"],
);
pub(crate) static KUBERNETES_EVENTS: CounterVec<2> = CounterVec::new(
    "prometheus_sd_kubernetes_events_total",
    "The number of Kubernetes events handled.",
    &["event", "role"],
);
pub(crate) static KUBERNETES_FAILURES: Counter = Counter::new(
    "prometheus_sd_kubernetes_failures_total",
    "The number of failed WATCH/LIST requests.",
);
pub(crate) static KUBERNETES_REQUESTS: CounterVec<1> = CounterVec::new(
    "prometheus_sd_kubernetes_http_request_total",
    "Total number of HTTP requests to the Kubernetes API by status code.",
    &["status_code"],
);
pub(crate) static KUBERNETES_REQUEST_DURATION: SummaryVec<1> = SummaryVec::new(
    "prometheus_sd_kubernetes_http_request_duration_seconds",
    "Summary of latencies for HTTP requests to the Kubernetes API by endpoint.",
    &["endpoint"],
    &[],
);

/// Registers this crate's metrics, once per process.
///
/// # Errors
/// Fails if the registry already has one of their names.
pub fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[
        &FAILED_CONFIGS,
        &DISCOVERED_TARGETS,
        &LAST_UPDATE,
        &RECEIVED_UPDATES,
        &DELAYED_UPDATES,
        &SENT_UPDATES,
        &REFRESH_FAILURES,
        &REFRESH_DURATION,
        &REFRESH_HISTOGRAM,
        &DNS_LOOKUPS,
        &DNS_FAILURES,
        &HTTP_FAILURES,
        &FILE_READ_ERRORS,
        &FILE_WATCHER_ERRORS,
        &FILE_SCAN_DURATION,
        &FILE_MTIME,
        &KUBERNETES_EVENTS,
        &KUBERNETES_FAILURES,
        &KUBERNETES_REQUESTS,
        &KUBERNETES_REQUEST_DURATION,
    ])
}
