//! Reading the head: the columns that a selector selects, as batches.
//!
//! **Invariant:** a batch decodes only what its snapshot shows, so later writes and flushes never show; columns with a
//! second source (another strip, out-of-order samples) are in separate batches, so that only those need merging.

mod decode;
mod listing;
mod mark;
mod out_of_order;
mod strip;

pub(crate) use decode::decode_row_chunk;
pub(crate) use mark::AllListed;
pub(crate) use strip::StripBatch;

use super::{
    Head,
    index::Chosen,
    row_chunk::RowChunk,
    strip::{Strip, StripSnapshot, StripState},
    windows::DecodedMemory,
};
use narthex_model::{
    ColumnId, LabelHash, LabelSet, Matcher, Schema,
    storage::{Batch, Context, Estimate, Helpers, Hints, Lease, StorageError, TimeRange},
};
use out_of_order::OutOfOrderBatch;
use smallvec::SmallVec;
use std::{borrow::Borrow, sync::Arc};

/// Part of the head that a view sees.
#[derive(Debug, Default)]
pub(crate) struct HeadSnapshot {
    /// By strip number, ascending.
    strips: Vec<(u32, StripSnapshot)>,
}

/// The batches of one selector.
#[derive(Default)]
pub(crate) struct HeadBatches {
    /// Batches whose series have no other source in the head.
    pub(crate) alone: Vec<Arc<dyn Batch>>,
    /// Batches to be merged with one another.
    pub(crate) mixed: Vec<Arc<dyn Batch>>,
    pub(crate) estimate: Estimate,
    /// Memory of the batches before anything is decoded.
    pub(crate) leases: Vec<Lease>,
}

/// The columns of one selector.
pub(crate) struct Selected {
    chosen: Arc<[Chosen]>,
    decoded: Arc<DecodedMemory>,
    /// Memory of the columns, and of the batches made from them.
    lease: Lease,
}

/// Strips whose batches are made at once.
const STRIPS_AT_ONCE: usize = 512;
/// Cost of looking at a strip, in samples read.
const STRIP_WORK: usize = 64;
/// Bytes of one selected column: its number in the index's selection, in a list that doubles, and in a batch.
const COLUMN_BYTES: usize = 4 * size_of::<u32>();
/// Bytes of a series with out-of-order samples: a batch of its own, in a list that doubles.
const OUT_OF_ORDER_BYTES: usize =
    size_of::<OutOfOrderBatch>() + 2 * size_of::<usize>() + 2 * size_of::<Arc<dyn Batch>>();

/// A series of the head, in the parts that hold it.
#[derive(Clone, Debug)]
pub(crate) struct SeriesParts {
    pub(crate) common: LabelSet,
    pub(crate) local: LabelSet,
}

impl SeriesParts {
    pub(crate) fn labels(&self) -> LabelSet {
        self.common.union(&self.local)
    }

    pub(crate) fn identity(&self) -> LabelHash {
        self.common.hash() + self.local.hash()
    }
}

impl HeadSnapshot {
    pub(crate) fn new(strips: &[Arc<Strip>]) -> Self {
        Self::of(strips.iter().map(|strip| &**strip))
    }

    fn of<'s>(strips: impl IntoIterator<Item = &'s Strip>) -> Self {
        let visible = strips
            .into_iter()
            .map(|strip| (strip.id, strip.snapshot()))
            .filter(|(_, snapshot)| !snapshot.is_empty());
        Self {
            strips: visible.collect(),
        }
    }

    /// Takes a snapshot of selected strips alone.
    pub(crate) fn of_selected(selected: &[Selected]) -> Self {
        let chosen = selected.iter().flat_map(|selected| &*selected.chosen);
        let mut strips: Vec<&Strip> = chosen.map(|chosen| &*chosen.strip).collect();
        // Those of one selector are in order, each once.
        if selected.len() > 1 {
            strips.sort_by_key(|strip| strip.id);
            strips.dedup_by_key(|strip| strip.id);
        }
        Self::of(strips)
    }

    /// Returns the snapshot of a strip that is at or after place `from`, and moves `from` behind it.
    fn next(&self, from: &mut usize, strip: u32) -> Option<StripSnapshot> {
        let rest = self.strips.get(*from..)?;
        let at = match rest.first()? {
            // Mostly all strips of a snapshot are selected.
            (number, _) if *number == strip => 0,
            _ => rest.partition_point(|(number, _)| *number < strip),
        };
        *from += at;
        let (_, snapshot) = rest.get(at).filter(|(number, _)| *number == strip)?;
        *from += 1;
        Some(*snapshot)
    }
}

