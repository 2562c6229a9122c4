//! Walking through a strip's columns while blocks are merged.
//!
//! **Invariant:** one page is in memory; a merge reads everything once, so it goes past the cache.

use super::page::Page;
use super::reader::{Block, Index};
use super::strips::StripEntry;
use crate::error::TsdbError;
use narthex_model::LabelSet;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A block whose strips are read one after the other.
#[derive(Debug)]
pub(crate) struct StripSource {
    block: Arc<Block>,
    index: Index,
    /// Sets read so far: strips share them.
    sets: HashMap<u32, LabelSet, foldhash::fast::RandomState>,
}

/// One strip of a block, and the page read last.
#[derive(Debug)]
pub(crate) struct StripCursor {
    block: Arc<Block>,
    entry: StripEntry,
    pub(crate) times_ms: Vec<i64>,
    /// The local set of each column.
    pub(crate) sets: Vec<LabelSet>,
    /// The columns of the page, and the page; `None`: it is damaged.
    page: Option<(Range<u32>, Option<Page>)>,
}

impl StripSource {
    /// Reads the index of a block.
    ///
    /// # Errors
    /// Fails when it is damaged.
    pub(crate) fn new(block: &Arc<Block>) -> Result<Self, TsdbError> {
        Ok(Self {
            block: Arc::clone(block),
            index: block.index()?,
            sets: HashMap::default(),
        })
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// Lists the common set of each strip.
    ///
    /// # Errors
    /// Fails when the index is damaged.
    pub(crate) fn commons(&mut self) -> Result<Vec<LabelSet>, TsdbError> {
        let count = self.block.strips(&self.index)?.count();
        (0..count)
            .map(|at| {
                let entry = self.block.strip_entry(&self.index, at)?;
                self.set(entry.common)
            })
            .collect()
    }

    /// Returns a cursor before the first column of strip `at`.
    ///
    /// # Errors
    /// Fails when the index is damaged.
    pub(crate) fn strip(&mut self, at: u32) -> Result<StripCursor, TsdbError> {
        let entry = self.block.strip_entry(&self.index, at)?;
        let columns = entry
            .columns
            .iter()
            .flat_map(|(first, len)| *first..first + len);
        let columns: Vec<u32> = columns.collect();
        let sets = columns.into_iter().map(|set| self.set(set));
        Ok(StripCursor {
            sets: sets.collect::<Result<_, _>>()?,
            times_ms: self.block.times(&self.index, &entry)?,
            block: Arc::clone(&self.block),
            entry,
            page: None,
        })
    }

    fn set(&mut self, id: u32) -> Result<LabelSet, TsdbError> {
        if let Some(set) = self.sets.get(&id) {
            return Ok(set.clone());
        }
        let set = self.block.label_set(&self.index, id)?;
        self.sets.insert(id, set.clone());
        Ok(set)
    }
}

impl StripCursor {
    pub(crate) fn block(&self) -> &Block {
        &self.block
    }

    /// Returns the chunk and the start times of a column; `None` where its page is known to be damaged.
    ///
    /// # Errors
    /// Fails when the page is found to be damaged, once.
    pub(crate) fn column(&mut self, column: u32) -> Result<Option<Column<'_>>, TsdbError> {
        let here = |page: &(Range<u32>, _)| page.0.contains(&column);
        if !self.page.as_ref().is_some_and(here) {
            let mut first = 0;
            for place in &self.entry.pages {
                let columns = first..first + place.columns;
                first = columns.end;
                if columns.contains(&column) {
                    self.page = Some((columns.clone(), None));
                    self.page = Some((columns, Some(self.block.uncached_page(*place)?)));
                    break;
                }
            }
        }
        let (columns, page) = self.page.as_ref().expect("pages hold all columns");
        let at = (column - columns.start) as usize;
        Ok(page.as_ref().map(|page| Column {
            chunk: page.chunk(at),
            starts: page.starts(at),
        }))
    }

    /// Returns the error for a chunk that cannot be decoded.
    pub(crate) fn bad_chunk(&self, column: u32, what: &narthex_chunks::ChunkError) -> TsdbError {
        let offset = self.entry.pages.first().map_or(0, |page| page.offset);
        let detail = format!("unreadable chunk of {}: {what}", self.sets[column as usize]);
        self.block.corrupt(offset, detail)
    }
}

/// A column as it lies in a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column<'p> {
    pub(crate) chunk: &'p [u8],
    /// From which row on which start time holds.
    pub(crate) starts: &'p [(u32, i64)],
}
