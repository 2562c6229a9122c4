//! Fuzzes `narthex::fuzz::fuzz_config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex::fuzz::fuzz_config(data));
