//! The storage engine from outside: through the storage traits, on disks that fail.

mod churn;
mod clock;
mod conformance;
mod crash;
mod damage;
mod dead_series;
mod early;
mod files;
mod golden;
mod hang;
mod kept_steps;
mod late;
mod listing;
mod lives;
mod marks;
mod merge;
mod order;
mod panics;
mod pressure;
mod support;
mod together;
mod upkeep;
mod windows;
mod workload;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
