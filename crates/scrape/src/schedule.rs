//! Scrape times of a target.
//!
//! A target's offset within the interval comes from its identity, so that scrapes are spread and keep their times
//! across restarts. **Invariant:** scrape times are `offset + n × interval` since the epoch; a scrape that starts
//! within the tolerance of its time is stored at exactly that time, which keeps timestamps regular.

use std::time::Duration;

/// A scrape that starts later than this is stored at its real time.
const TOLERANCE_MS: i64 = 2;

/// Scrape times of one target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    interval_ms: i64,
    offset_ms: i64,
}

impl Schedule {
    /// Returns the scrape times of the target `identity`; `seed` distinguishes servers.
    pub(crate) fn new(interval: Duration, identity: &str, seed: u64) -> Self {
        let interval_ms = i64::try_from(interval.as_millis())
            .unwrap_or(i64::MAX)
            .max(1);
        let hash = rapidhash::v3::rapidhash_v3(identity.as_bytes()) ^ seed;
        let offset_ms = i64::try_from(hash % interval_ms.unsigned_abs()).expect("below an i64");
        Self {
            interval_ms,
            offset_ms,
        }
    }

    /// Returns the first scrape time at or after `now_ms`.
    pub(crate) fn next(self, now_ms: i64) -> i64 {
        let behind = (now_ms - self.offset_ms).rem_euclid(self.interval_ms);
        if behind == 0 {
            now_ms
        } else {
            now_ms + self.interval_ms - behind
        }
    }

    /// Returns the timestamp for a scrape that was due at `due_ms` and starts at `now_ms`.
    pub(crate) fn stored_time(self, due_ms: i64, now_ms: i64) -> i64 {
        let tolerance_ms = TOLERANCE_MS.min(self.interval_ms / 100);
        if (now_ms - due_ms).abs() <= tolerance_ms {
            due_ms
        } else {
            now_ms
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spread_regular_and_stable() {
        let interval = Duration::from_secs(5);
        let schedule = Schedule::new(interval, "a", 0);
        let first = schedule.next(1_767_225_600_000);
        assert_eq!(schedule.next(first), first);
        assert_eq!(schedule.next(first + 1), first + 5000);
        assert_eq!(
            Schedule::new(interval, "a", 0).next(1_767_225_600_000),
            first
        );
        let mut seconds = [0; 5];
        for i in 0..1000 {
            let at = Schedule::new(interval, &i.to_string(), 0).next(0);
            seconds[at as usize / 1000] += 1;
        }
        assert!(
            seconds.iter().all(|count| (150..250).contains(count)),
            "{seconds:?}"
        );
        assert_eq!(schedule.stored_time(1000, 1002), 1000);
        assert_eq!(schedule.stored_time(1000, 1003), 1003);
    }
}
