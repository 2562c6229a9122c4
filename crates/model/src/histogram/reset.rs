//! Comparison of a histogram with its predecessor.
//!
//! **Invariant:** a counter that only rose is never reported as reset, whatever its layouts.

use super::{
    Histogram, ResetHint,
    layout::{exponential_bound, reduced_index},
};

impl Histogram {
    /// Reports whether the counter was reset between `previous` and this histogram.
    ///
    /// An explicit hint is trusted. Otherwise the counter was reset when any count fell, a populated bucket vanished,
    /// the resolution rose, or the zero bucket shrank or now ends within a populated bucket.
    #[must_use]
    pub fn is_reset_after(&self, previous: &Self) -> bool {
        match self.reset_hint {
            ResetHint::Reset => return true,
            ResetHint::NotReset => return false,
            ResetHint::Unknown | ResetHint::Gauge => {}
        }
        if self.count < previous.count {
            return true;
        }
        if self.uses_custom_buckets() != previous.uses_custom_buckets() {
            return true;
        }
        if self.uses_custom_buckets() && self.custom_values != previous.custom_values {
            return self.is_reset_between_bounds(previous);
        }
        if self.histogram_schema > previous.histogram_schema
            || self.zero_threshold < previous.zero_threshold
        {
            return true;
        }
        let (zero_before, threshold) = previous.zero_count_within(self.zero_threshold);
        if threshold != self.zero_threshold || self.zero_count < zero_before {
            return true;
        }
        [false, true]
            .into_iter()
            .any(|negative| self.side_shrank(previous, negative))
    }

    /// Returns this histogram's buckets on one side at `histogram_schema`, without those inside the zero bucket.
    fn outside(
        &self,
        negative: bool,
        histogram_schema: i32,
        zero_threshold: f64,
    ) -> Vec<(i32, f64)> {
        let custom = self.uses_custom_buckets();
        let mut merged: Vec<(i32, f64)> = Vec::new();
        for (index, count) in self.listed(negative) {
            let index = if custom {
                index
            } else {
                reduced_index(index, self.histogram_schema, histogram_schema)
            };
            match merged.last_mut() {
                Some(last) if last.0 == index => last.1 += count,
                _ => merged.push((index, count)),
            }
        }
        if !custom && zero_threshold != 0.0 {
            let inside =
                |b: &&(i32, f64)| exponential_bound(b.0, histogram_schema) <= zero_threshold;
            let skip = merged.iter().take_while(inside).count();
            merged.drain(..skip);
        }
        merged
    }

    fn side_shrank(&self, previous: &Self, negative: bool) -> bool {
        let before = previous.outside(negative, self.histogram_schema, self.zero_threshold);
        let after = self.outside(negative, self.histogram_schema, self.zero_threshold);
        let mut after = after.iter().peekable();
        before.iter().any(|(index, count)| {
            while after.next_if(|b| b.0 < *index).is_some() {}
            match after.peek() {
                Some(same) if same.0 == *index => same.1 < *count,
                _ => *count != 0.0,
            }
        })
    }

    /// Compares the counts between bounds that both have.
    fn is_reset_between_bounds(&self, previous: &Self) -> bool {
        let common = self
            .custom_values
            .iter()
            .copied()
            .filter(|b| previous.custom_values.contains(b));
        let bounds: Vec<f64> = common.chain([f64::INFINITY]).collect();
        let rolled_up = |h: &Self| {
            let mut sums = vec![0.0; bounds.len()];
            for (index, count) in h.positive() {
                let upper = h.bucket(false, index, count).upper;
                sums[bounds.partition_point(|b| *b < upper)] += count;
            }
            sums
        };
        rolled_up(self)
            .iter()
            .zip(rolled_up(previous))
            .any(|(after, before)| *after < before)
    }

    /// Returns the hint that a store gives this histogram after `previous` in the same series.
    ///
    /// A stored counter has no hint at the start of a run; inside a run there was no reset. A run ends where a reset
    /// was declared or detected, or where resolution or zero threshold changed.
    #[must_use]
    pub fn stored_hint(&self, previous: Option<&Self>) -> ResetHint {
        if self.reset_hint == ResetHint::Gauge {
            return ResetHint::Gauge;
        }
        let Some(previous) = previous else {
            return ResetHint::Unknown;
        };
        let continues = previous.reset_hint != ResetHint::Gauge
            && self.reset_hint != ResetHint::Reset
            && self.histogram_schema == previous.histogram_schema
            && self.zero_threshold == previous.zero_threshold
            && self.custom_values == previous.custom_values
            && !Self {
                reset_hint: ResetHint::Unknown,
                ..self.clone()
            }
            .is_reset_after(previous);
        if continues {
            ResetHint::NotReset
        } else {
            ResetHint::Unknown
        }
    }

    /// Returns the histogram without buckets; its hint records the comparison of the buckets with `previous`.
    #[must_use]
    pub fn without_buckets(&self, previous: Option<&Self>) -> Self {
        let reset_hint = match (self.reset_hint, previous) {
            (ResetHint::Unknown, Some(previous)) if self.is_reset_after(previous) => {
                ResetHint::Reset
            }
            (ResetHint::Unknown, Some(_)) => ResetHint::NotReset,
            (hint, _) => hint,
        };
        Self {
            histogram_schema: self.histogram_schema,
            reset_hint,
            count: self.count,
            sum: self.sum,
            integer_counts: self.integer_counts,
            ..Self::default()
        }
    }

    /// Reports whether both hold the same data: bits of counts and sums, bounds and layout; hints are ignored.
    #[must_use]
    pub fn same_data(&self, other: &Self) -> bool {
        let bits = |a: f64, b: f64| a.to_bits() == b.to_bits();
        let index = |bucket: (i32, f64)| bucket.0;
        let all =
            |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| bits(*a, *b));
        self.histogram_schema == other.histogram_schema
            && bits(self.count, other.count)
            && bits(self.sum, other.sum)
            && (!self.uses_custom_buckets() || self.custom_values == other.custom_values)
            && (bits(self.zero_threshold, other.zero_threshold)
                || self.zero_threshold == other.zero_threshold)
            && bits(self.zero_count, other.zero_count)
            && all(&self.negative_buckets, &other.negative_buckets)
            && all(&self.positive_buckets, &other.positive_buckets)
            && self.negative().map(index).eq(other.negative().map(index))
            && self.positive().map(index).eq(other.positive().map(index))
    }
}
