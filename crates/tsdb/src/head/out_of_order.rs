//! The out-of-order buffer: samples that are not part of a row.
//!
//! A sample takes sixteen bytes: its time counts from the start of an era of 2^32 ms (50 days), its place in the order
//! of arrival from the oldest sample held. A series has one buffer for each era in which it has samples.
//!
//! **Invariant:** a buffer is sorted by time and has at most one sample per time, the first to arrive; places of
//! arrival never change, so that a view sees exactly the samples that arrived before it.

mod run;
mod table;

use narthex_model::{Histogram, cell};
use run::{Run, Timed};
use std::{collections::BTreeMap, sync::Arc};
use table::Table;

/// Value of a series at one time.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A float or a staleness marker.
    Cell(f64),
    Histogram(Arc<Histogram>),
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cell(a), Self::Cell(b)) => a.to_bits() == b.to_bits(),
            // By bits, because the sum of a histogram may be NaN.
            (Self::Histogram(a), Self::Histogram(b)) => a.same_data(b),
            _ => false,
        }
    }
}

/// One sample of one column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OutOfOrderSample {
    pub(crate) column: u32,
    pub(crate) time_ms: i64,
    pub(crate) value: Value,
    pub(crate) start_time_ms: i64,
}

/// The out-of-order samples of one strip.
#[derive(Debug)]
pub(crate) struct OutOfOrderBuffer {
    /// Eras of 2^32 ms, ascending, with their buffers; usually there is one.
    eras: Vec<(i32, Table)>,
    /// Number of samples that ever arrived; the place of the next one.
    arrived: u64,
    /// Place from which samples count theirs.
    first_place: u64,
    held: usize,
    min_ms: i64,
    max_ms: i64,
    /// Earliest possible arrival of the oldest sample held, by the caller's clock.
    since_ms: Option<i64>,
}

/// The out-of-order samples of one series in one era; one cache line, because most look-ups have to fetch it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Buffer {
    /// Offset of the last sample: most samples are newer, and then need no further check.
    newest: u32,
    samples: Run,
    extra: Option<Box<Extra>>,
}

/// Fields that few series need.
#[derive(Debug, Default)]
struct Extra {
    histograms: Vec<Arc<Histogram>>,
    starts_ms: BTreeMap<u32, i64>,
}

impl Default for OutOfOrderBuffer {
    fn default() -> Self {
        Self {
            eras: Vec::new(),
            arrived: 0,
            first_place: 0,
            held: 0,
            min_ms: i64::MAX,
            max_ms: i64::MIN,
            since_ms: None,
        }
    }
}

impl OutOfOrderBuffer {
    /// Returns the place of the next sample to arrive.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Sets the number of samples that arrived before the next one.
    pub(crate) fn start_at(&mut self, arrived: u64) {
        self.arrived = self.arrived.max(arrived);
        if self.held == 0 {
            self.first_place = self.arrived;
        }
    }

    /// Reports whether places before `end` are representable relative to the oldest sample held.
    pub(crate) fn reaches(&self, end: u64) -> bool {
        self.held == 0 || end.saturating_sub(self.first_place) <= u64::from(u32::MAX)
    }

    /// Returns the number of samples held.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Returns an interval that covers all samples held.
    pub(crate) fn time_range(&self) -> Option<(i64, i64)> {
        (self.held > 0).then_some((self.min_ms, self.max_ms))
    }

