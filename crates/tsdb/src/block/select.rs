//! Selection of a block's series.
//!
//! **Invariant:** strips and columns ascend; all labels of a batch were read and checked here, so a batch cannot fail
//! over labels later.

use super::batch::BlockBatch;
use super::chosen::ChosenStrip;
use super::reader::{Block, Index};
use super::resolver::Resolver;
use narthex_model::Matcher;
use narthex_model::storage::{Batch, Context, Estimate, Hints, Lease, StorageError, TimeRange};
use std::sync::Arc;

/// The series of a block that satisfy a set of matchers.
#[derive(Debug)]
pub struct Selection {
    block: Arc<Block>,
    index: Arc<Index>,
    strips: Vec<ChosenStrip>,
    /// Memory lease, held while the selection or a batch of it lives.
    lease: Arc<Lease>,
}

/// Approximate bytes of a selected strip: its entry in the selection, and its batch in two lists.
const STRIP_BYTES: usize =
    size_of::<ChosenStrip>() + size_of::<BlockBatch>() + 4 * size_of::<Arc<dyn Batch>>();

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
        let (index, mut lease) = self.leased_index(ctx)?;
        let index = Arc::new(index);
        let table = self.strip_table(&index, &mut lease)?;
        let mut resolver = Resolver::new(self, &index, matchers)?;
        let mut strips = Vec::new();
        for (at, known) in table.overlapping(range).enumerate() {
            if at % 64 == 0 {
                ctx.stop.check()?;
            }
            let Some(columns) = resolver.columns(known, &mut lease)? else {
                continue;
            };
            lease.grow(STRIP_BYTES as u64)?;
            strips.push(ChosenStrip {
                known: Arc::clone(known),
                common: known.common(self, &index)?.clone(),
                columns,
            });
        }
        resolver.keep();
        let lease = Arc::new(lease);
        Ok(Selection {
            block: Arc::clone(self),
            index,
            strips,
            lease,
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
    ///
    /// # Errors
    /// Fails when the times of a strip cannot be read.
    pub fn batches(&self, hints: &Hints) -> Result<Vec<Arc<dyn Batch>>, StorageError> {
        let batch = |strip: &ChosenStrip| -> Result<Arc<dyn Batch>, StorageError> {
            let times_ms = strip.known.times_ms(&self.block, &self.index)?;
            let (block, index) = (Arc::clone(&self.block), Arc::clone(&self.index));
            let lease = Arc::clone(&self.lease);
            Ok(Arc::new(BlockBatch::new(
                block,
                index,
                strip.clone(),
                Arc::clone(times_ms),
                hints.start_times,
                lease,
            )))
        };
        self.strips.iter().map(batch).collect()
    }

    pub(crate) fn strips(&self) -> &[ChosenStrip] {
        &self.strips
    }

    pub(crate) fn index(&self) -> &Arc<Index> {
        &self.index
    }
}
