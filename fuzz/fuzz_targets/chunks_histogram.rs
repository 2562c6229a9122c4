//! Fuzzes `narthex_chunks::fuzz::fuzz_histogram`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_chunks::fuzz::fuzz_histogram(data));
