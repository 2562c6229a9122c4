//! Records: the events in a batch's body, in order.
//!
//! Bytes: docs/format/wal.md. A record is a tag and its fields; a row adds at most five bytes to the strip's own
//! bytes.
//!
//! **Invariant:** reading never fails on `RecordWriter`'s output in the same file, and never panics on any input.

use super::{
    pieces::Batches,
    symbols::{SymbolReader, SymbolWriter},
    tag,
};
use crate::bytes::{Malformed, Reader, put_bytes, put_signed, put_varint};
use narthex_model::{Exemplar, Label, LabelSet, MetricType, cell, metadata::Family};
use std::borrow::Cow;

mod kind {
    pub(super) const RAW: u8 = 0;
    pub(super) const INTEGER: u8 = 1;
    pub(super) const STALE: u8 = 2;
    pub(super) const HISTOGRAM: u8 = 3;
    pub(super) const START_TIME: u8 = 0x80;
}

/// One sample outside of rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SampleRecord<'a> {
    pub(crate) column: u32,
    pub(crate) time_ms: i64,
    /// A float or a staleness marker; meaningless when `histogram` is set.
    pub(crate) cell: f64,
    pub(crate) histogram: Option<Cow<'a, [u8]>>,
    /// 0 if unknown.
    pub(crate) start_time_ms: i64,
}

/// Progress of a strip at its first appearance in a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct StripHead {
    pub(crate) strip: u32,
    /// Rows before the first one in this file.
    pub(crate) rows: u64,
    /// Out-of-order samples before the first one in this file.
    pub(crate) out_of_order: u64,
}

/// Number and time of a row in its strip.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RowHead {
    /// Decoding can begin here.
    Key {
        row: u64,
        time_ms: i64,
        /// Whether it also continues from the previous row.
        goes_on: bool,
    },
    /// The row after the previous one: the low byte of its number, and the change of the time step (from 0 after a key
    /// row).
    Next { sequence: u8, step_change_ms: i64 },
}

/// A logged event.
#[derive(Debug)]
pub(crate) enum Record<'a> {
    /// A family is known.
    Family(Family),
    /// A strip is used in this file, without columns yet; `None`: its labels were lost.
    Strip {
        head: StripHead,
        common: Option<LabelSet>,
    },
    /// A strip has more columns, from this one on; `None` stands for lost labels.
    Grow {
        strip: u32,
        from: u64,
        sets: Vec<Option<LabelSet>>,
    },
    /// A strip has one more row.
    Row {
        strip: u32,
        head: RowHead,
        pages: Pages<'a>,
    },
    /// A strip has more out-of-order samples; `first` is the place of the first in their order of arrival.
    OutOfOrder {
        strip: u32,
        first: u64,
        samples: Vec<SampleRecord<'a>>,
    },
    /// Columns have other start times from a row on.
    Starts {
        strip: u32,
        row: u64,
        starts: Vec<(u32, i64)>,
    },
    /// An exemplar of a series.
    Exemplar {
        strip: u32,
        column: u32,
        time_ms: i64,
        exemplar: Exemplar,
    },
}

/// The rows of a strip's pages: a length and bytes each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages<'a>(&'a [u8]);

impl<'a> Iterator for Pages<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let mut reader = Reader::new(self.0);
        let page = reader.bytes().ok()?;
        self.0 = &self.0[reader.offset()..];
        Some(page)
    }
}

/// Most columns or out-of-order samples in one record, because batches are split between records.
const MOST_SETS: usize = 1 << 16;
const MOST_SAMPLES: usize = 1 << 14;

/// Appends records to batches.
pub(crate) struct RecordWriter<'a> {
    pub(super) symbols: &'a mut SymbolWriter,
    pub(super) out: &'a mut Batches,
}

