//! Inputs that never change: the committed files were written from them.

use narthex_chunks::row::{Row, RowEncoder};
use narthex_model::Histogram;
use narthex_model::cell::{self, ABSENT, STALE};
use narthex_model::histogram::Span;
use narthex_testkit::rng::SplitMix64;
use std::sync::Arc;

/// Rows of cells, times and the histograms that cells refer to.
pub(crate) struct Sample {
    pub(crate) times_ms: Vec<i64>,
    pub(crate) rows: Vec<Vec<f64>>,
    pub(crate) histograms: Vec<Arc<Histogram>>,
}

/// Returns a strip with every kind of column, which grows at row 20 and has gaps, stale events and histograms.
pub(crate) fn strip() -> Sample {
    let mut rng = SplitMix64::new(42);
    let mut level = [0u64; 70];
    let mut sample = Sample {
        times_ms: vec![],
        rows: vec![],
        histograms: vec![],
    };
    for r in 0..40usize {
        let jitter = if r % 7 == 3 { 2 } else { 0 };
        sample
            .times_ms
            .push(1_700_000_000_000 + r as i64 * 15_000 + jitter);
        let columns = if r < 20 { 40 } else { 70 };
        let row = (0..columns)
            .map(|c| cell_at(r, c, &mut level[c], &mut rng, &mut sample.histograms))
            .collect();
        sample.rows.push(row);
    }
    sample
}

fn cell_at(
    r: usize,
    c: usize,
    level: &mut u64,
    rng: &mut SplitMix64,
    histograms: &mut Vec<Arc<Histogram>>,
) -> f64 {
    let step = rng.below(1 << 20);
    match c % 10 {
        0 => 1.0,
        1 | 2 => {
            *level += step % 16;
            *level as f64
        }
        3 => (step % 100_000) as f64 / 1000.0,
        4 => {
            *level = if r == 25 { 0 } else { *level + step };
            *level as f64 / 1e6
        }
        5 => (step as f64).sqrt(),
        6 if r % 9 == 4 => ABSENT,
        6 => step as f64 / 16.0,
        7 if r >= 30 => {
            if r == 30 {
                STALE
            } else {
                ABSENT
            }
        }
        7 => -((r * c) as f64),
        8 => [
            f64::NAN,
            -0.0,
            f64::INFINITY,
            5e-324,
            f64::from_bits(0x7ff8_0000_0000_beef),
            0.1,
        ][r % 6],
        _ if r % 4 == 1 => {
            histograms.push(histogram(step));
            cell::histogram(histograms.len() as u32 - 1)
        }
        _ => 2f64.powi(53) + (step % 8) as f64 * 2.0,
    }
}

fn histogram(seed: u64) -> Arc<Histogram> {
    Arc::new(Histogram {
        histogram_schema: 3,
        integer_counts: true,
        count: (seed % 100) as f64,
        sum: seed as f64 / 7.0,
        positive_spans: vec![Span {
            offset: -2,
            length: 3,
        }],
        positive_buckets: vec![1.0, (seed % 50) as f64, 2.0],
        ..Histogram::default()
    })
}

/// Encodes the rows of `sample`; row 30 is a key row.
pub(crate) fn encode_rows(sample: &Sample) -> Vec<Vec<u8>> {
    let mut encoder = RowEncoder::new();
    let mut out = vec![];
    for (r, cells) in sample.rows.iter().enumerate() {
        let mut present = vec![0u64; cells.len().div_ceil(64)];
        let (mut stale, mut histograms) = (vec![], vec![]);
        for (c, v) in cells.iter().enumerate() {
            match cell::Cell::decode(*v) {
                cell::Cell::Float(_) => present[c / 64] |= 1 << (c % 64),
                cell::Cell::Stale => stale.push(c as u32),
                cell::Cell::Absent => {}
                cell::Cell::Histogram(i) => {
                    histograms.push((c as u32, &*sample.histograms[i as usize]));
                }
            }
        }
        if r == 30 {
            encoder.request_key();
        }
        let mut bytes = vec![];
        let row = Row {
            time_ms: sample.times_ms[r],
            values: cells,
            present: Some(&present),
            stale: &stale,
            histograms: &histograms,
        };
        encoder.encode(&row, &mut bytes).expect("valid row");
        out.push(bytes);
    }
    out
}

/// Returns the cells of column `c`, absent where it did not exist, with histogram indexes counted from zero.
pub(crate) fn column(sample: &Sample, c: usize) -> (Vec<f64>, Vec<Arc<Histogram>>) {
    let mut histograms = vec![];
    let cells = sample.rows.iter().map(|row| {
        let cell = row.get(c).copied().unwrap_or(ABSENT);
        match cell::Cell::decode(cell) {
            cell::Cell::Histogram(i) => {
                histograms.push(Arc::clone(&sample.histograms[i as usize]));
                cell::histogram(histograms.len() as u32 - 1)
            }
            _ => cell,
        }
    });
    (cells.collect(), histograms)
}
