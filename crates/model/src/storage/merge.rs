//! Makes every identity occur once: the merge of head, blocks, loose samples and shared series.
//!
//! **Invariant:** the result depends only on the order of the given batches and of the series in them; on equal
//! times the cell of the earlier batch wins.

use super::{Batch, Context, Grouping, LastCell, Layout, StorageError, Tile, TimeRange};
use crate::{
    cell::{self, Cell},
    labels::{LabelHash, LabelSet},
};
use std::{borrow::Cow, collections::HashMap, sync::Arc};

/// Returns batches over the same samples in which every identity occurs exactly once.
///
/// Earlier batches win where two have a sample of one series at one time. Batches whose series occur nowhere else
/// pass through untouched; series that occur in the same several batches stay together in one merged batch.
#[must_use]
pub fn unify(batches: Vec<Arc<dyn Batch>>) -> Vec<Arc<dyn Batch>> {
    if batches.len() < 2 {
        return batches;
    }
    let occurrences = occurrences(&batches);
    let total: usize = batches.iter().map(|batch| batch.len()).sum();
    if occurrences.len() == total {
        return batches;
    }
    let mut place_of: HashMap<Vec<u32>, usize> = HashMap::new();
    let mut merged: Vec<MergedBatch> = Vec::new();
    for places in &occurrences {
        let sources: Vec<u32> = places.iter().map(|place| place.batch).collect();
        let at = *place_of.entry(sources).or_insert_with_key(|sources| {
            merged.push(MergedBatch::over(sources, &batches));
            merged.len() - 1
        });
        for (source, place) in merged[at].sources.iter_mut().zip(places) {
            source.series.push(place.series);
        }
    }
    merged.into_iter().map(MergedBatch::into_batch).collect()
}

#[derive(Clone, Copy)]
struct Place {
    batch: u32,
    series: u32,
}

/// Lists where each identity occurs, identities in order of first appearance.
fn occurrences(batches: &[Arc<dyn Batch>]) -> Vec<Vec<Place>> {
    let mut index_of: HashMap<LabelHash, usize, foldhash::fast::RandomState> = HashMap::default();
    let mut all: Vec<Vec<Place>> = Vec::new();
    for (batch_at, batch) in (0u32..).zip(batches) {
        for (series_at, index) in (0u32..).zip(0..batch.len()) {
            let place = Place {
                batch: batch_at,
                series: series_at,
            };
            let at = *index_of.entry(batch.identity(index)).or_insert(all.len());
            match all.get_mut(at) {
                Some(places) => places.push(place),
                None => all.push(vec![place]),
            }
        }
    }
    all
}

/// The same series from several batches (or some series of one).
struct MergedBatch {
    sources: Vec<Source>,
}

struct Source {
    batch: Arc<dyn Batch>,
    /// The series of `batch` that stands for each series of the merged batch.
    series: Vec<u32>,
}

impl MergedBatch {
    fn over(sources: &[u32], batches: &[Arc<dyn Batch>]) -> Self {
        let source = |at: &u32| Source {
            batch: Arc::clone(&batches[*at as usize]),
            series: Vec::new(),
        };
        Self {
            sources: sources.iter().map(source).collect(),
        }
    }

    /// Unwraps what merges nothing: all series of one batch, in order.
    fn into_batch(self) -> Arc<dyn Batch> {
        match self.sources.as_slice() {
            [only]
                if only.series.len() == only.batch.len()
                    && (0u32..).zip(&only.series).all(|(i, s)| i == *s) =>
            {
                Arc::clone(&only.batch)
            }
            _ => Arc::new(self),
        }
    }

    fn first(&self) -> &Source {
        self.sources.first().expect("a merged batch has sources")
    }

    fn overlapping(&self, range: TimeRange) -> impl Iterator<Item = &Source> {
        self.sources
            .iter()
            .filter(move |source| source.batch.time_range().overlaps(range))
    }
}

impl Source {
    fn pick(&self, series: &[u32]) -> Vec<u32> {
        series.iter().map(|at| self.series[*at as usize]).collect()
    }
}

impl Batch for MergedBatch {
    fn len(&self) -> usize {
        self.first().series.len()
    }

