//! Fuzzes the function of `narthex_rules::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("file", narthex_rules::fuzz::fuzz_file),
    ("template", narthex_rules::fuzz::fuzz_template),
    ("tests", narthex_rules::fuzz::fuzz_tests),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("rules", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("rules", FUNCTIONS);
}
