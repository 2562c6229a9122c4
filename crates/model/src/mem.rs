//! An in-memory store: the model other stores are compared with, and the store reference suites run on.
//!
//! **Invariant:** a series has at most one sample at a given time; the first one stored stays. No sample is refused
//! for its age. Not built for speed: a view copies what it selects.

use crate::sync::Whole as _;
use crate::{
    cell,
    frame::{Exemplar, Frame},
    histogram::Histogram,
    labels::LabelSet,
    metadata::Family,
    schema::{ColumnId, Schema},
    storage::{
        Batch, Binding, Cardinality, Collector, Context, Estimate, ExemplarSeries, Layout, Listing,
        Outcome, Prepared, Selector, SeriesQuery, SeriesSample, Sink, StorageError, Store,
        SyncToken, Tile, TimeRange, View,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, RwLock},
};

/// Samples in memory; clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemStore(Arc<RwLock<State>>);

#[derive(Clone, Debug, Default)]
struct State {
    series: HashMap<LabelSet, Arc<Series>>,
    families: BTreeSet<Family>,
}

#[derive(Clone, Debug, Default)]
struct Series {
    samples: BTreeMap<i64, Sample>,
    exemplars: Vec<(i64, Exemplar)>,
}

#[derive(Clone, Debug)]
struct Sample {
    cell: f64,
    histogram: Option<Arc<Histogram>>,
    start_time_ms: i64,
}

impl MemStore {
    /// Returns an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Deletes all series; existing views keep what they have.
    pub fn clear(&self) {
        *self.0.write().whole() = State::default();
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.write().whole())
    }
}

impl State {
    fn add(&mut self, sample: SeriesSample, outcome: &mut Outcome) {
        let series = Arc::make_mut(self.series.entry(sample.labels).or_default());
        let new = Sample {
            cell: sample.cell,
            histogram: sample.histogram,
            start_time_ms: sample.start_time_ms,
        };
        match series.samples.get(&sample.time_ms) {
            None => {
                series.samples.insert(sample.time_ms, new);
                outcome.accepted += 1;
            }
            Some(old) if old.same(&new) => outcome.accepted += 1,
            Some(_) => outcome.duplicate += 1,
        }
    }
}

impl Sample {
    fn same(&self, other: &Self) -> bool {
        match (&self.histogram, &other.histogram) {
            (None, None) => self.cell.to_bits() == other.cell.to_bits(),
            (Some(mine), Some(theirs)) => mine.same_data(theirs),
            _ => false,
        }
    }
}

impl Sink for MemStore {
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        let mut binding = MemBinding {
            store: self.clone(),
            schema: schema.clone(),
            labels: Vec::new(),
        };
        binding.rebind(schema)?;
        Ok(Box::new(binding))
    }

    fn append_samples(&self, samples: &[SeriesSample]) -> Result<Outcome, StorageError> {
        let mut outcome = Outcome::default();
        self.change(|state| {
            samples
                .iter()
                .for_each(|sample| state.add(sample.clone(), &mut outcome));
        });
        Ok(outcome)
    }

    fn sync(&self, _: SyncToken) -> Result<(), StorageError> {
        Ok(())
    }
}

struct MemBinding {
    store: MemStore,
    schema: Schema,
    labels: Vec<LabelSet>,
}

impl Binding for MemBinding {
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError> {
        self.schema = schema.clone();
        self.labels = schema.columns().map(|(id, _)| schema.labels(id)).collect();
        self.store
            .change(|state| state.families.extend(schema.families().iter().cloned()));
        Ok(())
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        if !frame.schema().same(&self.schema) {
            self.rebind(frame.schema())?;
        }
        let mut outcome = Outcome::default();
        let starts: HashMap<_, _> = frame.start_times_ms().iter().copied().collect();
        let sample = |column: ColumnId, cell: f64| SeriesSample {
            labels: self.labels[column.index()].clone(),
            time_ms: frame.time_of(column),
            cell,
            histogram: match cell::Cell::decode(cell) {
                cell::Cell::Histogram(index) => {
                    Some(Arc::clone(&frame.histograms()[index as usize]))
                }
                _ => None,
            },
            start_time_ms: starts.get(&column).copied().unwrap_or_default(),
        };
        self.store.change(|state| {
            for (column, _) in self.schema.columns() {
                if frame.present().contains(column.index()) {
                    state.add(sample(column, frame.values()[column.index()]), &mut outcome);
                }
            }
            for column in frame.stale() {
                state.add(sample(*column, cell::STALE), &mut outcome);
            }
            for (column, exemplar) in frame.exemplars() {
                let series = state
                    .series
                    .entry(self.labels[column.index()].clone())
                    .or_default();
                let time_ms = exemplar.time_ms.unwrap_or(frame.time_of(*column));
                let exemplars = &mut Arc::make_mut(series).exemplars;
                let newest = exemplars.last().map(|(_, newest)| newest);
                if exemplar.time_ms.is_some() || newest != Some(exemplar) {
                    exemplars.push((time_ms, exemplar.clone()));
                }
            }
        });
        Ok(outcome)
    }
}

