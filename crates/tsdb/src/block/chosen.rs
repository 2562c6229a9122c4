//! The strips and columns of a block that a selection chose.

use super::reader::{Block, Index};
use super::strip_table::{KnownStrip, StripTable};
use super::times::Times;
use narthex_model::storage::TimeRange;
use narthex_model::sync::Whole as _;
use narthex_model::{LabelHash, LabelSet};
use roaring::RoaringBitmap;
use std::sync::{Arc, Mutex, OnceLock};

/// A strip with chosen columns.
#[derive(Clone, Debug)]
pub(crate) struct ChosenStrip {
    pub(crate) known: Arc<KnownStrip>,
    /// The times of its rows, unless only its labels are asked for.
    pub(crate) times: Times,
    pub(crate) columns: Arc<ChosenColumns>,
}

impl ChosenStrip {
    /// Returns the labels that all columns have.
    pub(crate) fn common(&self) -> &LabelSet {
        &self.known.labels
    }
}

/// Chosen columns of strips that have the same columns.
#[derive(Debug)]
pub(crate) struct ChosenColumns {
    /// Ascending.
    pub(crate) columns: Vec<u32>,
    /// Local set of each column.
    pub(crate) sets: Vec<u32>,
    /// Hash of each local set.
    pub(crate) hashes: Vec<LabelHash>,
    pub(super) labels: Vec<OnceLock<LabelSet>>,
    /// Places of the strips whose last row is known to have a staleness marker in every column, of those that have others too.
    pub(super) ended: Mutex<RoaringBitmap>,
}

/// Approximate bytes of a column's labels: the set, and texts that nothing else may hold.
const LABELS_BYTES: usize = 200;

/// Approximate bytes of the places of ended strips.
const ENDED_BYTES: usize = 128;

impl ChosenColumns {
    /// Returns the bytes of columns, sets and hashes of `count` columns.
    pub(crate) const fn bytes_of(count: usize) -> usize {
        let column =
            2 * size_of::<u32>() + size_of::<LabelHash>() + size_of::<OnceLock<LabelSet>>();
        count * column
    }

    /// Returns the approximate bytes, with the labels, which are decoded on demand.
    pub(crate) fn bytes(&self) -> usize {
        let count = self.columns.len();
        Self::bytes_of(count) + count * LABELS_BYTES + ENDED_BYTES
    }

    /// Reports whether the newest cell within `range` of every column of a strip is known to be a staleness marker.
    pub(crate) fn have_ended(&self, table: &StripTable, strip: u32, range: TimeRange) -> bool {
        table.ends(strip, range)
            && (table.has_ended(strip) || self.ended.lock().whole().contains(strip))
    }

    /// Records that the last row of a strip has a staleness marker in every column.
    pub(crate) fn note_ended(&self, table: &StripTable, strip: u32) {
        if self.columns.len() == table.width(strip) {
            table.note_ended(strip);
        } else {
            self.ended.lock().whole().insert(strip);
        }
    }

    /// Returns the labels of the local set at `at`.
    pub(crate) fn labels(&self, at: usize, block: &Block, index: &Index) -> &LabelSet {
        // The same bytes were decoded for the hash, so this cannot fail.
        let decode = || block.label_set(index, self.sets[at]).unwrap_or_default();
        // Aggregations find equal sets of other batches by their address.
        self.labels[at].get_or_init(|| decode().intern())
    }
}
