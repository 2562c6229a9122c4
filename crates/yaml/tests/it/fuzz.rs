//! Runs the fuzz target on mutations of small documents and of the reference corpora.

use narthex_testkit::{corpora, mutate::Mutator};
use narthex_yaml::fuzz::fuzz_tree;

const DOCUMENTS: &[&[u8]] = &[
    b"a: |\n  x\n  y\nb: >-\n  z\n? c\n: [1, ~, true, 0x1F, 1_000, .inf, 2024-01-01, !!binary aGk=]\n---\n",
    b"a: &r {x: [a, b], y: '(.+);x', z: \"\\u00e9\"}\nb:\n  - *r\n  - <<: *r\n    x: 1\n    x: 2\n",
];

#[test]
fn mutated_documents_are_read_or_refused() {
    let files: Vec<Vec<u8>> = ["prometheus-config", "rules"]
        .iter()
        .filter_map(|name| corpora::dir(name))
        .flat_map(|dir| corpora::files(&dir, ""))
        .filter_map(|file| std::fs::read(file).ok())
        .collect();
    let all: Vec<&[u8]> = DOCUMENTS
        .iter()
        .copied()
        .chain(files.iter().map(Vec::as_slice))
        .collect();
    Mutator::new(0x7a).max_len(4096).run(&all, 4_000, fuzz_tree);
}
