//! Fuzzes the function of `narthex_api::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("params", narthex_api::fuzz::fuzz_params),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("api", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("api", FUNCTIONS);
}
