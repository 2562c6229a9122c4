//! Metrics of scrapes, with the names that node_exporter has from its library.

use narthex_client::{CounterVec, Gauge, Registry};
use narthex_net::axum::response::Response;

static REQUESTS: CounterVec<1> = CounterVec::new(
    "promhttp_metric_handler_requests_total",
    "Total number of scrapes by HTTP status code.",
    &["code"],
);
static IN_FLIGHT: Gauge = Gauge::new(
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

/// A scrape being answered.
pub(super) struct InFlight;

impl InFlight {
    pub(super) fn new() -> Self {
        IN_FLIGHT.inc();
        Self
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        IN_FLIGHT.dec();
    }
}
