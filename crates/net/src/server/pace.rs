//! Minimum speed of a client: a number of bytes in every window of time that we spend waiting for it.
//!
//! With a deadline that restarts at every byte, a byte per second could hold a connection, and the source of its
//! response, for ever. With an average since the start, a client that was fast at first could stall for hours. So a
//! window starts again only once its bytes have moved.
//!
//! Invariant: only time spent waiting counts, not time in which we have nothing to send or do not read.

use std::time::Duration;

use tokio::time::Instant;

/// One direction of one connection, or one body.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    window: Duration,
    /// Bytes that must move within a window of waiting.
    quota_bytes: u64,
    moved_bytes: u64,
    waited: Duration,
    waiting_since: Option<Instant>,
}

impl Pace {
    /// Requires `rate_bytes` a second, averaged over `window`; 0 requires nothing.
    pub(crate) fn new(rate_bytes: u64, window: Duration) -> Self {
        let quota_bytes = u128::from(rate_bytes) * window.as_millis() / 1000;
        Self {
            window,
            quota_bytes: u64::try_from(quota_bytes).unwrap_or(u64::MAX),
            moved_bytes: 0,
            waited: Duration::ZERO,
            waiting_since: None,
        }
    }

    /// Starts or continues waiting for the client; returns the deadline, if there is one.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Instant> {
        let since = *self.waiting_since.get_or_insert(now);
        let left = self.window.saturating_sub(self.waited);
        (self.quota_bytes > 0).then(|| since + left)
    }

    /// Records that bytes have moved, which ends the wait.
    pub(crate) fn moved(&mut self, now: Instant, bytes: usize) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now.saturating_duration_since(since);
        }
        self.moved_bytes = self.moved_bytes.saturating_add(bytes as u64);
        if self.moved_bytes >= self.quota_bytes {
            self.moved_bytes = 0;
            self.waited = Duration::ZERO;
        }
    }

    /// Reports whether we are waiting.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_trickle_uses_up_the_window() {
        let start = Instant::now();
        let mut pace = Pace::new(1000, 10 * SECOND);
        for second in 0..10 {
            let now = start + second * SECOND;
            assert_eq!(pace.wait(now), Some(start + 10 * SECOND), "{second}");
            // A second check while waiting keeps the deadline.
            assert_eq!(pace.wait(now + SECOND / 2), Some(start + 10 * SECOND));
            pace.moved(now + SECOND, 100);
        }
        let end = start + 10 * SECOND;
        assert_eq!(pace.wait(end), Some(end), "1,000 of 10,000 bytes came");
    }

    #[tokio::test]
    async fn enough_bytes_begin_the_window_again() {
        let start = Instant::now();
        let mut pace = Pace::new(1000, 10 * SECOND);
        assert_eq!(pace.wait(start), Some(start + 10 * SECOND));
        pace.moved(start + 9 * SECOND, 9_999);
        let (nine, hour) = (start + 9 * SECOND, start + 3600 * SECOND);
        assert_eq!(pace.wait(nine), Some(start + 10 * SECOND));
        pace.moved(nine, 1);
        assert!(!pace.is_waiting());
        // An hour in which we do not wait does not count.
        assert_eq!(pace.wait(hour), Some(hour + 10 * SECOND));
    }

    #[tokio::test]
    async fn no_rate_is_no_limit() {
        let mut pace = Pace::new(0, SECOND);
        assert_eq!(pace.wait(Instant::now()), None);
        assert!(pace.is_waiting());
    }
}
