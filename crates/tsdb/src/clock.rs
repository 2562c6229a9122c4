//! Sources of time: the time of day, which people and programs set, and monotonic time.
//!
//! **Invariant:** nothing else in this crate asks the system for the time of day.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns milliseconds since the Unix epoch; may be set forward and back.
    fn now_ms(&self) -> i64;

    /// Returns milliseconds since an arbitrary moment; unaffected by changes of the time of day.
    fn monotonic_ms(&self) -> i64;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic_ms(&self) -> i64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let since = START.get_or_init(Instant::now).elapsed();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

/// A clock that moves only when set; clones share it.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<Shown>);

#[derive(Debug, Default)]
struct Shown {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicI64,
}

impl ManualClock {
    /// Returns a clock that shows `now_ms`.
    #[must_use]
    pub fn new(now_ms: i64) -> Self {
        let clock = Self::default();
        clock.step_to(now_ms);
        clock
    }

    /// Lets time pass until the clock shows `now_ms`; an earlier time is a step back.
    pub fn set(&self, now_ms: i64) {
        let before_ms = self.0.wall_ms.swap(now_ms, Ordering::Relaxed);
        let passed_ms = now_ms.saturating_sub(before_ms).max(0);
        self.0.monotonic_ms.fetch_add(passed_ms, Ordering::Relaxed);
    }

    /// Sets the time of day, as `date -s` does: no time passes.
    pub fn step_to(&self, now_ms: i64) {
        self.0.wall_ms.store(now_ms, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.wall_ms.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> i64 {
        self.0.monotonic_ms.load(Ordering::Relaxed)
    }
}
