//! A consistent state of the database, and the queries it answers.
//!
//! **Invariant:** a snapshot of each strip is taken at one moment; a view shows nothing written later.

use super::{
    Inner,
    blocks::{Unreadable, range_of},
    ended::leave_out_ended,
    merge_aligned::merge_aligned,
    snapshots::SnapshotGuard,
};
use crate::block::{Block, FoundStrips};
use crate::head::read::{HeadBatches, HeadSnapshot, Selected};
use crate::label_order;
use crate::sync::Guarded as _;
use narthex_model::{
    Exemplar, LabelSet,
    metadata::Family,
    storage::{
        Batch, Cardinality, CardinalityCount, Collector, Context, Estimate, ExemplarSeries, Lease,
        Listing, ListingMark, ListingOf, Marker, Prepared, Selector, SeriesQuery, StorageError,
        TimeRange, View, unify,
    },
};
use std::{collections::BTreeMap, sync::Arc};

pub(super) struct DbView {
    inner: Arc<Inner>,
    snapshot: HeadSnapshot,
    /// Oldest first.
    blocks: Vec<Arc<Block>>,
    /// Blocks that could not be opened.
    missing: Vec<Unreadable>,
    guard: Arc<SnapshotGuard>,
}

impl DbView {
    pub(super) fn new(inner: Arc<Inner>, range: TimeRange) -> Self {
        Self::with_head(inner, range, |inner| {
            HeadSnapshot::new(&inner.head.index().strips())
        })
    }

    /// Resolves selectors within `range`, in a view of what they select alone.
    ///
    /// # Errors
    /// As `View::prepare`.
    pub(super) fn prepare_alone(
        inner: Arc<Inner>,
        range: TimeRange,
        selectors: &[Selector],
        ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        // Series that begin after this are written later than anything the view shows.
        let selected = select(&inner, selectors, ctx)?;
        let view = Self::with_head(inner, range, |_| HeadSnapshot::of_selected(&selected));
        view.prepare_selected(selectors, selected, ctx)
    }

    fn with_head(
        inner: Arc<Inner>,
        range: TimeRange,
        head: impl FnOnce(&Inner) -> HeadSnapshot,
    ) -> Self {
        // A flush moves rows from strips to blocks under the write lock, so they are seen in exactly one place.
        let all = inner.blocks.read().guarded();
        let guard = inner.snapshots.register();
        let blocks = all.overlapping(range);
        let missing = all.unreadable().filter(|block| block.overlaps(range));
        let missing = missing.cloned().collect();
        let snapshot = if range.is_empty() {
            // An expression without selectors.
            HeadSnapshot::default()
        } else {
            let _whole_rounds = inner.head.taking_snapshot();
            head(&inner)
        };
        drop(all);
        Self {
            inner,
            snapshot,
            blocks,
            missing,
            guard: Arc::new(guard),
        }
    }

    /// Warns about unopenable blocks that may have samples within `range`.
    fn warn_of_missing(&self, range: TimeRange, ctx: &Context) {
        let missing = self.missing.iter().filter(|block| block.overlaps(range));
        missing.for_each(|block| {
            ctx.warnings
                .note(format!("{}; what was there is left out", block.damage));
        });
    }

    fn prepare_selected(
        &self,
        selectors: &[Selector],
        selected: Vec<Selected>,
        ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        let mut prepared = DbPrepared {
            batches: Vec::new(),
            estimate: Estimate::default(),
            leases: Vec::new(),
            _guard: Arc::clone(&self.guard),
        };
        let work = selected.iter().map(Selected::work).sum();
        let helpers = self.inner.context.options.helpers.of_query();
        let helpers = &helpers.of_work(work);
        for (selector, selected) in selectors.iter().zip(selected) {
            let Selector {
                matchers,
                range,
                hints,
            } = selector;
            self.warn_of_missing(*range, ctx);
            let blocks: Vec<&Arc<Block>> = self.blocks_within(*range).collect();
            let found_in = helpers.map(&blocks, |block| block.find(matchers, *range, true, ctx));
            let mut found = all_but_left_out(found_in, blocks, ctx)?;
            // Blocks may have samples from before the end, which would be the newest without it.
            let only_alive = hints.newest && found.is_empty();
            let HeadBatches {
                mut alone,
                mixed,
                estimate,
                leases,
            } = selected.batches(&self.snapshot, *range, hints, only_alive, (helpers, ctx))?;
            prepared.leases.extend(leases);
            prepared.estimate += estimate;
            if hints.newest {
                leave_out_ended(&mut found, &mut alone, &mixed, *range);
            }
            let selected_in = helpers.map(&found, |found| found.select(ctx));
            let blocks = found.iter().map(FoundStrips::block);
            let mut in_blocks = Vec::new();
            for selection in all_but_left_out(selected_in, blocks, ctx)? {
                prepared.estimate += selection.estimate();
                in_blocks.extend(selection.batches(hints));
            }
            let mut batches = if in_blocks.is_empty() {
                let mut batches = alone;
                batches.extend(unify(mixed, &ctx.stop)?);
                batches
            } else {
                in_blocks.extend(alone);
                in_blocks.extend(mixed);
                merge_aligned(in_blocks, helpers, &ctx.stop)?
            };
            label_order::sort(&mut batches);
            prepared.batches.push(batches);
        }
        Ok(Box::new(prepared))
    }

