//! Merging an origin's strips from head and blocks as a whole.
//!
//! The same origin's strip comes once from the head and once from every block, with the same series in the same order
//! or some of them missing. Such batches are stacked: one comparison of identities a series instead of a merge series
//! by series. What does not fit goes through the general merge of `model`.
//!
//! **Invariant:** every identity occurs once in the result; on equal times the earlier batch wins.

use narthex_model::{
    LabelHash, LabelSet,
    cell::{self, Cell},
    storage::{Batch, Context, Grouping, LastCell, Layout, StorageError, Tile, TimeRange, unify},
};
use std::{borrow::Cow, collections::HashMap, sync::Arc};

/// Below one of so many of the stack's series a batch is merged the general way: its times would make rows for all.
const LEAST_SHARE: usize = 4;

/// Returns batches over the same samples in which every identity occurs exactly once.
pub(super) fn stack(batches: Vec<Arc<dyn Batch>>) -> Vec<Arc<dyn Batch>> {
    if batches.len() < 2 {
        return batches;
    }
    let mut stacks = Stacks::default();
    let mut by_len: Vec<usize> = (0..batches.len()).collect();
    by_len.sort_by_key(|at| std::cmp::Reverse(batches[*at].len()));
    for at in by_len {
        stacks.add(at, &batches[at]);
    }
    stacks.finish(&batches)
}

/// The stack number of series in batches that fit nowhere.
const TANGLED: u32 = u32::MAX;

#[derive(Default)]
struct Stacks {
    all: Vec<Stack>,
    /// The stack and the place in it of every series.
    places: HashMap<LabelHash, (u32, u32), foldhash::fast::RandomState>,
    /// Batches that fit nowhere.
    tangled: Vec<usize>,
}

struct Stack {
    leader: Arc<dyn Batch>,
    /// Batches by their places in the list, with the leader's series of each of theirs; `None`: the same.
    members: Vec<(usize, Option<Vec<u32>>)>,
    tangled: bool,
}

impl Stacks {
    fn add(&mut self, at: usize, batch: &Arc<dyn Batch>) {
        if batch.is_empty() {
            return;
        }
        match self.places.get(&batch.identity(0)).copied() {
            None => self.begin(at, batch),
            Some((TANGLED, _)) => self.tangle(at, &**batch),
            Some((stack, first)) => {
                let of = &mut self.all[stack as usize];
                match of.places_of(&**batch, first as usize) {
                    Some(places) => of.members.push((at, places)),
                    None => self.tangle(at, &**batch),
                }
            }
        }
    }

    /// Begins a stack with a batch.
    fn begin(&mut self, at: usize, batch: &Arc<dyn Batch>) {
        let number = u32::try_from(self.all.len()).expect("fewer than 2^32 batches");
        let mut tangled = false;
        for series in 0..batch.len() {
            let (other, _) = *self
                .places
                .entry(batch.identity(series))
                .or_insert((number, series as u32));
            if other != number {
                self.mark(other);
                tangled = true;
            }
        }
        self.all.push(Stack {
            leader: Arc::clone(batch),
            members: vec![(at, None)],
            tangled,
        });
    }

    /// Leaves a batch, and whatever has a series of it, to the general merge.
    fn tangle(&mut self, at: usize, batch: &dyn Batch) {
        for series in 0..batch.len() {
            let (other, _) = *self
                .places
                .entry(batch.identity(series))
                .or_insert((TANGLED, 0));
            self.mark(other);
        }
        self.tangled.push(at);
    }

    fn mark(&mut self, stack: u32) {
        if let Some(stack) = self.all.get_mut(stack as usize) {
            stack.tangled = true;
        }
    }

