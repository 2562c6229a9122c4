//! A binding's rows on their way into a file.
//!
//! **Invariant:** in each file a strip comes with its labels and columns before anything else of it, and its first row
//! there is a key row.

use super::{
    bytes::put_bytes,
    decode::ExemplarRef,
    dictionary::Dictionary,
    files::Entry,
    format::{kind, tag},
    shape::Shape,
};
use narthex_chunks::{
    ChunkError,
    histogram::encode_histogram,
    row::{MAX_COLUMNS, Row, RowEncoder},
};
use narthex_model::{
    Frame, Histogram,
    cell::{self, Cell},
    varint::{put_signed, put_varint},
};
use std::sync::Arc;

/// A row with fewer samples than a column in this many is written sample by sample.
pub(crate) const SPARSE: usize = 8;
/// A key row or checkpoint follows when the rows since the last take this many times its bytes.
const CHECKPOINT_DISTANCE: usize = 16;

/// What of a round is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Parts {
    pub(crate) exemplars: bool,
    pub(crate) histograms: bool,
    pub(crate) start_times: bool,
}

/// A strip of one file.
#[derive(Debug, Default)]
pub(super) struct Strip {
    number: Option<u32>,
    columns: usize,
    pages: Vec<RowEncoder>,
    rows: u64,
    key_bytes: usize,
    bytes_since_key: usize,
    /// Start times as the file has them; empty as long as there is none.
    starts_ms: Vec<i64>,
}

/// Buffers for one round.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    values: Vec<f64>,
    present: Vec<u64>,
    stale: Vec<u32>,
    histograms: Vec<RowHistogram>,
    sparse: Vec<SparseSample>,
}

/// A histogram of a row.
#[derive(Clone, Debug)]
struct RowHistogram {
    column: u32,
    /// Its cell in the frame.
    cell: f64,
    histogram: Arc<Histogram>,
}

/// A sample outside of rows.
#[derive(Clone, Copy, Debug)]
struct SparseSample {
    column: u32,
    time_ms: i64,
    /// A cell of the frame.
    cell: f64,
}

impl Strip {
    /// Adds the records of a round to an entry; returns the number of its samples.
    pub(super) fn encode(
        &mut self,
        shape: &Shape,
        frame: &Frame,
        parts: Parts,
        entry: &mut Entry<'_>,
        scratch: &mut Scratch,
    ) -> Result<u64, ChunkError> {
        scratch.fill(shape, frame, parts);
        let count = scratch.samples();
        let exemplars = parts.exemplars && !frame.exemplars().is_empty();
        if count == 0 && !exemplars {
            return Ok(0);
        }
        let (dictionary, out) = (&mut *entry.dictionary, &mut *entry.records);
        let number = self.define(shape, dictionary, out);
        *entry.definition_bytes += out.len() as u64;
        if parts.start_times {
            self.put_starts(number, shape, frame, out);
        }
        if exemplars {
            put_exemplars(number, shape, frame, dictionary, out);
        }
        if scratch.is_sparse(shape.len()) {
            scratch.make_sparse(frame);
        } else if scratch.has_row() {
            self.put_row(number, frame.time_ms(), scratch, out)?;
        }
        if !scratch.sparse.is_empty() {
            put_sparse(number, frame, &scratch.sparse, out);
        }
        Ok(count)
    }

    /// Defines the strip or its new columns where the file lacks them; returns its number.
    fn define(&mut self, shape: &Shape, dictionary: &mut Dictionary, out: &mut Vec<u8>) -> u32 {
        let number = match self.number {
            Some(number) => number,
            None => {
                let common = dictionary.set(&shape.common, out);
                let number = dictionary.next_strip();
                out.push(tag::STRIP);
                put_varint(out, u64::from(number));
                put_varint(out, u64::from(common));
                *self.number.insert(number)
            }
        };
        let added = self.columns..shape.len();
        if added.is_empty() {
            return number;
        }
        let ids: Vec<(u32, u32)> = added
            .clone()
            .map(|column| {
                let set = dictionary.set(shape.set(column), out);
                (set, dictionary.family(shape.family(column), out))
            })
            .collect();
        put_columns(number, added.start as u64, &ids, out);
        self.columns = added.end;
        number
    }

