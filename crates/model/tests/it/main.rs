//! Integration tests: patterns and relabelling against the newest Prometheus, fuzzing, and the memory of labels.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test's helpers panic and print like the test itself"
)]

mod cost;
mod fuzz;
mod labels;
mod math;
mod oracle;
mod pattern;
mod relabel;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
