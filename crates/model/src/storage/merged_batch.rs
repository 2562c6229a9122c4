//! Several batches with the same series, read as one.
//!
//! **Invariant:** the result depends only on the order of the layers; on equal times the cell of the earlier one wins.

use super::{Batch, Context, Grouping, LastCell, Layout, SeriesKey, StorageError, Tile, TimeRange};
use crate::{
    cell,
    labels::{LabelHash, LabelSet},
};
use std::{borrow::Cow, sync::Arc};

/// One batch of a merged batch.
pub struct Layer {
    batch: Arc<dyn Batch>,
    /// The batch's series for each of the merged batch's; `None` if they are the same.
    series: Option<Vec<u32>>,
}

/// Marks a series that the layer lacks.
const NOT_THERE: u32 = u32::MAX;

impl Layer {
    /// Returns a layer that has the merged batch's series in its order.
    #[must_use]
    pub fn same(batch: Arc<dyn Batch>) -> Self {
        Self {
            batch,
            series: None,
        }
    }

    /// Returns a layer whose series `series[i]` is the merged batch's series `i`, for all of them.
    #[must_use]
    pub fn chosen(batch: Arc<dyn Batch>, series: Vec<u32>) -> Self {
        Self {
            batch,
            series: Some(series),
        }
    }

    /// Returns a layer whose series `i` is number `places[i]` of the merged batch's `len`; it lacks the others.
    ///
    /// # Panics
    /// Panics when a place is not below `len`.
    #[must_use]
    pub fn placed(batch: Arc<dyn Batch>, places: &[u32], len: usize) -> Self {
        let mut series = vec![NOT_THERE; len];
        for (own, place) in (0u32..).zip(places) {
            series[*place as usize] = own;
        }
        Self::chosen(batch, series)
    }

    /// Returns the batch and the index in it of a series that the layer has.
    fn find(&self, series: usize) -> (&dyn Batch, usize) {
        let own = self.series.as_ref().map(|own| own[series] as usize);
        (&*self.batch, own.unwrap_or(series))
    }

    /// Picks the batch's series among `wanted`: the destination of each (`None`: the same place), and its index.
    fn pick<'w>(&self, wanted: &'w [u32]) -> (Option<Vec<u32>>, Cow<'w, [u32]>) {
        let Some(series) = &self.series else {
            return (None, Cow::Borrowed(wanted));
        };
        let own: Vec<u32> = wanted.iter().map(|at| series[*at as usize]).collect();
        if !own.contains(&NOT_THERE) {
            return (None, Cow::Owned(own));
        }
        let there = (0u32..).zip(own).filter(|(_, own)| *own != NOT_THERE);
        let (to, own): (_, Vec<u32>) = there.unzip();
        (Some(to), Cow::Owned(own))
    }
}

/// The same series from several batches.
pub struct MergedBatch {
    /// The layers, in the order in which ties are decided.
    layers: Vec<Layer>,
    /// Index of the layer that has every series.
    leader: usize,
}

/// Cells of one layer on their way into the tile.
struct Part {
    tile: Tile,
    /// The tile's series for each of the part's; `None` if they are the same.
    to: Option<Vec<u32>>,
}

impl MergedBatch {
    /// Builds a merged batch of `layers`; the one at `leader` has every series.
    ///
    /// # Panics
    /// Panics when there is no such layer.
    #[must_use]
    pub fn new(layers: Vec<Layer>, leader: usize) -> Self {
        assert!(leader < layers.len(), "a merged batch has a leader");
        Self { layers, leader }
    }

    fn leader(&self, series: usize) -> (&dyn Batch, usize) {
        self.layers[self.leader].find(series)
    }

    fn overlapping(&self, range: TimeRange) -> impl Iterator<Item = &Layer> {
        self.layers
            .iter()
            .filter(move |layer| layer.batch.time_range().overlaps(range))
    }
}

impl Batch for MergedBatch {
    fn len(&self) -> usize {
        let Layer { batch, series } = &self.layers[self.leader];
        series.as_ref().map_or(batch.len(), Vec::len)
    }

    fn labels(&self, series: usize) -> LabelSet {
        let (batch, own) = self.leader(series);
        batch.labels(own)
    }

    fn common(&self) -> Option<&LabelSet> {
        self.layers[self.leader].batch.common()
    }

    fn local(&self, series: usize) -> Option<&LabelSet> {
        let (batch, own) = self.leader(series);
        batch.local(own)
    }

    fn common_names(&self) -> Option<u64> {
        self.layers[self.leader].batch.common_names()
    }

    fn common_order(&self) -> Option<u64> {
        self.layers[self.leader].batch.common_order()
    }

    fn series_key(&self) -> Option<SeriesKey> {
        let Layer { batch, series } = &self.layers[self.leader];
        series.is_none().then(|| batch.series_key()).flatten()
    }

