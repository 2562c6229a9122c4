//! What a person sees: progress in one line of a terminal, and reports.
//!
//! **Invariant:** without a terminal only what went wrong is written, so that a cron job without mistakes is silent.

use std::io::{self, Write};

pub(crate) struct Console<'a> {
    /// The command's name, before what went wrong.
    command: &'static str,
    out: &'a mut dyn Write,
    is_terminal: bool,
}

/// Returns to the line's start and clears it.
const CLEAR: &str = "\r\x1b[K";

impl<'a> Console<'a> {
    pub(crate) fn new(command: &'static str, out: &'a mut dyn Write, is_terminal: bool) -> Self {
        Self {
            command,
            out,
            is_terminal,
        }
    }

    /// Shows what is being done.
    ///
    /// # Errors
    /// Fails, as `warn` does, with a text like every other reason to end.
    pub(crate) fn progress(&mut self, text: &str) -> Result<(), String> {
        let shown = match self.is_terminal {
            true => write!(self.out, "{CLEAR}{text}").and_then(|()| self.out.flush()),
            false => Ok(()),
        };
        shown.map_err(|error| error.to_string())
    }

    /// Reports something that went wrong.
    pub(crate) fn warn(&mut self, text: &str) -> Result<(), String> {
        self.progress("")?;
        let written = writeln!(self.out, "narthex: {}: {text}", self.command);
        written.map_err(|error| error.to_string())
    }

    /// Reports the end, and returns the exit code.
    pub(crate) fn end(&mut self, code: u8, outcome: Result<String, String>) -> io::Result<u8> {
        match outcome {
            Err(reason) => self.warn(&reason).map_err(io::Error::other)?,
            Ok(text) if self.is_terminal => writeln!(self.out, "{CLEAR}{text}")?,
            Ok(_) => {}
        }
        Ok(code)
    }
}
