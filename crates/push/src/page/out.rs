//! Where a page is written to, and what its lines repeat.
//!
//! **Invariant:** hints about repetitions change how a page is compressed, never what it says.

use crate::text::{Piece, Text};
use narthex_net::GzipStream;
use std::ops::Range;

/// Bytes of text or of compressed text after which a piece of a page is sent.
const PIECE_BYTES: usize = 64 << 10;
const PACKED_BYTES: usize = 16 << 10;
/// A repetition from farther away is not looked for.
const FARTHEST: u64 = GzipStream::FARTHEST as u64;
/// Before the beginning of everything.
const NOWHERE: u64 = u64::MAX;

/// Takes the text of a page.
pub(crate) trait Out {
    /// Whether it is of use to know what text repeats.
    const REPEATS: bool;

    /// Appends text that is probably like the one that begins at `before`.
    fn repeat(&mut self, text: Piece<'_>, before: u64);
    /// Appends what `write` does.
    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>));
    /// Returns the number of bytes appended so far.
    fn position(&self) -> u64;
    /// Returns whether a piece is ready to be sent.
    fn is_full(&self) -> bool;
}

/// Text as it is, up to a number of bytes and what belongs to them.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) text: Vec<u8>,
    most_bytes: usize,
}

impl Plain {
    /// Returns room for a piece of a page.
    pub(crate) fn piece() -> Self {
        Self {
            text: Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4),
            most_bytes: PIECE_BYTES,
        }
    }

    /// Returns room for a whole page.
    pub(crate) fn whole() -> Self {
        Self {
            text: Vec::new(),
            most_bytes: usize::MAX,
        }
    }
}

impl Out for Plain {
    const REPEATS: bool = false;

    #[inline]
    fn repeat(&mut self, text: Piece<'_>, _: u64) {
        text.append_to(&mut self.text);
    }

    #[inline]
    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.text);
    }

    fn position(&self) -> u64 {
        self.text.len() as u64
    }

    fn is_full(&self) -> bool {
        self.text.len() >= self.most_bytes
    }
}

impl Out for GzipStream {
    const REPEATS: bool = true;

    #[inline]
    fn repeat(&mut self, text: Piece<'_>, before: u64) {
        self.append_like(text.bytes(), before);
    }

    #[inline]
    fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.append_with(write);
    }

    #[inline]
    fn position(&self) -> u64 {
        Self::position(self)
    }

    fn is_full(&self) -> bool {
        self.ready_bytes() >= PACKED_BYTES
    }
}

/// Where pieces of a family's lines were written last.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// Address of the text.
    text: usize,
    /// For each of its steps, where it was written for the group before.
    steps: Vec<u64>,
    /// For each step of a line and its gap, where the line before has it.
    line: Vec<[u64; 2]>,
}

impl Repeats {
    /// Returns what is known of some steps of a text.
    pub(crate) fn for_steps(&mut self, text: &Text, steps: Range<usize>) -> StepRepeats<'_> {
        let address = std::ptr::from_ref(text).addr();
        if self.text != address || self.steps.len() != text.len() {
            self.text = address;
            self.steps.clear();
            self.steps.resize(text.len(), NOWHERE);
        }
        StepRepeats {
            steps: &mut self.steps[steps],
            line: &mut self.line,
            at: 0,
            in_line: 0,
        }
    }
}

/// Finds what the steps of lines repeat, one after the other.
pub(crate) struct StepRepeats<'a> {
    steps: &'a mut [u64],
    line: &'a mut Vec<[u64; 2]>,
    at: usize,
    in_line: usize,
}

impl StepRepeats<'_> {
    /// Writes the text of a step: like that of the group before, or if that is far away, of the line before.
    #[inline]
    pub(crate) fn piece<O: Out>(&mut self, out: &mut O, text: Piece<'_>) {
        if !O::REPEATS {
            return out.repeat(text, NOWHERE);
        }
        let now = out.position();
        let before = std::mem::replace(&mut self.steps[self.at], now);
        self.at += 1;
        if self.in_line == self.line.len() {
            self.line.push([NOWHERE; 2]);
        }
        let line = &mut self.line[self.in_line];
        let line_before = std::mem::replace(&mut line[0], now);
        if before < now && now - before <= FARTHEST {
            // The labels of the group that follow are like those behind `before` for as long as can be.
            line[1] = NOWHERE;
            out.repeat(text, before);
        } else {
            out.repeat(text, line_before);
        }
    }

    /// Writes the labels of the group behind a step.
    #[inline]
    pub(crate) fn labels<O: Out>(&mut self, out: &mut O, text: Piece<'_>) {
        if !O::REPEATS {
            return out.repeat(text, NOWHERE);
        }
        let now = out.position();
        let before = std::mem::replace(&mut self.line[self.in_line][1], now);
        self.in_line += 1;
        out.repeat(text, before);
    }

    /// Says that the next step begins another line.
    #[inline]
    pub(crate) fn line_ended(&mut self) {
        self.in_line = 0;
    }
}
