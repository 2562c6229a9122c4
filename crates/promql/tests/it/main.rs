//! Integration tests of the query engine.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests panic and print as tests do"
)]

mod beside;
mod compliance;
mod engine;
mod fuzz;
mod generate;
mod kept_steps;
mod late;
mod limits;
mod lives;
mod newest;
mod oracle;
mod parser_errors;
mod promqltest;
mod questions;
mod repeated;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
