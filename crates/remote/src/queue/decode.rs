//! Entries of a file, decoded: definitions are kept, samples are handed on.
//!
//! **Invariant:** what refers to something lost is left out and counted; nothing is handed on under another series'
//! labels. The same bytes give the same items in the same order, so that a position within an entry has a meaning.

use super::{
    Position,
    bytes::{Malformed, Reader},
    format::{kind, tag},
    symbols::Symbols,
};
use narthex_chunks::{
    histogram::decode_histogram,
    row::{MAX_COLUMNS, RowDecoder},
};
use narthex_model::{
    Histogram,
    cell::{self, Cell},
    storage::{Budget, Lease, OverBudget},
};
use std::collections::HashMap;

/// Stands for a set or family that is not there.
const NONE: u32 = u32::MAX;

/// A series, by numbers in [`Symbols`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SeriesRef {
    common: u32,
    local: u32,
    family: u32,
}

impl SeriesRef {
    /// Returns the numbers of the sets of the strip's common labels, if any, and of the series' own.
    pub(crate) fn sets(&self) -> (Option<u32>, u32) {
        (Some(self.common).filter(|set| *set != NONE), self.local)
    }

    /// Returns the label numbers of both parts, each sorted by name.
    #[inline]
    pub(crate) fn labels<'a>(&self, symbols: &'a Symbols) -> [&'a [u32]; 2] {
        [self.common, self.local].map(|set| symbols.set(set).unwrap_or_default())
    }

    /// Calls `visit` with the number, name and value of each of the series' labels, sorted by name.
    #[inline]
    pub(crate) fn each_label<'s>(
        &self,
        symbols: &'s Symbols,
        mut visit: impl FnMut(u32, &'s [u8], &'s [u8]),
    ) {
        let [common, local] = self.labels(symbols);
        let (mut left, mut right) = (common.iter().peekable(), local.iter().peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (None, None) => return,
                (Some(_), None) => left.next(),
                (None, Some(_)) => right.next(),
                (Some(a), Some(b)) => {
                    let name = |number: u32| symbols.label(number).map(|(name, _)| name);
                    if name(**a) <= name(**b) {
                        left.next()
                    } else {
                        right.next()
                    }
                }
            };
            if let Some(number) = next
                && let Some((name, value)) = symbols.label(*number)
            {
                visit(*number, name, value);
            }
        }
    }

    /// Returns the series' hash, the same in every process.
    #[inline]
    pub(crate) fn hash(&self, symbols: &Symbols) -> u64 {
        let of = |set| symbols.hash(set).unwrap_or_default();
        of(self.common).wrapping_add(of(self.local))
    }

    /// Returns the number of its family.
    pub(crate) fn family(&self) -> Option<u32> {
        Some(self.family).filter(|family| *family != NONE)
    }

    fn is_known(&self, symbols: &Symbols) -> bool {
        let known = |set: u32| symbols.set(set).is_some();
        known(self.local) && (self.common == NONE || known(self.common))
    }
}

/// What a sample says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A number, possibly a staleness marker.
    Float(f64),
    Histogram(Box<Histogram>),
    /// Only exemplars.
    Nothing,
}

/// An exemplar; its labels are a set in [`Symbols`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ExemplarRef {
    pub(crate) labels: u32,
    pub(crate) value: f64,
    pub(crate) time_ms: i64,
}

/// One sample of one series.
#[derive(Clone, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) series: SeriesRef,
    /// Its strip and column, unless it came outside of strips.
    pub(crate) column: Option<(u32, u32)>,
    pub(crate) time_ms: i64,
    /// 0 if unknown.
    pub(crate) start_ms: i64,
    pub(crate) value: Value,
    pub(crate) exemplars: &'a [ExemplarRef],
}

/// Takes the items of an entry, in order.
pub(crate) trait Visit {
    /// Announces an entry, by its place.
    fn entry(&mut self, at: Position);

