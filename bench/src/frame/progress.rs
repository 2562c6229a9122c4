//! One line that says what happens, and the figures while it does.
//!
//! **Invariant:** goes to standard error only, so that standard output holds nothing but results.

use super::sync::lock;
use std::{
    io::{IsTerminal, Write, stderr},
    sync::Mutex,
    time::{Duration, Instant},
};

/// How often a line is printed where it cannot be overwritten.
const PLAIN_EVERY: Duration = Duration::from_secs(15);

/// The line of the present phase.
#[derive(Debug)]
pub(crate) struct Progress {
    is_terminal: bool,
    /// When the whole run ends, about.
    end: Instant,
    printed: Mutex<Option<Instant>>,
}

impl Progress {
    /// Starts the line of a run that takes about `whole`.
    pub(crate) fn new(whole: Duration) -> Self {
        Self {
            is_terminal: stderr().is_terminal(),
            end: Instant::now() + whole,
            printed: Mutex::new(None),
        }
    }

    /// Shows what happens now.
    pub(crate) fn show(&self, text: &str) {
        let left = self.end.saturating_duration_since(Instant::now()).as_secs();
        let mut out = stderr();
        let mut printed = lock(&self.printed);
        // Progress is a courtesy: a closed standard error does not stop a measurement.
        if self.is_terminal {
            let _ = write!(out, "\r\x1b[K{text}; about {left} s left");
        } else if printed.is_none_or(|at| at.elapsed() >= PLAIN_EVERY) {
            let _ = writeln!(out, "{text}; about {left} s left");
            *printed = Some(Instant::now());
        }
    }

    /// Shows it even where lines are rare, because something else begins.
    pub(crate) fn begin(&self, text: &str) {
        *lock(&self.printed) = None;
        self.show(text);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// Prints an error.
pub(crate) fn complain(text: &str) {
    // There is no better place to say that standard error is closed.
    let _ = writeln!(stderr(), "{text}");
}
