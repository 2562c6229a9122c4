//! Metrics of scrapes, with the names that node_exporter has from its library.

use narthex_client::{CounterVec, Gauge, Registry};
use narthex_net::axum::response::Response;

pub(super) static REQUESTS: CounterVec<1> = CounterVec::new(
    "promhttp_metric_handler_requests_total",
    "Total number of scrapes by HTTP status code.",
    &["code"],
);
pub(super) static IN_FLIGHT: Gauge = Gauge::new(
    "promhttp_metric_handler_requests_in_flight",
    "Current number of scrapes being served.",
);

/// Registers the exporter's metrics.
///
/// # Errors
///
/// Fails if a name is taken.
pub fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    for code in ["200", "500", "503"] {
        REQUESTS.with(&[code]).inc_by(0);
    }
    registry.register_all(&[&REQUESTS, &IN_FLIGHT])
}

/// Counts an answered scrape.
pub(super) fn count(response: Response) -> Response {
    REQUESTS.with(&[response.status().as_str()]).inc();
    response
}
