//! Selection of a block's series.
//!
//! **Invariant:** strips and columns ascend; all labels of a batch were read and checked here, so a batch cannot fail
//! over labels later.

use super::batch::{BatchSource, BlockBatch};
use super::chosen::ChosenStrip;
use super::reader::{Block, Index};
use super::resolver::Resolver;
use super::strip_table::KnownStrip;
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

/// All strips are looked at, for later queries too, if at least one in this many overlaps a query's range.
const WORTH_ALL: usize = 4;

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
        let without_times = Arc::default();
        let (index, mut lease) = self.leased_index(ctx)?;
        let index = Arc::new(index);
        let table = self.strip_table(&index, &mut lease)?;
        let mut resolver = Resolver::new(self, &index, matchers)?;
        let mut strips = Vec::new();
        let mut choose = |known: &Arc<KnownStrip>, columns, lease: &mut Lease| {
            lease.grow(STRIP_BYTES as u64)?;
            known.decode(self, &index)?;
            let times_ms = match purpose {
                Purpose::List => Arc::clone(&without_times),
                Purpose::Read | Purpose::ReadOnce => known.times_ms(self, &index, lease)?,
            };
            strips.push(ChosenStrip {
                known: Arc::clone(known),
                times_ms,
                columns,
            });
            Ok::<(), StorageError>(())
        };
        if let Some(chosen) = resolver.strips() {
            for (count, (at, columns)) in chosen.iter().enumerate() {
                if count % 64 == 0 {
                    ctx.stop.check()?;
                }
                if let Some(known) = table.get_overlapping(*at as usize, range) {
                    resolver.lease(columns, &mut lease)?;
                    choose(known, Arc::clone(columns), &mut lease)?;
                }
            }
        } else {
            // Looking at all strips pays when these are not many more.
            let all = keep && table.overlapping(range).count() * WORTH_ALL >= table.len();
            let mut chosen = Vec::new();
            for (at, known) in table.strips().enumerate() {
                if at % 64 == 0 {
                    ctx.stop.check()?;
                }
                let overlapping = table.get_overlapping(at, range);
                if !all && overlapping.is_none() {
                    continue;
                }
                let Some(columns) = resolver.columns(known, &mut lease)? else {
                    continue;
                };
                if all {
                    chosen.push((at as u32, Arc::clone(&columns)));
                }
                if overlapping.is_some() {
                    choose(known, columns, &mut lease)?;
                }
            }
            if all {
                resolver.know_strips(chosen);
            }
        }
        if keep {
            resolver.keep();
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
            let entry = &known.entry;
            let chosen = columns.columns.len() as u64;
            let all: u64 = entry.pages.iter().map(|page| u64::from(page.columns)).sum();
            let bytes: u64 = entry.pages.iter().map(|page| u64::from(page.len)).sum();
            estimate.series += chosen;
            estimate.samples += chosen * u64::from(entry.rows);
            estimate.bytes += bytes * chosen / all.max(1);
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
