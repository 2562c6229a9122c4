//! Entry points for fuzzers and for the seeded mutator in the tests: bytes in, never a panic.
//!
//! Invariant: whatever decodes also encodes, and decodes to the same values again.

use narthex_model::{Histogram, cell};
use std::sync::Arc;

use crate::column::{ColumnEncoder, column_facts, decode_column, decode_rows};
use crate::histogram::{decode_histogram, encode_histogram};
use crate::row::{ColumnPick, PickBack, RowBack, RowDecoder, RowState};
use crate::times::{decode_times, encode_times};

/// Reads `data` as consecutive rows, with every decoder.
pub fn fuzz_row(data: &[u8]) {
    let mut decoder = RowDecoder::new();
    let mut pick = ColumnPick::new(&[0, 3, 40]);
    let mut at = 0;
    let mut rows = vec![];
    while at < data.len() && rows.len() < 1000 {
        let bytes = &data[at..];
        let step = decoder.step(bytes);
        let _ = pick.step(bytes);
        let Ok(len) = step else { break };
        assert!(len > 0 && len <= bytes.len());
        rows.push(&bytes[..len]);
        at += len;
    }
    assert!(RowState::after(rows.iter().copied()).is_ok());
    let mut back = RowBack::new(decoder.state().clone());
    let _ = rows.iter().rev().try_for_each(|row| back.step(row));
    let mut pick_back = PickBack::new(decoder.state(), &[40, 0, 3]);
    let mut rows = rows.iter().rev();
    let _ = rows.try_for_each(|row| pick_back.step_with(row, |_, _| {}));
}

/// Reads `data` as a column chunk; the first byte is the number of rows.
pub fn fuzz_column(data: &[u8]) {
    let Some((&rows, bytes)) = data.split_first() else {
        return;
    };
    let mut cells = vec![0.0; usize::from(rows)];
    let mut histograms = vec![];
    let _ = column_facts(bytes);
    if decode_column(bytes, &mut cells, &mut histograms).is_err() {
        return;
    }
    let wanted = cells.len() / 3..cells.len() * 2 / 3;
    let mut some = vec![0.0; cells.len()];
    decode_rows(bytes, &wanted, &mut some, &mut vec![]).expect("all rows were decoded");
    let mut pairs = wanted.map(|row| (some[row], cells[row]));
    assert!(pairs.all(|(some, all)| some.to_bits() == all.to_bits()));
    // A damaged chunk can hold a marker's bits as a float, which encoders never receive.
    let floats: Vec<f64> = cells.into_iter().map(cell::canonical).collect();
    again(&floats, &[]);
    let of_histograms: Vec<f64> = (0..histograms.len() as u32).map(cell::histogram).collect();
    again(&of_histograms, &histograms);
}

/// Encodes a column, and checks what it decodes to.
fn again(cells: &[f64], histograms: &[Arc<Histogram>]) {
    let (mut bytes, mut own) = (vec![], vec![]);
    ColumnEncoder::new().encode(cells, histograms, &mut bytes);
    let mut back = vec![0.0; cells.len()];
    decode_column(&bytes, &mut back, &mut own).expect("own bytes");
    let mut pairs = back.iter().zip(cells);
    assert!(pairs.all(|(a, b)| a.to_bits() == b.to_bits()));
    assert_eq!(format!("{own:?}"), format!("{histograms:?}"));
}

/// Reads `data` as times; the first byte is the number of rows.
pub fn fuzz_times(data: &[u8]) {
    let Some((&rows, bytes)) = data.split_first() else {
        return;
    };
    let mut times = vec![0; usize::from(rows)];
    if decode_times(bytes, &mut times).is_ok() {
        let mut again = vec![];
        encode_times(&times, &mut again);
        let mut back = vec![0; times.len()];
        decode_times(&again, &mut back).expect("own bytes");
        assert_eq!(back, times);
    }
}

/// Reads `data` as a histogram.
pub fn fuzz_histogram(data: &[u8]) {
    if let Ok(histogram) = decode_histogram(data) {
        let mut again = vec![];
        encode_histogram(&histogram, &mut again);
        let back = decode_histogram(&again).expect("own bytes");
        assert_eq!(format!("{back:?}"), format!("{histogram:?}"));
    }
}
