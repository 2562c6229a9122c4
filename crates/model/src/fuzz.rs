//! Entry points for fuzzers and the seeded mutator.

pub use crate::pattern::fuzz_pattern;
