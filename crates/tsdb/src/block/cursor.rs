//! Iteration over a strip's columns while blocks are merged.
//!
//! **Invariant:** of a strip at most one page is in memory, from the first to the last of its columns that is read, and of
//! a block the last ones that strips share; a merge reads everything once, so it bypasses the cache. Labels and sets are
//! known by their numbers in the block being written, so nothing of a source's index is decoded twice or kept.

use super::page::Page;
use super::reader::{Block, Index, PageOwner};
use super::set_table::SetTable;
use super::strip_table::TOGETHER;
use super::strips::{LastPage, PagePlace, Pages};
use crate::error::TsdbError;
use crate::label_order::StripExtent;
use narthex_model::LabelSet;
use narthex_model::sync::Whole as _;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A number that is not known yet.
const UNKNOWN: u32 = u32::MAX;

/// A block whose strips are read one after the other.
#[derive(Debug)]
pub(crate) struct StripSource {
    block: Arc<Block>,
    index: Index,
    /// Number of each source label and set in the block being written, where already looked up.
    labels: Vec<u32>,
    sets: Vec<u32>,
    /// Pages of the strip before, which the next one may share.
    owner: PageOwner,
    shared: Arc<SharedPages>,
}

/// The last pages that strips of a block share.
#[derive(Debug, Default)]
struct SharedPages(Mutex<VecDeque<(u64, Arc<Page>)>>);

/// One strip of a block, and the page read last.
#[derive(Debug)]
pub(crate) struct StripCursor {
    block: Arc<Block>,
    pages: Pages,
    shared: Arc<SharedPages>,
    pub(crate) times_ms: Arc<[i64]>,
    /// Local set of each column, by its number in the block being written.
    pub(crate) sets: Vec<u32>,
    page: LastPage,
}

impl StripSource {
    /// Reads the index of a block.
    ///
    /// # Errors
    /// Fails when the index is damaged.
    pub(crate) fn new(block: &Arc<Block>) -> Result<Self, TsdbError> {
        Ok(Self {
            block: Arc::clone(block),
            index: block.index()?,
            labels: Vec::new(),
            sets: Vec::new(),
            owner: PageOwner::default(),
            shared: Arc::default(),
        })
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// Lists the extent and the common set of each strip.
    ///
    /// # Errors
    /// Fails when the index is damaged.
    pub(crate) fn strips(&self) -> Result<Vec<(StripExtent, LabelSet)>, TsdbError> {
        let count = self.block.strips(&self.index)?.count();
        let head = |at| {
            let entry = self.block.strip_entry(&self.index, at)?;
            let extent = StripExtent {
                min_ms: entry.min_time_ms,
                max_ms: entry.max_time_ms,
                width: entry.width() as usize,
            };
            Ok((extent, entry.common))
        };
        let heads = (0..count)
            .map(head)
            .collect::<Result<Vec<_>, TsdbError>>()?;
        let sets = self.block.sets(&self.index)?;
        let (mut strips, mut pairs) = (Vec::with_capacity(heads.len()), Vec::new());
        // Some at a time, because the pairs of all would take as much as the labels.
        for heads in heads.chunks(TOGETHER) {
            pairs.clear();
            let commons = heads.iter().map(|(_, common)| *common);
            sets.each(commons, &mut |_, found| pairs.push(found.clone()))
                .map_err(|bad| self.block.malformed(&self.index.sets, &bad))?;
            let pairs = pairs.iter().map(Vec::as_slice);
            let labels = self.block.label_sets(&self.index, pairs)?;
            strips.extend(heads.iter().map(|(extent, _)| *extent).zip(labels));
        }
        Ok(strips)
    }

    /// Returns a cursor before the first column of strip `at`, with sets numbered by `table`.
    ///
    /// # Errors
    /// Fails when the index is damaged.
    pub(crate) fn strip(
        &mut self,
        at: u32,
        table: &mut SetTable,
    ) -> Result<StripCursor, TsdbError> {
        let entry = self.block.strip_entry(&self.index, at)?;
        let mut sets = Vec::new();
        for (first, len) in &entry.columns {
            self.number(*first..first + len, table, &mut sets)?;
        }
        Ok(StripCursor {
            sets,
            times_ms: self.block.times(&self.index, &entry.times, entry.rows)?,
            pages: self.block.pages(&self.index, at, &entry, &mut self.owner)?,
            block: Arc::clone(&self.block),
            shared: Arc::clone(&self.shared),
            page: LastPage::default(),
        })
    }

    /// Appends the `table` number of each set in `range`.
    fn number(
        &mut self,
        range: Range<u32>,
        table: &mut SetTable,
        into: &mut Vec<u32>,
    ) -> Result<(), TsdbError> {
        let Self {
            block,
            index,
            labels,
            sets: known,
            ..
        } = self;
        let sets = block.sets(index)?;
        known.resize(sets.count() as usize, UNKNOWN);
        let numbers = known.get(range.start as usize..range.end as usize);
        if let Some(numbers) = numbers.filter(|numbers| !numbers.contains(&UNKNOWN)) {
            into.extend_from_slice(numbers);
            return Ok(());
        }
        let dictionary = block.dictionary(index)?;
        let mut failed = None;
        let walked = sets.each(range, &mut |id, pairs| {
            let mut number_of = |pair: &u32| {
                let at = *pair as usize;
                if let Some(label) = labels.get(at).filter(|label| **label != UNKNOWN) {
                    return Ok(*label);
                }
                let label = table.label(&dictionary.label(*pair)?);
                if labels.len() <= at {
                    labels.resize(at + 1, UNKNOWN);
                }
                labels[at] = label;
                Ok(label)
            };
            let members: Result<Vec<u32>, _> = pairs.iter().map(&mut number_of).collect();
            match members {
                Ok(members) => {
                    known[id as usize] = table.set_of(members);
                    into.push(known[id as usize]);
                }
                Err(bad) => failed = Some(bad),
            }
        });
        walked.map_err(|bad| block.malformed(&index.sets, &bad))?;
        match failed {
            None => Ok(()),
            Some(bad) => Err(block.malformed(&index.dictionary, &bad)),
        }
    }
}

impl StripCursor {
    pub(crate) fn block(&self) -> &Block {
        &self.block
    }