impl RecordWriter<'_> {
    pub(crate) fn family(&mut self, family: &Family) {
        let out = self.out.begin_record(self.symbols);
        let start = out.len();
        out.push(tag::FAMILY);
        out.push(type_code(family.metric_type));
        for text in [&family.name, &family.unit, &family.help] {
            put_bytes(out, text.as_bytes());
        }
        self.symbols.count_identity(0, out.len() - start);
    }

    pub(crate) fn strip(&mut self, head: StripHead, common: &LabelSet) {
        let out = self.out.begin_record(self.symbols);
        let start = out.len();
        let set = self.symbols.set(common, out);
        out.push(tag::STRIP);
        put_varint(out, u64::from(head.strip));
        put_varint(out, head.rows);
        put_varint(out, head.out_of_order);
        put_varint(out, u64::from(set));
        self.symbols.count_identity(0, out.len() - start);
    }

    pub(crate) fn grow<'s>(
        &mut self,
        strip: u32,
        mut from: u64,
        mut sets: impl ExactSizeIterator<Item = &'s LabelSet>,
    ) {
        loop {
            let out = self.out.begin_record(self.symbols);
            let start = out.len();
            let some = sets.by_ref().take(MOST_SETS);
            let ids: Vec<u32> = some.map(|set| self.symbols.set(set, out)).collect();
            out.push(tag::GROW);
            put_varint(out, u64::from(strip));
            put_varint(out, from);
            let columns = ids.len();
            put_varint(out, columns as u64);
            from += columns as u64;
            let mut expected = 0;
            for id in ids {
                put_signed(out, i64::from(id) - expected);
                expected = i64::from(id) + 1;
            }
            self.symbols.count_identity(columns, out.len() - start);
            if sets.len() == 0 {
                return;
            }
        }
    }

    pub(crate) fn row<'p>(
        &mut self,
        strip: u32,
        head: RowHead,
        pages: impl ExactSizeIterator<Item = &'p [u8]>,
    ) {
        let one = pages.len() == 1;
        let out = self.out.begin_record(self.symbols);
        match head {
            RowHead::Key {
                row,
                time_ms,
                goes_on,
            } => {
                out.push(if goes_on {
                    tag::CHECKPOINT
                } else {
                    tag::KEY_ROW
                });
                put_varint(out, u64::from(strip));
                put_varint(out, row);
                put_signed(out, time_ms);
            }
            RowHead::Next {
                sequence,
                step_change_ms,
            } => {
                out.push(if one { tag::ROW } else { tag::WIDE_ROW });
                put_varint(out, u64::from(strip));
                out.push(sequence);
                put_signed(out, step_change_ms);
            }
        }
        if !one || matches!(head, RowHead::Key { .. }) {
            put_varint(out, pages.len() as u64);
        }
        for page in pages {
            put_bytes(out, page);
        }
    }

    pub(crate) fn out_of_order(
        &mut self,
        strip: u32,
        mut first: u64,
        samples: &[SampleRecord<'_>],
    ) {
        for samples in samples.chunks(MOST_SAMPLES) {
            let out = self.out.begin_record(self.symbols);
            out.push(tag::OUT_OF_ORDER);
            put_varint(out, u64::from(strip));
            put_varint(out, first);
            put_varint(out, samples.len() as u64);
            first += samples.len() as u64;
            let (mut column, mut time_ms) = (0i64, 0i64);
            for sample in samples {
                put_signed(out, i64::from(sample.column) - column);
                put_signed(out, sample.time_ms.wrapping_sub(time_ms));
                (column, time_ms) = (i64::from(sample.column), sample.time_ms);
                put_sample(sample, out);
            }
        }
    }

    pub(crate) fn starts(&mut self, strip: u32, row: u64, starts: &[(u32, i64)]) {
        let out = self.out.begin_record(self.symbols);
        out.push(tag::STARTS);
        put_varint(out, u64::from(strip));
        put_varint(out, row);
        put_varint(out, starts.len() as u64);
        let mut before = 0i64;
        for (column, start_time_ms) in starts {
            put_varint(out, u64::from(*column));
            put_signed(out, start_time_ms.wrapping_sub(before));
            before = *start_time_ms;
        }
    }

    pub(crate) fn exemplar(&mut self, strip: u32, column: u32, time_ms: i64, exemplar: &Exemplar) {
        let out = self.out.begin_record(self.symbols);
        out.push(tag::EXEMPLAR);
        put_varint(out, u64::from(strip));
        put_varint(out, u64::from(column));
        put_signed(out, time_ms);
        out.push(u8::from(exemplar.time_ms.is_some()));
        out.extend_from_slice(&exemplar.value.to_le_bytes());
        put_varint(out, exemplar.labels.len() as u64);
        // Exemplars' values rarely repeat: as symbols they would only fill the file's tables.
        for label in &exemplar.labels {
            put_bytes(out, label.name().as_bytes());
            put_bytes(out, label.value().as_bytes());
        }
    }
}

