//! Measures the codecs on generated corpora: `cargo bench -p narthex-chunks --bench codec [-- name]`.
//!
//! Corpus "fleet": half counters (+0..15), a quarter buckets cumulated over twelve (+0..3 each), a quarter uniform
//! gauges with three decimals; its information floor is 0.875 B a sample. Seeds are fixed; one thread; best of five.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use narthex_chunks::column::{ColumnEncoder, decode_column, decode_rows};
use narthex_chunks::row::{ColumnPick, Row, RowBack, RowDecoder, RowEncoder};

const ROUNDS: usize = 5;

/// Rows that a query of the newest ones wants of a column.
const NEWEST: usize = 10;

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

#[derive(Clone, Copy, PartialEq)]
enum FleetColumn {
    Counter,
    Bucket { first: bool },
    Gauge,
}

/// Lays columns out as an application's page: 24 counters, 12 buckets, 12 gauges, repeated; narrow strips mix them.
fn fleet_column(c: usize, columns: usize) -> FleetColumn {
    match if columns < 48 { c * 13 % 48 } else { c % 48 } {
        0..24 => FleetColumn::Counter,
        k @ 24..36 => FleetColumn::Bucket { first: k == 24 },
        _ => FleetColumn::Gauge,
    }
}

/// Rows of one strip, time-major.
fn fleet(seed: u64, columns: usize, rows: usize) -> Vec<f64> {
    let mut rng = Rng(seed);
    let mut level: Vec<u64> = (0..columns).map(|_| rng.below(1000)).collect();
    let mut out = Vec::with_capacity(columns * rows);
    for _ in 0..rows {
        let mut sum = 0;
        for (c, level) in level.iter_mut().enumerate() {
            out.push(match fleet_column(c, columns) {
                FleetColumn::Counter => {
                    *level += rng.below(16);
                    *level as f64
                }
                FleetColumn::Bucket { first } => {
                    sum = if first { 0 } else { sum };
                    *level += rng.below(4);
                    sum += *level;
                    sum as f64
                }
                FleetColumn::Gauge => rng.below(100_000) as f64 / 1000.0,
            });
        }
    }
    out
}

/// Lengths of queues, below a hundred, each of which changes in one row of three.
fn queues(seed: u64, columns: usize, rows: usize) -> Vec<f64> {
    let mut rng = Rng(seed);
    let mut level: Vec<u64> = (0..columns).map(|_| rng.below(100)).collect();
    let mut out = Vec::with_capacity(columns * rows);
    for _ in 0..rows {
        for level in &mut level {
            if rng.below(3) == 0 {
                *level = rng.below(100);
            }
            out.push(*level as f64);
        }
    }
    out
}

/// Half constant, the rest slow counters and noisy floats: closer to a real exporter.
fn mixed(seed: u64, columns: usize, rows: usize) -> Vec<f64> {
    let mut rng = Rng(seed);
    let mut level: Vec<u64> = (0..columns).map(|_| rng.below(100_000)).collect();
    let mut out = Vec::with_capacity(columns * rows);
    for _ in 0..rows {
        for (c, level) in level.iter_mut().enumerate() {
            out.push(match c % 10 {
                0..5 => *level as f64,
                5 | 6 => {
                    *level += if rng.below(6) == 0 { rng.below(5) } else { 0 };
                    *level as f64
                }
                7 => {
                    *level += rng.below(4096) * 4096;
                    *level as f64
                }
                8 => {
                    *level += rng.below(1_000_000);
                    *level as f64 / 1e9
                }
                _ => (rng.below(1 << 40) as f64 / 3.0).sqrt(),
            });
        }
    }
    out
}

struct Corpus {
    name: &'static str,
    columns: usize,
    rows: usize,
    strips: Vec<Vec<f64>>,
}

impl Corpus {
    fn new(
        name: &'static str,
        strips: usize,
        columns: usize,
        rows: usize,
        make: fn(u64, usize, usize) -> Vec<f64>,
    ) -> Self {
        let strips = (0..strips)
            .map(|s| make(s as u64 * 7919 + 1, columns, rows))
            .collect();
        Self {
            name,
            columns,
            rows,
            strips,
        }
    }

    fn samples(&self) -> usize {
        self.columns * self.rows * self.strips.len()
    }
}

/// Returns the shortest of `ROUNDS` runs, ns.
fn best(mut run: impl FnMut()) -> f64 {
    let time = |_| {
        let begin = Instant::now();
        run();
        begin.elapsed().as_nanos() as f64
    };
    (0..ROUNDS).map(time).fold(f64::INFINITY, f64::min)
}

fn encode_strip(
    cells: &[f64],
    columns: usize,
    out: &mut Vec<u8>,
    ends: &mut Vec<usize>,
) -> RowEncoder {
    out.clear();
    ends.clear();
    let mut encoder = RowEncoder::new();
    for (r, values) in cells.chunks(columns).enumerate() {
        let row = Row {
            time_ms: 1_700_000_000_000 + r as i64 * 5000,
            values,
            ..Row::default()
        };
        encoder.encode(&row, out).unwrap();
        ends.push(out.len());
    }
    encoder
}

