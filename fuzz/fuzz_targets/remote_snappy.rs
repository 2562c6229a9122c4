//! Fuzzes `narthex_remote::fuzz::fuzz_snappy`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_remote::fuzz::fuzz_snappy(data));