    /// Takes the next item.
    fn item(&mut self, symbols: &Symbols, item: Item<'_>);
}

/// State of a file up to an entry.
#[derive(Debug, Default)]
pub(crate) struct FileDecoder {
    symbols: Symbols,
    strips: HashMap<u32, StripState>,
    exemplars: Exemplars,
    /// Heap bytes of the strips, about.
    strip_bytes: usize,
    bounds: Option<Bounds>,
}

/// What a decoder of bytes from outside may use.
#[derive(Debug)]
struct Bounds {
    lease: Lease,
    /// Cells of rows that may still be decoded.
    cells: usize,
    over: Option<OverBudget>,
}

/// Step by which a decoder's lease grows.
const LEASE_BYTES: u64 = 16 << 10;
/// Heap bytes of a strip, and of each of its columns with the state of its rows.
const STRIP_BYTES: usize = 256;
const COLUMN_BYTES: usize = 40;

#[derive(Debug)]
struct StripState {
    common: u32,
    /// Set and family of each column.
    columns: Vec<(u32, u32)>,
    pages: Vec<RowDecoder>,
    /// Number of the row that the pages can go on with; `None` until a key row.
    next_row: Option<u64>,
    starts_ms: Vec<i64>,
}

/// Exemplars of the entry's next row.
#[derive(Debug, Default)]
struct Exemplars {
    strip: u32,
    /// With their columns, ascending once sorted.
    list: Vec<(u32, ExemplarRef)>,
    refs: Vec<ExemplarRef>,
}

/// The place of an entry in the order of samples.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct EntryHead {
    /// Samples in the file before it.
    pub(super) first: u64,
    pub(super) samples: u64,
}

impl EntryHead {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            first: reader.varint()?,
            samples: reader.varint()?,
        })
    }
}

impl FileDecoder {
    /// Returns a decoder of bytes from outside, which keeps what it has within `memory`.
    ///
    /// # Errors
    /// Fails if there is no memory at all.
    pub(crate) fn within(memory: &Budget) -> Result<Self, OverBudget> {
        let bounds = Bounds {
            lease: memory.lease(LEASE_BYTES)?,
            cells: 0,
            over: None,
        };
        Ok(Self {
            bounds: Some(bounds),
            ..Self::default()
        })
    }

    pub(crate) fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Decodes records from outside, with at most `cells` cells of rows; returns how many samples it handed on.
    ///
    /// # Errors
    /// Fails on malformed records, and if there is no memory for what they define, with that as the inner error. The
    /// decoder must not be used afterwards.
    pub(crate) fn records_from_outside(
        &mut self,
        records: &[u8],
        cells: usize,
        visit: &mut dyn Visit,
    ) -> Result<u64, Result<Malformed, OverBudget>> {
        if let Some(bounds) = &mut self.bounds {
            bounds.cells = cells;
        }
        let mut out = Counting { visit, samples: 0 };
        let decoded = self.records(&mut Reader::new(records), &mut out);
        let samples = out.samples;
        match decoded {
            Ok(()) => Ok(samples),
            Err(malformed) => {
                let over = self.bounds.as_mut().and_then(|bounds| bounds.over.take());
                Err(over.map_or(Ok(malformed), Err))
            }
        }
    }

    /// Leases what the decoder holds, if it has bounds.
    fn account(&mut self) -> Result<(), Malformed> {
        let Some(bounds) = &mut self.bounds else {
            return Ok(());
        };
        let held = (self.symbols.heap_bytes() + self.strip_bytes) as u64;
        if held <= bounds.lease.bytes() {
            return Ok(());
        }
        bounds.lease.resize(held + LEASE_BYTES).map_err(|over| {
            bounds.over = Some(over);
            Malformed("more definitions than there is memory for")
        })
    }