    fn finish(self, batches: &[Arc<dyn Batch>]) -> Vec<Arc<dyn Batch>> {
        let mut tangled = self.tangled;
        let mut result: Vec<(usize, Arc<dyn Batch>)> = Vec::new();
        for mut stack in self.all {
            if stack.tangled {
                tangled.extend(stack.members.iter().map(|member| member.0));
                continue;
            }
            stack.members.sort_by_key(|member| member.0);
            let first = stack.members.first().map_or(0, |member| member.0);
            let batch = if stack.members.len() == 1 {
                stack.leader
            } else {
                Arc::new(stack.into_batch(batches))
            };
            result.push((first, batch));
        }
        // What stacks share with what fits nowhere is merged series by series; in the order given, as it decides ties.
        tangled.sort_unstable();
        result.sort_by_key(|(first, _)| *first);
        let mut merged: Vec<Arc<dyn Batch>> = result.into_iter().map(|(_, batch)| batch).collect();
        merged.extend(unify(
            tangled
                .into_iter()
                .map(|at| Arc::clone(&batches[at]))
                .collect(),
        ));
        merged
    }
}

impl Stack {
    /// Finds the leader's series for each of a batch's, in order from `first` on; `None` where it does not fit.
    #[expect(
        clippy::option_option,
        reason = "not fitting and fitting exactly are different answers"
    )]
    fn places_of(&self, batch: &dyn Batch, first: usize) -> Option<Option<Vec<u32>>> {
        let (len, whole) = (batch.len(), self.leader.len());
        if len * LEAST_SHARE < whole {
            return None;
        }
        if len == whole {
            let same = first == 0
                && (0..len).all(|series| batch.identity(series) == self.leader.identity(series));
            return same.then_some(None);
        }
        let mut places = Vec::with_capacity(len);
        let mut at = first;
        for series in 0..len {
            let wanted = batch.identity(series);
            while at < whole && self.leader.identity(at) != wanted {
                at += 1;
            }
            if at == whole {
                return None;
            }
            places.push(at as u32);
            at += 1;
        }
        Some(Some(places))
    }

    fn into_batch(self, batches: &[Arc<dyn Batch>]) -> StackedBatch {
        let len = self.leader.len();
        let source = |(at, places): (usize, Option<Vec<u32>>)| {
            let series = places.map(|places| {
                let mut series = vec![NONE; len];
                for (own, place) in (0u32..).zip(places) {
                    series[place as usize] = own;
                }
                series
            });
            Source {
                batch: Arc::clone(&batches[at]),
                series,
            }
        };
        StackedBatch {
            leader: self.leader,
            sources: self.members.into_iter().map(source).collect(),
        }
    }
}

/// The source does not have the series.
const NONE: u32 = u32::MAX;

/// The same series from several batches.
struct StackedBatch {
    leader: Arc<dyn Batch>,
    /// In the order in which ties are decided.
    sources: Vec<Source>,
}

struct Source {
    batch: Arc<dyn Batch>,
    /// The batch's series for each of the leader's; `None`: the same.
    series: Option<Vec<u32>>,
}

impl Source {
    /// Picks the batch's series among `wanted`: where each goes, and which it is.
    fn pick(&self, wanted: &[u32]) -> (Option<Vec<u32>>, Vec<u32>) {
        let Some(series) = &self.series else {
            return (None, wanted.to_vec());
        };
        let own = |(to, wanted): (u32, &u32)| {
            Some((to, series[*wanted as usize])).filter(|(_, own)| *own != NONE)
        };
        let (to, own) = (0u32..).zip(wanted).filter_map(own).unzip();
        (Some(to), own)
    }
}

/// Cells of one source on their way into the tile.
struct Part {
    tile: Tile,
    /// The tile's series for each of the part's; `None`: the same.
    to: Option<Vec<u32>>,
}

impl StackedBatch {
    fn overlapping(&self, range: TimeRange) -> impl Iterator<Item = &Source> {
        self.sources
            .iter()
            .filter(move |source| source.batch.time_range().overlaps(range))
    }
}

impl Batch for StackedBatch {
    fn len(&self) -> usize {
        self.leader.len()
    }

    fn labels(&self, series: usize) -> LabelSet {
        self.leader.labels(series)
    }

