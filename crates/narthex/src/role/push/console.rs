//! What a person sees: progress in one line of a terminal, and reports.
//!
//! **Invariant:** without a terminal only what went wrong is written, so that a cron job without mistakes is silent.

use std::io::{self, Write};

pub(super) struct Console<'a> {
    out: &'a mut dyn Write,
    is_terminal: bool,
}

/// Returns to the line's start and clears it.
const CLEAR: &str = "\r\x1b[K";

impl<'a> Console<'a> {
    pub(super) fn new(out: &'a mut dyn Write, is_terminal: bool) -> Self {
        Self { out, is_terminal }
    }

    /// Shows what is being done.
    pub(super) fn progress(&mut self, text: &str) -> io::Result<()> {
        if self.is_terminal {
            write!(self.out, "{CLEAR}{text}")?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Reports something that went wrong.
    pub(super) fn warn(&mut self, text: &str) -> io::Result<()> {
        self.progress("")?;
        writeln!(self.out, "narthex: push: {text}")
    }

    /// Reports the end, and returns the exit code.
    pub(super) fn end(&mut self, code: u8, outcome: Result<String, String>) -> io::Result<u8> {
        match outcome {
            Err(reason) => self.warn(&reason)?,
            Ok(text) if self.is_terminal => writeln!(self.out, "{CLEAR}{text}")?,
            Ok(_) => {}
        }
        Ok(code)
    }
}