    /// Decodes an entry's body and hands its samples to `visit`; returns its place and how many samples it handed on.
    pub(super) fn entry(
        &mut self,
        body: &[u8],
        visit: &mut dyn Visit,
    ) -> Result<(EntryHead, u64), Malformed> {
        let mut reader = Reader::new(body);
        let head = EntryHead::read(&mut reader)?;
        let mut out = Counting { visit, samples: 0 };
        self.records(&mut reader, &mut out)?;
        Ok((head, out.samples))
    }

    fn records(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Counting<'_>,
    ) -> Result<(), Malformed> {
        self.exemplars.list.clear();
        while !reader.is_empty() {
            match reader.byte()? {
                tag::COUNTS => self.symbols.count(reader)?,
                tag::SET => self.symbols.define_set(reader)?,
                tag::FAMILY => self.symbols.define_family(reader)?,
                tag::STRIP => self.define_strip(reader)?,
                tag::COLUMNS => self.define_columns(reader)?,
                tag::STARTS => self.starts(reader)?,
                tag::EXEMPLAR => self.exemplar(reader)?,
                tag @ (tag::ROW | tag::KEY_ROW) => {
                    self.row(reader, tag == tag::KEY_ROW, out)?;
                }
                tag::SPARSE => self.sparse(reader, out)?,
                tag::SERIES => self.series(reader, out)?,
                _ => return Err(Malformed("a record of unknown kind")),
            }
            self.account()?;
        }
        self.lone_exemplars(out);
        Ok(())
    }

    fn define_strip(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let number = reader.number("the number of a strip")?;
        let strip = StripState {
            common: reader.number("the number of a set")?,
            columns: Vec::new(),
            pages: Vec::new(),
            next_row: None,
            starts_ms: Vec::new(),
        };
        self.strip_bytes += STRIP_BYTES;
        self.strips.insert(number, strip);
        Ok(())
    }

    fn define_columns(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let number = reader.number("the number of a strip")?;
        let from = reader.varint()?;
        let mut left = reader.varint()?;
        let mut columns = Vec::new();
        let mut expected = 0_i64;
        while left > 0 {
            let run = reader.varint()?;
            let family = reader.number("the number of a family")?;
            left = left
                .checked_sub(run)
                .filter(|_| run > 0)
                .ok_or(Malformed("a run of columns"))?;
            for _ in 0..run {
                let set = expected.wrapping_add(reader.signed()?);
                let set = u32::try_from(set).map_err(|_| Malformed("the number of a set"))?;
                expected = i64::from(set) + 1;
                columns.push((set, family));
            }
        }
        let Some(strip) = self.strips.get_mut(&number) else {
            return Ok(());
        };
        if strip.columns.len() as u64 == from {
            self.strip_bytes += columns.len() * COLUMN_BYTES;
            strip.columns.extend(columns);
        } else {
            // Columns before these were lost: what the rest of the file has of the strip cannot be told.
            self.strips.remove(&number);
        }
        Ok(())
    }

    fn starts(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let number = reader.number("the number of a strip")?;
        let count = reader.varint()?;
        let mut strip = self.strips.get_mut(&number);
        let (mut column, mut start_ms) = (0_u32, 0_i64);
        for _ in 0..count {
            let gap = reader.number("a column")?;
            column = column.wrapping_add(gap);
            start_ms = start_ms.wrapping_add(reader.signed()?);
            let Some(strip) = &mut strip else { continue };
            let columns = strip.columns.len();
            if (column as usize) < columns {
                if strip.starts_ms.len() <= column as usize {
                    strip.starts_ms.resize(columns, 0);
                }
                strip.starts_ms[column as usize] = start_ms;
            }
        }
        Ok(())
    }

    fn exemplar(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        self.exemplars.strip = reader.number("the number of a strip")?;
        let column = reader.number("a column")?;
        let exemplar = ExemplarRef {
            time_ms: reader.signed()?,
            value: reader.double()?,
            labels: reader.number("the number of a set")?,
        };
        if self.symbols.set(exemplar.labels).is_some() {
            self.exemplars.list.push((column, exemplar));
        }
        Ok(())
    }

