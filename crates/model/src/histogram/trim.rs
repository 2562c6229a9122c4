//! Trimming a histogram to the observations above or below a value.
//!
//! **Invariant:** buckets entirely on the kept side stay exactly as they are; a histogram from which nothing was cut
//! keeps its count and sum.

use super::{Bucket, Histogram, layout::Slot};
use crate::math::log2;

/// The side to keep.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Keep {
    /// Observations up to the value.
    Below,
    /// Observations from the value on.
    Above,
}

impl Bucket {
    /// Returns the fraction of the bucket's width at or below `value`, which is strictly inside finite bounds.
    ///
    /// Interpolates linearly for custom buckets and the zero bucket, else on a logarithmic scale.
    #[must_use]
    pub fn fraction_below(&self, value: f64, linear: bool) -> f64 {
        if linear {
            return (value - self.lower) / (self.upper - self.lower);
        }
        let (lower, upper, at) = (
            log2(self.lower.abs()),
            log2(self.upper.abs()),
            log2(value.abs()),
        );
        if value > 0.0 {
            (at - lower) / (upper - lower)
        } else {
            1.0 - (at - upper) / (lower - upper)
        }
    }
}

impl Histogram {
    /// Drops the observations on the other side of `value`, interpolating within the bucket that contains it.
    pub fn trim(&mut self, value: f64, keep: Keep) {
        let custom = self.uses_custom_buckets();
        let (mut count, mut sum, mut trimmed) = (0.0, 0.0, false);
        let mut populated = [false; 2];
        for negative in [false, true] {
            let mut slots: Vec<Slot> = Vec::new();
            for (index, before) in self.listed(negative) {
                let mut after = before;
                if before != 0.0 {
                    populated[usize::from(negative)] = true;
                    let bucket = self.bucket(negative, index, before);
                    let middle;
                    (after, middle) = kept(&bucket, value, keep, !negative, custom);
                    trimmed |= after.to_bits() != before.to_bits();
                    count += after;
                    sum += middle * after;
                }
                slots.push((index, after, 0.0));
            }
            self.set_side(negative, &slots);
        }
        if self.zero_count > 0.0 {
            let (after, middle) = kept_of_zero(&self.zero_bucket(), value, keep, populated);
            trimmed |= after != self.zero_count;
            self.zero_count = after;
            sum += middle * after;
            count += after;
        }
        if trimmed {
            (self.count, self.sum) = (count, sum);
            self.integer_counts = false;
            // Empty buckets are ignored.
            self.compact();
        }
    }
}

/// Returns how much of a bucket is kept and the value representing it.
fn kept(bucket: &Bucket, value: f64, keep: Keep, positive: bool, custom: bool) -> (f64, f64) {
    let (whole, partly) = match keep {
        Keep::Below => (bucket.upper <= value, bucket.lower < value),
        Keep::Above => (bucket.lower >= value, bucket.upper > value),
    };
    if whole {
        return (
            bucket.count,
            middle(bucket.lower, bucket.upper, positive, custom),
        );
    }
    if !partly {
        return (0.0, 0.0);
    }
    if bucket.lower == f64::NEG_INFINITY || bucket.upper == f64::INFINITY {
        return kept_of_infinite(bucket, value, keep);
    }
    let below = bucket.count * bucket.fraction_below(value, custom);
    match keep {
        Keep::Below => (below, middle(bucket.lower, value, positive, custom)),
        Keep::Above => (
            bucket.count - below,
            middle(value, bucket.upper, positive, custom),
        ),
    }
}

/// Returns the same for an unbounded bucket. Its distribution is unknown, except that from 0 to a positive upper bound
/// it is assumed uniform.
fn kept_of_infinite(bucket: &Bucket, value: f64, keep: Keep) -> (f64, f64) {
    let finite = |x: f64| if x.is_infinite() { 0.0 } else { x };
    let Bucket {
        lower,
        upper,
        count,
        ..
    } = *bucket;
    if lower == f64::NEG_INFINITY {
        return match keep {
            Keep::Below if value >= upper => (count, 0.0),
            Keep::Below if value > 0.0 && upper > 0.0 && upper != f64::INFINITY => {
                (count * value / upper, value / 2.0)
            }
            Keep::Below if upper <= 0.0 => (count, value),
            Keep::Above if value <= lower => (count, 0.0),
            Keep::Above if value >= 0.0 && upper > value && upper != f64::INFINITY => {
                (count * (1.0 - value / upper), f64::midpoint(value, upper))
            }
            _ => (0.0, finite(upper)),
        };
    }
    match keep {
        Keep::Above if value >= lower => (count, value),
        _ => (0.0, finite(lower)),
    }
}

fn kept_of_zero(zero: &Bucket, value: f64, keep: Keep, populated: [bool; 2]) -> (f64, f64) {
    let [positive, negative] = populated;
    let upper = if negative && !positive {
        0.0
    } else {
        zero.upper
    };
    let lower = if positive && !negative {
        0.0
    } else {
        zero.lower
    };
    let all = (zero.count, (lower + upper) / 2.0);
    match keep {
        Keep::Below if value <= lower => (0.0, 0.0),
        Keep::Below if value >= upper => all,
        Keep::Below => (
            zero.count * ((value - lower) / (upper - lower)),
            (lower + value) / 2.0,
        ),
        Keep::Above if value <= lower => all,
        Keep::Above if value >= upper => (0.0, 0.0),
        Keep::Above => (
            zero.count * ((upper - value) / (upper - lower)),
            (value + upper) / 2.0,
        ),
    }
}

/// Returns a value representing the observations between two bounds.
fn middle(lower: f64, upper: f64, positive: bool, linear: bool) -> f64 {
    match (lower.is_infinite(), upper.is_infinite()) {
        (true, true) => 0.0,
        (true, false) if upper > 0.0 => upper / 2.0,
        (true, false) => upper,
        (false, true) => lower,
        (false, false) if linear => (lower + upper) / 2.0,
        (false, false) => {
            let mean = (lower * upper).abs().sqrt();
            if positive { mean } else { -mean }
        }
    }
}
