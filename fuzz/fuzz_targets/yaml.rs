//! Fuzzes the function of `narthex_yaml::fuzz` that `NARTHEX_FUZZ` names.
#![no_main]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static FUNCTIONS: &[(&str, Function)] = &[
    ("tree", narthex_yaml::fuzz::fuzz_tree),
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("yaml", FUNCTIONS, data));
