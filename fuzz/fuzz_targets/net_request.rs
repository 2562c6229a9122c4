//! Fuzzes `narthex_net::fuzz::fuzz_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_net::fuzz::fuzz_request(data));