/// One selected strip with the part that a selector may see.
#[derive(Clone)]
struct Visible {
    strip: Arc<Strip>,
    schema: Schema,
    /// Columns with only rows, ascending, if there are any.
    rows_alone: Option<Arc<[u32]>>,
    /// The others, which few strips have.
    others: Option<Box<OtherColumns>>,
    snapshot: StripSnapshot,
    /// Most rows within the range.
    rows: usize,
    range: TimeRange,
}

/// Columns with another source than rows.
#[derive(Clone, Default)]
struct OtherColumns {
    /// Those with rows and another source.
    rows_mixed: Vec<u32>,
    /// Those with only out-of-order samples and no other owner.
    out_of_order_alone: Vec<u32>,
    out_of_order_mixed: Vec<u32>,
}

impl Visible {
    /// Sorts a strip's selected columns by the sources of their samples; `None` if nothing can be within `range`.
    fn new(chosen: &Chosen, snapshot: StripSnapshot, range: TimeRange) -> Option<Self> {
        let Chosen { strip, columns } = chosen;
        let state = strip.lock();
        let row_chunks: SmallVec<[&RowChunk; 4]> =
            row_chunks_within(&state, snapshot, range).collect();
        let out_of_order_overlaps = out_of_order_overlaps(&state, snapshot, range);
        if row_chunks.is_empty() && !out_of_order_overlaps {
            return None;
        }
        let only_rows = !out_of_order_overlaps && state.shared.is_empty();
        let in_rows = |column: u32| row_chunks.iter().any(|chunk| chunk.has_seen(column));
        let are_alone = only_rows && columns.iter().all(|column| in_rows(*column));
        let mut visible = Self {
            schema: state.schema.clone(),
            rows_alone: are_alone.then(|| Arc::clone(columns)),
            others: None,
            snapshot,
            rows: row_chunks
                .iter()
                .map(|row_chunk| {
                    row_chunk.row_at(range.max_ms.saturating_add(1))
                        - row_chunk.row_at(range.min_ms)
                })
                .sum(),
            range: row_chunks
                .iter()
                .filter_map(|row_chunk| row_chunk.time_range())
                .map(|(min, max)| TimeRange::new(min, max))
                .reduce(TimeRange::hull)
                .unwrap_or(TimeRange::new(0, -1)),
            strip: Arc::clone(strip),
        };
        if are_alone {
            return Some(visible);
        }
        let (mut rows_alone, mut others) = (Vec::new(), OtherColumns::default());
        for column in columns.iter().copied() {
            let in_rows = in_rows(column);
            let in_out_of_order = out_of_order_overlaps
                && state
                    .out_of_order
                    .has_before(column, snapshot.out_of_order.1);
            let shared = state.shared.contains_key(&column);
            let mixed = shared || (in_rows && in_out_of_order);
            if in_rows {
                if mixed {
                    &mut others.rows_mixed
                } else {
                    &mut rows_alone
                }
                .push(column);
            }
            if in_out_of_order {
                if mixed {
                    &mut others.out_of_order_mixed
                } else {
                    &mut others.out_of_order_alone
                }
                .push(column);
            }
        }
        visible.rows_alone = Some(rows_alone.into()).filter(|all: &Arc<[u32]>| !all.is_empty());
        visible.others = Some(Box::new(others));
        Some(visible)
    }

    /// Returns the columns, those with both rows and out-of-order samples twice.
    fn columns(&self) -> impl Iterator<Item = u32> + '_ {
        let (alone, mixed) = self.parted_columns();
        alone.chain(mixed).copied()
    }

    /// Returns the columns with one source, and those with several.
    fn parted_columns(&self) -> (impl Iterator<Item = &u32>, impl Iterator<Item = &u32>) {
        let alone = self.rows_alone.as_deref().into_iter().flatten();
        let others = || self.others.iter();
        (
            alone.chain(others().flat_map(|others| &others.out_of_order_alone)),
            others().flat_map(|others| others.rows_mixed.iter().chain(&others.out_of_order_mixed)),
        )
    }

    fn series(&self) -> impl Iterator<Item = SeriesParts> + '_ {
        self.columns().map(|column| SeriesParts {
            common: self.strip.common.clone(),
            local: self.schema.column(ColumnId(column)).set.clone(),
        })
    }
}