    fn put_row(
        &mut self,
        number: u32,
        time_ms: i64,
        scratch: &Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(), ChunkError> {
        let start = out.len();
        let pages = self.columns.div_ceil(MAX_COLUMNS);
        let snapshot = self.bytes_since_key > CHECKPOINT_DISTANCE * self.key_bytes;
        if snapshot {
            self.pages.iter_mut().for_each(RowEncoder::request_snapshot);
        }
        // A page that was added since the last row begins with a key row, which does not make this row one.
        let is_key = snapshot || self.pages.is_empty();
        self.pages.resize_with(pages, RowEncoder::new);
        out.push(if is_key { tag::KEY_ROW } else { tag::ROW });
        put_varint(out, u64::from(number));
        put_varint(out, self.rows);
        put_varint(out, pages as u64);
        let cells = Cells {
            time_ms,
            values: &scratch.values,
            present: &scratch.present,
            stale: &scratch.stale,
        };
        let mut bytes = Vec::new();
        for (page, encoder) in self.pages.iter_mut().enumerate() {
            bytes.clear();
            let histograms = scratch.histograms.iter();
            let histograms = histograms.map(|one| (one.column, &*one.histogram));
            cells.encode_page(page, histograms, encoder, &mut bytes)?;
            put_bytes(out, &bytes);
        }
        self.rows += 1;
        let written = out.len() - start;
        if is_key {
            (self.key_bytes, self.bytes_since_key) = (written, 0);
        } else {
            self.bytes_since_key += written;
        }
        Ok(())
    }

    /// Writes the start times that differ from what the file has.
    fn put_starts(&mut self, number: u32, shape: &Shape, frame: &Frame, out: &mut Vec<u8>) {
        let mut changed = Vec::new();
        for (slot, start_ms) in frame.start_times_ms() {
            let Some(column) = shape.column_of(*slot) else {
                continue;
            };
            if self.starts_ms.len() <= column as usize {
                self.starts_ms.resize(shape.len(), 0);
            }
            let known = &mut self.starts_ms[column as usize];
            if std::mem::replace(known, *start_ms) != *start_ms {
                changed.push((column, *start_ms));
            }
        }
        put_starts(number, &mut changed, out);
    }
}

/// Defines the columns of a strip from `from` on by the numbers of their sets and families.
pub(crate) fn put_columns(strip: u32, from: u64, columns: &[(u32, u32)], out: &mut Vec<u8>) {
    out.push(tag::COLUMNS);
    put_varint(out, u64::from(strip));
    put_varint(out, from);
    put_varint(out, columns.len() as u64);
    let mut expected = 0;
    for run in columns.chunk_by(|a, b| a.1 == b.1) {
        put_varint(out, run.len() as u64);
        put_varint(out, u64::from(run[0].1));
        for (set, _) in run {
            put_signed(out, i64::from(*set) - expected);
            expected = i64::from(*set) + 1;
        }
    }
}

/// Writes start times that changed, sorting them by column.
pub(crate) fn put_starts(strip: u32, changed: &mut [(u32, i64)], out: &mut Vec<u8>) {
    if changed.is_empty() {
        return;
    }
    changed.sort_unstable();
    out.push(tag::STARTS);
    put_varint(out, u64::from(strip));
    put_varint(out, changed.len() as u64);
    let mut before = (0, 0);
    for (column, start_ms) in changed {
        put_varint(out, u64::from(*column - before.0));
        put_signed(out, start_ms.wrapping_sub(before.1));
        before = (*column, *start_ms);
    }
}

fn put_exemplars(
    number: u32,
    shape: &Shape,
    frame: &Frame,
    dictionary: &mut Dictionary,
    out: &mut Vec<u8>,
) {
    for (slot, exemplar) in frame.exemplars() {
        let Some(column) = shape.column_of(*slot) else {
            continue;
        };
        let exemplar = ExemplarRef {
            labels: dictionary.set(&exemplar.labels, out),
            value: exemplar.value,
            time_ms: exemplar.time_ms.unwrap_or(frame.time_of(*slot)),
        };
        put_exemplar(number, column, &exemplar, out);
    }
}

/// Writes an exemplar of the column's next sample.
pub(crate) fn put_exemplar(strip: u32, column: u32, exemplar: &ExemplarRef, out: &mut Vec<u8>) {
    out.push(tag::EXEMPLAR);
    put_varint(out, u64::from(strip));
    put_varint(out, u64::from(column));
    put_signed(out, exemplar.time_ms);
    out.extend_from_slice(&exemplar.value.to_le_bytes());
    put_varint(out, u64::from(exemplar.labels));
}

fn put_sparse(number: u32, frame: &Frame, sparse: &[SparseSample], out: &mut Vec<u8>) {
    out.push(tag::SPARSE);
    put_varint(out, u64::from(number));
    put_signed(out, frame.time_ms());
    put_varint(out, sparse.len() as u64);
    let mut before = 0;
    for sample in sparse {
        put_signed(out, i64::from(sample.column) - before);
        before = i64::from(sample.column);
        put_signed(out, sample.time_ms.wrapping_sub(frame.time_ms()));
        let histogram = match Cell::decode(sample.cell) {
            Cell::Histogram(index) => frame.histograms().get(index as usize),
            _ => None,
        };
        put_value(sample.cell, histogram.map(|one| &**one), 0, out);
    }
}

/// Writes the kind and value of a sample outside of rows.
pub(crate) fn put_value(
    cell: f64,
    histogram: Option<&Histogram>,
    start_ms: i64,
    out: &mut Vec<u8>,
) {
    let value = match histogram {
        Some(histogram) => SingleValue::Histogram(histogram),
        None if cell::is_stale(cell) => SingleValue::Stale,
        None => SingleValue::Float(cell),
    };
    value.put(start_ms, out);
}

/// A value outside of rows.
pub(crate) enum SingleValue<'a> {
    Float(f64),
    Stale,
    Histogram(&'a Histogram),
}

impl SingleValue<'_> {
    /// Writes the kind and the value, and the start time unless it is 0.
    pub(crate) fn put(&self, start_ms: i64, out: &mut Vec<u8>) {
        let started = if start_ms == 0 { 0 } else { kind::STARTED };
        match self {
            Self::Float(value) => {
                out.push(kind::FLOAT | started);
                out.extend_from_slice(&value.to_le_bytes());
            }
            Self::Stale => out.push(kind::STALE | started),
            Self::Histogram(histogram) => {
                out.push(kind::HISTOGRAM | started);
                let mut bytes = Vec::new();
                encode_histogram(histogram, &mut bytes);
                put_bytes(out, &bytes);
            }
        }
        if start_ms != 0 {
            put_signed(out, start_ms);
        }
    }
}

