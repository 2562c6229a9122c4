//! Maintains storage periodically, whatever goes wrong.
//!
//! **Invariant:** neither an error nor a panic ends it. If it keeps panicking, attempts become rarer, and the server is
//! not ready until one succeeds.

use crate::health::Health;
use narthex_net::{Panicked, catch_panic};
use narthex_tsdb::{Clock, Db, SystemClock, TsdbError};
use std::{sync::Arc, time::Duration};

/// How often storage is maintained.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait after panics.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Panics in a row after which the server is not ready.
const PANICS: u32 = 3;
/// Smallest change of the clock's doubt, in milliseconds, that is logged.
const DOUBT_MS: i64 = 60_000;

/// State kept between rounds.
pub(crate) struct Upkeep {
    health: Arc<Health>,
    failing: bool,
    panics: u32,
    /// Number of damaged places that have been logged.
    told: usize,
    /// How far the wall clock was ahead when that was last logged.
    doubt_ms: i64,
}

impl Upkeep {
    pub(crate) fn new(health: Arc<Health>) -> Self {
        Self {
            health,
            failing: false,
            panics: 0,
            told: 0,
            doubt_ms: 0,
        }
    }

    /// Runs a round and returns the pause before the next.
    pub(crate) fn maintain(&mut self, db: &Db) -> Duration {
        let maintained = catch_panic("maintenance", || db.maintain(SystemClock.now_ms()));
        let pause = self.judge(maintained);
        self.tell(db);
        pause
    }

    /// Logs the findings since the last time.
    pub(crate) fn tell(&mut self, db: &Db) {
        let found = db.damage();
        for damage in found.iter().skip(self.told) {
            tracing::error!(%damage, "Storage is damaged; everything else is served.");
        }
        self.told = found.len();
        let doubt_ms = db.clock_doubt_ms();
        if (doubt_ms - self.doubt_ms).abs() > DOUBT_MS {
            if doubt_ms > 0 {
                tracing::warn!(
                    seconds = doubt_ms / 1000,
                    "The wall clock went on by more than has passed, or nothing was stored meanwhile. Retention ignores the jump until the clock has held for three days.",
                );
            } else {
                tracing::info!("Retention follows the wall clock again.");
            }
            self.doubt_ms = doubt_ms;
        }
    }

    fn judge(&mut self, maintained: Result<Result<(), TsdbError>, Panicked>) -> Duration {
        match maintained {
            Ok(outcome) => {
                self.panics = 0;
                self.health.set_maintenance(None);
                match outcome {
                    Ok(()) => self.failing = false,
                    Err(error) if self.failing => {
                        tracing::debug!(%error, "Storage maintenance still fails.");
                    }
                    Err(error) => {
                        self.failing = true;
                        tracing::error!(%error, "Maintaining storage failed; it will be tried again.");
                    }
                }
                INTERVAL
            }
            Err(panicked) => {
                self.panics = self.panics.saturating_add(1);
                tracing::error!(%panicked, "Maintaining storage panicked; it will be tried again.");
                if self.panics >= PANICS {
                    let trouble = format!("storage cannot be maintained: {panicked}");
                    self.health.set_maintenance(Some(trouble));
                }
                let doublings = self.panics.min(16);
                (INTERVAL * 2u32.pow(doublings)).min(LONGEST_PAUSE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panicked() -> Result<Result<(), TsdbError>, Panicked> {
        catch_panic("upkeep-test", || panic!("a strip of no rows"))
    }

    #[test]
    fn upkeep_that_goes_on_panicking_is_tried_more_rarely_and_makes_the_server_unready() {
        let health = Arc::new(Health::default());
        let mut upkeep = Upkeep::new(Arc::clone(&health));
        let mut pauses = Vec::new();
        for _ in 0..2 {
            pauses.push(upkeep.judge(panicked()).as_secs());
            assert_eq!(health.trouble(), None, "that may pass");
        }
        for _ in 0..5 {
            pauses.push(upkeep.judge(panicked()).as_secs());
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60]);
        let trouble = health.trouble().expect("it does not pass");
        assert!(
            trouble.starts_with("storage cannot be maintained: panicked"),
            "{trouble}"
        );
        assert!(trouble.ends_with("a strip of no rows"), "{trouble}");
        assert_eq!(upkeep.judge(Ok(Ok(()))), INTERVAL);
        assert_eq!(health.trouble(), None, "it succeeded");
        assert_eq!(narthex_net::panics_total("upkeep-test"), 7);
    }
}
