//! Feeds the fuzz targets with mutations of patterns.

use crate::pattern::PATTERNS;
use narthex_model::pattern::fuzz_pattern;
use narthex_testkit::{mutate::Mutator, scaled};

#[test]
fn no_bytes_make_a_pattern_panic() {
    let seeds: Vec<&[u8]> = PATTERNS.iter().map(|pattern| pattern.as_bytes()).collect();
    Mutator::new(0x9a77).run(&seeds, scaled(600), fuzz_pattern);
}
