//! Sources of files from outside: what they store, round by round.

#![allow(
    clippy::unwrap_used,
    reason = "a test's helpers panic like the test itself"
)]

mod fuzz;
mod manager;
mod pages;
mod python;
mod recorder;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
