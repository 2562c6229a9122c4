//! Fuzzes the function of `narthex_files::fuzz` that `NARTHEX_FUZZ` names.
#![no_main]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static FUNCTIONS: &[(&str, Function)] = &[
    ("db", narthex_files::fuzz::fuzz_db),
    ("name", narthex_files::fuzz::fuzz_name),
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("files", FUNCTIONS, data));
