//! Log-linear buckets from the bits of a float, and quantiles of them.
//!
//! **Invariant:** keys order like the values in their buckets, and a bucket's width is at most 1/128 of its values.

/// Number of equally wide buckets per power of two.
pub(super) const BUCKETS_PER_OCTAVE: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 7;
/// Exponents of one sign; the sign is the next higher bit.
const EXPONENTS: usize = 1 << 11;
/// Bits of a float below its bucket.
const SHIFT: u32 = 52 - PLACE_BITS;

pub(super) const ZERO: i32 = 0;
pub(super) const INFINITE: i32 = i32::MAX;
pub(super) const NEGATIVE_INFINITE: i32 = i32::MIN;

/// A bucket with observations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    /// From [`key`], or one of the constants.
    pub(super) key: i32,
    pub(super) count: u64,
}

/// Returns a number's bucket within its octave.
#[inline(always)]
pub(super) fn place(v: f64) -> usize {
    (v.to_bits() >> SHIFT) as usize % BUCKETS_PER_OCTAVE
}

/// Returns a bucket's key from its octave (sign and exponent) and its place in it: the leading bits of its numbers,
/// plus 1 because 0 is taken, with the sign of its numbers.
pub(super) fn key(octave: usize, place: usize) -> i32 {
    let leading = (octave % EXPONENTS) << PLACE_BITS | place;
    let magnitude = 1 + i32::try_from(leading).expect("an exponent has 11 bits");
    if octave < EXPONENTS {
        magnitude
    } else {
        -magnitude
    }
}

/// Returns the number below which `q` of all observations are, NaN without any. `buckets` are ordered by key.
///
/// It is the observation of rank `⌈q·n⌉`, assuming that those of one bucket are spread evenly over it.
pub(super) fn quantile(buckets: &[Bucket], q: f64) -> f64 {
    let total: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    let rank = (q * total as f64).ceil().max(1.0);
    let mut before = 0.0;
    for bucket in buckets {
        let count = bucket.count as f64;
        if before + count >= rank {
            let (low, high) = bounds(bucket.key);
            if low == high {
                return low;
            }
            return low + (high - low) * ((rank - before - 0.5) / count);
        }
        before += count;
    }
    f64::NAN
}

/// Returns the smallest and largest number of a bucket, the latter exclusive if the bucket has a width.
fn bounds(key: i32) -> (f64, f64) {
    match key {
        ZERO => (0.0, 0.0),
        INFINITE => (f64::INFINITY, f64::INFINITY),
        NEGATIVE_INFINITE => (f64::NEG_INFINITY, f64::NEG_INFINITY),
        _ => {
            let leading = u64::from(key.unsigned_abs()) - 1;
            let low = f64::from_bits(leading << SHIFT);
            let high = f64::from_bits((leading + 1) << SHIFT).min(f64::MAX);
            if key > 0 { (low, high) } else { (-high, -low) }
        }
    }
}
