//! A block's strips, decoded once for all queries.
//!
//! A block of replaced targets has many strips, of which a query wants few series each: decoding them would cost more
//! than reading them. Common labels are decoded when a query first selects a strip. Times, which take most, are not here: the cache
//! keeps those of each strip by themselves, so that a table is small enough to be kept however many rows a block has.
//!
//! **Invariant:** strips keep the block's order; what is known of a strip never changes.

use super::reader::{Block, Index};
use super::strips::StripEntry;
use crate::error::TsdbError;
use crate::label_order::order_of;
use narthex_model::LabelSet;
use narthex_model::storage::{Lease, StorageError, TimeRange};
use narthex_model::sync::Whole as _;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// All strips of a block.
#[derive(Debug)]
pub(crate) struct StripTable {
    /// The times that each strip spans.
    ranges: Vec<TimeRange>,
    strips: Vec<Arc<KnownStrip>>,
    /// Approximate bytes, those of labels included that are decoded later.
    bytes: usize,
}

/// A strip of a block.
#[derive(Debug)]
pub(crate) struct KnownStrip {
    pub(crate) entry: StripEntry,
    /// Place in the block.
    place: u32,
    /// Equal for strips with the same local sets in the same order.
    pub(crate) layout: u32,
    /// Label pairs of the common set.
    pairs: OnceLock<Box<[u32]>>,
    common: OnceLock<Common>,
    /// Choices all of whose columns end with a staleness marker in the last row, by number.
    ended: Mutex<Vec<u64>>,
}

/// Labels that all columns of a strip have.
#[derive(Debug)]
struct Common {
    labels: LabelSet,
    /// Key of their names.
    names: u64,
    /// Their place in the order of batches.
    order: u64,
}

/// Most choices known to have ended, for each strip.
const MOST_ENDED: usize = 16;

/// Approximate bytes of a strip's common labels: pairs, a set of ten labels, and their texts.
const COMMON_BYTES: usize = 400;

/// Approximate bytes of a part of the cache beside what it has.
const TIMES_BYTES: usize = 100;

/// Key of a block's table in the cache; files end before it. The times of its strips follow.
const KEY: u64 = 1 << 62;
const TIMES: u64 = KEY + 1;

impl Block {
    /// Returns the decoded strips; `lease` grows by their bytes unless the cache keeps them.
    ///
    /// # Errors
    /// Fails when the index is damaged, or over budget.
    pub(crate) fn strip_table(
        &self,
        index: &Index,
        lease: &mut Lease,
    ) -> Result<Arc<StripTable>, StorageError> {
        if let Some(table) = self.known(KEY) {
            return Ok(table);
        }
        let table = Arc::new(StripTable::new(self, index)?);
        if !self.keep(KEY, Arc::clone(&table), table.bytes) {
            lease.grow(table.bytes as u64)?;
        }
        Ok(table)
    }
}

impl StripTable {
    /// Decodes the strips of a block.
    ///
    /// # Errors
    /// Fails when the index is damaged.
    fn new(block: &Block, index: &Index) -> Result<Self, TsdbError> {
        let count = block.strips(index)?.count();
        let mut layouts: HashMap<Vec<(u32, u32)>, u32> = HashMap::new();
        let (mut ranges, mut strips, mut bytes) = (Vec::new(), Vec::new(), 0);
        for at in 0..count {
            let entry = block.strip_entry(index, at)?;
            let next = layouts.len() as u32;
            let layout = match layouts.get(&entry.columns) {
                Some(layout) => *layout,
                None => *layouts.entry(entry.columns.clone()).or_insert(next),
            };
            bytes += size_of::<KnownStrip>()
                + MOST_ENDED * size_of::<u64>()
                + size_of::<TimeRange>()
                + COMMON_BYTES
                + entry.times.len()
                + size_of_val(&*entry.columns)
                + size_of_val(&*entry.pages);
            ranges.push(TimeRange::new(entry.min_time_ms, entry.max_time_ms));
            strips.push(Arc::new(KnownStrip {
                entry,
                layout,
                pairs: OnceLock::new(),
                common: OnceLock::new(),
                place: at,
                ended: Mutex::default(),
            }));
        }
        Ok(Self {
            ranges,
            strips,
            bytes,
        })
    }

