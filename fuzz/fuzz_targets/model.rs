//! Fuzzes the function of `narthex_model::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("pattern", narthex_model::fuzz::fuzz_pattern),
    ("pattern_within", narthex_model::fuzz::fuzz_pattern_within),
    ("relabel", narthex_model::fuzz::fuzz_relabel),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("model", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("model", FUNCTIONS);
}
