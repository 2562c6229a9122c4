//! Committed bytes of every format version must always decode to the values they were written from.
//!
//! `NARTHEX_UPDATE_GOLDEN=1` rewrites the files of the newest; only right while no release has written it.
//! A file is a list of records: length (u32), bytes.

use std::{path::PathBuf, sync::Arc};

use narthex_chunks::column::{ColumnEncoder, decode_column};
use narthex_chunks::row::{ColumnPick, RowBack, RowDecoder};
use narthex_chunks::times::{decode_times, encode_times};
use narthex_testkit::workspace_root;

use crate::sample::{Sample, column, encode_rows, strip};

fn path(name: &str) -> PathBuf {
    workspace_root().join("testdata/formats").join(name)
}

/// Returns the file of the version that is written.
fn newest(name: &str, write: impl FnOnce() -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    if std::env::var_os("NARTHEX_UPDATE_GOLDEN").is_some() {
        let file: Vec<u8> = write()
            .iter()
            .flat_map(|r| [&(r.len() as u32).to_le_bytes(), r.as_slice()].concat())
            .collect();
        std::fs::write(path(name), file).expect("testdata can be written");
    }
    records(name)
}

pub(crate) fn records(name: &str) -> Vec<Vec<u8>> {
    let file = std::fs::read(path(name)).expect("committed file");
    let mut rest = file.as_slice();
    let mut out = vec![];
    while let Some((len, after)) = rest.split_first_chunk::<4>() {
        let (record, after) = after.split_at(u32::from_le_bytes(*len) as usize);
        out.push(record.to_vec());
        rest = after;
    }
    out
}

fn same(got: &[f64], want: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert_eq!(
            g.to_bits(),
            w.to_bits(),
            "{what}, cell {i}: {g:?} for {w:?}"
        );
    }
}

#[test]
fn committed_rows_decode() {
    let sample = strip();
    decode_rows(&sample, &records("v1/row_strip.bin"));
    decode_rows(
        &sample,
        &newest("v3/row_strip.bin", || encode_rows(&sample)),
    );
}

fn decode_rows(sample: &Sample, rows: &[Vec<u8>]) {
    assert_eq!(rows.len(), sample.rows.len());
    let mut decoder = RowDecoder::new();
    let mut pick = ColumnPick::new(&[1, 8, 65]);
    let mut histograms = vec![];
    for (r, row) in rows.iter().enumerate() {
        let first = histograms.len() as u32;
        let used = decoder
            .step_with(row, |_, h| histograms.push(Arc::new(h.to_histogram())))
            .expect("a committed one");
        assert_eq!(used, row.len());
        assert_eq!(decoder.time_ms(), sample.times_ms[r]);
        let cells: Vec<f64> = decoder.cells().iter().map(|c| shift(*c, first)).collect();
        same(&cells, &sample.rows[r], &format!("row {r}"));
        pick.step(row).expect("a committed one");
        let want = sample.rows[r]
            .get(65)
            .copied()
            .unwrap_or(narthex_model::cell::ABSENT);
        same(
            &pick.cells()[..2],
            &[sample.rows[r][1], sample.rows[r][8]],
            "picked",
        );
        assert_eq!(pick.cells()[2].to_bits(), want.to_bits());
    }
    assert_eq!(histograms, sample.histograms);
    let (mut back, mut rest) = (RowBack::new(decoder.state().clone()), histograms.len());
    for (r, row) in rows.iter().enumerate().rev() {
        let mut own = vec![];
        back.step_with(row, |_, h| own.push(h.to_histogram()))
            .expect("a committed one");
        let first = rest - own.len();
        let cells: Vec<f64> = back
            .cells()
            .iter()
            .map(|c| shift(*c, first as u32))
            .collect();
        same(&cells, &sample.rows[r], &format!("row {r}, backwards"));
        for (own, want) in own.iter().zip(&histograms[first..rest]) {
            assert_eq!(own, &**want);
        }
        rest = first;
    }
}

fn shift(cell: f64, first: u32) -> f64 {
    match narthex_model::cell::Cell::decode(cell) {
        narthex_model::cell::Cell::Histogram(i) => narthex_model::cell::histogram(i + first),
        _ => cell,
    }
}

#[test]
fn committed_columns_decode() {
    let sample = strip();
    decode_columns(&sample, &records("v1/chunk_columns.bin"));
    let chunks = newest("v3/chunk_columns.bin", || {
        let mut encoder = ColumnEncoder::new();
        let mut chunks: Vec<Vec<u8>> = vec![];
        for c in 0..70 {
            let (cells, histograms) = column(&sample, c);
            chunks.push(vec![]);
            encoder.encode(&cells, &histograms, chunks.last_mut().expect("just pushed"));
        }
        chunks
    });
    decode_columns(&sample, &chunks);
}

fn decode_columns(sample: &Sample, chunks: &[Vec<u8>]) {
    assert_eq!(chunks.len(), 70);
    for (c, chunk) in chunks.iter().enumerate() {
        let (want, want_histograms) = column(sample, c);
        let mut cells = vec![0.0; want.len()];
        let mut histograms = vec![];
        decode_column(chunk, &mut cells, &mut histograms).expect("a committed one");
        same(&cells, &want, &format!("column {c}"));
        assert_eq!(histograms, want_histograms);
    }
}

#[test]
fn committed_times_decode() {
    let sample = strip();
    let times = records("v1/chunk_times.bin");
    let mut bytes = vec![];
    encode_times(&sample.times_ms, &mut bytes);
    assert_eq!(times, [bytes]);
    let mut back = vec![0; sample.times_ms.len()];
    decode_times(&times[0], &mut back).expect("a committed one");
    assert_eq!(back, sample.times_ms);
}
