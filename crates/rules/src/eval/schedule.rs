//! Evaluation times of a group.
//!
//! **Invariant:** times are `offset + n × interval` since the epoch, with the offset Prometheus gives the group, so that
//! both servers evaluate at the same times.

use xxhash_rust::xxh64::xxh64;

/// Evaluation times of one group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Schedule {
    interval_ms: i64,
    offset_ms: i64,
}

impl Schedule {
    /// Returns the times of the group `name` of `file`.
    pub(crate) fn new(file: &str, name: &str, interval_ms: i64) -> Self {
        let interval_ms = interval_ms.max(1);
        let interval_ns = interval_ms.unsigned_abs().saturating_mul(1_000_000);
        let offset_ns = group_hash(file, name) % interval_ns;
        Self {
            interval_ms,
            offset_ms: (offset_ns / 1_000_000).cast_signed(),
        }
    }

    /// Returns the last time at or before `now_ms`.
    pub(crate) fn last(self, now_ms: i64) -> i64 {
        now_ms - (now_ms - self.offset_ms).rem_euclid(self.interval_ms)
    }

    /// Returns the first time after `now_ms`.
    pub(crate) fn next(self, now_ms: i64) -> i64 {
        self.last(now_ms) + self.interval_ms
    }

    /// Returns the time after `slot_ms` for an evaluation that may begin at `now_ms`, and how many were missed in
    /// between.
    pub(crate) fn after(self, slot_ms: i64, now_ms: i64) -> (i64, u64) {
        let passed = (now_ms - slot_ms) / self.interval_ms;
        let missed = (passed - 1).max(0);
        (
            slot_ms + (missed + 1) * self.interval_ms,
            missed.unsigned_abs(),
        )
    }

    pub(crate) fn interval_ms(self) -> i64 {
        self.interval_ms
    }
}

/// Returns the first time at or after `from_ms` at which the group `name` of `file` is evaluated.
#[must_use]
pub fn first_evaluation(file: &str, name: &str, interval_ms: i64, from_ms: i64) -> i64 {
    Schedule::new(file, name, interval_ms).next(from_ms - 1)
}

/// Returns Prometheus' hash of a group: of its labels `file` and `name`, each text with its length before it.
fn group_hash(file: &str, name: &str) -> u64 {
    let mut bytes = Vec::with_capacity(16 + file.len() + name.len());
    for text in ["file", file, "name", name] {
        let [low, middle, high, ..] = text.len().to_le_bytes();
        if text.len() < 255 {
            bytes.push(low);
        } else {
            bytes.extend([255, low, middle, high]);
        }
        bytes.extend_from_slice(text.as_bytes());
    }
    xxh64(&bytes, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_regular_and_follow_the_one_before() {
        let schedule = Schedule::new("rules.yml", "g", 10_000);
        let first = schedule.next(1_767_225_600_000);
        assert_eq!(schedule.last(first), first);
        assert_eq!(schedule.last(first - 1), first - 10_000);
        assert_eq!(schedule.next(first), first + 10_000);
        assert_eq!(schedule.after(first, first + 10_000), (first + 10_000, 0));
        // An evaluation of 25 s: the second of two passed times is still evaluated.
        assert_eq!(schedule.after(first, first + 25_000), (first + 20_000, 1));
        assert_eq!(schedule.after(first, first + 4_000), (first + 10_000, 0));
    }
}