/// The cells of a row that are no histograms.
pub(crate) struct Cells<'a> {
    pub(crate) time_ms: i64,
    pub(crate) values: &'a [f64],
    pub(crate) present: &'a [u64],
    pub(crate) stale: &'a [u32],
}

impl Cells<'_> {
    /// Encodes the part of a row that belongs to a page; `histograms` are those of the whole row.
    pub(crate) fn encode_page<'h>(
        &self,
        page: usize,
        histograms: impl Iterator<Item = (u32, &'h Histogram)>,
        encoder: &mut RowEncoder,
        out: &mut Vec<u8>,
    ) -> Result<(), ChunkError> {
        let from = page * MAX_COLUMNS;
        let to = (from + MAX_COLUMNS).min(self.values.len());
        let within = |column: u32| (from..to).contains(&(column as usize));
        let local = |column: u32| column - from as u32;
        let stale = self.stale.iter().filter(|column| within(**column));
        let stale: Vec<u32> = stale.map(|column| local(*column)).collect();
        let histograms = histograms.filter(|(column, _)| within(*column));
        let histograms: Vec<_> = histograms
            .map(|(column, one)| (local(column), one))
            .collect();
        let row = Row {
            time_ms: self.time_ms,
            values: &self.values[from..to],
            present: Some(&self.present[from / 64..to.div_ceil(64)]),
            stale: &stale,
            histograms: &histograms,
        };
        encoder.encode(&row, out).map(drop)
    }
}

