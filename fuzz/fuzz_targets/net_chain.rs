//! Fuzzes `narthex_net::fuzz::fuzz_chain`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_net::fuzz::fuzz_chain(data));
