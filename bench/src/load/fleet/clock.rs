//! Clock of the timestamps in targets' lines: real time, or one that begins in the past and runs faster.
//!
//! **Invariant:** its time is never in the future, which servers reject; it reaches the present when the planned time
//! is over, and stays there.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time since the epoch.
pub(crate) fn now_ms() -> i64 {
    now().0
}

/// Returns the time since the epoch, and the microseconds beyond it.
pub(crate) fn now() -> (i64, u16) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    (ms, (since.subsec_micros() % 1000) as u16)
}

/// Returns a timestamp or duration in seconds, as the servers' APIs expect it.
pub(crate) fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000))
}

/// Maps real time to written time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Real time at which it began.
    began_ms: i64,
    /// Written time at that moment.
    from_ms: i64,
    factor: i64,
}

impl Clock {
    /// Returns a clock that runs `factor` times as fast for a planned real time of `whole`, and then shows the present.
    pub(crate) fn new(factor: u32, whole: Duration) -> Self {
        let began_ms = now_ms();
        let factor = i64::from(factor.max(1));
        let whole = i64::try_from(whole.as_millis()).unwrap_or(i64::MAX / factor / 2);
        Self {
            began_ms,
            from_ms: began_ms - whole * (factor - 1),
            factor,
        }
    }

    /// Returns the written time at a real time.
    pub(crate) fn at(&self, real_ms: i64) -> i64 {
        let shown = self.from_ms + (real_ms - self.began_ms) * self.factor;
        shown.min(real_ms)
    }

    /// Returns the current written time.
    pub(crate) fn now_ms(&self) -> i64 {
        self.at(now_ms())
    }
}

#[cfg(test)]
mod tests;
