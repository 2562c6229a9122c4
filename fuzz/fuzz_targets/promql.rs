//! Fuzzes the function of `narthex_promql::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("parse", narthex_promql::fuzz::fuzz_parse),
    ("query", narthex_promql::fuzz::fuzz_query),
    ("script", narthex_promql::fuzz::fuzz_script),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("promql", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("promql", FUNCTIONS);
}
