//! Fuzzes `narthex_profile::fuzz::fuzz_heap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_profile::fuzz::fuzz_heap(data));
