//! Damaged bytes: every decoder returns a value or an error for any input.

use narthex_chunks::fuzz;
use narthex_testkit::mutate::Mutator;

use crate::golden::records;

fn slices(records: &[Vec<u8>]) -> Vec<&[u8]> {
    records.iter().map(Vec::as_slice).collect()
}

#[test]
fn damaged_rows() {
    let rows = records("row_strip.bin", Vec::new);
    // Whole strips, halves starting at the key row, and single rows.
    let mut corpus = vec![rows.concat(), rows[30..].concat(), rows[..3].concat()];
    corpus.push(rows[0].clone());
    Mutator::new(1).run(&slices(&corpus), 6000, fuzz::fuzz_row);
}

#[test]
fn damaged_columns() {
    let chunks = records("chunk_columns.bin", Vec::new);
    let corpus: Vec<Vec<u8>> = chunks
        .iter()
        .map(|c| [&[40], c.as_slice()].concat())
        .collect();
    Mutator::new(2).run(&slices(&corpus), 20_000, fuzz::fuzz_column);
}

#[test]
fn damaged_times() {
    let times = records("chunk_times.bin", Vec::new);
    let corpus: Vec<Vec<u8>> = times
        .iter()
        .map(|c| [&[40], c.as_slice()].concat())
        .collect();
    Mutator::new(3).run(&slices(&corpus), 10_000, fuzz::fuzz_times);
}

#[test]
fn damaged_histograms() {
    let sample = crate::sample::strip();
    Mutator::new(4).run(&slices(&sample.histograms), 10_000, fuzz::fuzz_histogram);
}
