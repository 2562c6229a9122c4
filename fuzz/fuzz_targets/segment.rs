//! Fuzzes the function of `narthex_segment::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("labels", narthex_segment::fuzz::fuzz_labels),
    ("records", narthex_segment::fuzz::fuzz_records),
    ("segment", narthex_segment::fuzz::fuzz_segment),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("segment", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("segment", FUNCTIONS);
}
