//! Fuzzes `narthex_host::fuzz::fuzz_per_cpu`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_host::fuzz::fuzz_per_cpu(data));
