//! A status line with the current activity and its figures.
//!
//! **Invariant:** writes to standard error only, so that standard output contains only results.

use super::sync::lock;
use std::{
    io::{IsTerminal, Write, stderr},
    sync::Mutex,
    time::{Duration, Instant},
};

/// Interval between lines if they cannot be overwritten.
const PLAIN_EVERY: Duration = Duration::from_secs(15);

/// The line of the current phase.
#[derive(Debug)]
pub(crate) struct Progress {
    is_terminal: bool,
    /// Estimated end of the whole run.
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

    /// Shows the current activity.
    pub(crate) fn show(&self, text: &str) {
        let left = self.end.saturating_duration_since(Instant::now()).as_secs();
        let mut out = stderr();
        let mut printed = lock(&self.printed);
        // Progress is optional: a closed standard error does not stop a measurement.
        if self.is_terminal {
            let _ = write!(out, "\r\x1b[K{text}; about {left} s left");
        } else if printed.is_none_or(|at| at.elapsed() >= PLAIN_EVERY) {
            let _ = writeln!(out, "{text}; about {left} s left");
            *printed = Some(Instant::now());
        }
    }

    /// Shows a phase of a subject, even where lines are rate-limited.
    pub(crate) fn begin(&self, label: &str, phase: &str) {
        *lock(&self.printed) = None;
        self.show(&format!("{label}: {phase}"));
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
    // There is no better place to report that standard error is closed.
    let _ = writeln!(stderr(), "{text}");
}
