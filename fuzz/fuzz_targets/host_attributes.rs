//! Fuzzes `narthex_host::fuzz::fuzz_attributes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_host::fuzz::fuzz_attributes(data));
