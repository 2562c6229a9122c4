//! Fuzzes the function of `narthex_model::fuzz` that `NARTHEX_FUZZ` names.
#![no_main]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static FUNCTIONS: &[(&str, Function)] = &[
    ("pattern", narthex_model::fuzz::fuzz_pattern),
    ("pattern_within", narthex_model::fuzz::fuzz_pattern_within),
    ("relabel", narthex_model::fuzz::fuzz_relabel),
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("model", FUNCTIONS, data));
