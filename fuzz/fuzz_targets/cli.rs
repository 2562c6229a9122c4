//! Fuzzes the function of `narthex_cli::fuzz` that `NARTHEX_FUZZ` names.
#![no_main]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static FUNCTIONS: &[(&str, Function)] = &[
    ("args", narthex_cli::fuzz::fuzz_args),
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("cli", FUNCTIONS, data));
