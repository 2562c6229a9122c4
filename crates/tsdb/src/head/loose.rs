//! The loose lane: samples that share a row with nobody.
//!
//! **Invariant:** a series' samples are sorted by time and have at most one sample at one time, the first that came;
//! each remembers its place in the order of arrival, so that a view sees what came before it and nothing after.

use narthex_model::{Histogram, cell};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// What a series has at one time.
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
            (Self::Histogram(a), Self::Histogram(b)) => a == b,
            _ => false,
        }
    }
}

/// One sample of one column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LooseSample {
    pub(crate) column: u32,
    pub(crate) time_ms: i64,
    pub(crate) value: Value,
    pub(crate) start_time_ms: i64,
}

/// The loose samples of one strip.
#[derive(Debug)]
pub(crate) struct LooseLane {
    series: HashMap<u32, LooseSeries, foldhash::fast::RandomState>,
    /// Samples that ever arrived; the place of the next one.
    arrived: u64,
    held: usize,
    min_ms: i64,
    max_ms: i64,
    /// When the oldest sample held arrived, by the caller's clock, at the earliest.
    since_ms: Option<i64>,
}

impl Default for LooseLane {
    fn default() -> Self {
        Self {
            series: HashMap::default(),
            arrived: 0,
            held: 0,
            min_ms: i64::MAX,
            max_ms: i64::MIN,
            since_ms: None,
        }
    }
}

/// The loose samples of one series.
#[derive(Clone, Debug, Default)]
pub(crate) struct LooseSeries {
    samples: Vec<Timed>,
    histograms: Vec<Arc<Histogram>>,
    starts_ms: BTreeMap<i64, i64>,
}

#[derive(Clone, Copy, Debug)]
struct Timed {
    time_ms: i64,
    cell: f64,
    arrival: u64,
}

impl LooseLane {
    /// Returns the place of the next sample to arrive.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Says how many samples arrived before the first one that is known.
    pub(crate) fn start_at(&mut self, arrived: u64) {
        self.arrived = self.arrived.max(arrived);
    }

    /// Returns the number of samples held.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Returns an interval around all samples held.
    pub(crate) fn time_range(&self) -> Option<(i64, i64)> {
        (self.held > 0).then_some((self.min_ms, self.max_ms))
    }

    /// Returns the columns that have samples.
    pub(crate) fn columns(&self) -> impl Iterator<Item = u32> + '_ {
        self.series.keys().copied()
    }

    /// Returns the samples of one column.
    pub(crate) fn series(&self, column: u32) -> Option<&LooseSeries> {
        self.series.get(&column)
    }

    /// Returns what a column has at a time.
    pub(crate) fn value_at(&self, column: u32, time_ms: i64) -> Option<Value> {
        self.series.get(&column)?.value_at(time_ms)
    }

    /// Stores a sample whose time the column does not have yet.
    pub(crate) fn insert(&mut self, sample: LooseSample) {
        let arrival = self.arrived;
        self.arrived += 1;
        self.held += 1;
        self.min_ms = self.min_ms.min(sample.time_ms);
        self.max_ms = self.max_ms.max(sample.time_ms);
        self.series
            .entry(sample.column)
            .or_default()
            .insert(sample, arrival);
    }

    /// Notes when samples arrived.
    pub(crate) fn note_arrival(&mut self, now_ms: i64) {
        self.since_ms.get_or_insert(now_ms);
    }

    /// Returns when the oldest sample held arrived, `now_ms` where there is none.
    pub(crate) fn since_ms(&self, now_ms: i64) -> i64 {
        self.since_ms.unwrap_or(now_ms)
    }

    /// Drops the samples that arrived before `end`.
    pub(crate) fn drop_before(&mut self, end: u64) {
        self.series.retain(|_, series| {
            series.drop_before(end);
            !series.samples.is_empty()
        });
        if self.series.len() * 4 < self.series.capacity() {
            self.series.shrink_to_fit();
        }
        self.since_ms = None;
        self.held = self
            .series
            .values()
            .map(|series| series.samples.len())
            .sum();
        let firsts = self
            .series
            .values()
            .filter_map(|series| series.samples.first());
        self.min_ms = firsts
            .map(|sample| sample.time_ms)
            .min()
            .unwrap_or(i64::MAX);
        let lasts = self
            .series
            .values()
            .filter_map(|series| series.samples.last());
        self.max_ms = lasts.map(|sample| sample.time_ms).max().unwrap_or(i64::MIN);
    }

    /// Returns the heap bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.held * size_of::<Timed>() + self.series.capacity() * (size_of::<LooseSeries>() + 8)
    }
}