/// Returns the row chunks that a snapshot shows and that may have rows within `range`.
fn row_chunks_within(
    state: &StripState,
    snapshot: StripSnapshot,
    range: TimeRange,
) -> impl Iterator<Item = &RowChunk> {
    let open = state.open.published();
    let all = state
        .sealed
        .iter()
        .map(|row_chunk| &**row_chunk)
        .chain([open]);
    all.filter(move |row_chunk| {
        row_chunk.first_row < snapshot.rows.1 && row_chunk.end_row() > snapshot.rows.0
    })
    .filter(move |row_chunk| {
        row_chunk
            .time_range()
            .is_some_and(|(min, max)| TimeRange::new(min, max).overlaps(range))
    })
}

fn out_of_order_overlaps(state: &StripState, snapshot: StripSnapshot, range: TimeRange) -> bool {
    snapshot.out_of_order.0 < snapshot.out_of_order.1
        && state
            .out_of_order
            .time_range()
            .is_some_and(|(min, max)| TimeRange::new(min, max).overlaps(range))
}

/// Decides whether a strip may have samples within `range` that its snapshot shows.
fn overlaps(state: &StripState, snapshot: StripSnapshot, range: TimeRange) -> bool {
    out_of_order_overlaps(state, snapshot, range)
        || row_chunks_within(state, snapshot, range).next().is_some()
}

/// Returns what a snapshot shows of the columns within `range`, in strips by age; with `only_alive`, of strips that are not
/// known to have ended by its last moment.
fn visible<'s, C: Borrow<Chosen>>(
    chosen: impl IntoIterator<Item = C>,
    snapshot: &'s HeadSnapshot,
    range: TimeRange,
    only_alive: bool,
    ctx: &'s Context,
) -> impl Iterator<Item = Result<Visible, StorageError>> {
    let (mut from, mut pace) = (0, ctx.stop.pace());
    chosen.into_iter().filter_map(move |chosen| {
        if let Err(reason) = pace.spend(STRIP_WORK) {
            return Some(Err(reason.into()));
        }
        let chosen = chosen.borrow();
        let own = snapshot.next(&mut from, chosen.strip.id)?;
        if only_alive && chosen.strip.has_ended(own, range.max_ms) {
            return None;
        }
        Visible::new(chosen, own, range).map(Ok)
    })
}

impl Selected {
    /// Returns what looking at the strips costs, in samples read.
    pub(crate) fn work(&self) -> usize {
        self.chosen.len() * STRIP_WORK
    }

    /// Returns the batches that a snapshot shows within `range`; with `only_alive`, without strips that are known to have
    /// ended by its last moment. Helpers take part if there are many.
    ///
    /// # Errors
    /// Fails over budget and when stopped.
    pub(crate) fn batches(
        self,
        snapshot: &HeadSnapshot,
        range: TimeRange,
        hints: &Hints,
        only_alive: bool,
        (helpers, ctx): (&Helpers, &Context),
    ) -> Result<HeadBatches, StorageError> {
        ctx.stop.check()?;
        let some: Vec<&[Chosen]> = self.chosen.chunks(STRIPS_AT_ONCE).collect();
        let mut all = HeadBatches::default();
        for batches in helpers.map(&some, |chosen| {
            let visible = visible(*chosen, snapshot, range, only_alive, ctx);
            HeadBatches::of_strips(visible, range, hints, &self.decoded, ctx)
        }) {
            all.join(batches?);
        }
        all.leases.push(self.lease);
        Ok(all)
    }
}

impl Head {
    /// Finds the columns whose series satisfy all matchers, in strips with anything at or after `min_ms`.
    ///
    /// # Errors
    /// Fails over budget and when stopped.
    pub(crate) fn select(
        &self,
        matchers: &[Matcher],
        min_ms: i64,
        ctx: &Context,
    ) -> Result<Selected, StorageError> {
        ctx.stop.check()?;
        let mut lease = ctx.budget.lease(0)?;
        let index = self.index();
        let chosen = index.select(matchers, min_ms, &ctx.stop, COLUMN_BYTES, &mut lease)?;
        Ok(Selected {
            chosen,
            decoded: Arc::clone(&self.decoded),
            lease,
        })
    }

