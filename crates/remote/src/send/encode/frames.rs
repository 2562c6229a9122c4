//! Frames: docs/format/remote-frames.md. Rows of the queue become rows of the request, without their labels.
//!
//! A session is a file of the queue as one shard reads it. What it has defined stays defined, so that requests must be
//! taken in the order in which they were made, each once.
//!
//! **Invariant:** what a record refers to is defined before it, in its request or an earlier one of the session.

use crate::{
    frames::{HEAD_BYTES, SessionId, put_head},
    queue::{
        Cells, ExemplarRef, FamilyRef, Item, SPARSE, SingleValue, Symbols, Value, is_set,
        put_bytes, put_columns, put_exemplar, put_starts, put_value, tag,
    },
};
use foldhash::fast::RandomState;
use narthex_chunks::{
    ChunkError,
    row::{MAX_COLUMNS, RowEncoder},
};
use narthex_model::{
    Histogram, cell,
    varint::{put_signed, put_varint},
};
use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hasher as _, RandomState as SeededState},
};

/// Stands for a column without a number, and for a set or family that is not there.
const NONE: u32 = u32::MAX;

/// Numbers by other numbers.
type Numbers = HashMap<u32, u32, RandomState>;

/// A request under construction, and its session.
#[derive(Debug)]
pub(super) struct Request {
    session: SessionId,
    replaced: SessionId,
    sequence: u64,
    names: HashMap<Box<[u8]>, u32, RandomState>,
    /// Numbers of the session by those of the file.
    labels: Numbers,
    sets: Numbers,
    families: Numbers,
    strips: Vec<Strip>,
    /// Indices of the file's strips.
    strip_indices: Numbers,
    /// The file's strip whose row is open, and its index.
    open: Option<(u32, usize)>,
    row: OpenRow,
    /// Samples outside of strips that are not written yet: their number, the time of the last, and their bytes.
    singles: (u64, i64, Vec<u8>),
    samples: u64,
    records: Vec<u8>,
}

/// A strip of the session.
#[derive(Debug)]
struct Strip {
    number: u32,
    /// Numbers of the file's columns.
    columns: Vec<u32>,
    /// How many columns it has.
    len: u32,
    pages: Vec<RowEncoder>,
    rows: u64,
    starts_ms: Vec<i64>,
}

/// A row whose samples are still coming.
#[derive(Debug, Default)]
struct OpenRow {
    time_ms: i64,
    len: usize,
    values: Vec<f64>,
    present: Vec<u64>,
    /// Columns with a sample of any kind.
    taken: Vec<u64>,
    stale: Vec<u32>,
    histograms: Vec<(u32, Histogram)>,
    /// Columns that are defined with the row: numbers of their set and family.
    defined: Vec<(u32, u32)>,
    started: Vec<(u32, i64)>,
    exemplars: Vec<u8>,
}

impl Request {
    pub(super) fn new() -> Self {
        Self {
            session: new_session(),
            replaced: [0; 16],
            sequence: 0,
            names: HashMap::default(),
            labels: Numbers::default(),
            sets: Numbers::default(),
            families: Numbers::default(),
            strips: Vec::new(),
            strip_indices: Numbers::default(),
            open: None,
            row: OpenRow::default(),
            singles: (0, 0, Vec::new()),
            samples: 0,
            records: Vec::new(),
        }
    }

    /// Returns the length of what is written.
    pub(super) fn len(&self) -> usize {
        self.records.len() + self.singles.2.len()
    }

    /// Begins another session: numbers of another file follow. Everything before must be in a finished request.
    pub(super) fn begin_file(&mut self) {
        debug_assert!(self.samples == 0, "a request is of one file");
        let replaced = std::mem::replace(self, Self::new()).session;
        self.replaced = replaced;
    }

