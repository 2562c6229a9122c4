//! Conversion of buckets to lists of (index, count), and back.
//!
//! **Invariant:** lists ascend by index without duplicates; `set_side` writes one span for each run of indices.

use super::{CUSTOM_BUCKETS, Histogram, Span, bounds::FRACTIONS};

/// One bucket with its bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bucket {
    /// Lower bound.
    pub lower: f64,
    /// Upper bound.
    pub upper: f64,
    /// Whether `lower` belongs to the bucket.
    pub lower_inclusive: bool,
    /// Whether `upper` belongs to the bucket.
    pub upper_inclusive: bool,
    /// Number of observations.
    pub count: f64,
}

/// A bucket's index, its count, and the compensation of the count.
pub(super) type Slot = (i32, f64, f64);

impl Histogram {
    /// Reports whether the bounds are custom rather than exponential.
    #[must_use]
    pub fn uses_custom_buckets(&self) -> bool {
        self.histogram_schema == CUSTOM_BUCKETS
    }

    /// Iterates over the positive (or all custom) buckets as index and count, ascending.
    pub fn positive(&self) -> impl Iterator<Item = (i32, f64)> + '_ {
        self.listed(false)
    }

    /// Iterates over the negative buckets as index and count, away from zero.
    pub fn negative(&self) -> impl Iterator<Item = (i32, f64)> + '_ {
        self.listed(true)
    }

    /// Iterates over the buckets of one side as index and count, away from zero.
    pub(super) fn listed(&self, negative: bool) -> impl Iterator<Item = (i32, f64)> + '_ {
        let (spans, buckets) = self.side(negative);
        indices(spans).zip(buckets.iter().copied())
    }

    /// Lists all buckets in ascending order, the zero bucket included if it is populated.
    ///
    /// Buckets that overlap the zero bucket are cut at its edge.
    #[must_use]
    pub fn buckets(&self) -> Vec<Bucket> {
        let edge = self.zero_threshold;
        let mut all = self.in_order(self.zero_count > 0.0);
        for bucket in &mut all {
            if bucket.upper < 0.0 && bucket.upper > -edge {
                bucket.upper = -edge;
            } else if bucket.lower > 0.0 && bucket.lower < edge {
                bucket.lower = edge;
            }
        }
        all
    }

    /// Lists all buckets in ascending order, with the zero bucket or without, however they overlap.
    pub(super) fn in_order(&self, with_zero: bool) -> Vec<Bucket> {
        let side = |negative| {
            let listed = self.listed(negative);
            listed.map(move |(index, count)| self.bucket(negative, index, count))
        };
        let mut all: Vec<Bucket> = side(true).collect();
        all.reverse();
        all.extend(with_zero.then(|| self.zero_bucket()));
        all.extend(side(false));
        all
    }

    /// Returns the zero bucket.
    #[must_use]
    pub fn zero_bucket(&self) -> Bucket {
        let (lower, upper) = (-self.zero_threshold, self.zero_threshold);
        Bucket {
            lower,
            upper,
            lower_inclusive: true,
            upper_inclusive: true,
            count: self.zero_count,
        }
    }

    pub(super) fn bucket(&self, negative: bool, index: i32, count: f64) -> Bucket {
        let custom = !negative && self.uses_custom_buckets();
        let (lower, upper) = match negative {
            true => (-self.bound(index), -self.bound(index - 1)),
            false => (self.bound(index - 1), self.bound(index)),
        };
        Bucket {
            lower,
            upper,
            lower_inclusive: if custom { index == 0 } else { lower < 0.0 },
            upper_inclusive: custom || upper > 0.0,
            count,
        }
    }

    fn bound(&self, index: i32) -> f64 {
        if !self.uses_custom_buckets() {
            return exponential_bound(index, self.histogram_schema);
        }
        match usize::try_from(index) {
            Err(_) => f64::NEG_INFINITY,
            Ok(at) => self.custom_values.get(at).copied().unwrap_or(f64::INFINITY),
        }
    }

    pub(super) fn side(&self, negative: bool) -> (&[Span], &[f64]) {
        if negative {
            (&self.negative_spans, &self.negative_buckets)
        } else {
            (&self.positive_spans, &self.positive_buckets)
        }
    }

    /// Replaces one side's buckets.
    pub(super) fn set_side(&mut self, negative: bool, slots: &[Slot]) {
        let (spans, buckets) = if negative {
            (&mut self.negative_spans, &mut self.negative_buckets)
        } else {
            (&mut self.positive_spans, &mut self.positive_buckets)
        };
        *spans = spans_of(slots.iter().map(|slot| slot.0));
        buckets.clear();
        buckets.extend(slots.iter().map(|slot| slot.1));
    }

    /// Drops empty buckets.
    pub fn compact(&mut self) {
        for negative in [false, true] {
            let (spans, buckets) = self.side(negative);
            let tight = buckets.iter().all(|count| *count != 0.0)
                && spans.iter().all(|span| span.length > 0)
                && spans.iter().skip(1).all(|span| span.offset > 0);
            if !tight {
                let slots: Vec<Slot> = slots(spans, buckets, &[])
                    .filter(|slot| slot.1 != 0.0)
                    .collect();
                self.set_side(negative, &slots);
            }
        }
    }

    /// Returns the histogram's cost in float samples of 16 bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        (168 + 8 * self.parts() + 8) / 16
    }

    /// Returns the bytes the histogram takes in memory, shared ownership included.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        size_of::<Self>() + 2 * size_of::<usize>() + 8 * self.parts()
    }

    /// Counts spans, buckets and bounds, of 8 bytes each.
    fn parts(&self) -> usize {
        self.positive_spans.len()
            + self.negative_spans.len()
            + self.positive_buckets.len()
            + self.negative_buckets.len()
            + self.custom_values.len()
    }
}