impl LooseSeries {
    fn insert(&mut self, sample: LooseSample, arrival: u64) {
        let LooseSample {
            time_ms,
            value,
            start_time_ms,
            ..
        } = sample;
        let cell = match value {
            Value::Cell(cell) => cell,
            Value::Histogram(histogram) => {
                self.histograms.push(histogram);
                cell::histogram(
                    u32::try_from(self.histograms.len() - 1).expect("fewer than 2^32 histograms"),
                )
            }
        };
        let at = self
            .samples
            .partition_point(|other| other.time_ms < time_ms);
        self.samples.insert(
            at,
            Timed {
                time_ms,
                cell,
                arrival,
            },
        );
        if start_time_ms != 0 {
            self.starts_ms.insert(time_ms, start_time_ms);
        }
    }

    /// Returns the time of the newest sample.
    pub(crate) fn newest_ms(&self) -> Option<i64> {
        self.samples.last().map(|sample| sample.time_ms)
    }

    fn value_at(&self, time_ms: i64) -> Option<Value> {
        let at = self
            .samples
            .binary_search_by_key(&time_ms, |sample| sample.time_ms)
            .ok()?;
        Some(self.value_of(&self.samples[at]))
    }

    fn value_of(&self, sample: &Timed) -> Value {
        match cell::Cell::of(sample.cell) {
            cell::Cell::Histogram(index) => {
                Value::Histogram(Arc::clone(&self.histograms[index as usize]))
            }
            _ => Value::Cell(sample.cell),
        }
    }

    /// Visits the samples that arrived from `from` up to before `to`, ascending in time.
    pub(crate) fn visit(&self, from: u64, to: u64, mut visit: impl FnMut(i64, Value, i64)) {
        for sample in &self.samples {
            if (from..to).contains(&sample.arrival) {
                let start_ms = self
                    .starts_ms
                    .get(&sample.time_ms)
                    .copied()
                    .unwrap_or_default();
                visit(sample.time_ms, self.value_of(sample), start_ms);
            }
        }
    }

    fn drop_before(&mut self, end: u64) {
        if self.samples.iter().all(|sample| sample.arrival >= end) {
            return;
        }
        let mut kept = Self::default();
        let mut order: Vec<(LooseSample, u64)> = Vec::new();
        for sample in self.samples.iter().filter(|sample| sample.arrival >= end) {
            let start_time_ms = self
                .starts_ms
                .get(&sample.time_ms)
                .copied()
                .unwrap_or_default();
            let value = self.value_of(sample);
            order.push((
                LooseSample {
                    column: 0,
                    time_ms: sample.time_ms,
                    value,
                    start_time_ms,
                },
                sample.arrival,
            ));
        }
        order
            .into_iter()
            .for_each(|(sample, arrival)| kept.insert(sample, arrival));
        kept.samples.shrink_to_fit();
        *self = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(column: u32, time_ms: i64, value: f64) -> LooseSample {
        LooseSample {
            column,
            time_ms,
            value: Value::Cell(value),
            start_time_ms: time_ms / 10,
        }
    }

    fn seen(lane: &LooseLane, column: u32, from: u64, to: u64) -> Vec<(i64, i64)> {
        let mut seen = Vec::new();
        if let Some(series) = lane.series(column) {
            series.visit(from, to, |time_ms, _, start_ms| {
                seen.push((time_ms, start_ms));
            });
        }
        seen
    }

    #[test]
    fn samples_are_sorted_and_views_bounded_by_arrival() {
        let mut lane = LooseLane::default();
        for (at, time_ms) in [50, 10, 30, 20, 40].into_iter().enumerate() {
            lane.insert(sample(1 + at as u32 % 2, time_ms, at as f64));
        }
        let histogram = Arc::new(Histogram {
            count: 3.0,
            ..Histogram::default()
        });
        let value = Value::Histogram(Arc::clone(&histogram));
        lane.insert(LooseSample {
            column: 1,
            time_ms: 35,
            value: value.clone(),
            start_time_ms: 0,
        });
        assert_eq!(seen(&lane, 1, 0, 9), [(30, 3), (35, 0), (40, 4), (50, 5)]);
        assert_eq!(seen(&lane, 1, 0, 3), [(30, 3), (50, 5)]);
        assert_eq!(lane.value_at(1, 35), Some(value.clone()));
        assert_eq!(lane.value_at(2, 35), None);
        assert_eq!((lane.arrived(), lane.time_range()), (6, Some((10, 50))));
        lane.drop_before(4);
        assert_eq!(seen(&lane, 1, 0, 9), [(35, 0), (40, 4)]);
        assert!(lane.series(2).is_none());
        assert_eq!((lane.held(), lane.time_range()), (2, Some((35, 40))));
        assert_eq!(lane.value_at(1, 35), Some(value));
    }
}
