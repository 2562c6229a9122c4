//! Receiving, tested from outside: requests encoded by hand, stores that can be read back.

#![allow(
    clippy::unwrap_used,
    reason = "a test's helpers panic like the test itself"
)]

mod churn;
mod fuzz;
mod http;
mod panics;
mod rows;
mod send;
mod store;
mod support;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
