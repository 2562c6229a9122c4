//! Committed bytes of format version 1 must always decode to the values they were written from.
//!
//! `NARTHEX_UPDATE_GOLDEN=1` rewrites the files; only right while no release has written version 1.
//! A file is a list of records: length (u32), bytes.

use std::path::PathBuf;

use narthex_chunks::column::{ColumnEncoder, decode_column};
use narthex_chunks::row::{ColumnPick, RowDecoder};
use narthex_chunks::times::{decode_times, encode_times};
use narthex_testkit::workspace_root;

use crate::sample::{column, encode_rows, strip};

fn path(name: &str) -> PathBuf {
    workspace_root().join("testdata/formats/v1").join(name)
}

pub(crate) fn records(name: &str, write: impl FnOnce() -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    if std::env::var_os("NARTHEX_UPDATE_GOLDEN").is_some() {
        let file: Vec<u8> = write()
            .iter()
            .flat_map(|r| [&(r.len() as u32).to_le_bytes(), r.as_slice()].concat())
            .collect();
        std::fs::write(path(name), file).expect("testdata can be written");
    }
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
    let rows = records("row_strip.bin", || encode_rows(&sample));
    assert_eq!(rows.len(), sample.rows.len());
    let mut decoder = RowDecoder::new();
    let mut pick = ColumnPick::new(&[1, 8, 65]);
    let mut histograms = vec![];
    for (r, row) in rows.iter().enumerate() {
        let first = histograms.len() as u32;
        let used = decoder
            .step_with(row, |_, h| histograms.push(h.to_vec()))
            .expect("version 1");
        assert_eq!(used, row.len());
        assert_eq!(decoder.time_ms(), sample.times_ms[r]);
        let cells: Vec<f64> = decoder.cells().iter().map(|c| shift(*c, first)).collect();
        same(&cells, &sample.rows[r], &format!("row {r}"));
        pick.step(row).expect("version 1");
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
    let chunks = records("chunk_columns.bin", || {
        let mut encoder = ColumnEncoder::new();
        let mut chunks: Vec<Vec<u8>> = vec![];
        for c in 0..70 {
            let (cells, histograms) = column(&sample, c);
            chunks.push(vec![]);
            encoder.encode(&cells, &histograms, chunks.last_mut().expect("just pushed"));
        }
        chunks
    });
    assert_eq!(chunks.len(), 70);
    for (c, chunk) in chunks.iter().enumerate() {
        let (want, want_histograms) = column(&sample, c);
        let mut cells = vec![0.0; want.len()];
        let mut histograms = vec![];
        decode_column(chunk, &mut cells, &mut histograms).expect("version 1");
        same(&cells, &want, &format!("column {c}"));
        assert_eq!(histograms, want_histograms);
    }
}

#[test]
fn committed_times_decode() {
    let sample = strip();
    let times = records("chunk_times.bin", || {
        let mut bytes = vec![];
        encode_times(&sample.times_ms, &mut bytes);
        vec![bytes]
    });
    let mut back = vec![0; sample.times_ms.len()];
    decode_times(&times[0], &mut back).expect("version 1");
    assert_eq!(back, sample.times_ms);
}
