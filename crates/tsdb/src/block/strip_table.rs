//! A block's strips: a little of all of them, and more of those that queries chose.
//!
//! A block of replaced targets has many strips, of which a query wants few series each: finding them would cost more
//! than reading them. So a table keeps, for all queries, what it takes to choose among strips, some hundred bytes of each,
//! and what it takes to read those that were chosen. Times are kept where they are regular, as they nearly always are; a
//! list of them would take most, so each query decodes its own.
//!
//! **Invariant:** strips keep the block's order; what is known of a strip never changes.

use super::reader::{Block, Index, PageOwner};
use super::strips::Pages;
use super::times::{Runs, Times};
use crate::error::TsdbError;
use crate::label_order::order_of;
use crate::shared_names::Common;
use narthex_model::LabelSet;
use narthex_model::storage::{Lease, Stop, StorageError, TimeRange};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// All strips of a block.
#[derive(Debug)]
pub(crate) struct StripTable {
    outlines: Vec<Outline>,
    /// Label pairs of the strips' common sets, one after the other.
    pairs: Vec<u32>,
    /// Pairs of each label that every common set has.
    everywhere: Vec<Range<u32>>,
    /// Local sets of the columns, as runs (number of the first, length), by layout.
    layouts: Vec<Box<[(u32, u32)]>>,
    /// The strips that queries chose, each with its key: the half of its labels' hash, here where looking at many finds it.
    known: Vec<OnceLock<(Arc<KnownStrip>, u64)>>,
    /// The names of the labels of the first of them, and whether another has others.
    names: OnceLock<u64>,
    has_other_names: AtomicBool,
    /// A bit for each strip whose last row is known to have a staleness marker in every column.
    ended: Box<[AtomicU64]>,
    /// Approximate bytes.
    bytes: AtomicUsize,
}

/// What decides whether a strip is chosen.
#[derive(Clone, Copy, Debug)]
struct Outline {
    range: TimeRange,
    /// Number of the common set.
    common: u32,
    /// Equal for strips with the same local sets in the same order.
    layout: u32,
    /// End of its label pairs.
    pairs_end: u32,
}

/// What reading a strip takes.
#[derive(Debug)]
pub(crate) struct KnownStrip {
    /// Place in the block.
    pub(crate) place: u32,
    /// Number of the common set.
    pub(crate) common: u32,
    pub(crate) rows: u32,
    pub(crate) range: TimeRange,
    pub(crate) pages: Pages,
    /// Labels that all columns have.
    pub(crate) labels: LabelSet,
    /// Key of their names.
    pub(crate) names: u64,
    /// Their place in the order of batches.
    pub(crate) order: u64,
    /// The times of the rows, if they are regular, once requested.
    runs: OnceLock<Runs>,
    /// Approximate bytes.
    bytes: u32,
}

/// Approximate bytes of a chosen strip's allocations beside its pages and labels: the strip, and room for times, which come later.
const KNOWN_BYTES: usize = size_of::<KnownStrip>() + 2 * size_of::<usize>() + Runs::MOST_KEPT_BYTES;

/// Strips looked at between two polls of the stop.
pub(super) const STOP_STRIPS: usize = 64;

/// Strips whose labels are decoded together, each label once, between two polls of the stop.
pub(super) const TOGETHER: usize = 512;

/// Key of a block's table in the cache; files end before it.
const KEY: u64 = 1 << 62;

impl Block {
    /// Returns the strips; `lease` grows by their bytes unless the cache keeps them.
    ///
    /// # Errors
    /// Fails when the index is damaged, over budget, or when stopped.
    pub(crate) fn strip_table(
        &self,
        index: &Index,
        lease: &mut Lease,
        stop: &Stop,
    ) -> Result<Arc<StripTable>, StorageError> {
        if let Some(table) = self.known(KEY) {
            return Ok(table);
        }
        let table = Arc::new(StripTable::new(self, index, stop)?);
        if !self.keep(KEY, Arc::clone(&table), table.bytes()) {
            lease.grow(table.bytes() as u64)?;
        }
        Ok(table)
    }