    fn label(&self, series: usize, name: &str) -> Option<Cow<'_, str>> {
        let (batch, own) = self.leader(series);
        batch.label(own, name)
    }

    fn identity(&self, series: usize) -> LabelHash {
        let (batch, own) = self.leader(series);
        batch.identity(own)
    }

    fn group_key(&self, series: usize, grouping: &Grouping) -> LabelHash {
        let (batch, own) = self.leader(series);
        batch.group_key(own, grouping)
    }

    fn time_range(&self) -> TimeRange {
        let ranges = self.layers.iter().map(|layer| layer.batch.time_range());
        ranges
            .reduce(TimeRange::hull)
            .unwrap_or(TimeRange::new(0, -1))
    }

    fn rows(&self, range: TimeRange) -> usize {
        self.overlapping(range)
            .map(|layer| layer.batch.rows(range))
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
        let mut overlapping = self.overlapping(range);
        if let (Some(only), None) = (overlapping.next(), overlapping.next())
            && let (None, own) = only.pick(series)
        {
            return only.batch.read(&own, range, layout, tile, ctx);
        }
        let mut parts = Vec::with_capacity(self.layers.len());
        let mut lease = ctx.budget.lease(0)?;
        for layer in self.overlapping(range) {
            let (to, own) = layer.pick(series);
            let bytes = layer.batch.rows(range) * own.len() * size_of::<f64>();
            lease.grow(bytes as u64)?;
            let mut part = Part {
                tile: tile.take_spare(),
                to,
            };
            layer.batch.read(&own, range, layout, &mut part.tile, ctx)?;
            parts.push(part);
        }
        merge_parts(&parts, series.len(), layout, tile);
        parts
            .into_iter()
            .for_each(|part| tile.keep_spare(part.tile));
        Ok(())
    }

    fn has_ended(&self, range: TimeRange) -> bool {
        let newest = |layer: &&Layer| layer.batch.time_range().max_ms;
        let Some(last) = self.overlapping(range).max_by_key(newest) else {
            return false;
        };
        let is_last = |layer: &Layer| newest(&layer) < newest(&last) || std::ptr::eq(layer, last);
        let has_all = |own: &Vec<u32>| !own.contains(&NOT_THERE);
        last.series.as_ref().is_none_or(has_all)
            && last.batch.has_ended(range)
            && self.overlapping(range).all(is_last)
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
        // Newest layer first, so that most series need only one; at equal times the earlier layer wins.
        let mut newest_first: Vec<(usize, &Layer)> = self.overlapping(range).enumerate().collect();
        newest_first.sort_by_key(|(_, layer)| std::cmp::Reverse(layer.batch.time_range().max_ms));
        let mut ranks = vec![usize::MAX; series.len()];
        let mut found = Vec::new();
        for (rank, layer) in newest_first {
            let max_ms = layer.batch.time_range().max_ms;
            let open = |at: &usize| {
                out[start + at]
                    .as_ref()
                    .is_none_or(|last: &LastCell| last.time_ms <= max_ms)
            };
            let left: Vec<usize> = (0..series.len()).filter(open).collect();
            if left.is_empty() {
                break;
            }
            let wanted: Vec<u32> = left.iter().map(|at| series[*at]).collect();
            let (to, own) = layer.pick(&wanted);
            found.clear();
            layer.batch.last(&own, range, &mut found, ctx)?;
            for (at, found) in found.drain(..).enumerate() {
                let at = left[to.as_ref().map_or(at, |to| to[at] as usize)];
                let Some(found) = found else { continue };
                let best = &mut out[start + at];
                let wins = best.as_ref().is_none_or(|best| {
                    best.time_ms < found.time_ms
                        || (best.time_ms == found.time_ms && rank < ranks[at])
                });
                if wins {
                    *best = Some(found);
                    ranks[at] = rank;
                }
            }
        }
        Ok(())
    }
}

/// Merges parts on the union of their times; at equal times the first part wins.
fn merge_parts(parts: &[Part], series: usize, layout: Layout, tile: &mut Tile) {
    tile.clear(layout);
    let times_ms = &mut tile.times_ms;
    parts
        .iter()
        .for_each(|part| times_ms.extend_from_slice(&part.tile.times_ms));
    let rows = times_ms.len();
    if !times_ms.is_sorted_by(|a, b| a < b) {
        times_ms.sort_unstable();
        times_ms.dedup();
    }
    tile.fill(series, cell::ABSENT);
    if parts
        .iter()
        .any(|part| !part.tile.start_times_ms.is_empty())
    {
        tile.start_times_ms.resize(tile.cells.len(), 0);
    }
    if rows == tile.times_ms.len() && parts.iter().all(|part| part.follows_on(&tile.times_ms)) {
        parts.iter().for_each(|part| part.copy_to(tile));
        let floats = float_rows(parts);
        tile.facts.all_floats = floats == Some(rows);
        tile.facts.ended_after = floats.filter(|floats| *floats < rows);
        tile.facts.no_histograms = true;
        return;
    }
    for part in parts.iter().rev() {
        let base = tile.histograms.len();
        tile.histograms.extend_from_slice(&part.tile.histograms);
        let plain =
            part.to.is_none() && part.tile.facts.all_floats && tile.start_times_ms.is_empty();
        let mut row = 0;
        for (part_row, time_ms) in part.tile.times_ms.iter().enumerate() {
            row += row_at(&tile.times_ms[row..], *time_ms);
            if plain && layout == Layout::TimeMajor {
                tile.cells[row * series..(row + 1) * series]
                    .copy_from_slice(part.tile.row(part_row));
            } else {
                part.merge_row(part_row, row, base, tile);
            }
        }
    }
    tile.establish_facts();
}