    fn label(&self, series: usize, name: &str) -> Option<Cow<'_, str>> {
        self.leader.label(series, name)
    }

    fn identity(&self, series: usize) -> LabelHash {
        self.leader.identity(series)
    }

    fn group_key(&self, series: usize, grouping: &Grouping) -> LabelHash {
        self.leader.group_key(series, grouping)
    }

    fn time_range(&self) -> TimeRange {
        let ranges = self.sources.iter().map(|source| source.batch.time_range());
        ranges
            .reduce(TimeRange::hull)
            .unwrap_or(TimeRange::new(0, -1))
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
        if let [only] = overlapping.as_slice()
            && only.series.is_none()
        {
            return only.batch.read(series, range, layout, tile, ctx);
        }
        let mut parts = Vec::with_capacity(overlapping.len());
        let mut leases = Vec::with_capacity(overlapping.len());
        for source in overlapping {
            let (to, own) = source.pick(series);
            let bytes = source.batch.rows(range) * own.len() * size_of::<f64>();
            leases.push(ctx.budget.lease(bytes as u64)?);
            let mut part = Part {
                tile: Tile::default(),
                to,
            };
            source
                .batch
                .read(&own, range, layout, &mut part.tile, ctx)?;
            parts.push(part);
        }
        lay(&parts, series.len(), layout, tile);
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
        // Visited newest first, so that most series need one source; of equal times the earlier source's counts.
        let mut newest_first: Vec<(usize, &Source)> = self.overlapping(range).enumerate().collect();
        newest_first.sort_by_key(|(_, source)| std::cmp::Reverse(source.batch.time_range().max_ms));
        let mut ranks = vec![usize::MAX; series.len()];
        let mut found = Vec::new();
        for (rank, source) in newest_first {
            let max_ms = source.batch.time_range().max_ms;
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
            let (to, own) = source.pick(&wanted);
            found.clear();
            source.batch.last(&own, range, &mut found, ctx)?;
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

/// Lays parts over one another on the union of their times; the first wins.
fn lay(parts: &[Part], series: usize, layout: Layout, tile: &mut Tile) {
    let mut times_ms: Vec<i64> = parts
        .iter()
        .flat_map(|part| part.tile.times_ms.iter().copied())
        .collect();
    times_ms.sort_unstable();
    times_ms.dedup();
    tile.shape(layout, &times_ms, series, cell::ABSENT);
    if parts
        .iter()
        .any(|part| !part.tile.start_times_ms.is_empty())
    {
        tile.start_times_ms.resize(tile.cells.len(), 0);
    }
    for part in parts.iter().rev() {
        let base = tile.histograms.len();
        tile.histograms.extend_from_slice(&part.tile.histograms);
        let plain =
            part.to.is_none() && part.tile.facts.all_floats && tile.start_times_ms.is_empty();
        let mut row = 0;
        for (part_row, time_ms) in part.tile.times_ms.iter().enumerate() {
            row += times_ms[row..].partition_point(|other| other < time_ms);
            if plain && layout == Layout::TimeMajor {
                tile.cells[row * series..(row + 1) * series]
                    .copy_from_slice(part.tile.row(part_row));
            } else {
                part.lay_row(part_row, row, base, tile);
            }
        }
    }
    tile.establish_facts();
}

impl Part {
    fn lay_row(&self, from_row: usize, to_row: usize, histogram_base: usize, tile: &mut Tile) {
        for at in 0..self.tile.series {
            let from = self.tile.at(from_row, at);
            let value = match Cell::of(self.tile.cells[from]) {
                Cell::Absent => continue,
                Cell::Histogram(index) => {
                    let index = u32::try_from(histogram_base + index as usize);
                    cell::histogram(index.expect("a tile has fewer than 2^32 histograms"))
                }
                Cell::Stale | Cell::Float(_) => self.tile.cells[from],
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
    use narthex_model::{
        MemStore,
        storage::{Selector, SeriesSample, Sink, Store},
    };
    use narthex_testkit::rng::SplitMix64;
    use std::collections::BTreeMap;

    type Samples = BTreeMap<LabelSet, BTreeMap<i64, u64>>;

    /// Returns the batches of a store: one with most of the series, in order, as strips come from head and blocks,
    /// and now and then lone ones with times of their own.
    fn batches(random: &mut SplitMix64, base_ms: i64) -> Vec<Arc<dyn Batch>> {
        let store = MemStore::new();
        let (gaps, lone) = (random.one_in(3), random.one_in(10));
        for series in 0..24u64 {
            if gaps && random.one_in(6) {
                continue;
            }
            let labels = LabelSet::new([("__name__", "m"), ("i", series.to_string().as_str())]);
            let own_axis = lone && random.one_in(12);
            for row in 0..6 {
                let time_ms = base_ms
                    + row * 10
                    + if own_axis {
                        1 + random.below(9) as i64
                    } else {
                        0
                    };
                let sample =
                    SeriesSample::float(labels.clone(), time_ms, random.below(1000) as f64);
                store.append_samples(&[sample]).unwrap();
            }
        }
        let ctx = Context::unlimited();
        let view = store.view(TimeRange::ALL).unwrap();
        let all = Selector::new(Vec::new(), TimeRange::ALL);
        view.prepare(&[all], &ctx)
            .unwrap()
            .batches(0, &ctx)
            .unwrap()
    }

    /// Counts the stacks of several batches: those that are the same, those with gaps; and the batches that fit nowhere.
    fn shapes(batches: &[Arc<dyn Batch>]) -> (usize, usize, usize) {
        let mut stacks = Stacks::default();
        let mut by_len: Vec<usize> = (0..batches.len()).collect();
        by_len.sort_by_key(|at| std::cmp::Reverse(batches[*at].len()));
        by_len
            .into_iter()
            .for_each(|at| stacks.add(at, &batches[at]));
        let several = || {
            stacks
                .all
                .iter()
                .filter(|stack| !stack.tangled && stack.members.len() > 1)
        };
        let gaps = several()
            .filter(|stack| stack.members.iter().any(|member| member.1.is_some()))
            .count();
        (several().count() - gaps, gaps, stacks.tangled.len())
    }

    fn read(batches: &[Arc<dyn Batch>], range: TimeRange, layout: Layout) -> Samples {
        let ctx = Context::unlimited();
        let (mut all, mut tile) = (Samples::new(), Tile::default());
        for batch in batches {
            // In reverse and without some, so that places are not what they seem.
            let series: Vec<u32> = (0..batch.len() as u32).rev().collect();
            let mut last = Vec::new();
            batch.read(&series, range, layout, &mut tile, &ctx).unwrap();
            batch.last(&series, range, &mut last, &ctx).unwrap();
            assert!(tile.times_ms.len() <= batch.rows(range));
            for (at, series) in series.iter().enumerate() {
                let cells =
                    (0..tile.times_ms.len()).map(|row| (tile.times_ms[row], tile.get(row, at)));
                let samples: BTreeMap<i64, u64> = cells
                    .filter(|(_, cell)| !cell::is_absent(*cell))
                    .map(|(t, cell)| (t, cell.to_bits()))
                    .collect();
                let newest = last[at]
                    .as_ref()
                    .map(|last| (last.time_ms, last.cell.to_bits()));
                assert_eq!(
                    newest,
                    samples.last_key_value().map(|(t, bits)| (*t, *bits))
                );
                let labels = batch.labels(*series as usize);
                assert_eq!(batch.identity(*series as usize), labels.hash());
                assert!(all.insert(labels, samples).is_none(), "every identity once");
            }
        }
        all.retain(|_, samples| !samples.is_empty());
        all
    }

    #[test]
    fn stacking_is_merging() {
        let mut seen = (0, 0, 0);
        for seed in 1..=60 {
            let mut random = SplitMix64::new(seed);
            let parts = 2 + random.index(4) as i64;
            let all: Vec<Arc<dyn Batch>> = (0..parts)
                .flat_map(|part| batches(&mut random, part * 30))
                .collect();
            let (same, gaps, tangled) = shapes(&all);
            seen = (seen.0 + same, seen.1 + gaps, seen.2 + tangled);
            for (range, layout) in [
                (TimeRange::ALL, Layout::TimeMajor),
                (TimeRange::new(25, 75), Layout::SeriesMajor),
                (TimeRange::new(60, 61), Layout::TimeMajor),
            ] {
                let (stacked, merged) = (stack(all.clone()), unify(all.clone()));
                assert_eq!(
                    read(&stacked, range, layout),
                    read(&merged, range, layout),
                    "seed {seed}, {range:?}"
                );
            }
        }
        assert!(
            seen.0 > 5 && seen.1 > 5 && seen.2 > 5,
            "every way is taken: {seen:?}"
        );
    }
}