/// Lists the bucket indices that spans cover.
pub(super) fn indices(spans: &[Span]) -> impl Iterator<Item = i32> + '_ {
    let mut next = 0i32;
    spans.iter().flat_map(move |span| {
        let first = next.wrapping_add(span.offset);
        next = first.wrapping_add_unsigned(span.length);
        (0..span.length).map(move |i| first.wrapping_add_unsigned(i))
    })
}

/// Pairs indices with counts and compensations, if any.
pub(super) fn slots<'a>(
    spans: &'a [Span],
    counts: &'a [f64],
    lost: &'a [f64],
) -> impl Iterator<Item = Slot> + 'a {
    let lost = lost.iter().copied().chain(std::iter::repeat(0.0));
    indices(spans)
        .zip(counts)
        .zip(lost)
        .map(|((index, count), lost)| (index, *count, lost))
}

fn spans_of(indices: impl Iterator<Item = i32>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut next = 0i32;
    for index in indices {
        match spans.last_mut() {
            Some(last) if index == next => last.length += 1,
            _ => spans.push(Span {
                // Before the first span, `next` is 0.
                offset: index.wrapping_sub(next),
                length: 1,
            }),
        }
        next = index.wrapping_add(1);
    }
    spans
}

/// Returns the upper bound of exponential bucket `index`.
pub(super) fn exponential_bound(index: i32, histogram_schema: i32) -> f64 {
    // The bucket of the largest finite floats ends there: the next one holds the infinities.
    if histogram_schema < 0 {
        let exponent = i64::from(index) << histogram_schema.unsigned_abs().min(16);
        return if exponent == 1024 {
            f64::MAX
        } else {
            scale(1.0, exponent)
        };
    }
    let resolution = histogram_schema.clamp(0, 8);
    let at = (index & ((1 << resolution) - 1)) << (8 - resolution);
    let fraction = FRACTIONS[usize::try_from(at).expect("masked to 8 bits")];
    let exponent = i64::from(index >> resolution) + 1;
    if at == 0 && exponent == 1025 {
        f64::MAX
    } else {
        scale(fraction, exponent)
    }
}

/// Returns `fraction * 2^exponent` without rounding twice.
fn scale(fraction: f64, exponent: i64) -> f64 {
    let exponent = i32::try_from(exponent.clamp(-3000, 3000)).expect("clamped");
    match exponent {
        1024.. => fraction * 2f64.powi(1023) * 2f64.powi((exponent - 1023).min(1023)),
        -1021..1024 => fraction * 2f64.powi(exponent),
        // Only the last step rounds: the product before it is still a normal number.
        _ => fraction * 2f64.powi(-960) * 2f64.powi((exponent + 960).max(-1074)),
    }
}

/// Returns the index of the lower-resolution bucket that contains bucket `index`.
pub(super) fn reduced_index(index: i32, from_schema: i32, to_schema: i32) -> i32 {
    ((index.wrapping_sub(1)) >> from_schema.abs_diff(to_schema).min(31)).wrapping_add(1)
}
