//! Tests of the whole source: fixture trees and the real host.

mod cost;
mod cpu;
mod devices;
mod filesystem;
mod filters;
mod fuzz;
mod garbage;
mod hanging;
mod host;
mod netns;
mod network;
mod reference;
mod steady;
mod support;
mod textfile;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
