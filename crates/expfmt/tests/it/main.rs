//! The exposition formats against reference bodies and against mutated ones.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod client;
mod corpus;
mod fuzz;
mod messages;
mod openmetrics;
mod oracle;
mod protobuf;
mod random;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
