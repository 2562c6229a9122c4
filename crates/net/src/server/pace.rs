//! How fast a client must be: so many bytes in every window of time that we spend waiting for it.
//!
//! A deadline that restarts with every byte lets a byte a second hold a connection, and what its
//! answer is made from, for ever. An average since the start would let a client that was fast at
//! first stall for hours. So the window begins again only once its bytes have moved.
//!
//! Invariant: only waiting counts. Time in which we have nothing to say, or are not reading, is ours.

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
    /// Demands `rate_bytes` a second, as an average over `window`; 0 demands nothing.
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

    /// Waits for the client; returns until when it may keep us waiting, if there is a limit.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Instant> {
        let since = *self.waiting_since.get_or_insert(now);
        let left = self.window.saturating_sub(self.waited);
        (self.quota_bytes > 0).then(|| since + left)
    }

    /// Bytes have moved; waiting is over.
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

    /// Whether a wait is going on.
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
            // Looked at again while it waits: the deadline stays.
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
        // An hour of ours in between is nothing.
        assert_eq!(pace.wait(hour), Some(hour + 10 * SECOND));
    }

    #[tokio::test]
    async fn no_rate_is_no_limit() {
        let mut pace = Pace::new(0, SECOND);
        assert_eq!(pace.wait(Instant::now()), None);
        assert!(pace.is_waiting());
    }
}