fn put_sample(sample: &SampleRecord<'_>, out: &mut Vec<u8>) {
    let at = out.len();
    out.push(0);
    let kind = match &sample.histogram {
        Some(bytes) => {
            put_bytes(out, bytes);
            kind::HISTOGRAM
        }
        None if cell::is_stale(sample.cell) => kind::STALE,
        None => match exact_integer(sample.cell) {
            Some(integer) => {
                put_signed(out, integer);
                kind::INTEGER
            }
            None => {
                out.extend_from_slice(&sample.cell.to_le_bytes());
                kind::RAW
            }
        },
    };
    out[at] = kind;
    if sample.start_time_ms != 0 {
        out[at] |= kind::START_TIME;
        put_signed(out, sample.time_ms.wrapping_sub(sample.start_time_ms));
    }
}

/// Returns the integer that represents `value` bit for bit, if there is one.
fn exact_integer(value: f64) -> Option<i64> {
    let integer = value as i64;
    (value.abs() < 9e15 && (integer as f64).to_bits() == value.to_bits()).then_some(integer)
}

/// Reads the records of a file's batches in order.
#[derive(Debug, Default)]
pub(crate) struct RecordReader {
    symbols: SymbolReader,
}

impl RecordReader {
    /// Reads the next record of a batch's body, `None` at its end.
    pub(crate) fn next<'a>(
        &mut self,
        reader: &mut Reader<'a>,
    ) -> Result<Option<Record<'a>>, Malformed> {
        loop {
            if reader.is_empty() {
                return Ok(None);
            }
            let record = match reader.byte()? {
                tag::SET => {
                    self.symbols.define(reader)?;
                    continue;
                }
                tag::SYMBOLS => {
                    self.symbols.count(reader)?;
                    continue;
                }
                tag::FAMILY => Record::Family(family(reader)?),
                tag::STRIP => self.strip(reader)?,
                tag::GROW => self.grow(reader)?,
                tag @ (tag::ROW | tag::WIDE_ROW | tag::KEY_ROW | tag::CHECKPOINT) => {
                    row(reader, tag)?
                }
                tag::OUT_OF_ORDER => out_of_order(reader)?,
                tag::STARTS => starts(reader)?,
                tag::EXEMPLAR => exemplar(reader)?,
                _ => return Err(reader.malformed("record tag")),
            };
            return Ok(Some(record));
        }
    }

    fn strip<'a>(&self, reader: &mut Reader<'a>) -> Result<Record<'a>, Malformed> {
        let strip = reader.varint_u32("strip number")?;
        let (rows, out_of_order) = (reader.varint()?, reader.varint()?);
        let common = self.symbols.set(reader.varint()?).cloned();
        Ok(Record::Strip {
            head: StripHead {
                strip,
                rows,
                out_of_order,
            },
            common,
        })
    }

    fn grow<'a>(&self, reader: &mut Reader<'a>) -> Result<Record<'a>, Malformed> {
        let strip = reader.varint_u32("strip number")?;
        let (from, count) = (reader.varint()?, reader.varint()?);
        let mut sets = Vec::new();
        let mut expected = 0i64;
        for _ in 0..count {
            let bad = reader.malformed("set number");
            let id = expected
                .checked_add(reader.signed()?)
                .filter(|id| (0..i64::MAX).contains(id))
                .ok_or(bad)?;
            sets.push(self.symbols.set(id.unsigned_abs()).cloned());
            expected = id + 1;
        }
        Ok(Record::Grow { strip, from, sets })
    }
}

fn family(reader: &mut Reader<'_>) -> Result<Family, Malformed> {
    let unknown = reader.malformed("metric type");
    let metric_type = type_of(reader.byte()?).ok_or(unknown)?;
    let (name, unit, help) = (
        reader.text()?.into(),
        reader.text()?.into(),
        reader.text()?.into(),
    );
    Ok(Family {
        name,
        metric_type,
        unit,
        help,
    })
}