fn rows<'a>(bytes: &'a [u8], ends: &'a [usize]) -> impl DoubleEndedIterator<Item = &'a [u8]> {
    (0..ends.len()).map(|r| &bytes[if r == 0 { 0 } else { ends[r - 1] }..ends[r]])
}

fn bench_rows(corpus: &Corpus) {
    let n = corpus.samples() as f64;
    let (mut out, mut ends) = (vec![], vec![]);
    let mut bytes = 0;
    let encode = best(|| {
        bytes = 0;
        for cells in &corpus.strips {
            black_box(encode_strip(cells, corpus.columns, &mut out, &mut ends));
            bytes += out.len();
        }
    });
    let mut encoded: Vec<(Vec<u8>, Vec<usize>, RowEncoder)> = vec![];
    for cells in &corpus.strips {
        let encoder = encode_strip(cells, corpus.columns, &mut out, &mut ends);
        encoded.push((out.clone(), ends.clone(), encoder));
    }
    let mut matrix = vec![0.0; corpus.columns * corpus.rows];
    let decode = best(|| {
        for (b, ends, _) in &encoded {
            let mut decoder = RowDecoder::new();
            for (row, out) in rows(b, ends).zip(matrix.chunks_exact_mut(corpus.columns)) {
                decoder.step(row).unwrap();
                out.copy_from_slice(decoder.cells());
            }
            black_box(&matrix);
        }
    });
    let back = best(|| {
        for (b, ends, encoder) in &encoded {
            let mut decoder = RowBack::new(encoder.state().clone());
            for (row, out) in rows(b, ends)
                .rev()
                .zip(matrix.chunks_exact_mut(corpus.columns).rev())
            {
                decoder.step(row).unwrap();
                out.copy_from_slice(decoder.cells());
            }
            black_box(&matrix);
        }
    });
    let pick = best(|| {
        for (b, ends, _) in &encoded {
            let mut pick = ColumnPick::new(&[corpus.columns as u32 / 2]);
            for row in rows(b, ends) {
                pick.step(row).unwrap();
                black_box(pick.cells());
            }
        }
    });
    println!(
        "row {:<12} {:4} x {:4} x {:4}: append {:5.2} ns, {:.3} B, decode {:5.2} ns, back {:5.2} ns, one column {:5.1} ns/row, state {} B/column",
        corpus.name,
        corpus.strips.len(),
        corpus.columns,
        corpus.rows,
        encode / n,
        bytes as f64 / n,
        decode / n,
        back / n,
        pick / (corpus.rows * corpus.strips.len()) as f64,
        encoded[0].2.heap_bytes() / corpus.columns,
    );
}

fn bench_columns(corpus: &Corpus, rows: usize) {
    let mut columns: Vec<f64> = vec![];
    for cells in &corpus.strips {
        for c in 0..corpus.columns {
            columns.extend((0..rows).map(|r| cells[r * corpus.columns + c]));
        }
    }
    let n = columns.len() as f64;
    let mut encoder = ColumnEncoder::new();
    let (mut out, mut ends) = (vec![], vec![]);
    let encode = best(|| {
        out.clear();
        ends.clear();
        for cells in columns.chunks(rows) {
            encoder.encode(cells, &[], &mut out);
            ends.push(out.len());
        }
    });
    let mut cells = vec![0.0; rows];
    let decode = best(|| {
        let mut from = 0;
        for &end in &ends {
            decode_column(&out[from..end], &mut cells, &mut vec![]).unwrap();
            black_box(&cells);
            from = end;
        }
    });
    let newest = best(|| {
        let mut from = 0;
        for &end in &ends {
            let wanted = rows - NEWEST..rows;
            decode_rows(&out[from..end], &wanted, &mut cells, &mut vec![]).unwrap();
            black_box(&cells);
            from = end;
        }
    });
    println!(
        "column {:<12} {:4} rows: encode {:5.2} ns, decode {:5.2} ns, {:.3} B a sample; newest {NEWEST} rows of a column {:.0} ns",
        corpus.name,
        rows,
        encode / n,
        decode / n,
        out.len() as f64 / n,
        newest / ends.len() as f64
    );
}

fn main() {
    let filter = std::env::args()
        .skip(1)
        .find(|a| !a.starts_with('-'))
        .unwrap_or_default();
    // Half a gigabyte of floats would only measure memory, so 40 strips of 240 rows represent the 850.
    let corpora = [
        Corpus::new("fleet-588", 40, 588, 240, fleet),
        Corpus::new("fleet-100", 100, 100, 240, fleet),
        Corpus::new("fleet-20", 200, 20, 240, fleet),
        Corpus::new("fleet-5", 400, 5, 240, fleet),
        Corpus::new("mixed-588", 20, 588, 240, mixed),
        Corpus::new("mixed-5", 400, 5, 240, mixed),
        Corpus::new("queues-588", 20, 588, 240, queues),
    ];
    for corpus in corpora.iter().filter(|c| c.name.contains(&filter)) {
        bench_rows(corpus);
        if corpus.columns == 588 {
            [120, 240]
                .into_iter()
                .for_each(|rows| bench_columns(corpus, rows));
        }
    }
}
