//! Discovery against real files, servers and clocks.

#![allow(
    clippy::unwrap_used,
    reason = "a test's helpers panic like the test itself"
)]

mod dns;
mod file;
mod fuzz;
mod http_sd;
mod support;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
