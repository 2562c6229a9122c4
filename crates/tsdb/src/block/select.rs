//! Resolution of matchers to the strips and columns of a block.
//!
//! A matcher on a label of a strip's common set is decided for the whole strip; the rest are answered by the
//! postings of local sets. The data that one choice of local sets needs (columns, hashes, labels) is computed once
//! and shared by all strips with the same columns, as the targets of one job have.
//!
//! **Invariant:** strips and columns ascend; all labels of a batch were read and checked here, so a batch cannot fail
//! over labels later.

use super::batch::BlockBatch;
use super::chosen::{ChosenColumns, ChosenStrip};
use super::format::SectionKind;
use super::reader::{Block, Index};
use super::strips::StripEntry;
use crate::bytes::Malformed;
use crate::error::TsdbError;
use narthex_model::storage::{Batch, Context, Estimate, Hints, Lease, StorageError, TimeRange};
use narthex_model::{LabelHash, MatchOp, Matcher};
use roaring::RoaringBitmap;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// The series of a block that satisfy a set of matchers.
#[derive(Debug)]
pub struct Selection {
    block: Arc<Block>,
    index: Arc<Index>,
    strips: Vec<ChosenStrip>,
    /// Memory lease, held while the selection or a batch of it lives.
    lease: Arc<Lease>,
}