    /// Returns strips of the table, in their order. Those that were not known join the table, unless it would be too large for
    /// the cache then: `lease` grows by their bytes.
    ///
    /// # Errors
    /// Fails when the index is damaged, over budget, or when stopped.
    pub(crate) fn known_strips(
        &self,
        index: &Index,
        table: &Arc<StripTable>,
        places: &[u32],
        lease: &mut Lease,
        stop: &Stop,
    ) -> Result<Vec<Arc<KnownStrip>>, StorageError> {
        let known = |at: u32| table.known[at as usize].get().map(|(strip, _)| strip);
        let is_unknown = |at: &u32| known(*at).is_none();
        let unknown: Vec<u32> = places.iter().copied().filter(is_unknown).collect();
        let mut learned = Vec::with_capacity(unknown.len());
        for places in unknown.chunks(TOGETHER) {
            stop.check()?;
            table.decode(self, index, places, &mut learned)?;
        }
        let bytes: usize = learned.iter().map(|strip| strip.bytes()).sum();
        if bytes > 0 {
            if self.keep(KEY, Arc::clone(table), table.bytes() + bytes) {
                table.add(&learned);
            } else {
                lease.grow(bytes as u64)?;
            }
        }
        let mut learned = learned.into_iter().peekable();
        let strip = |at: &u32| {
            let learned = learned.next_if(|strip| strip.place == *at);
            let strip = learned.or_else(|| known(*at).map(Arc::clone));
            strip.expect("what was not known was learned")
        };
        Ok(places.iter().map(strip).collect())
    }
}

impl StripTable {
    /// Outlines the strips of a block.
    ///
    /// # Errors
    /// Fails when the index is damaged, or when stopped.
    fn new(block: &Block, index: &Index, stop: &Stop) -> Result<Self, StorageError> {
        let count = block.strips(index)?.count();
        let mut numbers: HashMap<Vec<(u32, u32)>, u32> = HashMap::new();
        let mut layouts: Vec<Box<[(u32, u32)]>> = Vec::new();
        let mut outlines = Vec::new();
        for at in 0..count {
            if (at as usize).is_multiple_of(STOP_STRIPS) {
                stop.check()?;
            }
            let entry = block.strip_entry(index, at)?;
            let layout = match numbers.get(&entry.columns) {
                Some(layout) => *layout,
                None => {
                    let layout = layouts.len() as u32;
                    layouts.push(entry.columns.clone().into());
                    numbers.insert(entry.columns, layout);
                    layout
                }
            };
            outlines.push(Outline {
                range: TimeRange::new(entry.min_time_ms, entry.max_time_ms),
                common: entry.common,
                layout,
                pairs_end: 0,
            });
        }
        let mut pairs = Vec::new();
        let mut next = outlines.iter_mut();
        let commons: Vec<u32> = next.as_slice().iter().map(|strip| strip.common).collect();
        block
            .sets(index)?
            .each(commons, &mut |_, found| {
                pairs.extend_from_slice(found);
                if let Some(outline) = next.next() {
                    outline.pairs_end = pairs.len() as u32;
                }
            })
            .map_err(|bad| block.malformed(&index.sets, &bad))?;
        let known: Vec<_> = outlines.iter().map(|_| OnceLock::new()).collect();
        let everywhere = labels_everywhere(block, index, &outlines, &pairs)?;
        let of_layouts: usize = layouts.iter().map(|runs| size_of_val(&**runs)).sum();
        let words = outlines.len().div_ceil(u64::BITS as usize);
        let ended: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let bytes = size_of_val(&*outlines)
            + size_of_val(&*ended)
            + size_of_val(&*pairs)
            + size_of_val(&*layouts)
            + of_layouts
            + size_of_val(&*known);
        Ok(Self {
            outlines,
            pairs,
            everywhere,
            layouts,
            known,
            names: OnceLock::new(),
            has_other_names: AtomicBool::new(false),
            ended,
            bytes: AtomicUsize::new(bytes),
        })
    }

