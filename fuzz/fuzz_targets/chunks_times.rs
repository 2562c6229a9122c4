//! Fuzzes `narthex_chunks::fuzz::fuzz_times`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_chunks::fuzz::fuzz_times(data));
