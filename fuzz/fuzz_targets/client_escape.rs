//! Fuzzes `narthex_client::fuzz::fuzz_escape`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_client::fuzz::fuzz_escape(data));
