//! Patterns and relabelling against the newest Prometheus, bytes nobody chose, and what labels cost.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test's helpers panic and print like the test itself"
)]

mod cost;
mod fuzz;
mod labels;
mod oracle;
mod pattern;
mod relabel;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
