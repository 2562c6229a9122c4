//! Fuzzes `narthex_remote::fuzz::fuzz_v1`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_remote::fuzz::fuzz_v1(data));