    fn visible<'s>(
        &self,
        snapshot: &'s HeadSnapshot,
        matchers: &[Matcher],
        range: TimeRange,
        ctx: &'s Context,
        lease: &mut Lease,
    ) -> Result<impl Iterator<Item = Result<Visible, StorageError>> + use<'s>, StorageError> {
        ctx.stop.check()?;
        let index = self.index();
        let chosen = index.select(matchers, range.min_ms, &ctx.stop, COLUMN_BYTES, lease)?;
        drop(index);
        // The list may be the one that is kept.
        let chosen = chosen.to_vec();
        Ok(visible(chosen, snapshot, range, false, ctx))
    }

    /// Visits the series that match any of the alternatives and may have a sample within `range`, possibly repeatedly.
    ///
    /// # Errors
    /// Fails over budget, when stopped, and with the first error of `visit`.
    pub(crate) fn visit_series(
        &self,
        snapshot: &HeadSnapshot,
        any_of: &[Vec<Matcher>],
        range: TimeRange,
        ctx: &Context,
        visit: &mut dyn FnMut(SeriesParts) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let every = [Vec::new()];
        let any_of = if any_of.is_empty() {
            &every[..]
        } else {
            any_of
        };
        for matchers in any_of {
            let mut lease = ctx.budget.lease(0)?;
            for visible in self.visible(snapshot, matchers, range, ctx, &mut lease)? {
                visible?.series().try_for_each(&mut *visit)?;
            }
        }
        Ok(())
    }
}

impl HeadBatches {
    fn of_strips(
        strips: impl Iterator<Item = Result<Visible, StorageError>>,
        range: TimeRange,
        hints: &Hints,
        decoded: &Arc<DecodedMemory>,
        ctx: &Context,
    ) -> Result<Self, StorageError> {
        let mut batches = Self::default();
        for visible in strips {
            let mut visible = visible?;
            let alone = visible.rows_alone.take();
            let mut add_rows = |visible: Visible, columns: Arc<[u32]>, mixed: bool| {
                batches.count(columns.len(), visible.rows);
                let decoded = Arc::clone(decoded);
                let batch = StripBatch::new(visible, columns, range, hints.start_times, decoded);
                batches.push(Arc::new(batch), mixed);
            };
            let Some(others) = visible.others.take() else {
                // Nearly all strips: threads that count references to the same things wait for each other.
                if let Some(columns) = alone {
                    add_rows(visible, columns, false);
                }
                continue;
            };
            if let Some(columns) = alone {
                add_rows(visible.clone(), columns, false);
            }
            if !others.rows_mixed.is_empty() {
                add_rows(visible.clone(), others.rows_mixed.into(), true);
            }
            let out_of_order = [
                (&others.out_of_order_alone, false),
                (&others.out_of_order_mixed, true),
            ];
            for (columns, mixed) in out_of_order.into_iter().filter(|(all, _)| !all.is_empty()) {
                let lease = ctx
                    .budget
                    .lease((columns.len() * OUT_OF_ORDER_BYTES) as u64)?;
                batches.leases.push(lease);
                for column in columns {
                    let batch = OutOfOrderBatch::new(
                        Arc::clone(&visible.strip),
                        visible.schema.column(ColumnId(*column)).set.clone(),
                        *column,
                        visible.snapshot.out_of_order,
                        hints.start_times,
                    );
                    batches.count(1, batch.rows(range));
                    batches.push(Arc::new(batch), mixed);
                }
            }
        }
        Ok(batches)
    }

    /// Adds batches of later strips.
    fn join(&mut self, more: Self) {
        self.alone.extend(more.alone);
        self.mixed.extend(more.mixed);
        self.leases.extend(more.leases);
        self.estimate += more.estimate;
    }

    fn count(&mut self, series: usize, rows: usize) {
        self.estimate.series += series as u64;
        self.estimate.samples += (series * rows) as u64;
        self.estimate.bytes += (series * rows * size_of::<f64>()) as u64;
    }

    fn push(&mut self, batch: Arc<dyn Batch>, mixed: bool) {
        if mixed {
            &mut self.mixed
        } else {
            &mut self.alone
        }
        .push(batch);
    }
}