impl Store for MemStore {
    fn view(&self, _: TimeRange) -> Result<Arc<dyn View>, StorageError> {
        Ok(Arc::new(MemView(self.0.read().whole().clone())))
    }

    fn time_range(&self) -> Option<TimeRange> {
        let state = self.0.read().whole();
        state
            .series
            .values()
            .filter_map(|series| series.time_range())
            .reduce(TimeRange::hull)
    }
}

impl Series {
    fn time_range(&self) -> Option<TimeRange> {
        let (first, _) = self.samples.first_key_value()?;
        let (last, _) = self.samples.last_key_value()?;
        Some(TimeRange::new(*first, *last))
    }

    fn has_sample_in(&self, range: TimeRange) -> bool {
        !range.is_empty()
            && self
                .samples
                .range(range.min_ms..=range.max_ms)
                .next()
                .is_some()
    }
}

struct MemView(State);

impl MemView {
    /// Lists the selected series in label order, so that answers repeat.
    fn selected<'a>(
        &'a self,
        query: &'a SeriesQuery,
    ) -> impl Iterator<Item = (&'a LabelSet, &'a Arc<Series>)> {
        let chosen = |(labels, series): &(&LabelSet, &Arc<Series>)| {
            query.matches(labels) && series.has_sample_in(query.range)
        };
        let mut all: Vec<_> = self.0.series.iter().filter(chosen).collect();
        all.sort_unstable_by_key(|(labels, _)| *labels);
        all.into_iter()
    }
}

impl View for MemView {
    fn prepare(
        &self,
        selectors: &[Selector],
        ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        let mut of_selector = Vec::with_capacity(selectors.len());
        for selector in selectors {
            ctx.stop.check()?;
            let query = SeriesQuery {
                any_of: vec![selector.matchers.clone()],
                range: selector.range,
                limit: None,
            };
            let mut batches: Vec<MemBatch> = Vec::new();
            for (labels, series) in self.selected(&query) {
                let range = selector.range.min_ms..=selector.range.max_ms;
                let samples = series.samples.range(range);
                let times_ms: Vec<i64> = samples.map(|(time_ms, _)| *time_ms).collect();
                // Only neighbours share a batch: sums are in the order of labels, whatever the range is.
                let last = batches.last_mut().filter(|last| last.times_ms == times_ms);
                let series = (labels.clone(), Arc::clone(series));
                match last {
                    Some(batch) => batch.series.push(series),
                    None => batches.push(MemBatch {
                        times_ms,
                        series: vec![series],
                        start_times: selector.hints.start_times,
                    }),
                }
            }
            of_selector.push(batches.into_iter().map(Arc::new).collect());
        }
        Ok(Box::new(MemPrepared(of_selector)))
    }

