//! Mutated documents.

mod fuzz;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
