//! Fuzzes `narthex_discovery::fuzz::fuzz_watch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_discovery::fuzz::fuzz_watch(data));
