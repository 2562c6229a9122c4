//! Behaviour of the crate as its users see it.
#![allow(
    clippy::unwrap_used,
    reason = "helpers outside of test functions fail the test as well"
)]

mod concurrency;
mod errors;
mod exposition;
mod family;
mod formats;
mod fuzz;
mod histogram;
mod promtool;
mod switch;

use narthex_client::{Metric, Registry};
use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the text of a registry with these metrics.
fn text(metrics: &[&'static dyn Metric]) -> String {
    let registry = Registry::new();
    registry.register_all(metrics).unwrap();
    encode(&registry)
}

fn encode(registry: &Registry) -> String {
    let mut out = Vec::new();
    registry.encode_text(&mut out);
    String::from_utf8(out).unwrap()
}

/// Makes a metric live as long as the process, as a `static` does.
fn leak<T>(metric: T) -> &'static T {
    Box::leak(Box::new(metric))
}