    fn row(
        &mut self,
        reader: &mut Reader<'_>,
        is_key: bool,
        out: &mut Counting<'_>,
    ) -> Result<(), Malformed> {
        let number = reader.number("the number of a strip")?;
        let row = reader.varint()?;
        let pages = reader.varint()?;
        let mut strip = self.strips.get_mut(&number);
        if let (Some(strip), Some(bounds)) = (&strip, &mut self.bounds) {
            let left = bounds.cells.checked_sub(strip.columns.len());
            bounds.cells = left.ok_or(Malformed("more rows than a request may have"))?;
        }
        if let Some(strip) = &mut strip
            && strip.next_row != Some(row)
        {
            strip.pages.clear();
            strip.next_row = is_key.then_some(row);
        }
        let mut strip = strip.filter(|strip| strip.next_row.is_some());
        for page in 0..pages {
            let bytes = reader.bytes()?;
            let Some(strip) = &mut strip else { continue };
            let at = page as usize;
            let columns = strip.columns.len().saturating_sub(at * MAX_COLUMNS);
            if columns == 0 {
                return Err(Malformed("a row with more pages than its strip"));
            }
            if strip.pages.len() <= at {
                strip.pages.resize_with(at + 1, RowDecoder::new);
            }
            let mut histograms = Vec::new();
            let decoder = &mut strip.pages[at];
            self.strip_bytes -= decoder.state().histogram_bytes();
            let stepped = decoder.step_with(bytes, |_, state| {
                histograms.push(Box::new(state.to_histogram()));
            });
            self.strip_bytes += decoder.state().histogram_bytes();
            if stepped.is_err() || decoder.cells().len() > columns {
                strip.next_row = None;
                return Err(Malformed("a row that cannot be decoded"));
            }
            let mut row = PageRow {
                decoder: &strip.pages[at],
                first_column: at * MAX_COLUMNS,
                histograms: histograms.into_iter(),
            };
            row.hand_on(strip, &self.symbols, number, &mut self.exemplars, out)?;
        }
        if let Some(strip) = strip {
            strip.next_row = Some(row + 1);
        }
        Ok(())
    }

    fn sparse(&mut self, reader: &mut Reader<'_>, out: &mut Counting<'_>) -> Result<(), Malformed> {
        let number = reader.number("the number of a strip")?;
        let base_ms = reader.signed()?;
        let count = reader.varint()?;
        let strip = self.strips.get(&number);
        let mut column = 0_i64;
        for _ in 0..count {
            column = column.wrapping_add(reader.signed()?);
            let time_ms = base_ms.wrapping_add(reader.signed()?);
            let (value, start_ms) = read_value(reader)?;
            let known = u32::try_from(column).ok().zip(strip);
            let Some((series, start, column)) = known.and_then(|(column, strip)| {
                Some((strip.series(column as usize)?, strip.start(column), column))
            }) else {
                continue;
            };
            let exemplars = self.exemplars.of_column(number, column);
            let item = Item {
                series,
                column: Some((number, column)),
                time_ms,
                start_ms: if start_ms == 0 { start } else { start_ms },
                value,
                exemplars,
            };
            out.item(&self.symbols, item);
        }
        Ok(())
    }

    fn series(&mut self, reader: &mut Reader<'_>, out: &mut Counting<'_>) -> Result<(), Malformed> {
        let count = reader.varint()?;
        let mut time_ms = 0_i64;
        for _ in 0..count {
            let series = SeriesRef {
                common: NONE,
                local: reader.number("the number of a set")?,
                family: NONE,
            };
            time_ms = time_ms.wrapping_add(reader.signed()?);
            let (value, start_ms) = read_value(reader)?;
            let item = Item {
                series,
                column: None,
                time_ms,
                start_ms,
                value,
                exemplars: &[],
            };
            out.item(&self.symbols, item);
        }
        Ok(())
    }

