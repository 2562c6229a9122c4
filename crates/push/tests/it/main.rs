//! The gateway from outside: its store, and its interface over a real connection.

#![allow(
    clippy::unwrap_used,
    reason = "a test's helpers panic like the test itself"
)]

mod aggregate;
mod batch;
mod fuzz;
mod groups;
mod journal;
mod limits;
mod rig;
mod settings;
mod sink;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
