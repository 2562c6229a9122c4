//! Fuzzes the function of `narthex_chunks::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("column", narthex_chunks::fuzz::fuzz_column),
    ("histogram", narthex_chunks::fuzz::fuzz_histogram),
    ("row", narthex_chunks::fuzz::fuzz_row),
    ("times", narthex_chunks::fuzz::fuzz_times),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("chunks", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("chunks", FUNCTIONS);
}
