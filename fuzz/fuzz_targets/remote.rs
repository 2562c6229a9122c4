//! Fuzzes the function of `narthex_remote::fuzz` that `NARTHEX_FUZZ` names.
#![no_main]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static FUNCTIONS: &[(&str, Function)] = &[
    ("frames", narthex_remote::fuzz::fuzz_frames),
    ("queue", narthex_remote::fuzz::fuzz_queue),
    ("request", narthex_remote::fuzz::fuzz_request),
    ("snappy", narthex_remote::fuzz::fuzz_snappy),
    ("v1", narthex_remote::fuzz::fuzz_v1),
    ("v2", narthex_remote::fuzz::fuzz_v2),
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("remote", FUNCTIONS, data));
