//! Selection of a block's series.
//!
//! **Invariant:** strips and columns ascend; all labels of a batch were read and checked here, so a batch cannot fail
//! over labels later.

use super::batch::{BatchSource, BlockBatch};
use super::chosen::{ChosenColumns, ChosenStrip};
use super::reader::{Block, Index};
use super::resolver::Resolver;
use super::strip_table::{STOP_STRIPS, StripTable};
use super::times::Times;
use crate::shared_names::Common;
use narthex_model::Matcher;
use narthex_model::storage::{Batch, Context, Estimate, Hints, Lease, StorageError, TimeRange};
use std::sync::Arc;

/// The series of a block that satisfy a set of matchers.
#[derive(Debug)]
pub struct Selection {
    source: Arc<BatchSource>,
    strips: Vec<ChosenStrip>,
}

/// Approximate bytes of a selected strip: its entry in the selection, and its batch in two lists.
const STRIP_BYTES: usize =
    size_of::<ChosenStrip>() + size_of::<BlockBatch>() + 4 * size_of::<Arc<dyn Batch>>();

/// Approximate bytes of a strip that was found: its place and columns.
const FOUND_BYTES: usize = size_of::<(u32, Arc<ChosenColumns>)>();

/// The strips of a block whose columns satisfy a set of matchers, of which nothing was read yet.
pub(crate) struct FoundStrips {
    block: Arc<Block>,
    index: Arc<Index>,
    table: Arc<StripTable>,
    /// By their places in the table, ascending.
    strips: Vec<(u32, Arc<ChosenColumns>)>,
    lease: Arc<Lease>,
}

impl Block {
    /// Selects the series that satisfy all `matchers` and whose strip overlaps `range`.
    ///
    /// # Errors
    /// Fails when a part of the index is damaged, over budget, or when stopped.
    pub fn select(
        self: &Arc<Self>,
        matchers: &[Matcher],
        range: TimeRange,
        ctx: &Context,
    ) -> Result<Selection, StorageError> {
        self.find(matchers, range, true, ctx)?.select(ctx)
    }

    /// Finds the strips that overlap `range` and have columns that satisfy all `matchers`. These come again if `again`, and what
    /// they select is kept.
    ///
    /// # Errors
    /// As `select`.
    pub(crate) fn find(
        self: &Arc<Self>,
        matchers: &[Matcher],
        range: TimeRange,
        again: bool,
        ctx: &Context,
    ) -> Result<FoundStrips, StorageError> {
        let (index, mut lease) = self.leased_index(ctx)?;
        let index = Arc::new(index);
        let table = self.strip_table(&index, &mut lease, &ctx.stop)?;
        let mut resolver = Resolver::new(self, &index, matchers)?;
        let strips = resolver.strips(&table, range, again, &mut lease, &ctx.stop)?;
        if again {
            resolver.keep();
        }
        lease.grow((strips.len() * FOUND_BYTES) as u64)?;
        Ok(FoundStrips {
            block: Arc::clone(self),
            index,
            table,
            strips,
            lease: Arc::new(lease),
        })
    }
}

impl FoundStrips {
    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// Returns the labels that all series of each strip have, if they are known.
    pub(crate) fn commons(&self) -> impl Iterator<Item = Option<Common<'_>>> + Clone {
        self.strips.iter().map(|(at, _)| self.table.common(*at))
    }

    /// Reports of each strip whether the newest cell within `range` of all its columns is known to be a staleness marker.
    pub(crate) fn ended(&self, range: TimeRange) -> impl Iterator<Item = bool> {
        self.strips
            .iter()
            .map(move |(at, columns)| columns.have_ended(&self.table, *at, range))
    }

    /// Keeps the strips for which `keep` holds.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut() -> bool) {
        self.strips.retain(|_| keep());
    }

    /// Reads what batches need of the strips.
    ///
    /// # Errors
    /// As `Block::select`.
    pub(crate) fn select(&self, ctx: &Context) -> Result<Selection, StorageError> {
        self.select_as(true, ctx)
    }

    /// Reads what the labels alone need: no batch may be made of it.
    ///
    /// # Errors
    /// As `Block::select`.
    pub(super) fn select_labels(&self, ctx: &Context) -> Result<Selection, StorageError> {
        self.select_as(false, ctx)
    }

    fn select_as(&self, with_times: bool, ctx: &Context) -> Result<Selection, StorageError> {
        let Self {
            block,
            index,
            table,
            strips: found,
            ..
        } = self;
        let mut lease = ctx.budget.lease((found.len() * STRIP_BYTES) as u64)?;
        let places: Vec<u32> = found.iter().map(|(at, _)| *at).collect();
        let known = block.known_strips(index, table, &places, &mut lease, &ctx.stop)?;
        let (without_times, mut scratch) = (Times::default(), Vec::new());
        let mut strips = Vec::with_capacity(known.len());
        for (count, (known, (_, columns))) in known.into_iter().zip(found).enumerate() {
            if count.is_multiple_of(STOP_STRIPS) {
                ctx.stop.check()?;
            }
            let times = if with_times {
                known.times(block, index, &mut scratch, &mut lease)?
            } else {
                without_times.clone()
            };
            strips.push(ChosenStrip {
                known,
                times,
                columns: Arc::clone(columns),
            });
        }
        let source = BatchSource {
            block: Arc::clone(block),
            index: Arc::clone(index),
            table: Arc::clone(table),
            _leases: (Arc::clone(&self.lease), lease),
        };
        Ok(Selection {
            source: Arc::new(source),
            strips,
        })
    }
}

impl Selection {
    /// Returns an upper bound of the cost of reading all of it.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        let mut estimate = Estimate::default();
        for ChosenStrip { known, columns, .. } in &self.strips {
            let chosen = columns.columns.len() as u64;
            let pages = known.pages.places().iter();
            let all: u64 = pages.map(|page| u64::from(page.columns)).sum();
            estimate.series += chosen;
            estimate.samples += chosen * u64::from(known.rows);
            estimate.bytes += known.pages.share_bytes() * chosen / all.max(1);
        }
        estimate
    }

    /// Returns one batch per strip, in order.
    #[must_use]
    pub fn batches(self, hints: &Hints) -> Vec<Arc<dyn Batch>> {
        let batch = |strip: ChosenStrip| -> Arc<dyn Batch> {
            let source = Arc::clone(&self.source);
            Arc::new(BlockBatch::new(source, strip, hints.start_times))
        };
        self.strips.into_iter().map(batch).collect()
    }

    pub(super) fn strips(&self) -> &[ChosenStrip] {
        &self.strips
    }

    pub(super) fn index(&self) -> &Arc<Index> {
        &self.source.index
    }
}