impl Scratch {
    /// Takes what a frame has for the columns of a shape.
    fn fill(&mut self, shape: &Shape, frame: &Frame, parts: Parts) {
        self.stale.clear();
        self.histograms.clear();
        self.sparse.clear();
        self.present.clear();
        self.values.clear();
        if shape.is_whole && frame.histograms().is_empty() && frame.times_ms().is_empty() {
            self.values.extend_from_slice(frame.values());
            self.present.extend_from_slice(frame.present().words());
        } else {
            self.gather(shape, frame, parts);
        }
        let stale = frame.stale().iter();
        self.stale
            .extend(stale.filter_map(|slot| shape.column_of(*slot)));
        self.stale.sort_unstable();
        self.stale.dedup();
        let present = &self.present;
        self.stale
            .retain(|column| !is_set(present, *column as usize));
    }

    fn gather(&mut self, shape: &Shape, frame: &Frame, parts: Parts) {
        self.values.resize(shape.len(), 0.0);
        self.present.resize(shape.len().div_ceil(64), 0);
        let values = frame.values();
        for (column, slot) in shape.slots.iter().enumerate() {
            let slot = *slot as usize;
            if !frame.present().contains(slot) {
                continue;
            }
            let cell = values[slot];
            let histogram = match Cell::decode(cell) {
                Cell::Histogram(_) if !parts.histograms => continue,
                Cell::Histogram(index) => frame.histograms().get(index as usize),
                _ => None,
            };
            let time_ms = frame.times_ms().get(slot).copied();
            let time_ms = time_ms.unwrap_or(frame.time_ms());
            let column_number = column as u32;
            if time_ms != frame.time_ms() {
                self.sparse.push(SparseSample {
                    column: column_number,
                    time_ms,
                    cell,
                });
            } else if let Some(histogram) = histogram {
                self.histograms.push(RowHistogram {
                    column: column_number,
                    cell,
                    histogram: Arc::clone(histogram),
                });
            } else {
                self.values[column] = cell;
                self.present[column / 64] |= 1 << (column % 64);
            }
        }
    }

    fn floats(&self) -> usize {
        let ones = self.present.iter().map(|word| word.count_ones() as usize);
        ones.sum()
    }

    fn samples(&self) -> u64 {
        (self.floats() + self.stale.len() + self.histograms.len() + self.sparse.len()) as u64
    }

    fn has_row(&self) -> bool {
        self.floats() + self.stale.len() + self.histograms.len() > 0
    }

    /// Reports whether samples one by one are shorter than a row.
    fn is_sparse(&self, columns: usize) -> bool {
        let found = self.floats() + self.stale.len() + self.histograms.len();
        found * SPARSE < columns
    }

    /// Turns the row into single samples.
    fn make_sparse(&mut self, frame: &Frame) {
        let time_ms = frame.time_ms();
        let Self {
            values,
            present,
            stale,
            histograms,
            sparse,
            ..
        } = self;
        let set = |column: u32, cell| SparseSample {
            column,
            time_ms,
            cell,
        };
        for (word_at, word) in present.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                let column = word_at * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                sparse.push(set(column as u32, values[column]));
            }
        }
        sparse.extend(stale.drain(..).map(|column| set(column, cell::STALE)));
        sparse.extend(histograms.drain(..).map(|one| set(one.column, one.cell)));
        sparse.sort_by_key(|sample| sample.column);
    }
}

pub(crate) fn is_set(words: &[u64], bit: usize) -> bool {
    words
        .get(bit / 64)
        .is_some_and(|word| word >> (bit % 64) & 1 == 1)
}