    /// Returns the chunk and the start times of a column; `None` when its page is known to be damaged.
    ///
    /// # Errors
    /// Fails once, when the page turns out to be damaged.
    pub(crate) fn column(&mut self, column: u32) -> Result<Option<Column<'_>>, TsdbError> {
        let read = |place| self.shared.page(&self.block, place);
        let found = self.page.find(&self.pages, column, read)?;
        Ok(found.map(|(page, chunk)| Column {
            chunk: page.chunk(chunk),
            starts: page.starts(chunk),
        }))
    }

    /// Releases the page after its last column, because hundreds of strips may be merged into one.
    pub(crate) fn leave(&mut self, column: u32) {
        self.page.keep_for(column.saturating_add(1));
    }

    /// Returns the error for an undecodable chunk.
    pub(crate) fn bad_chunk(&self, column: u32, what: &narthex_chunks::ChunkError) -> TsdbError {
        let offset = self.pages.offset();
        let detail = format!("unreadable chunk of a strip's column {column}: {what}");
        self.block.corrupt(offset, detail)
    }
}

impl SharedPages {
    /// Most pages kept: those of a group of strips, and some of the next.
    const MOST: usize = 24;

    /// Reads a page, unless it was among the last of those that strips share.
    ///
    /// # Errors
    /// Fails when it is damaged.
    fn page(&self, block: &Block, place: PagePlace) -> Result<Arc<Page>, TsdbError> {
        if place.strips == 1 {
            return Ok(Arc::new(block.uncached_page(place)?));
        }
        let mut pages = self.0.lock().whole();
        let known = pages.iter().find(|(offset, _)| *offset == place.offset);
        if let Some((_, page)) = known {
            return Ok(Arc::clone(page));
        }
        let page = Arc::new(block.uncached_page(place)?);
        if pages.len() == Self::MOST {
            pages.pop_front();
        }
        pages.push_back((place.offset, Arc::clone(&page)));
        Ok(page)
    }
}

/// A column as stored in a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column<'p> {
    pub(crate) chunk: &'p [u8],
    /// First row of each start time: row, ms.
    pub(crate) starts: &'p [(u32, i64)],
}
