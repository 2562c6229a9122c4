//! Fuzzes `narthex_net::fuzz::fuzz_authorization`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_net::fuzz::fuzz_authorization(data));