    /// Hands on exemplars whose series have no sample in the entry.
    fn lone_exemplars(&mut self, out: &mut Counting<'_>) {
        let Some(strip) = self.strips.get(&self.exemplars.strip) else {
            return;
        };
        for (column, exemplar) in std::mem::take(&mut self.exemplars.list) {
            let Some(series) = strip.series(column as usize) else {
                continue;
            };
            let item = Item {
                series,
                column: Some((self.exemplars.strip, column)),
                time_ms: exemplar.time_ms,
                start_ms: 0,
                value: Value::Nothing,
                exemplars: &[exemplar],
            };
            out.item(&self.symbols, item);
        }
    }
}

impl StripState {
    fn series(&self, column: usize) -> Option<SeriesRef> {
        let (local, family) = *self.columns.get(column)?;
        Some(SeriesRef {
            common: self.common,
            local,
            family,
        })
    }

    fn start(&self, column: u32) -> i64 {
        let start = self.starts_ms.get(column as usize);
        start.copied().unwrap_or_default()
    }
}

impl Exemplars {
    /// Removes and returns those of a column.
    fn of_column(&mut self, strip: u32, column: u32) -> &[ExemplarRef] {
        self.refs.clear();
        if self.list.is_empty() || strip != self.strip {
            return &[];
        }
        let refs = &mut self.refs;
        self.list.retain(|(of, exemplar)| {
            if *of == column {
                refs.push(*exemplar);
            }
            *of != column
        });
        &self.refs
    }
}

/// A row of one page.
struct PageRow<'a> {
    decoder: &'a RowDecoder,
    first_column: usize,
    /// In the order of their cells.
    histograms: std::vec::IntoIter<Box<Histogram>>,
}

impl PageRow<'_> {
    fn hand_on(
        &mut self,
        strip: &StripState,
        symbols: &Symbols,
        number: u32,
        exemplars: &mut Exemplars,
        out: &mut Counting<'_>,
    ) -> Result<(), Malformed> {
        let time_ms = self.decoder.time_ms();
        for (at, cell) in self.decoder.cells().iter().enumerate() {
            let column = self.first_column + at;
            let value = match Cell::decode(*cell) {
                Cell::Absent => continue,
                Cell::Stale => Value::Float(cell::STALE),
                Cell::Float(value) => Value::Float(value),
                Cell::Histogram(_) => match self.histograms.next() {
                    Some(histogram) => Value::Histogram(histogram),
                    None => continue,
                },
            };
            let Some(series) = strip.series(column) else {
                continue;
            };
            let column = column as u32;
            let item = Item {
                series,
                column: Some((number, column)),
                time_ms,
                start_ms: strip.start(column),
                value,
                exemplars: exemplars.of_column(number, column),
            };
            out.item(symbols, item);
        }
        Ok(())
    }
}

/// Passes items on and counts their samples.
struct Counting<'a> {
    visit: &'a mut dyn Visit,
    samples: u64,
}

impl Counting<'_> {
    #[inline]
    fn item(&mut self, symbols: &Symbols, item: Item<'_>) {
        if !item.series.is_known(symbols) {
            return;
        }
        self.samples += u64::from(item.value != Value::Nothing);
        self.visit.item(symbols, item);
    }
}

fn read_value(reader: &mut Reader<'_>) -> Result<(Value, i64), Malformed> {
    let what = reader.byte()?;
    let value = match what & !kind::STARTED {
        kind::FLOAT => Value::Float(cell::canonical(reader.double()?)),
        kind::STALE => Value::Float(cell::STALE),
        kind::HISTOGRAM => histogram(reader.bytes()?)?,
        _ => return Err(Malformed("a sample of unknown kind")),
    };
    let start_ms = if what & kind::STARTED == 0 {
        0
    } else {
        reader.signed()?
    };
    Ok((value, start_ms))
}

fn histogram(bytes: &[u8]) -> Result<Value, Malformed> {
    let histogram = decode_histogram(bytes);
    let histogram = histogram.map_err(|_| Malformed("a histogram that cannot be decoded"))?;
    Ok(Value::Histogram(Box::new(histogram)))
}
