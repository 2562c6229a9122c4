//! Records on their way into the WAL, in batches of bounded size.
//!
//! **Invariant:** every batch is room for its header followed by whole records, and no longer than readers accept.
//! A rollback leaves nothing: neither bytes nor symbols without their definitions.

use super::{
    batch::{self, BATCH_HEADER_BYTES, MAX_BATCH_BYTES},
    symbols::{SymbolMark, SymbolWriter},
};
use crate::error::TsdbError;

/// Size at which a batch accepts no further record, because damage in it costs all of it.
const FULL_BYTES: usize = 8 << 20;

/// Batches under construction, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    pub(super) bytes: Vec<u8>,
    /// Offset of each batch.
    starts: Vec<usize>,
}

impl Batches {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Starts a record, in a new batch if the last one is full; returns the buffer for its bytes.
    pub(super) fn begin_record(&mut self, symbols: &mut SymbolWriter) -> &mut Vec<u8> {
        let has_room = |start: &usize| self.bytes.len() - start < FULL_BYTES;
        if !self.starts.last().is_some_and(has_room) {
            self.starts.push(self.bytes.len());
            let len = self.bytes.len() + BATCH_HEADER_BYTES;
            self.bytes.resize(len, 0);
            symbols.begin_batch();
        }
        &mut self.bytes
    }

    /// Returns the length of the longest batch, without its header.
    fn longest(&self) -> usize {
        let ends = self.starts.iter().skip(1).copied();
        let ends = ends.chain([self.bytes.len()]);
        let lengths = self.starts.iter().zip(ends).map(|(start, end)| end - start);
        lengths.max().unwrap_or_default()
    }

    /// Completes the headers, the first batch with `counter`; returns the counter for the next batch.
    pub(super) fn seal(&mut self, mut counter: u16) -> u16 {
        let mut rest = self.bytes.as_mut_slice();
        let ends = self.starts.iter().skip(1).copied();
        let ends: Vec<usize> = ends.chain([rest.len()]).collect();
        for (start, end) in self.starts.iter().zip(ends) {
            let (batch, behind) = rest.split_at_mut(end - start);
            batch::seal(batch, counter);
            counter = counter.wrapping_add(1);
            rest = behind;
        }
        counter
    }
}

/// Bytes added by one append, rolled back unless kept: when they are too long, or when building them panics.
pub(super) struct Addition<'a> {
    pub(super) batches: &'a mut Batches,
    pub(super) symbols: &'a mut SymbolWriter,
    bytes: usize,
    starts: usize,
    mark: SymbolMark,
    kept: bool,
}

impl<'a> Addition<'a> {
    pub(super) fn new(batches: &'a mut Batches, symbols: &'a mut SymbolWriter) -> Self {
        Self {
            bytes: batches.bytes.len(),
            starts: batches.starts.len(),
            mark: symbols.mark(),
            batches,
            symbols,
            kept: false,
        }
    }

    /// Keeps the addition.
    ///
    /// # Errors
    /// Fails when no reader would accept it.
    pub(super) fn keep(mut self) -> Result<(), TsdbError> {
        let bytes = self.batches.longest();
        if bytes > MAX_BATCH_BYTES {
            return Err(TsdbError::Internal {
                operation: "log an append",
                cause: format!(
                    "one of its records makes a batch of {bytes} bytes, the log's longest has {MAX_BATCH_BYTES}"
                ),
            });
        }
        self.kept = true;
        Ok(())
    }
}

impl Drop for Addition<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.batches.bytes.truncate(self.bytes);
            self.batches.starts.truncate(self.starts);
            self.symbols.roll_back(&self.mark);
        }
    }
}
