//! Fuzzes `narthex_host::fuzz::fuzz_netdev`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_host::fuzz::fuzz_netdev(data));
