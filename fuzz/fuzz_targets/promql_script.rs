//! Fuzzes `narthex_promql::fuzz::fuzz_script`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_promql::fuzz::fuzz_script(data));
