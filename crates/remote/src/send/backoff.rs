//! Pauses between attempts.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

/// The next pause; it doubles with every failure up to a bound.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    next: Duration,
    max: Duration,
    random: u64,
}

impl Backoff {
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self {
            next: min,
            max,
            random: RandomState::new().hash_one(0),
        }
    }

    /// Returns how long to pause before the next attempt; `after` is what the receiver asked for, which is kept.
    pub(super) fn pause(&mut self, after: Option<Duration>) -> Duration {
        let pause = after.unwrap_or(self.next);
        self.next = pause.saturating_mul(2).min(self.max);
        match after {
            Some(_) => pause,
            // Senders whose receiver comes back shall not all come at once.
            None => pause.mul_f64(0.75 + self.fraction() / 2.0),
        }
    }

    fn fraction(&mut self) -> f64 {
        self.random = self
            .random
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        (self.random >> 40) as f64 / (1_u64 << 24) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_a_receiver_may_name_one() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(30), ms(100));
        for around in [30, 60, 100, 100] {
            let pause = backoff.pause(None);
            assert!(
                pause >= ms(around * 3 / 4 - 1) && pause <= ms(around * 5 / 4 + 1),
                "{pause:?}"
            );
        }
        assert_eq!(backoff.pause(Some(ms(7000))), ms(7000));
        assert!(backoff.pause(None) <= ms(126), "the bound holds again");
    }
}