    /// Returns the columns that have samples, ascending.
    pub(crate) fn columns(&self) -> Vec<u32> {
        let tables = self.eras.iter().flat_map(|(_, table)| table.iter());
        let mut columns: Vec<u32> = tables.map(|(column, _)| column).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Reports whether a column has samples that arrived before `end`.
    pub(crate) fn has_before(&self, column: u32, end: u64) -> bool {
        let mut buffers = self.eras.iter().filter_map(|(_, table)| table.get(column));
        if end >= self.arrived {
            return buffers.next().is_some();
        }
        let is_before = |sample: &Timed| self.first_place + u64::from(sample.place) < end;
        buffers.any(|buffer| buffer.samples.iter().any(is_before))
    }

    /// Returns the time of the newest sample of a column.
    pub(crate) fn newest_ms(&self, column: u32) -> Option<i64> {
        let newest = |(era, table): &(i32, Table)| {
            let buffer = table.get(column)?;
            Some(time_of(*era, buffer.newest))
        };
        self.eras.iter().rev().find_map(newest)
    }

    /// Reports whether `time_ms` is later than all samples of a column.
    #[inline]
    pub(crate) fn is_newer(&self, column: u32, time_ms: i64) -> bool {
        let (era, offset) = split(time_ms);
        let mut later = self
            .eras
            .iter()
            .rev()
            .take_while(|(other, _)| *other >= era);
        later.all(|(other, table)| {
            let older = |buffer: &Buffer| *other == era && buffer.newest < offset;
            table.get(column).is_none_or(older)
        })
    }

    /// Returns the value of a column at a time.
    pub(crate) fn value_at(&self, column: u32, time_ms: i64) -> Option<Value> {
        if self.held == 0 || !(self.min_ms..=self.max_ms).contains(&time_ms) {
            return None;
        }
        let (era, offset) = split(time_ms);
        let (_, table) = self.eras.iter().find(|(other, _)| *other == era)?;
        table.get(column)?.value_at(offset)
    }

    /// Stores a sample, unless the column has one at its time, which is then returned.
    pub(crate) fn insert(&mut self, sample: OutOfOrderSample) -> Option<Value> {
        let (era, offset) = split(sample.time_ms);
        let at = match self.eras.binary_search_by_key(&era, |(era, _)| *era) {
            Ok(at) => at,
            Err(at) => {
                self.eras.insert(at, (era, Table::default()));
                at
            }
        };
        let buffer = self.eras[at].1.get_mut(sample.column);
        if let Some(stored) = buffer.value_at(offset) {
            return Some(stored);
        }
        let place = u32::try_from(self.arrived - self.first_place)
            .expect("a buffer holds fewer than 2^32 samples");
        self.arrived += 1;
        self.held += 1;
        self.min_ms = self.min_ms.min(sample.time_ms);
        self.max_ms = self.max_ms.max(sample.time_ms);
        buffer.insert(offset, place, sample.value, sample.start_time_ms);
        None
    }

    /// Records when samples arrived.
    pub(crate) fn note_arrival(&mut self, now_ms: i64) {
        self.since_ms.get_or_insert(now_ms);
    }

    /// Returns the arrival time of the oldest sample held, or `now_ms` if there is none.
    pub(crate) fn since_ms(&self, now_ms: i64) -> i64 {
        self.since_ms.unwrap_or(now_ms)
    }

    /// Visits the samples of a column that arrived at places `from..to`, ascending in time: time, value, start time.
    pub(crate) fn visit(
        &self,
        column: u32,
        from: u64,
        to: u64,
        mut visit: impl FnMut(i64, Value, i64),
    ) {
        for (era, table) in &self.eras {
            let Some(buffer) = table.get(column) else {
                continue;
            };
            for sample in buffer.samples.iter() {
                if (from..to).contains(&(self.first_place + u64::from(sample.place))) {
                    visit(
                        time_of(*era, sample.offset),
                        buffer.value_of(sample),
                        buffer.start_ms(sample.offset),
                    );
                }
            }
        }
    }

    /// Drops the samples that arrived before `end`.
    pub(crate) fn drop_before(&mut self, end: u64) {
        let shift = u32::try_from(end.saturating_sub(self.first_place)).unwrap_or(u32::MAX);
        self.retain(|sample| sample.place >= shift);
        for (_, table) in &mut self.eras {
            table.retain(|buffer| {
                let samples = buffer.samples.iter_mut();
                samples.for_each(|sample| sample.place -= shift);
            });
        }
        self.first_place += u64::from(shift);
        self.since_ms = None;
    }

    /// Removes the samples that arrived from `end` on.
    pub(crate) fn undo_to(&mut self, end: u64) {
        let first = u32::try_from(end - self.first_place).unwrap_or(u32::MAX);
        self.retain(|sample| sample.place < first);
        self.arrived = end;
    }

    fn retain(&mut self, keep: impl Fn(&Timed) -> bool) {
        self.held = 0;
        (self.min_ms, self.max_ms) = (i64::MAX, i64::MIN);
        self.eras.retain_mut(|(era, table)| {
            table.retain(|buffer| {
                buffer.retain(&keep);
                let Some(first) = buffer.samples.first() else {
                    return;
                };
                self.held += buffer.samples.len();
                self.min_ms = self.min_ms.min(time_of(*era, first.offset));
                self.max_ms = self.max_ms.max(time_of(*era, buffer.newest));
            });
            !table.is_empty()
        });
    }

    /// Returns the heap bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let tables = self.eras.iter().map(|(_, table)| table.heap_bytes());
        self.held * size_of::<Timed>() + tables.sum::<usize>()
    }
}

impl Buffer {
    fn insert(&mut self, offset: u32, place: u32, value: Value, start_ms: i64) {
        let cell = match value {
            Value::Cell(cell) => cell,
            Value::Histogram(histogram) => {
                let extra = self.extra.get_or_insert_default();
                cell::push_histogram(&mut extra.histograms, histogram)
            }
        };
        if start_ms != 0 {
            self.extra
                .get_or_insert_default()
                .starts_ms
                .insert(offset, start_ms);
        }
        let sample = Timed {
            cell,
            offset,
            place,
        };
        if self.samples.is_empty() || offset > self.newest {
            self.newest = offset;
            self.samples.push(sample);
        } else {
            self.samples.insert(sample);
        }
    }

    fn value_at(&self, offset: u32) -> Option<Value> {
        if self.samples.is_empty() || offset > self.newest {
            return None;
        }
        self.samples
            .find(offset)
            .map(|sample| self.value_of(sample))
    }

