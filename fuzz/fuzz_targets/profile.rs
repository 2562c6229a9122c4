//! Fuzzes the function of `narthex_profile::fuzz` that `NARTHEX_FUZZ` names.
#![no_main]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static FUNCTIONS: &[(&str, Function)] = &[
    ("elf", narthex_profile::fuzz::fuzz_elf),
    ("heap", narthex_profile::fuzz::fuzz_heap),
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("profile", FUNCTIONS, data));
