//! Fuzzes `narthex_expfmt::fuzz::fuzz_headers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_expfmt::fuzz::fuzz_headers(data));
