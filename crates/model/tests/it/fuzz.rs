//! Feeds the fuzz targets with mutated patterns and rules.

use crate::pattern::PATTERNS;
use narthex_model::fuzz::{fuzz_pattern, fuzz_pattern_within, fuzz_relabel};
use narthex_testkit::{mutate::Mutator, scaled};

#[test]
fn no_bytes_make_a_pattern_panic() {
    let seeds: Vec<&[u8]> = PATTERNS.iter().map(|pattern| pattern.as_bytes()).collect();
    Mutator::new(0x9a77).run(&seeds, scaled(600), fuzz_pattern);
    Mutator::new(0x9a78).run(&seeds, scaled(600), fuzz_pattern_within);
}

#[test]
fn no_bytes_make_relabelling_panic() {
    // The sum of the first line's bytes selects the action: letters and digits reach them all.
    let seeds: Vec<Vec<u8>> = (b'0'..=b'9')
        .chain(b'a'..=b'b')
        .map(|action| {
            let action = char::from(action);
            format!("{action}\na,b\n;\n(.*);(x+)|.*\nt_$1\n${{1}}$2\n0{action}\n__name__\n-\n\nname\n$0\n\n__name__=up\na=1;2\nb=xx\nn=\u{fc}\n")
                .into_bytes()
        })
        .collect();
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    Mutator::new(0x4e1).run(&seeds, scaled(2_000), fuzz_relabel);
}
