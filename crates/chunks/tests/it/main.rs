//! Integration tests of the codecs: committed bytes stay readable, damaged bytes never panic.

mod damage;
mod golden;
mod sample;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