    fn labels(&self, series: usize) -> LabelSet {
        self.first()
            .batch
            .labels(self.first().series[series] as usize)
    }

    fn label(&self, series: usize, name: &str) -> Option<Cow<'_, str>> {
        self.first()
            .batch
            .label(self.first().series[series] as usize, name)
    }

    fn identity(&self, series: usize) -> LabelHash {
        self.first()
            .batch
            .identity(self.first().series[series] as usize)
    }

    fn group_key(&self, series: usize, grouping: &Grouping) -> LabelHash {
        self.first()
            .batch
            .group_key(self.first().series[series] as usize, grouping)
    }

    fn time_range(&self) -> TimeRange {
        let ranges = self.sources.iter().map(|source| source.batch.time_range());
        ranges
            .reduce(TimeRange::hull)
            .expect("a merged batch has sources")
    }

    fn rows(&self, range: TimeRange) -> usize {
        self.overlapping(range)
            .map(|source| source.batch.rows(range))
            .sum()
    }

    fn read(
        &self,
        series: &[u32],
        range: TimeRange,
        layout: Layout,
        tile: &mut Tile,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        let overlapping: Vec<&Source> = self.overlapping(range).collect();
        if let [only] = overlapping.as_slice() {
            return only
                .batch
                .read(&only.pick(series), range, layout, tile, ctx);
        }
        let mut parts = Vec::with_capacity(overlapping.len());
        for source in overlapping {
            let bytes = source.batch.rows(range) * series.len() * size_of::<f64>();
            let lease = ctx.budget.lease(bytes as u64)?;
            let mut part = Tile::default();
            source
                .batch
                .read(&source.pick(series), range, layout, &mut part, ctx)?;
            parts.push((part, lease));
        }
        let parts: Vec<&Tile> = parts.iter().map(|(part, _)| part).collect();
        overlay(&parts, series.len(), layout, tile);
        Ok(())
    }

    fn last(
        &self,
        series: &[u32],
        range: TimeRange,
        out: &mut Vec<Option<LastCell>>,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        let start = out.len();
        out.resize(start + series.len(), None);
        let mut of_source = Vec::with_capacity(series.len());
        for source in self.overlapping(range) {
            of_source.clear();
            source
                .batch
                .last(&source.pick(series), range, &mut of_source, ctx)?;
            for (best, found) in out[start..].iter_mut().zip(of_source.drain(..)) {
                if let Some(found) = found
                    && best
                        .as_ref()
                        .is_none_or(|best| best.time_ms < found.time_ms)
                {
                    *best = Some(found);
                }
            }
        }
        Ok(())
    }
}

/// Lays tiles of the same series over one another on the union of their time axes; the first wins.
fn overlay(parts: &[&Tile], series: usize, layout: Layout, tile: &mut Tile) {
    let mut times_ms: Vec<i64> = parts
        .iter()
        .flat_map(|part| part.times_ms.iter().copied())
        .collect();
    times_ms.sort_unstable();
    times_ms.dedup();
    tile.shape(layout, &times_ms, series, cell::ABSENT);
    let with_starts = parts.iter().any(|part| !part.start_times_ms.is_empty());
    if with_starts {
        tile.start_times_ms.resize(tile.cells.len(), 0);
    }
    for part in parts.iter().rev() {
        let histogram_base = tile.histograms.len();
        tile.histograms.extend_from_slice(&part.histograms);
        let mut row = 0;
        for (part_row, time_ms) in part.times_ms.iter().enumerate() {
            row += times_ms[row..].partition_point(|other| other < time_ms);
            for at in 0..series {
                let from = part.at(part_row, at);
                let value = match Cell::of(part.cells[from]) {
                    Cell::Absent => continue,
                    Cell::Histogram(index) => {
                        let index = histogram_base + index as usize;
                        cell::histogram(
                            u32::try_from(index).expect("a tile has fewer than 2^32 histograms"),
                        )
                    }
                    Cell::Stale | Cell::Float(_) => part.cells[from],
                };
                let to = tile.at(row, at);
                tile.cells[to] = value;
                if with_starts {
                    tile.start_times_ms[to] =
                        part.start_times_ms.get(from).copied().unwrap_or_default();
                }
            }
        }
    }
    tile.establish_facts();
}