    fn blocks_within(&self, range: TimeRange) -> impl Iterator<Item = &Arc<Block>> {
        self.blocks
            .iter()
            .filter(move |block| range_of(block).overlaps(range))
    }
}

impl View for DbView {
    fn prepare(
        &self,
        selectors: &[Selector],
        ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        self.prepare_selected(selectors, select(&self.inner, selectors, ctx)?, ctx)
    }

    fn label_names(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<String>, StorageError> {
        self.warn_of_missing(query.range, ctx);
        let mut names = Collector::new(query.limit, ctx)?;
        let head = &self.inner.head;
        head.label_names(&self.snapshot, query, ctx, &mut names)?;
        for block in self.blocks_within(query.range) {
            or_leave_out(block, block.label_names(query, ctx, &mut names), ctx)?;
        }
        names.finish()
    }

    fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<String>, StorageError> {
        self.warn_of_missing(query.range, ctx);
        let mut values = Collector::new(query.limit, ctx)?;
        let head = &self.inner.head;
        head.label_values(name, &self.snapshot, query, ctx, &mut values)?;
        for block in self.blocks_within(query.range) {
            let result = block.label_values(name, query, ctx, &mut values);
            or_leave_out(block, result, ctx)?;
        }
        values.finish()
    }

    fn series(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Listing<LabelSet>, StorageError> {
        self.warn_of_missing(query.range, ctx);
        let mut series = Collector::new(query.limit, ctx)?;
        let head = &self.inner.head;
        head.visit_series(
            &self.snapshot,
            &query.any_of,
            query.range,
            ctx,
            &mut |parts| series.add_once(parts.identity(), || parts.labels()),
        )?;
        for block in self.blocks_within(query.range) {
            or_leave_out(block, block.series(query, ctx, &mut series), ctx)?;
        }
        series.finish()
    }

    fn cardinality(&self, limit: usize, ctx: &Context) -> Result<Cardinality, StorageError> {
        let mut count = CardinalityCount::new(ctx)?;
        self.inner
            .head
            .count_series(&self.snapshot, ctx, &mut count)?;
        let counted = count.finish(limit);
        // A database that was only restored, and is not written to, has no series in the head.
        if counted.series == 0 && !self.blocks.is_empty() {
            let all = self.series(&SeriesQuery::all(TimeRange::ALL), ctx)?;
            return Cardinality::count(&all.items, limit, ctx);
        }
        Ok(counted)
    }

    fn metadata(&self, metric: Option<&str>, ctx: &Context) -> Result<Vec<Family>, StorageError> {
        ctx.stop.check()?;
        Ok(match metric {
            Some(name) => self.inner.head.families_named(name),
            None => self.inner.head.families(),
        })
    }

    fn exemplars(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Vec<ExemplarSeries>, StorageError> {
        ctx.stop.check()?;
        self.warn_of_missing(query.range, ctx);
        let mut found: BTreeMap<LabelSet, ExemplarSeries> = BTreeMap::new();
        let (mut lease, mut pace) = (ctx.budget.lease(0)?, ctx.stop.pace());
        let mut add = |common: &LabelSet,
                       local: &LabelSet,
                       time_ms: i64,
                       exemplar: &Exemplar|
         -> Result<(), StorageError> {
            pace.spend(16)?;
            if !query.range.contains(time_ms) {
                return Ok(());
            }
            let labels = common.union(local);
            if !query.matches(&labels) {
                return Ok(());
            }
            // Each may be the only one of its series.
            let sets = labels.heap_bytes() + exemplar.labels.heap_bytes();
            lease.grow((sets + size_of::<ExemplarSeries>() + size_of_val(exemplar)) as u64)?;
            let series = found.entry(labels.clone()).or_insert(ExemplarSeries {
                labels,
                exemplars: Vec::new(),
            });
            let entry = (time_ms, exemplar.clone());
            if !series.exemplars.contains(&entry) {
                series.exemplars.push(entry);
            }
            Ok(())
        };
        // An exemplar may be a little older than the rows it was sent with.
        let window_ms = self.inner.context.options.block_window_ms;
        let around = TimeRange::new(
            query.range.min_ms.saturating_sub(window_ms),
            query.range.max_ms.saturating_add(window_ms),
        );
        for block in self.blocks_within(around) {
            ctx.stop.check()?;
            match block.exemplars() {
                Ok(all) => all
                    .iter()
                    .try_for_each(|one| add(&one.common, &one.local, one.time_ms, &one.exemplar))?,
                Err(error) => block.leave_out(error.into(), ctx)?,
            }
        }
        for entry in self.inner.head.exemplars().iter() {
            add(&entry.common, &entry.local, entry.time_ms, &entry.exemplar)?;
        }
        let mut found: Vec<ExemplarSeries> = found.into_values().collect();
        found
            .iter_mut()
            .for_each(|series| series.exemplars.sort_by_key(|exemplar| exemplar.0));
        Ok(found)
    }
}

/// Returns a mark of a listing.
///
/// # Errors
/// Fails over budget and when stopped.
pub(super) fn listing_mark(
    inner: &Inner,
    of: ListingOf<'_>,
    query: &SeriesQuery,
    ctx: &Context,
) -> Result<Option<ListingMark>, StorageError> {
    let mut marker = Marker::default();
    // A flush moves rows from strips to blocks under the write lock.
    let all = inner.blocks.read().guarded();
    if all.unreadable().any(|block| block.overlaps(query.range)) {
        // The answer comes with a warning.
        return Ok(None);
    }
    for block in all.overlapping(query.range) {
        marker.add_wide(block.meta().id.0);
        // Parts of a block may have other series than the whole of it.
        let (own, asked) = (range_of(&block), query.range);
        marker.add(asked.min_ms.max(own.min_ms).cast_unsigned());
        marker.add(asked.max_ms.min(own.max_ms).cast_unsigned());
    }
    let is_known = inner.head.mark_listing(of, query, ctx, &mut marker)?;
    Ok(is_known.then(|| marker.finish()))
}

/// Finds what selectors select in the head.
fn select(
    inner: &Inner,
    selectors: &[Selector],
    ctx: &Context,
) -> Result<Vec<Selected>, StorageError> {
    let all = selectors.iter();
    all.map(|selector| {
        inner
            .head
            .select(&selector.matchers, selector.range.min_ms, ctx)
    })
    .collect()
}

/// Returns the results of blocks but for those whose index is damaged.
fn all_but_left_out<'b, T>(
    results: Vec<Result<T, StorageError>>,
    blocks: impl IntoIterator<Item = &'b Arc<Block>>,
    ctx: &Context,
) -> Result<Vec<T>, StorageError> {
    let mut all = Vec::with_capacity(results.len());
    for (result, block) in results.into_iter().zip(blocks) {
        match result {
            Ok(result) => all.push(result),
            Err(error) => block.leave_out(error, ctx)?,
        }
    }
    Ok(all)
}

/// Skips a block whose index is damaged: everything else is served, with a warning.
fn or_leave_out(
    block: &Block,
    result: Result<(), StorageError>,
    ctx: &Context,
) -> Result<(), StorageError> {
    result.or_else(|error| block.leave_out(error, ctx))
}

struct DbPrepared {
    batches: Vec<Vec<Arc<dyn Batch>>>,
    estimate: Estimate,
    leases: Vec<Lease>,
    /// Rows of the head are fetched at the first read, when the view may already be gone.
    _guard: Arc<SnapshotGuard>,
}

impl Prepared for DbPrepared {
    fn estimate(&self) -> Estimate {
        self.estimate
    }

    fn batches(&self, selector: usize, ctx: &Context) -> Result<Vec<Arc<dyn Batch>>, StorageError> {
        ctx.stop.check()?;
        Ok(self.batches[selector].clone())
    }
}
