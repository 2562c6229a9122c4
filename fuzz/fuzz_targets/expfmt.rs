//! Fuzzes the function of `narthex_expfmt::fuzz` that `NARTHEX_FUZZ` names.
#![cfg_attr(fuzzing, no_main)]

use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
    ("check", narthex_expfmt::fuzz::fuzz_check),
    ("common", narthex_expfmt::fuzz::fuzz_common),
    ("headers", narthex_expfmt::fuzz::fuzz_headers),
    ("openmetrics", narthex_expfmt::fuzz::fuzz_openmetrics),
    ("protobuf", narthex_expfmt::fuzz::fuzz_protobuf),
    ("rounds", narthex_expfmt::fuzz::fuzz_rounds),
    ("text", narthex_expfmt::fuzz::fuzz_text),
];

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run("expfmt", FUNCTIONS, data));

#[cfg(not(fuzzing))]
fn main() {
    fuzz::run_files("expfmt", FUNCTIONS);
}
