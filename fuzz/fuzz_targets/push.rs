//! Fuzzes the function of `narthex_push::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("batch", narthex_push::fuzz::fuzz_batch),
    ("body", narthex_push::fuzz::fuzz_body),
    ("gob", narthex_push::fuzz::fuzz_gob),
    ("journal", narthex_push::fuzz::fuzz_journal),
    ("path", narthex_push::fuzz::fuzz_path),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("push", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("push", FUNCTIONS);
}
