//! The records of a segment: metrics and series, parsed once.
//!
//! Bytes: docs/format/segment.md
//!
//! **Invariant:** the cells of what was parsed are disjoint and within those that the segment uses, so there are never more
//! series than cells.

use crate::{
    SegmentError,
    family::{Family, GaugeMerge, Shape, SummaryShape},
    labels,
    layout::{array_at, checksum, u16_at, u32_at, u64_at},
    quantile::Buckets,
};
use std::{collections::HashMap, sync::Arc};

/// Kinds of records.
pub(crate) const METRIC: u8 = 1;
pub(crate) const SERIES: u8 = 2;
pub(crate) const FOLDED: u8 = 3;
pub(crate) const DROPPED: u8 = 4;
/// Bytes of a metric's record before its numbers, and of a series' before its labels.
pub(crate) const METRIC_HEAD: usize = 40;
pub(crate) const SERIES_HEAD: usize = 24;
pub(crate) const FOLDED_HEAD: usize = 16;
pub(crate) const CHECKSUM_AT: usize = 4;
/// Maximum length of a record.
const LENGTH_MAX: usize = 1 << 20;
/// Maximum number of a histogram's bounds.
const BOUNDS_MAX: usize = 1024;
const QUANTILES_MAX: usize = 64;

/// A metric and its switch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metric {
    pub(crate) family: Arc<Family>,
    /// Cell that is 0 while the metric is switched on.
    pub(crate) switch: u32,
}

/// A series and its cells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// Place in the list of metrics.
    pub(crate) metric: usize,
    pub(crate) first_cell: u32,
    pub(crate) labels: Box<str>,
    /// Offset of its record, divided by 8.
    place: u32,
}

/// Everything that the records of a segment say so far.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Records {
    pub(crate) metrics: Vec<Metric>,
    pub(crate) series: Vec<Series>,
    /// Identities of segments whose counts are in this one.
    pub(crate) folded: Vec<u64>,
    /// Places in the list of series of those that have ended.
    pub(crate) dropped: Vec<usize>,
    by_offset: HashMap<u32, usize>,
    /// Bytes parsed.
    parsed: u64,
    /// First cell that no record has.
    free_cell: u64,
}

impl Records {
    /// Returns the offset of the first byte that was not parsed.
    pub(crate) fn parsed(&self) -> u64 {
        self.parsed
    }

    /// Parses more records; what is before the first malformed one stays.
    ///
    /// # Errors
    /// Fails at the first malformed record. The writer may not have finished it: a later attempt may succeed.
    pub(crate) fn extend(&mut self, mut bytes: &[u8], cells_used: u64) -> Result<(), SegmentError> {
        while !bytes.is_empty() {
            let offset = self.parsed;
            let fail = |reason| SegmentError::Record { offset, reason };
            let length = u32_at(bytes, 0) as usize;
            if !(16..=LENGTH_MAX).contains(&length) || !length.is_multiple_of(8) {
                return Err(fail("length"));
            }
            let (record, rest) = bytes.split_at_checked(length).ok_or(fail("length"))?;
            if u32_at(record, CHECKSUM_AT) != checksum(record, CHECKSUM_AT) {
                return Err(fail("checksum"));
            }
            match record.get(8) {
                Some(&METRIC) => self.metric(record, cells_used).map_err(fail)?,
                Some(&SERIES) => self.one_series(record, cells_used).map_err(fail)?,
                Some(&FOLDED) => self.folded_ids(record),
                Some(&DROPPED) => self.dropped_series(record).map_err(fail)?,
                // Of a later version.
                _ => {}
            }
            self.parsed += length as u64;
            bytes = rest;
        }
        Ok(())
    }

