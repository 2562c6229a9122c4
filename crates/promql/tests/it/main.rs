//! Integration tests of the query engine.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod engine;
mod fuzz;
mod generate;
mod limits;
mod lives;
mod newest;
mod promqltest;
mod repeated;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