    /// Adds an item with a sample.
    pub(super) fn push(&mut self, symbols: &Symbols, item: &Item<'_>) {
        self.samples += 1;
        match item.column {
            Some((strip, column)) => self.push_column(symbols, item, strip, column),
            None => self.push_single(symbols, item),
        }
    }

    /// Appends the request to `out` and begins the next one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.close_row();
        self.close_singles();
        out.reserve(HEAD_BYTES + self.records.len());
        put_head(
            self.session,
            self.sequence,
            self.replaced,
            self.samples,
            out,
        );
        out.append(&mut self.records);
        self.sequence += 1;
        self.samples = 0;
    }

    fn push_column(&mut self, symbols: &Symbols, item: &Item<'_>, strip: u32, column: u32) {
        let at = match self.open {
            Some((open, at)) if open == strip => at,
            _ => self.open_strip(symbols, item, strip),
        };
        let known = self.strips[at].columns.get(column as usize).copied();
        let number = match known {
            Some(number) if number != NONE => number,
            _ => self.define_column(symbols, item, at, column),
        };
        if self.row.len > 0 && (self.row.time_ms != item.time_ms || self.row.has(number)) {
            self.close_row();
            self.open = Some((strip, at));
        }
        self.row.add(number, item);
        self.strips[at].start(number, item.start_ms, &mut self.row.started);
        for exemplar in item.exemplars {
            let exemplar = ExemplarRef {
                labels: self.set(symbols, exemplar.labels),
                ..*exemplar
            };
            put_exemplar(at as u32, number, &exemplar, &mut self.row.exemplars);
        }
    }

    /// Makes a strip the open one, first defining it if the session lacks it; returns its index.
    fn open_strip(&mut self, symbols: &Symbols, item: &Item<'_>, strip: u32) -> usize {
        self.close_row();
        self.close_singles();
        if let Some(at) = self.strip_indices.get(&strip) {
            let at = *at as usize;
            self.open = Some((strip, at));
            return at;
        }
        let (common, _) = item.series.sets();
        let common = self.set(symbols, common.unwrap_or(NONE));
        let at = self.strips.len();
        let number = at as u32;
        self.records.push(tag::STRIP);
        put_varint(&mut self.records, u64::from(number));
        put_varint(&mut self.records, u64::from(common));
        self.strips.push(Strip {
            number,
            columns: Vec::new(),
            len: 0,
            pages: Vec::new(),
            rows: 0,
            starts_ms: Vec::new(),
        });
        self.strip_indices.insert(strip, number);
        self.open = Some((strip, at));
        at
    }

    fn define_column(
        &mut self,
        symbols: &Symbols,
        item: &Item<'_>,
        strip: usize,
        column: u32,
    ) -> u32 {
        let (_, local) = item.series.sets();
        let set = self.set(symbols, local);
        let family = self.family(symbols, item.series.family());
        self.row.defined.push((set, family));
        let strip = &mut self.strips[strip];
        let column = column as usize;
        if strip.columns.len() <= column {
            strip.columns.resize(column + 1, NONE);
        }
        strip.columns[column] = strip.len;
        strip.len += 1;
        strip.len - 1
    }

    /// Writes the open row, if there is one.
    fn close_row(&mut self) {
        if let Some((_, at)) = self.open.take() {
            self.row.write(&mut self.strips[at], &mut self.records);
        }
    }

    fn push_single(&mut self, symbols: &Symbols, item: &Item<'_>) {
        self.close_row();
        let (_, local) = item.series.sets();
        let set = self.set(symbols, local);
        let (count, last_ms, out) = &mut self.singles;
        put_varint(out, u64::from(set));
        put_signed(out, item.time_ms.wrapping_sub(*last_ms));
        put_single(item, out);
        *count += 1;
        *last_ms = item.time_ms;
    }

    fn close_singles(&mut self) {
        let (count, _, bytes) = std::mem::take(&mut self.singles);
        if count > 0 {
            self.records.push(tag::SERIES);
            put_varint(&mut self.records, count);
            self.records.extend_from_slice(&bytes);
        }
    }

    /// Returns the session's number of a set of the file, first defining it if the session lacks it.
    fn set(&mut self, symbols: &Symbols, set: u32) -> u32 {
        if let Some(number) = self.sets.get(&set) {
            return *number;
        }
        let labels = symbols.set(set).unwrap_or_default();
        self.records.push(tag::SET);
        put_varint(&mut self.records, labels.len() as u64);
        for label in labels {
            self.put_label(symbols, *label);
        }
        let number = self.sets.len() as u32;
        self.sets.insert(set, number);
        number
    }

    fn put_label(&mut self, symbols: &Symbols, label: u32) {
        if let Some(number) = self.labels.get(&label) {
            return put_varint(&mut self.records, u64::from(*number) + 1);
        }
        self.labels.insert(label, self.labels.len() as u32);
        let (name, value) = symbols.label(label).unwrap_or_default();
        let out = &mut self.records;
        put_varint(out, 0);
        if let Some(number) = self.names.get(name) {
            put_varint(out, u64::from(*number) + 1);
        } else {
            put_varint(out, 0);
            put_bytes(out, name);
            self.names.insert(name.into(), self.names.len() as u32);
        }
        put_bytes(out, value);
    }

    /// Returns the session's number of a family of the file, as `set` does.
    fn family(&mut self, symbols: &Symbols, family: Option<u32>) -> u32 {
        let family = family.unwrap_or(NONE);
        if let Some(number) = self.families.get(&family) {
            return *number;
        }
        let texts = symbols.family(family).unwrap_or(FamilyRef {
            metric_type: 0,
            name: b"",
            unit: b"",
            help: b"",
        });
        self.records.push(tag::FAMILY);
        self.records.push(texts.metric_type);
        for text in [texts.name, texts.unit, texts.help] {
            put_bytes(&mut self.records, text);
        }
        let number = self.families.len() as u32;
        self.families.insert(family, number);
        number
    }
}

