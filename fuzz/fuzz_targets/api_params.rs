//! Fuzzes `narthex_api::fuzz::fuzz_params`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_api::fuzz::fuzz_params(data));
