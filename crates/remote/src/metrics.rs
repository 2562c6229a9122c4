//! Metrics of receiving, with Prometheus' names where it has them.

use narthex_client::{Counter, CounterVec, Gauge, HistogramVec, Registry};

pub(crate) static INVALID_LABELS: Counter = Counter::new(
    "prometheus_api_remote_write_invalid_labels_samples_total",
    "Received samples and histogram samples that were refused because of their labels.",
);
pub(crate) static REQUESTS: CounterVec<2> = CounterVec::new(
    "narthex_remote_write_requests_total",
    "Requests, by the version of the protocol and the status they were answered with.",
    &["version", "code"],
);
pub(crate) static SAMPLES: CounterVec<1> = CounterVec::new(
    "narthex_remote_write_received_total",
    "What requests held, by kind.",
    &["kind"],
);
pub(crate) static REFUSED: CounterVec<1> = CounterVec::new(
    "narthex_remote_write_refused_samples_total",
    "Samples that were refused, by reason.",
    &["reason"],
);
pub(crate) static UNGROUPED: Counter = Counter::new(
    "narthex_remote_write_ungrouped_samples_total",
    "Samples of series that no others come with.",
);
pub(crate) static BYTES: CounterVec<1> = CounterVec::new(
    "narthex_remote_write_received_bytes_total",
    "Bytes of requests, as they came and decompressed.",
    &["form"],
);
pub(crate) static SERIES: Gauge = Gauge::new(
    "narthex_remote_write_series",
    "Series whose senders' form of labels is known.",
);
pub(crate) static SERIES_GROUPS: Gauge = Gauge::new(
    "narthex_remote_write_series_groups",
    "Groups of series that come together.",
);
pub(crate) static SESSIONS: Gauge = Gauge::new(
    "narthex_remote_write_sessions",
    "Sessions of senders that send frames.",
);
pub(crate) static SECONDS: HistogramVec<1> = HistogramVec::new(
    "narthex_remote_write_duration_seconds",
    "Time from a request's last byte to its answer, by version.",
    &["version"],
    &[
        0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
        2.5, 5.0, 10.0,
    ],
);

/// Registers the metrics of receiving.
///
/// # Errors
/// Fails if a name is taken.
pub fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[
        &INVALID_LABELS,
        &REQUESTS,
        &SAMPLES,
        &REFUSED,
        &UNGROUPED,
        &BYTES,
        &SERIES,
        &SERIES_GROUPS,
        &SESSIONS,
        &SECONDS,
    ])
}
