//! Returns the memory of a small process some time after it did more than usual.
//!
//! Many answers at once need many buffers, and pages that are rarely asked for run rarely used parts of the program.
//! Afterwards a process that answers every few seconds would keep both for as long as it runs.
//!
//! **Invariant:** usual work, one answer every few seconds, costs nothing more.

use crate::{heap, program_pages};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Requests that follow one another within this time are a burst; after this time without any it has ended.
const PAUSE: Duration = Duration::from_secs(1);

/// Decides when to return memory.
pub(crate) struct Trimmer {
    since: Instant,
    /// When the last request came.
    last_ms: AtomicU64,
    wanted: Notify,
}

impl Trimmer {
    /// Starts a trimmer, which ends with the runtime. It works on the runtime's thread, whose caches it empties.
    pub(crate) fn start() -> Arc<Self> {
        let trimmer = Arc::new(Self::new());
        tokio::spawn(Arc::clone(&trimmer).work());
        trimmer
    }

    fn new() -> Self {
        Self {
            since: Instant::now(),
            last_ms: AtomicU64::new(0),
            wanted: Notify::new(),
        }
    }

    /// Takes note of a request; one that is not usual is followed by trimming even if it comes alone.
    pub(crate) fn asked(&self, is_usual: bool) {
        let now_ms = self.now_ms();
        let last_ms = self.last_ms.swap(now_ms, Ordering::Relaxed);
        if !is_usual || is_burst(last_ms, now_ms) {
            self.wanted.notify_one();
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn work(self: Arc<Self>) {
        loop {
            self.wanted.notified().await;
            tokio::time::sleep(PAUSE).await;
            while is_burst(self.last_ms.load(Ordering::Relaxed), self.now_ms()) {
                tokio::time::sleep(PAUSE).await;
            }
            heap::trim();
            program_pages::give_back();
        }
    }
}

/// Reports whether two moments are close to each other.
fn is_burst(last_ms: u64, now_ms: u64) -> bool {
    Duration::from_millis(now_ms.saturating_sub(last_ms)) < PAUSE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_within_a_second_are_one_burst() {
        assert!(is_burst(5_000, 5_000));
        assert!(is_burst(5_000, 5_999));
        assert!(!is_burst(5_000, 6_000));
        assert!(is_burst(5_001, 5_000), "a clock read by two threads");
    }
}