    fn metric(&mut self, record: &[u8], cells_used: u64) -> Result<(), &'static str> {
        let numbers = usize::from(u16_at(record, 22));
        let texts = [16, 18, 20].map(|at| usize::from(u16_at(record, at)));
        let mut at = METRIC_HEAD + 8 * numbers;
        let floats = record.get(METRIC_HEAD..at).ok_or("numbers")?;
        let (floats, _) = floats.as_chunks::<8>();
        let floats: Box<[f64]> = floats
            .iter()
            .map(|bytes| f64::from_le_bytes(*bytes))
            .collect();
        let mut text = |len: usize| {
            let bytes = record.get(at..at + len)?;
            at += len;
            std::str::from_utf8(bytes).ok()
        };
        let [name, unit, help] = texts.map(|len| text(len).ok_or("text"));
        let name = name?;
        if !narthex_model::labels::is_legacy_metric_name(name) {
            return Err("name");
        }
        let shape = shape(record, floats)?;
        let family = Family {
            name: name.into(),
            unit: unit?.into(),
            help: help?.into(),
            idle_ms: match shape {
                Shape::Summary(_) => 0,
                _ => u64_at(record, 32),
            },
            shape,
        };
        let switch = self.cells(u32_at(record, 12), 1, cells_used)?;
        let place = u32::try_from(self.parsed / 8).map_err(|_| "offset")?;
        self.by_offset.insert(place, self.metrics.len());
        self.metrics.push(Metric {
            family: Arc::new(family),
            switch,
        });
        Ok(())
    }

    fn one_series(&mut self, record: &[u8], cells_used: u64) -> Result<(), &'static str> {
        let metric = self.by_offset.get(&u32_at(record, 12)).copied();
        let metric = metric.ok_or("no such metric")?;
        let family = &self.metrics.get(metric).ok_or("no such metric")?.family;
        let len = u32_at(record, 20) as usize;
        let text = record.get(SERIES_HEAD..).and_then(|rest| rest.get(..len));
        let text = text.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let text = text.ok_or("labels")?;
        labels::parse(text, family.shape.own_label()).ok_or("labels")?;
        let count = family.cells() as u64;
        let first_cell = self.cells(u32_at(record, 16), count, cells_used)?;
        self.series.push(Series {
            metric,
            first_cell,
            labels: text.into(),
            place: u32::try_from(self.parsed / 8).map_err(|_| "offset")?,
        });
        Ok(())
    }

    fn dropped_series(&mut self, record: &[u8]) -> Result<(), &'static str> {
        let place = u32_at(record, 12);
        let at = self
            .series
            .binary_search_by_key(&place, |series| series.place);
        self.dropped.push(at.map_err(|_| "no such series")?);
        Ok(())
    }

    fn folded_ids(&mut self, record: &[u8]) {
        let ids = record.get(FOLDED_HEAD..).unwrap_or_default();
        let (ids, _) = ids.as_chunks::<8>();
        let count = u32_at(record, 12) as usize;
        let ids = ids
            .iter()
            .take(count)
            .map(|bytes| u64::from_le_bytes(*bytes));
        self.folded.extend(ids);
    }

    /// Takes cells that no record before has.
    fn cells(&mut self, first: u32, count: u64, used: u64) -> Result<u32, &'static str> {
        let end = u64::from(first) + count;
        if u64::from(first) < self.free_cell || end > used {
            return Err("cells");
        }
        self.free_cell = end;
        Ok(first)
    }
}

fn shape(record: &[u8], numbers: Box<[f64]>) -> Result<Shape, &'static str> {
    let ascend = numbers.is_sorted_by(|a, b| a < b);
    Ok(match record.get(9) {
        Some(1) if numbers.is_empty() => Shape::Counter,
        Some(2) if numbers.is_empty() => Shape::WholeCounter,
        Some(3) if numbers.is_empty() => {
            let number = record.get(10).copied().unwrap_or_default();
            let merge = GaugeMerge::ALL.get(usize::from(number));
            Shape::Gauge(*merge.ok_or("gauge")?)
        }
        Some(4) => {
            let finite = numbers.iter().all(|bound| bound.is_finite());
            if !ascend || !finite || numbers.len() > BOUNDS_MAX {
                return Err("bounds");
            }
            Shape::Histogram(numbers)
        }
        Some(5) => {
            let buckets = Buckets {
                first: i16::from_le_bytes(array_at(record, 24)),
                octaves: u16_at(record, 26),
                bits: record.get(11).copied().unwrap_or_default(),
            };
            let within = numbers.iter().all(|q| (0.0..=1.0).contains(q));
            if !ascend || !within || numbers.len() > QUANTILES_MAX || !buckets.is_valid() {
                return Err("summary");
            }
            Shape::Summary(Box::new(SummaryShape {
                buckets,
                quantiles: numbers,
                max_age_ms: i64::try_from(u64_at(record, 32)).unwrap_or(i64::MAX),
                steps: u16_at(record, 28),
            }))
        }
        _ => return Err("type"),
    })
}