    /// Returns the strips that may have samples within `range`, in order.
    pub(crate) fn overlapping(&self, range: TimeRange) -> impl Iterator<Item = &Arc<KnownStrip>> {
        let all = self.ranges.iter().zip(&self.strips);
        all.filter(move |(own, _)| own.overlaps(range))
            .map(|(_, strip)| strip)
    }

    /// Returns the number of strips.
    pub(crate) fn len(&self) -> usize {
        self.strips.len()
    }

    /// Returns all strips, in order.
    pub(crate) fn strips(&self) -> impl Iterator<Item = &Arc<KnownStrip>> {
        self.strips.iter()
    }

    /// Returns strip `at`, if it may have samples within `range`.
    pub(crate) fn get_overlapping(&self, at: usize, range: TimeRange) -> Option<&Arc<KnownStrip>> {
        let own = self.ranges.get(at)?;
        self.strips.get(at).filter(|_| own.overlaps(range))
    }

    /// Returns the bytes that the table counts for.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl KnownStrip {
    /// Returns the label pairs of the common set.
    pub(crate) fn pairs(&self, block: &Block, index: &Index) -> Result<&[u32], TsdbError> {
        if let Some(pairs) = self.pairs.get() {
            return Ok(pairs);
        }
        let mut pairs = Vec::new();
        block
            .sets(index)?
            .get(self.entry.common, &mut pairs)
            .map_err(|bad| block.malformed(&index.sets, &bad))?;
        Ok(self.pairs.get_or_init(|| pairs.into()))
    }

    /// Decodes the labels that a batch needs.
    ///
    /// # Errors
    /// Fails when the index is damaged.
    pub(crate) fn decode(&self, block: &Block, index: &Index) -> Result<(), TsdbError> {
        if self.common.get().is_none() {
            let labels = block.label_set(index, self.entry.common)?;
            self.common.get_or_init(|| Common {
                names: labels.names_key(),
                order: order_of(&labels),
                labels,
            });
        }
        Ok(())
    }

    /// Returns the times of the rows; `lease` grows by their bytes, since the cache may drop them before the query does.
    ///
    /// # Errors
    /// Fails when they are damaged, or over budget.
    pub(crate) fn times_ms(
        &self,
        block: &Block,
        index: &Index,
        lease: &mut Lease,
    ) -> Result<Arc<Vec<i64>>, StorageError> {
        let bytes = TIMES_BYTES + self.entry.rows as usize * size_of::<i64>();
        lease.grow(bytes as u64)?;
        let key = TIMES + u64::from(self.place);
        if let Some(times_ms) = block.known(key) {
            return Ok(times_ms);
        }
        let times_ms = Arc::new(block.times(index, &self.entry)?);
        block.keep(key, Arc::clone(&times_ms), bytes);
        Ok(times_ms)
    }

    /// Returns the labels that all columns have; after `decode`.
    pub(crate) fn decoded_common(&self) -> &LabelSet {
        &self.common().labels
    }

    /// Returns the key of the names of the labels that all columns have; after `decode`.
    pub(crate) fn common_names(&self) -> u64 {
        self.common().names
    }

    /// Returns the place in the order of batches of the labels that all columns have; after `decode`.
    pub(crate) fn common_order(&self) -> u64 {
        self.common().order
    }

    fn common(&self) -> &Common {
        let common = self.common.get();
        common.expect("decoded when the strip was chosen")
    }

    /// Reports whether the last row is within `range` and known to have a staleness marker in all columns of a choice.
    pub(crate) fn has_ended(&self, choice: u64, range: TimeRange) -> bool {
        range.contains(self.entry.max_time_ms) && self.ended.lock().whole().contains(&choice)
    }

    /// Records that the last row has a staleness marker in all columns of a choice.
    pub(crate) fn note_ended(&self, choice: u64) {
        let mut ended = self.ended.lock().whole();
        if !ended.contains(&choice) {
            if ended.len() == MOST_ENDED {
                ended.remove(0);
            }
            ended.push(choice);
        }
    }
}
