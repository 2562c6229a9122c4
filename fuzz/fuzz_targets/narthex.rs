//! Fuzzes the function of `narthex::fuzz` that `NARTHEX_FUZZ` names.
#![no_main]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static FUNCTIONS: &[(&str, Function)] = &[
    ("config", narthex::fuzz::fuzz_config),
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("narthex", FUNCTIONS, data));