fn row<'a>(reader: &mut Reader<'a>, tag: u8) -> Result<Record<'a>, Malformed> {
    let strip = reader.varint_u32("strip number")?;
    let head = if matches!(tag, tag::KEY_ROW | tag::CHECKPOINT) {
        RowHead::Key {
            row: reader.varint()?,
            time_ms: reader.signed()?,
            goes_on: tag == tag::CHECKPOINT,
        }
    } else {
        RowHead::Next {
            sequence: reader.byte()?,
            step_change_ms: reader.signed()?,
        }
    };
    let count = if tag == tag::ROW { 1 } else { reader.varint()? };
    let mut pages = *reader;
    for _ in 0..count {
        reader.bytes()?;
    }
    let bytes = pages.slice(reader.offset() - pages.offset())?;
    Ok(Record::Row {
        strip,
        head,
        pages: Pages(bytes),
    })
}

fn out_of_order<'a>(reader: &mut Reader<'a>) -> Result<Record<'a>, Malformed> {
    let strip = reader.varint_u32("strip number")?;
    let (first, count) = (reader.varint()?, reader.varint()?);
    let mut samples = Vec::new();
    let (mut column, mut time_ms) = (0i64, 0i64);
    for _ in 0..count {
        column = column.wrapping_add(reader.signed()?);
        time_ms = time_ms.wrapping_add(reader.signed()?);
        let bad = reader.malformed("column number");
        let column = u32::try_from(column).map_err(|_| bad)?;
        samples.push(sample_cell(reader, column, time_ms)?);
    }
    Ok(Record::OutOfOrder {
        strip,
        first,
        samples,
    })
}

fn sample_cell<'a>(
    reader: &mut Reader<'a>,
    column: u32,
    time_ms: i64,
) -> Result<SampleRecord<'a>, Malformed> {
    let bad = reader.malformed("kind of sample");
    let flags = reader.byte()?;
    let mut sample = SampleRecord {
        column,
        time_ms,
        cell: 0.0,
        histogram: None,
        start_time_ms: 0,
    };
    match flags & !kind::START_TIME {
        kind::RAW => sample.cell = cell::canonical(f64::from_le_bytes(reader.array()?)),
        kind::INTEGER => sample.cell = reader.signed()? as f64,
        kind::STALE => sample.cell = cell::STALE,
        kind::HISTOGRAM => sample.histogram = Some(Cow::Borrowed(reader.bytes()?)),
        _ => return Err(bad),
    }
    if flags & kind::START_TIME != 0 {
        sample.start_time_ms = time_ms.wrapping_sub(reader.signed()?);
    }
    Ok(sample)
}

fn starts<'a>(reader: &mut Reader<'a>) -> Result<Record<'a>, Malformed> {
    let strip = reader.varint_u32("strip number")?;
    let (row, count) = (reader.varint()?, reader.varint()?);
    let mut starts = Vec::new();
    let mut before = 0i64;
    for _ in 0..count {
        let column = reader.varint_u32("column number")?;
        before = before.wrapping_add(reader.signed()?);
        starts.push((column, before));
    }
    Ok(Record::Starts { strip, row, starts })
}

fn exemplar<'a>(reader: &mut Reader<'a>) -> Result<Record<'a>, Malformed> {
    let strip = reader.varint_u32("strip number")?;
    let column = reader.varint_u32("column number")?;
    let time_ms = reader.signed()?;
    let own_time = reader.byte()? != 0;
    let value = f64::from_le_bytes(reader.array()?);
    let mut labels = Vec::new();
    for _ in 0..reader.varint()? {
        labels.push(Label::new(reader.text()?, reader.text()?));
    }
    let labels = LabelSet::from_labels(labels);
    let exemplar = Exemplar {
        labels,
        value,
        time_ms: own_time.then_some(time_ms),
    };
    Ok(Record::Exemplar {
        strip,
        column,
        time_ms,
        exemplar,
    })
}

const TYPES: [MetricType; 8] = [
    MetricType::Unknown,
    MetricType::Counter,
    MetricType::Gauge,
    MetricType::Histogram,
    MetricType::GaugeHistogram,
    MetricType::Summary,
    MetricType::Info,
    MetricType::StateSet,
];

fn type_code(metric_type: MetricType) -> u8 {
    (0u8..)
        .zip(TYPES)
        .find(|(_, other)| *other == metric_type)
        .map_or(0, |(code, _)| code)
}

fn type_of(code: u8) -> Option<MetricType> {
    TYPES.get(usize::from(code)).copied()
}

#[cfg(test)]
mod tests;
