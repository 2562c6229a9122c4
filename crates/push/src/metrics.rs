//! The gateway's own metrics, with the Pushgateway's names where it has them.

use http::Method;
use narthex_client::{Counter, CounterVec, Gauge, Registry, SummaryVec};

pub(crate) static REQUESTS: CounterVec<3> = CounterVec::new(
    "pushgateway_http_requests_total",
    "Total HTTP requests processed by the Pushgateway, excluding scrapes.",
    &["code", "handler", "method"],
);
pub(crate) static PUSH_BYTES: SummaryVec<1> = SummaryVec::new(
    "pushgateway_http_push_size_bytes",
    "HTTP request size for pushes to the Pushgateway.",
    &["method"],
    &[0.1, 0.5, 0.9],
);
pub(crate) static PUSH_SECONDS: SummaryVec<1> = SummaryVec::new(
    "pushgateway_http_push_duration_seconds",
    "HTTP request duration for pushes to the Pushgateway.",
    &["method"],
    &[0.1, 0.5, 0.9],
);
pub(crate) static EXPIRED: Counter = Counter::new(
    "narthex_push_groups_expired_total",
    "Groups deleted because nothing was pushed to them for longer than they live.",
);
pub(crate) static HIDDEN: Counter = Counter::new(
    "narthex_push_hidden_families_total",
    "Families of a group left out of a scrape because other groups have them with another type.",
);
pub(crate) static JOURNAL_BYTES: Gauge =
    Gauge::new("narthex_push_journal_bytes", "Length of the journal.");
pub(crate) static JOURNAL_FAILURES: Counter = Counter::new(
    "narthex_push_journal_failures_total",
    "Writes of the journal that failed, each for one push, and failed fsyncs.",
);

/// Registers the metrics of the gateway.
///
/// # Errors
/// Fails when a name is taken.
pub fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[
        &REQUESTS,
        &PUSH_BYTES,
        &PUSH_SECONDS,
        &EXPIRED,
        &HIDDEN,
        &JOURNAL_BYTES,
        &JOURNAL_FAILURES,
    ])?;
    narthex_client::register_info(
        registry,
        "pushgateway_build_info",
        "A metric with a constant '1' value labeled by version of which this is one.",
        &["version"],
        [env!("CARGO_PKG_VERSION").to_owned()],
    )
}

/// Returns a method's name in metrics.
pub(crate) fn word(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "PUT" => "put",
        "POST" => "post",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        "HEAD" => "head",
        _ => "unknown",
    }
}
