//! Fuzzes `narthex_expfmt::fuzz::fuzz_protobuf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| narthex_expfmt::fuzz::fuzz_protobuf(data));
