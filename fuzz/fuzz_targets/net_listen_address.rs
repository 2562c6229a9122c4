//! Fuzzes `narthex_net::fuzz::fuzz_listen_address`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_net::fuzz::fuzz_listen_address(data));
