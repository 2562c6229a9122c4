//! Fuzzes the function of `narthex_api::fuzz` that `NARTHEX_FUZZ` names.
#![no_main]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static FUNCTIONS: &[(&str, Function)] = &[
    ("params", narthex_api::fuzz::fuzz_params),
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("api", FUNCTIONS, data));
