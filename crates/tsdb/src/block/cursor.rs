//! Iteration over a strip's columns while blocks are merged.
//!
//! **Invariant:** at most one page is in memory, from the first to the last of its columns that is read; a merge reads
//! everything once, so it bypasses the cache. Labels and sets are known by their numbers in the block being written,
//! so nothing of a source's index is decoded twice or kept.

use super::page::Page;
use super::reader::{Block, Index};
use super::set_table::SetTable;
use super::strip_table::TOGETHER;
use super::strips::{PagePlace, StripEntry};
use crate::error::TsdbError;
use narthex_model::LabelSet;
use std::ops::Range;
use std::sync::Arc;

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
}

/// One strip of a block, and the page read last.
#[derive(Debug)]
pub(crate) struct StripCursor {
    block: Arc<Block>,
    entry: StripEntry,
    pub(crate) times_ms: Vec<i64>,
    /// Local set of each column, by its number in the block being written.
    pub(crate) sets: Vec<u32>,
    /// Columns of the page, and the page; `None` when it is damaged.
    page: Option<(Range<u32>, Option<Page>)>,
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
        })
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// Lists the common set of each strip.
    ///
    /// # Errors
    /// Fails when the index is damaged.
    pub(crate) fn commons(&self) -> Result<Vec<LabelSet>, TsdbError> {
        let count = self.block.strips(&self.index)?.count();
        let common = |at| Ok(self.block.strip_entry(&self.index, at)?.common);
        let commons = (0..count)
            .map(common)
            .collect::<Result<Vec<u32>, TsdbError>>()?;
        let sets = self.block.sets(&self.index)?;
        let (mut labels, mut pairs) = (Vec::with_capacity(commons.len()), Vec::new());
        // Some at a time, because the pairs of all would take as much as the labels.
        for commons in commons.chunks(TOGETHER) {
            pairs.clear();
            let commons = commons.iter().copied();
            sets.each(commons, &mut |_, found| pairs.push(found.clone()))
                .map_err(|bad| self.block.malformed(&self.index.sets, &bad))?;
            let pairs = pairs.iter().map(Vec::as_slice);
            labels.extend(self.block.label_sets(&self.index, pairs)?);
        }
        Ok(labels)
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
            block: Arc::clone(&self.block),
            entry,
            page: None,
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
        let here = |page: &(Range<u32>, _)| page.0.contains(&column);
        if !self.page.as_ref().is_some_and(here) {
            let (columns, place) = PagePlace::of_column(&self.entry.pages, column);
            self.page = Some((columns.clone(), None));
            self.page = Some((columns, Some(self.block.uncached_page(place)?)));
        }
        let (columns, page) = self.page.as_ref().expect("it was just read");
        let at = (column - columns.start) as usize;
        Ok(page.as_ref().map(|page| Column {
            chunk: page.chunk(at),
            starts: page.starts(at),
        }))
    }

    /// Releases the page after its last column, because hundreds of strips may be merged into one.
    pub(crate) fn leave(&mut self, column: u32) {
        self.page
            .take_if(|(columns, _)| columns.end == column.saturating_add(1));
    }

    /// Returns the error for an undecodable chunk.
    pub(crate) fn bad_chunk(&self, column: u32, what: &narthex_chunks::ChunkError) -> TsdbError {
        let offset = self.entry.pages.first().map_or(0, |page| page.offset);
        let detail = format!("unreadable chunk of a strip's column {column}: {what}");
        self.block.corrupt(offset, detail)
    }
}

/// A column as stored in a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column<'p> {
    pub(crate) chunk: &'p [u8],
    /// First row of each start time: row, ms.
    pub(crate) starts: &'p [(u32, i64)],
}
