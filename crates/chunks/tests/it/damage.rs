//! Damaged bytes: every decoder returns a value or an error for any input.

use narthex_chunks::{fuzz, histogram::encode_histogram};
use narthex_testkit::mutate::Mutator;

use crate::golden::records;

fn slices(records: &[Vec<u8>]) -> Vec<&[u8]> {
    records.iter().map(Vec::as_slice).collect()
}

#[test]
fn damaged_rows() {
    let mut corpus = vec![];
    for version in ["v1", "v3"] {
        let rows = records(&format!("{version}/row_strip.bin"));
        // Whole strips, halves starting at the key row, and single rows.
        corpus.extend([rows.concat(), rows[30..].concat(), rows[..3].concat()]);
        corpus.push(rows[0].clone());
    }
    Mutator::new(1).run(&slices(&corpus), 6000, fuzz::fuzz_row);
}

#[test]
fn damaged_columns() {
    let chunks = ["v1", "v3"].map(|version| records(&format!("{version}/chunk_columns.bin")));
    let corpus: Vec<Vec<u8>> = chunks
        .iter()
        .flatten()
        .map(|c| [&[40], c.as_slice()].concat())
        .collect();
    Mutator::new(2).run(&slices(&corpus), 20_000, fuzz::fuzz_column);
}

#[test]
fn damaged_times() {
    let times = records("v1/chunk_times.bin");
    let corpus: Vec<Vec<u8>> = times
        .iter()
        .map(|c| [&[40], c.as_slice()].concat())
        .collect();
    Mutator::new(3).run(&slices(&corpus), 10_000, fuzz::fuzz_times);
}

#[test]
fn damaged_histograms() {
    let sample = crate::sample::strip();
    let encoded = sample.histograms.iter().map(|histogram| {
        let mut bytes = vec![];
        encode_histogram(histogram, &mut bytes);
        bytes
    });
    let encoded: Vec<Vec<u8>> = encoded.collect();
    Mutator::new(4).run(&slices(&encoded), 10_000, fuzz::fuzz_histogram);
}
