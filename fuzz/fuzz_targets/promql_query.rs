//! Fuzzes `narthex_promql::fuzz::fuzz_query`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_promql::fuzz::fuzz_query(data));
