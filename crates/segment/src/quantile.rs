//! Log-linear buckets of a summary, and quantiles over the last minutes.
//!
//! **Invariant:** a window is the difference between the counts and an earlier copy of them, so counts only have to grow.

use std::collections::VecDeque;

/// Maximum number of buckets.
pub(crate) const BUCKETS_MAX: usize = 1 << 15;

/// Buckets of equal width in each power of two, one below for everything smaller (zero and negative numbers too), and
/// one above.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Buckets {
    /// The first bucket begins at 2 to this power.
    pub(crate) first: i16,
    /// How many powers of two there are.
    pub(crate) octaves: u16,
    /// Each is divided into 2 to this power.
    pub(crate) bits: u8,
}

impl Buckets {
    pub(crate) fn is_valid(self) -> bool {
        let within = -1000..=1000;
        self.bits <= 7
            && (1..=2000).contains(&self.octaves)
            && within.contains(&i32::from(self.first))
            && within.contains(&(i32::from(self.first) + i32::from(self.octaves)))
            && self.len() <= BUCKETS_MAX
    }

    /// Returns the number of buckets.
    pub(crate) fn len(self) -> usize {
        2 + (usize::from(self.octaves) << self.bits)
    }

    /// Returns the numbers that a bucket begins and ends at; those below and above all have no width.
    fn bounds(self, bucket: usize) -> (f64, f64) {
        if bucket == 0 {
            return (0.0, 0.0);
        }
        let low = self.beginning(bucket - 1);
        if bucket + 1 == self.len() {
            return (low, low);
        }
        (low, self.beginning(bucket))
    }

    /// Returns the number at which a bucket above the first begins.
    fn beginning(self, at: usize) -> f64 {
        let per_octave = 1_usize << self.bits;
        let exponent = i32::from(self.first) + i32::try_from(at >> self.bits).unwrap_or(i32::MAX);
        let part = (at % per_octave) as f64 / per_octave as f64;
        2_f64.powi(exponent) * (1.0 + part)
    }
}

/// Returns the number below which `q` of the counted observations are; NaN without any.
///
/// It is the observation of rank `⌈q·n⌉`, assuming that those of one bucket are spread evenly over it.
pub(crate) fn quantile(buckets: Buckets, counts: &[u64], q: f64) -> f64 {
    let total: f64 = counts.iter().map(|count| *count as f64).sum();
    let rank = (q * total).ceil().max(1.0);
    let mut before = 0.0;
    for (at, count) in counts.iter().map(|count| *count as f64).enumerate() {
        if count > 0.0 && before + count >= rank {
            let (low, high) = buckets.bounds(at);
            return low + (high - low) * ((rank - before - 0.5) / count);
        }
        before += count;
    }
    f64::NAN
}

/// Earlier copies of a summary's counts.
#[derive(Debug, Default)]
pub(crate) struct Window {
    copies: VecDeque<(i64, Vec<(u32, u64)>)>,
}

impl Window {
    /// Creates the window of a series that has counted nothing before `now_ms`.
    pub(crate) fn begun(now_ms: i64) -> Self {
        Self {
            copies: VecDeque::from([(now_ms, Vec::new())]),
        }
    }

    /// Replaces `recent` with the counts that were added in the last `max_age_ms`, less up to a step of it.
    pub(crate) fn advance(
        &mut self,
        now_ms: i64,
        (max_age_ms, steps): (i64, u16),
        counts: &[u64],
        recent: &mut Vec<u64>,
    ) {
        let step_ms = (max_age_ms / i64::from(steps.max(1))).max(1);
        // A clock that was set back would keep copies for good.
        self.copies.retain(|(at_ms, _)| *at_ms <= now_ms);
        let newest = self.copies.back().map(|(at_ms, _)| *at_ms);
        if newest.is_none_or(|at_ms| now_ms - at_ms >= step_ms) {
            let used = (0_u32..).zip(counts).filter(|(_, count)| **count > 0);
            let copy = used.map(|(at, count)| (at, *count)).collect();
            self.copies.push_back((now_ms, copy));
        }
        let is_old = |copy: &(i64, _)| now_ms - copy.0 > max_age_ms;
        while self.copies.front().is_some_and(is_old) {
            self.copies.pop_front();
        }
        recent.clear();
        recent.extend_from_slice(counts);
        let oldest = self.copies.front().map(|(_, copy)| copy.as_slice());
        for (at, count) in oldest.unwrap_or_default() {
            if let Some(recent) = recent.get_mut(*at as usize) {
                *recent = recent.saturating_sub(*count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKETS: Buckets = Buckets {
        first: -1,
        octaves: 3,
        bits: 1,
    };

    #[test]
    fn buckets_have_bounds() {
        let bounds: Vec<(f64, f64)> = (0..BUCKETS.len()).map(|at| BUCKETS.bounds(at)).collect();
        let expected = [
            (0.0, 0.0),
            (0.5, 0.75),
            (0.75, 1.0),
            (1.0, 1.5),
            (1.5, 2.0),
            (2.0, 3.0),
            (3.0, 4.0),
            (4.0, 4.0),
        ];
        assert_eq!(bounds, expected);
    }

    #[test]
    fn quantiles_are_between_a_buckets_bounds() {
        let counts = [0, 0, 0, 10, 0, 10, 0, 0];
        assert_eq!(quantile(BUCKETS, &counts, 0.5), 1.0 + 0.5 * 9.5 / 10.0);
        assert_eq!(quantile(BUCKETS, &counts, 1.0), 2.0 + 9.5 / 10.0);
        assert_eq!(quantile(BUCKETS, &[0, 0, 0, 0, 0, 0, 0, 1], 0.9), 4.0);
        assert!(quantile(BUCKETS, &[0; 8], 0.5).is_nan());
    }

    #[test]
    fn all_observations_of_a_young_series_are_recent() {
        let mut recent = Vec::new();
        Window::begun(0).advance(0, (100, 5), &[5, 0], &mut recent);
        assert_eq!(recent, [5, 0]);
    }

    #[test]
    fn observations_age() {
        let mut window = Window::default();
        let mut recent = Vec::new();
        let age = (100, 5);
        window.advance(0, age, &[5, 0], &mut recent);
        assert_eq!(
            recent,
            [0, 0],
            "what was counted before the first look has no age"
        );
        window.advance(10, age, &[7, 0], &mut recent);
        assert_eq!(recent, [2, 0]);
        window.advance(20, age, &[7, 1], &mut recent);
        window.advance(110, age, &[8, 1], &mut recent);
        assert_eq!(recent, [1, 0], "the copy at 20 is the oldest left");
        window.advance(5, age, &[9, 1], &mut recent);
        assert_eq!(recent, [0, 0], "the clock was set back");
    }
}
