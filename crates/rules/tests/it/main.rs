//! Rule files and templates against the reference files and the newest Prometheus.

#![allow(
    clippy::unwrap_used,
    reason = "a test's helpers panic like the test itself"
)]

mod corpus;
mod engine;
mod evaluations;
mod files;
mod fuzz;
mod manager;
mod oracle;
mod rehearsal;
mod state;
mod templates;
mod wild;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