impl Strip {
    /// Notes the start time of a column's sample.
    #[inline]
    fn start(&mut self, column: u32, start_ms: i64, changed: &mut Vec<(u32, i64)>) {
        let column_at = column as usize;
        if start_ms == 0 && column_at >= self.starts_ms.len() {
            return;
        }
        if column_at >= self.starts_ms.len() {
            self.starts_ms.resize(column_at + 1, 0);
        }
        if std::mem::replace(&mut self.starts_ms[column_at], start_ms) != start_ms {
            changed.push((column, start_ms));
        }
    }
}

impl OpenRow {
    /// Reports whether a column has a sample.
    fn has(&self, column: u32) -> bool {
        is_set(&self.taken, column as usize)
    }

    #[inline]
    fn add(&mut self, column: u32, item: &Item<'_>) {
        self.time_ms = item.time_ms;
        self.len += 1;
        let at = column as usize;
        set(&mut self.taken, at);
        match &item.value {
            Value::Float(value) if cell::is_stale(*value) => self.stale.push(column),
            Value::Float(value) => {
                if self.values.len() <= at {
                    self.values.resize(at + 1, 0.0);
                }
                self.values[at] = *value;
                set(&mut self.present, at);
            }
            Value::Histogram(one) => self.histograms.push((column, (**one).clone())),
            Value::Nothing => {}
        }
    }

    /// Writes the row and what it needs, and empties it.
    fn write(&mut self, strip: &mut Strip, out: &mut Vec<u8>) {
        self.put_columns(strip, out);
        put_starts(strip.number, &mut self.started, out);
        out.append(&mut self.exemplars);
        self.stale.sort_unstable();
        self.histograms.sort_unstable_by_key(|(column, _)| *column);
        let len = strip.len as usize;
        self.values.resize(len, 0.0);
        self.present.resize(len.div_ceil(64), 0);
        let is_sparse = self.len * SPARSE < len;
        if self.len > 0 && (is_sparse || self.put_row(strip, out).is_err()) {
            self.put_sparse(strip, out);
        }
        self.started.clear();
        self.stale.clear();
        self.histograms.clear();
        self.present.clear();
        self.taken.clear();
        self.len = 0;
    }