/// Approximate bytes of a selected column here.
const COLUMN_BYTES: usize = 4 + 4 + 16 + 16;

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
        let mut resolver = Resolver::new(self, &index, matchers)?;
        let mut strips = Vec::new();
        for at in 0..self.strips(&index)?.count() {
            if at % 64 == 0 {
                ctx.stop.check()?;
            }
            let entry = self.strip_entry(&index, at)?;
            if !range.overlaps(TimeRange::new(entry.min_time_ms, entry.max_time_ms)) {
                continue;
            }
            let Some(undecided) = resolver.undecided(entry.common)? else {
                continue;
            };
            let columns = resolver.columns(&entry.columns, undecided, &mut lease)?;
            if columns.columns.is_empty() {
                continue;
            }
            let common = self.label_set(&index, entry.common)?;
            lease.grow(
                (size_of::<ChosenStrip>() + size_of::<StripEntry>() + entry.times.len()) as u64,
            )?;
            strips.push(ChosenStrip {
                entry: Arc::new(entry),
                common,
                columns,
            });
        }
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
        for ChosenStrip { entry, columns, .. } in &self.strips {
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
            let times_ms = self.block.times(&self.index, &strip.entry)?;
            let (block, index) = (Arc::clone(&self.block), Arc::clone(&self.index));
            let lease = Arc::clone(&self.lease);
            Ok(Arc::new(BlockBatch::new(
                block,
                index,
                strip.clone(),
                times_ms,
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

/// Resolves matchers against one block, caching results that strips share.
struct Resolver<'b> {
    block: &'b Arc<Block>,
    index: &'b Arc<Index>,
    matchers: &'b [Matcher],
    /// For each matcher, the pairs of its label, and which of them satisfy it.
    pairs: Vec<MatcherPairs>,
    /// For each matcher, the sets that satisfy it.
    sets: Vec<Option<RoaringBitmap>>,
    chosen: HashMap<ColumnsKey, Arc<ChosenColumns>>,
}

/// The local sets of a strip's columns, and the matchers they decide.
type ColumnsKey = (Vec<(u32, u32)>, Vec<usize>);

struct MatcherPairs {
    ids: std::ops::Range<u32>,
    accepted: RoaringBitmap,
}

impl<'b> Resolver<'b> {
    fn new(
        block: &'b Arc<Block>,
        index: &'b Arc<Index>,
        matchers: &'b [Matcher],
    ) -> Result<Self, TsdbError> {
        let dictionary = block.dictionary(index)?;
        let find = |matcher: &Matcher| -> Result<MatcherPairs, Malformed> {
            let Some(name) = dictionary.name(&matcher.name)? else {
                return Ok(MatcherPairs {
                    ids: 0..0,
                    accepted: RoaringBitmap::new(),
                });
            };
            let mut accepted = RoaringBitmap::new();
            if let Some(values) = matcher.accepted_values() {
                for value in values {
                    accepted.extend(name.find(value)?);
                }
            } else if matcher.op == MatchOp::NotEqual {
                accepted.insert_range(name.ids());
                if let Some(refused) = name.find(&matcher.value)? {
                    accepted.remove(refused);
                }
            } else {
                name.values(&mut |id, value| {
                    if matcher.matches(value) {
                        accepted.insert(id);
                    }
                    true
                })?;
            }
            Ok(MatcherPairs {
                ids: name.ids(),
                accepted,
            })
        };
        let pairs = matchers.iter().map(find).collect::<Result<_, _>>();
        let pairs = pairs.map_err(|bad| block.malformed(&index.dictionary, &bad))?;
        Ok(Self {
            block,
            index,
            matchers,
            pairs,
            sets: vec![None; matchers.len()],
            chosen: HashMap::new(),
        })
    }

    /// Lists the matchers left to the local sets, or `None` when the common set fails one.
    fn undecided(&self, common: u32) -> Result<Option<Vec<usize>>, TsdbError> {
        let mut labels = Vec::new();
        let sets = self.block.sets(self.index)?;
        sets.get(common, &mut labels)
            .map_err(|bad| self.block.malformed(&self.index.sets, &bad))?;
        let mut undecided = Vec::new();
        for (at, pairs) in self.pairs.iter().enumerate() {
            match labels.iter().find(|pair| pairs.ids.contains(pair)) {
                Some(pair) if !pairs.accepted.contains(*pair) => return Ok(None),
                Some(_) => {}
                None => undecided.push(at),
            }
        }
        Ok(Some(undecided))
    }

    /// Selects, among columns with the local sets `runs`, those that satisfy the matchers `undecided`.
    fn columns(
        &mut self,
        runs: &[(u32, u32)],
        undecided: Vec<usize>,
        lease: &mut Lease,
    ) -> Result<Arc<ChosenColumns>, StorageError> {
        let key = (runs.to_vec(), undecided);
        if let Some(found) = self.chosen.get(&key) {
            return Ok(Arc::clone(found));
        }
        let mut satisfying: Option<RoaringBitmap> = None;
        for &at in &key.1 {
            let sets = self.satisfying(at)?;
            satisfying = Some(match satisfying {
                None => sets.clone(),
                Some(before) => before & sets,
            });
        }
        let (mut columns, mut sets) = (Vec::new(), Vec::new());
        let mut before = 0;
        for &(first, len) in runs {
            let mut choose = |set: u32| {
                columns.push(before + (set - first));
                sets.push(set);
            };
            match &satisfying {
                Some(satisfying) => satisfying.range(first..first + len).for_each(&mut choose),
                None => (first..first + len).for_each(&mut choose),
            }
            before += len;
        }
        lease.grow((columns.len() * COLUMN_BYTES + runs.len() * 8) as u64)?;
        let hashes = self.hashes(&sets)?;
        let labels = sets.iter().map(|_| OnceLock::new()).collect();
        let chosen = Arc::new(ChosenColumns {
            columns,
            sets,
            hashes,
            labels,
            grouped: Mutex::default(),
        });
        self.chosen.insert(key, Arc::clone(&chosen));
        Ok(chosen)
    }

    /// Returns the sets whose label (the empty value if missing) satisfies matcher `at`.
    fn satisfying(&mut self, at: usize) -> Result<&RoaringBitmap, StorageError> {
        if self.sets[at].is_none() {
            let count = self.block.sets(self.index)?.count();
            let MatcherPairs { ids, accepted } = &self.pairs[at];
            let sets = if self.matchers[at].matches_empty() {
                // A matcher that accepts the empty value is resolved by the values it refuses.
                let mut refused: RoaringBitmap = ids.clone().collect();
                refused -= accepted;
                let mut sets: RoaringBitmap = (0..count).collect();
                sets -= self.sets_with(&refused, count)?;
                sets
            } else {
                self.sets_with(accepted, count)?
            };
            self.sets[at] = Some(sets);
        }
        Ok(self.sets[at].as_ref().expect("just made"))
    }

    fn sets_with(&self, pairs: &RoaringBitmap, count: u32) -> Result<RoaringBitmap, StorageError> {
        let mut sets = RoaringBitmap::new();
        if pairs.is_empty() {
            return Ok(sets);
        }
        if let Err(error) = self.add_postings(pairs, count, &mut sets) {
            // The sets themselves give the same answer, only slower.
            self.block.note(error.into())?;
            sets.clear();
            let mut add = |set: u32, own: &Vec<u32>| {
                if own.iter().any(|pair| pairs.contains(*pair)) {
                    sets.insert(set);
                }
            };
            self.block
                .sets(self.index)?
                .each(0..count, &mut add)
                .map_err(|bad| self.block.malformed(&self.index.sets, &bad))?;
        }
        Ok(sets)
    }

    fn add_postings(
        &self,
        pairs: &RoaringBitmap,
        count: u32,
        sets: &mut RoaringBitmap,
    ) -> Result<(), TsdbError> {
        let section = self.block.section(SectionKind::Postings)?;
        let postings = self.block.postings(&section)?;
        for pair in pairs {
            postings
                .add_to(pair, count, sets)
                .map_err(|bad| self.block.malformed(&section, &bad))?;
        }
        Ok(())
    }

    /// Computes the hashes of sets, decoding each label once; this also proves that the sets are readable.
    fn hashes(&self, sets: &[u32]) -> Result<Vec<LabelHash>, TsdbError> {
        let (block, index) = (self.block, self.index);
        let reader = block.sets(index)?;
        let mut used = RoaringBitmap::new();
        let each = |take: &mut dyn FnMut(u32, &Vec<u32>)| {
            reader
                .each(sets.iter().copied(), take)
                .map_err(|bad| block.malformed(&index.sets, &bad))
        };
        each(&mut |_, pairs| used.extend(pairs))?;
        let mut of_pair: HashMap<u32, LabelHash, foldhash::fast::RandomState> = HashMap::default();
        let dictionary = block.dictionary(index)?;
        dictionary
            .each(&used, &mut |id, name, value| {
                of_pair.insert(id, LabelHash::of_label(name, value));
            })
            .map_err(|bad| block.malformed(&index.dictionary, &bad))?;
        let mut hashes = Vec::with_capacity(sets.len());
        each(&mut |_, pairs| hashes.push(pairs.iter().map(|pair| of_pair[pair]).sum()))?;
        Ok(hashes)
    }
}