    /// Returns the number of strips.
    pub(crate) fn len(&self) -> u32 {
        self.outlines.len() as u32
    }

    /// Reports whether strip `at` may have samples within `range`.
    pub(crate) fn overlaps(&self, at: u32, range: TimeRange) -> bool {
        let outline = self.outlines.get(at as usize);
        outline.is_some_and(|outline| outline.range.overlaps(range))
    }

    /// Reports whether the last row of strip `at` is within `range`.
    pub(crate) fn ends(&self, at: u32, range: TimeRange) -> bool {
        let outline = self.outlines.get(at as usize);
        outline.is_some_and(|outline| range.contains(outline.range.max_ms))
    }

    /// Reports whether the last row of strip `at` is known to have a staleness marker in every column.
    pub(crate) fn has_ended(&self, at: u32) -> bool {
        let (word, bit) = (at / u64::BITS, 1 << (at % u64::BITS));
        let word = self.ended.get(word as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Records that it has.
    pub(crate) fn note_ended(&self, at: u32) {
        let (word, bit) = (at / u64::BITS, 1 << (at % u64::BITS));
        if let Some(word) = self.ended.get(word as usize) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Returns the number of columns of strip `at`.
    pub(crate) fn width(&self, at: u32) -> usize {
        let (_, runs) = self.columns(at);
        runs.iter().map(|(_, len)| *len as usize).sum()
    }

    /// Returns the labels that all columns of strip `at` have, if queries chose it.
    pub(crate) fn common(&self, at: u32) -> Option<Common<'_>> {
        let (strip, key) = self.known[at as usize].get()?;
        let names = if self.has_other_names.load(Ordering::Acquire) {
            strip.names
        } else {
            *self.names.get()?
        };
        Some(Common::with_key(&strip.labels, names, *key))
    }

    /// Returns the number of strips that may have samples within `range`.
    pub(crate) fn overlapping(&self, range: TimeRange) -> usize {
        let outlines = self.outlines.iter();
        outlines
            .filter(|outline| outline.range.overlaps(range))
            .count()
    }

    /// Returns the layout of a strip's columns, a number, and the columns' local sets.
    pub(crate) fn columns(&self, at: u32) -> (u32, &[(u32, u32)]) {
        let layout = self.outlines[at as usize].layout;
        (layout, &self.layouts[layout as usize])
    }

    /// Returns the label pairs of a strip's common set.
    pub(crate) fn pairs(&self, at: u32) -> &[u32] {
        let at = at as usize;
        let before = at
            .checked_sub(1)
            .map_or(0, |at| self.outlines[at].pairs_end);
        &self.pairs[before as usize..self.outlines[at].pairs_end as usize]
    }

    /// Reports whether every strip's common set has the label whose pairs are `ids`.
    pub(crate) fn has_everywhere(&self, ids: &Range<u32>) -> bool {
        self.everywhere.contains(ids)
    }

    /// Returns the strips whose common set has `pair`, ascending.
    pub(crate) fn with_pair(&self, pair: u32) -> Vec<u32> {
        /// Pairs that are compared at once.
        const TOGETHER: usize = 256;
        let mut strips = Vec::new();
        for (chunk, pairs) in self.pairs.chunks(TOGETHER).enumerate() {
            if !pairs.contains(&pair) {
                continue;
            }
            for (at, _) in pairs.iter().enumerate().filter(|(_, of)| **of == pair) {
                let at = (chunk * TOGETHER + at) as u32;
                let ended_before = |outline: &Outline| outline.pairs_end <= at;
                strips.push(self.outlines.partition_point(ended_before) as u32);
            }
        }
        strips
    }

    /// Returns the approximate bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Decodes what reading some strips takes, each label once.
    ///
    /// # Errors
    /// Fails when the index is damaged.
    fn decode(
        &self,
        block: &Block,
        index: &Index,
        places: &[u32],
        into: &mut Vec<Arc<KnownStrip>>,
    ) -> Result<(), TsdbError> {
        let pairs = places.iter().map(|at| self.pairs(*at));
        let mut owner = PageOwner::default();
        let sets = block.label_sets(index, pairs)?.into_iter();
        // Those of a target are the same in the head and in all blocks; who has them already counts them.
        for (at, labels) in places.iter().zip(sets.map(|labels| labels.intern())) {
            let entry = block.strip_entry(index, *at)?;
            let outline = self.outlines[*at as usize];
            let pages = block.pages(index, *at, &entry, &mut owner)?;
            let of_labels = if labels.is_shared() {
                0
            } else {
                labels.heap_bytes()
            };
            into.push(Arc::new(KnownStrip {
                place: *at,
                common: outline.common,
                rows: entry.rows,
                range: outline.range,
                bytes: (KNOWN_BYTES + pages.bytes() + of_labels) as u32,
                pages,
                names: labels.names_key(),
                order: order_of(&labels),
                labels,
                runs: OnceLock::new(),
            }));
        }
        Ok(())
    }

    /// Adds strips that became known.
    fn add(&self, learned: &[Arc<KnownStrip>]) {
        for strip in learned {
            if *self.names.get_or_init(|| strip.names) != strip.names {
                self.has_other_names.store(true, Ordering::Release);
            }
            // Another query may have been faster.
            let known = (Arc::clone(strip), strip.labels.hash().low());
            if self.known[strip.place as usize].set(known).is_ok() {
                self.bytes.fetch_add(strip.bytes(), Ordering::Relaxed);
            }
        }
    }
}

/// Returns the pairs of each label that every common set has.
///
/// # Errors
/// Fails when the index is damaged.
fn labels_everywhere(
    block: &Block,
    index: &Index,
    outlines: &[Outline],
    pairs: &[u32],
) -> Result<Vec<Range<u32>>, TsdbError> {
    let dictionary = block.dictionary(index)?;
    let mut begin = 0;
    let mut of_strips = outlines.iter().map(|outline| {
        let begin = std::mem::replace(&mut begin, outline.pairs_end as usize);
        &pairs[begin..outline.pairs_end as usize]
    });
    let first = of_strips.next().unwrap_or_default().iter();
    let ids = first.map(|pair| Ok(dictionary.name_of(*pair)?.ids()));
    let mut everywhere = ids
        .collect::<Result<Vec<_>, _>>()
        .map_err(|bad| block.malformed(&index.dictionary, &bad))?;
    for pairs in of_strips {
        everywhere.retain(|ids| pairs.iter().any(|pair| ids.contains(pair)));
    }
    Ok(everywhere)
}

impl KnownStrip {
    /// Returns the approximate bytes.
    fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Returns the times of the rows, and keeps them if they are regular; `lease` grows by their bytes otherwise. `scratch` is
    /// for decoding those of one strip, and not counted.
    ///
    /// # Errors
    /// Fails when they are damaged, or over budget.
    pub(crate) fn times(
        &self,
        block: &Block,
        index: &Index,
        scratch: &mut Vec<i64>,
        lease: &mut Lease,
    ) -> Result<Times, StorageError> {
        if let Some(runs) = self.runs.get() {
            return Ok(Times::Runs(runs.clone()));
        }
        let bytes = u64::from(self.rows) * size_of::<i64>() as u64;
        lease.grow(bytes)?;
        let encoded = block.strips(index)?.times(self.place);
        let encoded = encoded.map_err(|bad| block.malformed(&index.strips, &bad))?;
        scratch.resize(self.rows as usize, 0);
        block.decode_times(index, encoded, scratch)?;
        let Some(runs) = Runs::find(scratch) else {
            return Ok(Times::Listed(scratch.as_slice().into()));
        };
        if runs.are_few() {
            lease.shrink(bytes);
            return Ok(Times::Runs(self.runs.get_or_init(|| runs).clone()));
        }
        Ok(Times::Runs(runs))
    }
}
