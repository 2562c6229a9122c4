//! Stopping work that is no longer wanted.
//!
//! **Invariant:** once a stop has given a reason it gives the same reason for ever.

use std::{
    error::Error,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Instant,
};

/// Asks work to end; clones share the request.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    state: Arc<AtomicU8>,
    deadline: Option<Instant>,
}

/// Why work must end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum StopReason {
    /// Nobody waits for the result.
    Canceled,
    /// It took too long.
    TimedOut,
    /// The process shuts down.
    ShuttingDown,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Canceled => "canceled",
            Self::TimedOut => "timed out",
            Self::ShuttingDown => "the server is shutting down",
        })
    }
}

impl Error for StopReason {}

impl Stop {
    /// Returns a stop that only `stop` triggers.
    #[must_use]
    pub fn never() -> Self {
        Self::default()
    }

    /// Returns a stop that times out at `deadline`.
    #[must_use]
    pub fn at(deadline: Instant) -> Self {
        Self {
            deadline: Some(deadline),
            ..Self::default()
        }
    }

    /// Asks the work to end; the first reason stays.
    pub fn stop(&self, reason: StopReason) {
        let code = match reason {
            StopReason::Canceled => 1,
            StopReason::TimedOut => 2,
            StopReason::ShuttingDown => 3,
        };
        // A failed exchange means that there is a reason already.
        let _ = self
            .state
            .compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns an error when the work must end.
    ///
    /// # Errors
    /// Fails with the reason, from the moment it is known.
    pub fn check(&self) -> Result<(), StopReason> {
        match self.state.load(Ordering::Relaxed) {
            0 => {}
            1 => return Err(StopReason::Canceled),
            2 => return Err(StopReason::TimedOut),
            _ => return Err(StopReason::ShuttingDown),
        }
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            self.stop(StopReason::TimedOut);
            return self.check();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays() {
        let stop = Stop::never();
        assert_eq!(stop.check(), Ok(()));
        let clone = stop.clone();
        clone.stop(StopReason::Canceled);
        stop.stop(StopReason::ShuttingDown);
        assert_eq!(stop.check(), Err(StopReason::Canceled));
        assert_eq!(Stop::at(Instant::now()).check(), Err(StopReason::TimedOut));
    }
}
