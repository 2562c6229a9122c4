//! Fuzzes the function of `narthex::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("config", narthex::fuzz::fuzz_config),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("narthex", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("narthex", FUNCTIONS);
}
