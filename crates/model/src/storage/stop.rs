//! Cancellation of work.
//!
//! **Invariant:** a stop that has given a reason always gives the same reason.

use std::{
    error::Error,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Instant,
};

/// A request to end work; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// One more than the reason's place among all; 0 if there is none.
    state: Arc<AtomicU8>,
    /// When the work must have ended, and why.
    deadline: Option<(Instant, StopReason)>,
    counted: Option<Arc<Counted>>,
}

/// Number of checks so far, and the one that cancels.
#[derive(Debug)]
struct Counted {
    checks: AtomicU64,
    cancels_at: u64,
}

crate::named! {
    /// Reason for ending work.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    #[non_exhaustive]
    pub enum StopReason {
        /// Nobody waits for the result.
        Canceled = "canceled",
        /// The deadline passed.
        TimedOut = "timed out",
        /// The process shuts down.
        ShuttingDown = "the server is shutting down",
        /// The work takes longer than it may where it runs; it begins anew elsewhere.
        Moved = "begun anew elsewhere",
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
        Self::because(StopReason::TimedOut, deadline)
    }

    /// Returns a stop of work that is to go on elsewhere if it has not ended at `deadline`.
    #[must_use]
    pub fn moved_at(deadline: Instant) -> Self {
        Self::because(StopReason::Moved, deadline)
    }

    fn because(reason: StopReason, deadline: Instant) -> Self {
        Self {
            deadline: Some((deadline, reason)),
            ..Self::default()
        }
    }

    /// Returns a stop that counts its checks and cancels at check number `check`, from 1 on: a test can measure how
    /// promptly work stops without a clock. 0 never cancels.
    #[must_use]
    pub fn at_check(check: u64) -> Self {
        let counted = Counted {
            checks: AtomicU64::new(0),
            cancels_at: check,
        };
        Self {
            counted: Some(Arc::new(counted)),
            ..Self::default()
        }
    }

    /// Returns the number of checks of a stop made by `at_check`; 0 for all others.
    #[must_use]
    pub fn checks(&self) -> u64 {
        let counted = self.counted.as_ref();
        counted.map_or(0, |counted| counted.checks.load(Ordering::Relaxed))
    }

    /// Returns a pace for polling this stop in a loop.
    #[must_use]
    pub fn pace(&self) -> Pace<'_> {
        Pace {
            stop: self,
            left: WORK_BETWEEN_CHECKS,
        }
    }

    /// Asks the work to end; the first reason stays.
    pub fn stop(&self, reason: StopReason) {
        let code = reason as u8 + 1;
        // The exchange fails when a reason is already set.
        let _ = self
            .state
            .compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns an error when the work must end.
    ///
    /// # Errors
    /// Fails with the reason, as soon as there is one.
    pub fn check(&self) -> Result<(), StopReason> {
        if let Some(counted) = &self.counted {
            let check = counted.checks.fetch_add(1, Ordering::Relaxed) + 1;
            if check == counted.cancels_at {
                self.stop(StopReason::Canceled);
            }
        }
        if let Some(reason) = self.state.load(Ordering::Relaxed).checked_sub(1) {
            return Err(StopReason::ALL[usize::from(reason)]);
        }
        match self.deadline {
            Some((deadline, reason)) if Instant::now() >= deadline => {
                self.stop(reason);
                self.check()
            }
            _ => Ok(()),
        }
    }
}

/// Work between two checks of a [`Pace`]: samples, cells or comparisons, at a few to some ten nanoseconds each.
const WORK_BETWEEN_CHECKS: usize = 1 << 15;

/// Polls a stop once in a while: reading the clock for each item of a tight loop would cost more than the item.
#[derive(Debug)]
pub struct Pace<'a> {
    stop: &'a Stop,
    left: usize,
}

impl Pace<'_> {
    /// Counts `work` items as done, about a millisecond's worth of them between two checks.
    ///
    /// # Errors
    /// As [`Stop::check`], when a check is due.
    #[inline]
    pub fn spend(&mut self, work: usize) -> Result<(), StopReason> {
        match self.left.checked_sub(work) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => self.ask(),
        }
    }

    #[cold]
    fn ask(&mut self) -> Result<(), StopReason> {
        self.left = WORK_BETWEEN_CHECKS;
        self.stop.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_asks_once_in_a_while_and_a_counted_stop_cancels_on_time() {
        let stop = Stop::at_check(3);
        let mut pace = stop.pace();
        let done = (0..).take_while(|_| pace.spend(100).is_ok()).count();
        assert_eq!(
            (stop.checks(), stop.check()),
            (3, Err(StopReason::Canceled))
        );
        assert!((3 * 300..3 * 400).contains(&done), "{done} rounds of 100");
        let huge = Stop::at_check(0);
        (0..5).for_each(|_| huge.pace().spend(usize::MAX).unwrap());
        assert_eq!(huge.checks(), 5, "a long step is asked after");
    }

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