    /// Defines columns that came with the row.
    fn put_columns(&mut self, strip: &Strip, out: &mut Vec<u8>) {
        if self.defined.is_empty() {
            return;
        }
        let from = u64::from(strip.len) - self.defined.len() as u64;
        put_columns(strip.number, from, &self.defined, out);
        self.defined.clear();
    }

    fn put_row(&self, strip: &mut Strip, out: &mut Vec<u8>) -> Result<(), ChunkError> {
        let start = out.len();
        let is_first = strip.pages.is_empty();
        let pages = (strip.len as usize).div_ceil(MAX_COLUMNS);
        strip.pages.resize_with(pages, RowEncoder::new);
        out.push(if is_first { tag::KEY_ROW } else { tag::ROW });
        put_varint(out, u64::from(strip.number));
        put_varint(out, strip.rows);
        put_varint(out, pages as u64);
        let cells = Cells {
            time_ms: self.time_ms,
            values: &self.values,
            present: &self.present,
            stale: &self.stale,
        };
        let mut bytes = Vec::new();
        for (page, encoder) in strip.pages.iter_mut().enumerate() {
            bytes.clear();
            let histograms = self.histograms.iter();
            let histograms = histograms.map(|(column, one)| (*column, one));
            if let Err(error) = cells.encode_page(page, histograms, encoder, &mut bytes) {
                // Nothing of the row is sent; the gap in the numbers makes the next one begin anew.
                out.truncate(start);
                strip.pages.clear();
                strip.rows += 1;
                return Err(error);
            }
            put_bytes(out, &bytes);
        }
        strip.rows += 1;
        Ok(())
    }

    /// Writes the row's samples one by one.
    fn put_sparse(&self, strip: &Strip, out: &mut Vec<u8>) {
        let mut samples: Vec<(u32, SingleValue<'_>)> = Vec::with_capacity(self.len);
        for (column, value) in self.values.iter().enumerate() {
            if is_set(&self.present, column) {
                samples.push((column as u32, SingleValue::Float(*value)));
            }
        }
        samples.extend(
            self.stale
                .iter()
                .map(|column| (*column, SingleValue::Stale)),
        );
        let histograms = self.histograms.iter();
        samples.extend(histograms.map(|(column, one)| (*column, SingleValue::Histogram(one))));
        samples.sort_by_key(|(column, _)| *column);
        out.push(tag::SPARSE);
        put_varint(out, u64::from(strip.number));
        put_signed(out, self.time_ms);
        put_varint(out, samples.len() as u64);
        let mut before = 0;
        for (column, value) in samples {
            put_signed(out, i64::from(column) - before);
            before = i64::from(column);
            put_signed(out, 0);
            value.put(0, out);
        }
    }
}

#[inline]
fn set(words: &mut Vec<u64>, bit: usize) {
    if words.len() <= bit / 64 {
        words.resize(bit / 64 + 1, 0);
    }
    words[bit / 64] |= 1 << (bit % 64);
}

/// Writes the value of a sample outside of strips.
fn put_single(item: &Item<'_>, out: &mut Vec<u8>) {
    let (cell, histogram) = match &item.value {
        Value::Float(value) => (*value, None),
        Value::Histogram(one) => (0.0, Some(&**one)),
        Value::Nothing => return,
    };
    put_value(cell, histogram, item.start_ms, out);
}

/// Returns a name that no other session has.
fn new_session() -> SessionId {
    // The standard library's hashers are seeded with the system's random numbers.
    let random = || SeededState::new().build_hasher().finish();
    let (low, high) = (random(), random());
    (u128::from(low) | u128::from(high) << 64).to_le_bytes()
}
