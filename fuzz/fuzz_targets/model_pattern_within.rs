//! Fuzzes `narthex_model::fuzz::fuzz_pattern_within`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_model::fuzz::fuzz_pattern_within(data));