/// Returns the number of rows of floats in all parts, which follow each other, if the last of them alone has anything
/// else: staleness markers after its floats.
fn float_rows(parts: &[Part]) -> Option<usize> {
    let last = parts.iter().max_by_key(|part| part.tile.times_ms.last())?;
    let of_part = |part: &Part| {
        let rows = part.tile.times_ms.len();
        let floats = part.tile.float_rows().filter(|_| part.to.is_none());
        let fits = |floats: &usize| *floats == rows || std::ptr::eq(part, last);
        if rows == 0 {
            return Some(0);
        }
        floats.filter(fits)
    };
    parts.iter().map(of_part).sum()
}

/// Returns the first row of `times_ms` at or after `time_ms`.
fn row_at(times_ms: &[i64], time_ms: i64) -> usize {
    times_ms.partition_point(|other| *other < time_ms)
}

impl Part {
    /// Reports whether the part's rows follow each other among `times_ms`, and have nothing but cells.
    fn follows_on(&self, times_ms: &[i64]) -> bool {
        let tile = &self.tile;
        let (Some(first), Some(last)) = (tile.times_ms.first(), tile.times_ms.last()) else {
            return true;
        };
        tile.layout == Layout::SeriesMajor
            && tile.histograms.is_empty()
            && tile.start_times_ms.is_empty()
            && row_at(times_ms, *last) - row_at(times_ms, *first) + 1 == tile.times_ms.len()
    }

    /// Copies the rows of a part that no other part has.
    fn copy_to(&self, tile: &mut Tile) {
        let Some(first) = self.tile.times_ms.first() else {
            return;
        };
        let row = row_at(&tile.times_ms, *first);
        for at in 0..self.tile.series {
            let cells = self.tile.series_cells(at);
            let to = tile.at(row, self.to.as_ref().map_or(at, |to| to[at] as usize));
            tile.cells[to..to + cells.len()].copy_from_slice(cells);
        }
    }

    fn merge_row(&self, from_row: usize, to_row: usize, histogram_base: usize, tile: &mut Tile) {
        for at in 0..self.tile.series {
            let from = self.tile.at(from_row, at);
            let Some(value) = cell::rebased(self.tile.cells[from], histogram_base) else {
                continue;
            };
            let to = tile.at(to_row, self.to.as_ref().map_or(at, |to| to[at] as usize));
            tile.cells[to] = value;
            if let Some(start_ms) = tile.start_times_ms.get_mut(to) {
                *start_ms = self
                    .tile
                    .start_times_ms
                    .get(from)
                    .copied()
                    .unwrap_or_default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Series of one strip.
    struct Keyed(SeriesKey);

    impl Batch for Keyed {
        fn len(&self) -> usize {
            self.0.columns.len()
        }

        fn labels(&self, _series: usize) -> LabelSet {
            LabelSet::empty()
        }

        fn series_key(&self) -> Option<SeriesKey> {
            Some(self.0.clone())
        }

        fn time_range(&self) -> TimeRange {
            TimeRange::ALL
        }

        fn rows(&self, _range: TimeRange) -> usize {
            0
        }

        fn read(
            &self,
            _series: &[u32],
            _range: TimeRange,
            _layout: Layout,
            _tile: &mut Tile,
            _ctx: &Context,
        ) -> Result<(), StorageError> {
            unreachable!("nobody reads samples")
        }
    }

    #[test]
    fn the_key_is_that_of_a_leader_with_the_same_series() {
        let batch = |strip, columns: u32| {
            let columns = (0..columns).collect();
            Arc::new(Keyed(SeriesKey { strip, columns }))
        };
        let (whole, part) = (batch(1, 3), batch(2, 2));
        let placed = || Layer::placed(Arc::clone(&part) as Arc<dyn Batch>, &[0, 2], 3);
        let same = Layer::same(Arc::clone(&whole) as Arc<dyn Batch>);
        let merged = MergedBatch::new(vec![placed(), same], 1);
        assert_eq!(merged.series_key(), Some(whole.0.clone()));
        // The same series in another order.
        let turned = Layer::chosen(whole, vec![2, 1, 0]);
        let merged = MergedBatch::new(vec![placed(), turned], 1);
        assert_eq!(merged.series_key(), None);
    }
}
