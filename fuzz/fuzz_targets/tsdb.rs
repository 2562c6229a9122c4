//! Fuzzes the function of `narthex_tsdb::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("block", narthex_tsdb::fuzz::fuzz_block),
    ("manifest", narthex_tsdb::fuzz::fuzz_manifest),
    ("wal", narthex_tsdb::fuzz::fuzz_wal),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("tsdb", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("tsdb", FUNCTIONS);
}
