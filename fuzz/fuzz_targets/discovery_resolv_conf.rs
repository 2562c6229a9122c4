//! Fuzzes `narthex_discovery::fuzz::fuzz_resolv_conf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_discovery::fuzz::fuzz_resolv_conf(data));
