//! Fuzzes `narthex_chunks::fuzz::fuzz_row`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_chunks::fuzz::fuzz_row(data));
