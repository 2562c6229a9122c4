//! Fuzzes `narthex_tsdb::fuzz::fuzz_manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_tsdb::fuzz::fuzz_manifest(data));
