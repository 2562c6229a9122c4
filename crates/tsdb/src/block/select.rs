//! Selection of a block's series.
//!
//! **Invariant:** strips and columns ascend; all labels of a batch were read and checked here, so a batch cannot fail
//! over labels later.

use super::batch::{BatchSource, BlockBatch};
use super::chosen::ChosenStrip;
use super::reader::{Block, Index};
use super::resolver::Resolver;
use super::strip_table::STOP_STRIPS;
use super::times::Times;
use narthex_model::Matcher;
use narthex_model::storage::{Batch, Context, Estimate, Hints, StorageError, TimeRange};
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

/// What series are selected for.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Purpose {
    Read,
    ReadOnce,
    List,
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
        self.select_as(Purpose::Read, matchers, range, ctx)
    }

    /// Selects as `select` does, for matchers of one series that hardly come again: what they select is not kept.
    ///
    /// # Errors
    /// As `select`.
    pub(crate) fn select_once(
        self: &Arc<Self>,
        matchers: &[Matcher],
        range: TimeRange,
        ctx: &Context,
    ) -> Result<Selection, StorageError> {
        self.select_as(Purpose::ReadOnce, matchers, range, ctx)
    }

    /// Selects as `select` does, for the labels alone: no batch may be made of it.
    ///
    /// # Errors
    /// As `select`.
    pub(super) fn select_labels(
        self: &Arc<Self>,
        matchers: &[Matcher],
        range: TimeRange,
        ctx: &Context,
    ) -> Result<Selection, StorageError> {
        self.select_as(Purpose::List, matchers, range, ctx)
    }

    fn select_as(
        self: &Arc<Self>,
        purpose: Purpose,
        matchers: &[Matcher],
        range: TimeRange,
        ctx: &Context,
    ) -> Result<Selection, StorageError> {
        let keep = purpose != Purpose::ReadOnce;
        let (index, mut lease) = self.leased_index(ctx)?;
        let index = Arc::new(index);
        let table = self.strip_table(&index, &mut lease, &ctx.stop)?;
        let mut resolver = Resolver::new(self, &index, matchers)?;
        let chosen = resolver.strips(&table, range, keep, &mut lease, &ctx.stop)?;
        if keep {
            resolver.keep();
        }
        lease.grow((chosen.len() * STRIP_BYTES) as u64)?;
        let places: Vec<u32> = chosen.iter().map(|(at, _)| *at).collect();
        let known = self.known_strips(&index, &table, &places, &mut lease, &ctx.stop)?;
        let (without_times, mut scratch) = (Times::default(), Vec::new());
        let mut strips = Vec::with_capacity(known.len());
        for (count, (known, (_, columns))) in known.into_iter().zip(chosen).enumerate() {
            if count.is_multiple_of(STOP_STRIPS) {
                ctx.stop.check()?;
            }
            let times = match purpose {
                Purpose::List => without_times.clone(),
                Purpose::Read | Purpose::ReadOnce => {
                    known.times(self, &index, &mut scratch, &mut lease)?
                }
            };
            strips.push(ChosenStrip {
                known,
                times,
                columns,
            });
        }
        let source = BatchSource {
            block: Arc::clone(self),
            index,
            _lease: lease,
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

    pub(crate) fn strips(&self) -> &[ChosenStrip] {
        &self.strips
    }

    /// Keeps the strips for which `keep` holds.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&ChosenStrip) -> bool) {
        self.strips.retain(keep);
    }

    pub(crate) fn index(&self) -> &Arc<Index> {
        &self.source.index
    }
}
