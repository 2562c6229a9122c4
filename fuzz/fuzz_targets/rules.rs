//! Fuzzes the function of `narthex_rules::fuzz` that `NARTHEX_FUZZ` names.
#![no_main]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static FUNCTIONS: &[(&str, Function)] = &[
    ("file", narthex_rules::fuzz::fuzz_file),
    ("template", narthex_rules::fuzz::fuzz_template),
    ("tests", narthex_rules::fuzz::fuzz_tests),
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("rules", FUNCTIONS, data));
