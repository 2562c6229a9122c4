//! Fuzzes the function of `narthex_remote::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("frames", narthex_remote::fuzz::fuzz_frames),
    ("queue", narthex_remote::fuzz::fuzz_queue),
    ("request", narthex_remote::fuzz::fuzz_request),
    ("snappy", narthex_remote::fuzz::fuzz_snappy),
    ("v1", narthex_remote::fuzz::fuzz_v1),
    ("v2", narthex_remote::fuzz::fuzz_v2),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("remote", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("remote", FUNCTIONS);
}