    fn value_of(&self, sample: &Timed) -> Value {
        let histograms = self
            .extra
            .as_ref()
            .map_or(&[][..], |extra| &extra.histograms);
        match cell::Cell::decode(sample.cell) {
            cell::Cell::Histogram(index) => {
                Value::Histogram(Arc::clone(&histograms[index as usize]))
            }
            _ => Value::Cell(sample.cell),
        }
    }

    fn start_ms(&self, offset: u32) -> i64 {
        let starts = self.extra.as_ref().map(|extra| &extra.starts_ms);
        starts
            .and_then(|starts| starts.get(&offset))
            .copied()
            .unwrap_or_default()
    }

    fn retain(&mut self, keep: &impl Fn(&Timed) -> bool) {
        if self.samples.iter().all(keep) {
            return;
        }
        let old = std::mem::take(self);
        for sample in old.samples.iter().filter(|sample| keep(sample)) {
            self.insert(
                sample.offset,
                sample.place,
                old.value_of(sample),
                old.start_ms(sample.offset),
            );
        }
    }
}

fn split(time_ms: i64) -> (i32, u32) {
    ((time_ms >> 32) as i32, time_ms as u32)
}

fn time_of(era: i32, offset: u32) -> i64 {
    i64::from(era) << 32 | i64::from(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(column: u32, time_ms: i64, value: f64) -> OutOfOrderSample {
        OutOfOrderSample {
            column,
            time_ms,
            value: Value::Cell(value),
            start_time_ms: time_ms / 10,
        }
    }

    fn seen(buffer: &OutOfOrderBuffer, column: u32, from: u64, to: u64) -> Vec<(i64, i64)> {
        let mut seen = Vec::new();
        buffer.visit(column, from, to, |time_ms, _, start_ms| {
            seen.push((time_ms, start_ms));
        });
        seen
    }

    #[test]
    fn samples_are_sorted_and_views_bounded_by_arrival() {
        let mut buffer = OutOfOrderBuffer::default();
        buffer.start_at(1000);
        for (at, time_ms) in [50, 10, 30, 20, 40].into_iter().enumerate() {
            assert_eq!(
                buffer.insert(sample(1 + at as u32 % 2, time_ms, at as f64)),
                None
            );
        }
        let histogram = Arc::new(Histogram {
            count: 3.0,
            ..Histogram::default()
        });
        let value = Value::Histogram(Arc::clone(&histogram));
        let of_histogram = OutOfOrderSample {
            column: 1,
            time_ms: 35,
            value: value.clone(),
            start_time_ms: 0,
        };
        assert_eq!(buffer.insert(of_histogram.clone()), None);
        assert_eq!(
            buffer.insert(OutOfOrderSample {
                value: Value::Cell(1.0),
                ..of_histogram
            }),
            Some(value.clone())
        );
        assert_eq!(
            seen(&buffer, 1, 0, 1009),
            [(30, 3), (35, 0), (40, 4), (50, 5)]
        );
        assert_eq!(seen(&buffer, 1, 0, 1003), [(30, 3), (50, 5)]);
        assert_eq!(buffer.value_at(1, 35), Some(value.clone()));
        assert_eq!(buffer.value_at(2, 35), None);
        assert_eq!(
            (buffer.arrived(), buffer.time_range(), buffer.newest_ms(1)),
            (1006, Some((10, 50)), Some(50))
        );
        buffer.drop_before(1004);
        assert_eq!(seen(&buffer, 1, 0, 1009), [(35, 0), (40, 4)]);
        assert!(buffer.has_before(1, 1006) && !buffer.has_before(2, 1006));
        assert!(buffer.has_before(1, 1005) && !buffer.has_before(1, 1004));
        assert_eq!((buffer.held(), buffer.time_range()), (2, Some((35, 40))));
        assert_eq!(buffer.value_at(1, 35), Some(value));
        buffer.undo_to(1005);
        assert_eq!(seen(&buffer, 1, 0, 1009), [(40, 4)]);
        buffer.insert(sample(1, 41, 1.0));
        assert_eq!(seen(&buffer, 1, 1005, 1006), [(41, 4)]);
    }

    #[test]
    fn times_of_all_eras_are_kept() {
        let times = [
            i64::MIN,
            -(1 << 40),
            -1,
            0,
            1,
            1_767_225_600_000,
            1 << 62,
            i64::MAX,
        ];
        let mut buffer = OutOfOrderBuffer::default();
        for time_ms in times.iter().rev() {
            buffer.insert(sample(9, *time_ms, 1.0));
        }
        let found: Vec<i64> = seen(&buffer, 9, 0, 100)
            .into_iter()
            .map(|seen| seen.0)
            .collect();
        assert_eq!(found, times);
        assert_eq!(buffer.columns(), [9]);
        assert_eq!(buffer.newest_ms(9), Some(i64::MAX));
        buffer.drop_before(4);
        assert_eq!(buffer.time_range(), Some((i64::MIN, 0)));
    }
}