    fn label_names(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<String>, StorageError> {
        ctx.stop.check()?;
        let mut names = Collector::new(query.limit, ctx)?;
        let labels = self.selected(query).flat_map(|(labels, _)| labels.iter());
        for label in labels {
            names.add(label.name().to_owned())?;
        }
        names.finish()
    }

    fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<String>, StorageError> {
        ctx.stop.check()?;
        let mut values = Collector::new(query.limit, ctx)?;
        let found = self
            .selected(query)
            .filter_map(|(labels, _)| labels.get(name));
        for value in found {
            values.add(value.to_owned())?;
        }
        values.finish()
    }

    fn series(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<LabelSet>, StorageError> {
        ctx.stop.check()?;
        let mut series = Collector::new(query.limit, ctx)?;
        for (labels, _) in self.selected(query) {
            series.add(labels.clone())?;
        }
        series.finish()
    }

    fn cardinality(&self, limit: usize, ctx: &Context) -> Result<Cardinality, StorageError> {
        ctx.stop.check()?;
        Cardinality::count(self.0.series.keys(), limit, ctx)
    }

    fn metadata(&self, metric: Option<&str>, ctx: &Context) -> Result<Vec<Family>, StorageError> {
        ctx.stop.check()?;
        let families = self.0.families.iter();
        let chosen = families.filter(|family| metric.is_none_or(|name| name == &*family.name));
        Ok(chosen.cloned().collect())
    }

    fn exemplars(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Vec<ExemplarSeries>, StorageError> {
        ctx.stop.check()?;
        let of_series = |(labels, series): (&LabelSet, &Arc<Series>)| {
            let mut exemplars = series.exemplars.clone();
            exemplars.retain(|(time_ms, _)| query.range.contains(*time_ms));
            exemplars.sort_by_key(|(time_ms, _)| *time_ms);
            (!exemplars.is_empty()).then(|| ExemplarSeries {
                labels: labels.clone(),
                exemplars,
            })
        };
        let matching = self
            .0
            .series
            .iter()
            .filter(|(labels, _)| query.matches(labels));
        let mut found: Vec<ExemplarSeries> = matching.filter_map(of_series).collect();
        found.sort_unstable_by(|a, b| a.labels.cmp(&b.labels));
        Ok(found)
    }
}

struct MemPrepared(Vec<Vec<Arc<MemBatch>>>);

impl Prepared for MemPrepared {
    fn estimate(&self) -> Estimate {
        let mut estimate = Estimate::default();
        for batch in self.0.iter().flatten() {
            estimate.series += batch.series.len() as u64;
            estimate.samples += (batch.series.len() * batch.times_ms.len()) as u64;
        }
        estimate.bytes = estimate.samples * 8;
        estimate
    }

    fn batches(&self, selector: usize, ctx: &Context) -> Result<Vec<Arc<dyn Batch>>, StorageError> {
        ctx.stop.check()?;
        Ok(self.0[selector]
            .iter()
            .map(|batch| Arc::clone(batch) as Arc<dyn Batch>)
            .collect())
    }
}

struct MemBatch {
    times_ms: Vec<i64>,
    series: Vec<(LabelSet, Arc<Series>)>,
    start_times: bool,
}

impl MemBatch {
    fn times_within(&self, range: TimeRange) -> &[i64] {
        let from = self
            .times_ms
            .partition_point(|time_ms| *time_ms < range.min_ms);
        let to = self
            .times_ms
            .partition_point(|time_ms| *time_ms <= range.max_ms);
        self.times_ms.get(from..to).unwrap_or_default()
    }
}

impl Batch for MemBatch {
    fn len(&self) -> usize {
        self.series.len()
    }

    fn labels(&self, series: usize) -> LabelSet {
        self.series[series].0.clone()
    }

    fn time_range(&self) -> TimeRange {
        match (self.times_ms.first(), self.times_ms.last()) {
            (Some(first), Some(last)) => TimeRange::new(*first, *last),
            _ => TimeRange::new(0, -1),
        }
    }

    fn rows(&self, range: TimeRange) -> usize {
        self.times_within(range).len()
    }

    fn read(
        &self,
        series: &[u32],
        range: TimeRange,
        layout: Layout,
        tile: &mut Tile,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        let times_ms = self.times_within(range);
        tile.shape(layout, times_ms, series.len(), cell::ABSENT);
        if self.start_times {
            tile.start_times_ms.resize(tile.cells.len(), 0);
        }
        for (to_series, from_series) in series.iter().enumerate() {
            ctx.stop.check()?;
            let samples = &self.series[*from_series as usize].1.samples;
            for (row, time_ms) in times_ms.iter().enumerate() {
                let sample = &samples[time_ms];
                let at = tile.at(row, to_series);
                tile.cells[at] = sample.cell;
                if let Some(histogram) = &sample.histogram {
                    let histogram = Arc::clone(histogram);
                    tile.cells[at] = cell::push_histogram(&mut tile.histograms, histogram);
                }
                if self.start_times {
                    tile.start_times_ms[at] = sample.start_time_ms;
                }
            }
        }
        tile.establish_facts();
        Ok(())
    }
}
