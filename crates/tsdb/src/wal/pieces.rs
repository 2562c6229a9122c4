//! Records on their way into the log, in batches of bounded size.
//!
//! **Invariant:** every batch is whole records behind room for its header, and none that is handed on is longer than
//! readers accept. What is rolled back leaves nothing: neither bytes nor symbols that no byte defines.

use super::{
    batch::{self, BATCH_HEADER_BYTES, MAX_BATCH_BYTES},
    symbols::{SymbolMark, SymbolWriter},
};
use crate::error::TsdbError;

/// A batch that has so many bytes takes no further record: damage in it costs all of it.
const FULL_BYTES: usize = 8 << 20;

/// Batches under construction, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    pub(super) bytes: Vec<u8>,
    /// Where each begins.
    starts: Vec<usize>,
}

impl Batches {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }

    /// Begins a record, in another batch where the last one has enough; returns where its bytes go.
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

    /// Completes the headers, the first batch with `counter`; returns the counter for the batch after the last.
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

/// What one append adds, taken back unless it is kept: when it is too long, and when building it panics.
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

    /// Keeps what was added.
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
