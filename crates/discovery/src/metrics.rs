//! Metrics of discovery, with Prometheus' names.

use narthex_client::{Counter, CounterVec, GaugeVec, HistogramVec, Summary, SummaryVec};

narthex_net::metrics! {
    /// Registers this crate's metrics, once per process.
    ///
    /// # Errors
    /// Fails if the registry already has one of their names.
    pub fn register_metrics;

    FAILED_CONFIGS: GaugeVec<1> = "prometheus_sd_failed_configs",
        "Current number of service discovery configurations that failed to load.", &["name"];
    DISCOVERED_TARGETS: GaugeVec<2> = "prometheus_sd_discovered_targets",
        "Current number of discovered targets.", &["config", "name"];
    LAST_UPDATE: GaugeVec<2> = "prometheus_sd_last_update_timestamp_seconds",
        "Timestamp of the last update sent to the SD consumers.", &["config", "name"];
    RECEIVED_UPDATES: CounterVec<1> = "prometheus_sd_received_updates_total",
        "Total number of update events received from the SD providers.", &["name"];
    DELAYED_UPDATES: CounterVec<1> = "prometheus_sd_updates_delayed_total",
        "Total number of update events that couldn't be sent immediately.", &["name"];
    SENT_UPDATES: CounterVec<1> = "prometheus_sd_updates_total",
        "Total number of update events sent to the SD consumers.", &["name"];
    REFRESH_FAILURES: CounterVec<2> = "prometheus_sd_refresh_failures_total",
        "Number of refresh failures for the given SD mechanism.", &["config", "mechanism"];
    REFRESH_DURATION: SummaryVec<2> = "prometheus_sd_refresh_duration_seconds",
        "The duration of a refresh in seconds for the given SD mechanism.", &["config", "mechanism"], &[0.5, 0.9, 0.99];
    REFRESH_HISTOGRAM: HistogramVec<1> = "prometheus_sd_refresh_duration_histogram_seconds",
        "The duration of a refresh for the given SD mechanism.", &["mechanism"], &[0.01, 0.1, 1.0, 10.0];
    DNS_LOOKUPS: Counter = "prometheus_sd_dns_lookups_total",
        "The number of DNS-SD lookups.";
    DNS_FAILURES: Counter = "prometheus_sd_dns_lookup_failures_total",
        "The number of DNS-SD lookup failures.";
    HTTP_FAILURES: Counter = "prometheus_sd_http_failures_total",
        "Number of HTTP service discovery refresh failures.";
    FILE_READ_ERRORS: Counter = "prometheus_sd_file_read_errors_total",
        "The number of File-SD read errors.";
    FILE_WATCHER_ERRORS: Counter = "prometheus_sd_file_watcher_errors_total",
        "The number of File-SD errors caused by filesystem watch failures.";
    FILE_SCAN_DURATION: Summary = "prometheus_sd_file_scan_duration_seconds",
        "The duration of the File-SD scan in seconds.", &[0.5, 0.9, 0.99];
    FILE_MTIME: GaugeVec<1> = "prometheus_sd_file_mtime_seconds",
        "Timestamp (mtime) of files read by FileSD. Timestamp is set at read time.", &["filename"];
    KUBERNETES_EVENTS: CounterVec<2> = "prometheus_sd_kubernetes_events_total",
        "The number of Kubernetes events handled.", &["event", "role"];
    KUBERNETES_FAILURES: Counter = "prometheus_sd_kubernetes_failures_total",
        "The number of failed WATCH/LIST requests.";
    KUBERNETES_REQUESTS: CounterVec<1> = "prometheus_sd_kubernetes_http_request_total",
        "Total number of HTTP requests to the Kubernetes API by status code.", &["status_code"];
    KUBERNETES_REQUEST_DURATION: SummaryVec<1> = "prometheus_sd_kubernetes_http_request_duration_seconds",
        "Summary of latencies for HTTP requests to the Kubernetes API by endpoint.", &["endpoint"], &[];
}
