//! The limit on the rate of requests: a token bucket.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::sync::Whole as _;

/// Limit on the rate of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RateLimit {
    /// Number of requests allowed at once after a quiet time.
    pub(super) burst: u32,
    /// Time until another request is allowed.
    pub(super) interval: Duration,
}

/// A token bucket, initially full.
#[derive(Debug)]
pub(super) struct Bucket {
    limit: RateLimit,
    state: Mutex<(f64, Instant)>,
}

impl Bucket {
    pub(super) fn new(limit: RateLimit) -> Self {
        Self {
            limit,
            state: Mutex::new((f64::from(limit.burst), Instant::now())),
        }
    }

    /// Takes a token, if available.
    pub(super) fn take_token(&self) -> bool {
        let mut state = self.state.lock().whole();
        let now = Instant::now();
        let earned = now.duration_since(state.1).as_secs_f64() / self.limit.interval.as_secs_f64();
        let tokens = (state.0 + earned).min(f64::from(self.limit.burst));
        let taken = tokens >= 1.0;
        *state = (if taken { tokens - 1.0 } else { tokens }, now);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_bucket_refills() {
        let bucket = Bucket::new(RateLimit {
            burst: 2,
            interval: Duration::from_secs(1),
        });
        assert!(bucket.take_token() && bucket.take_token() && !bucket.take_token());
        tokio::time::advance(Duration::from_millis(1001)).await;
        assert!(bucket.take_token() && !bucket.take_token());
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(bucket.take_token() && bucket.take_token() && !bucket.take_token());
        let closed = Bucket::new(RateLimit {
            burst: 0,
            interval: Duration::from_secs(1),
        });
        assert!(!closed.take_token());
    }
}
