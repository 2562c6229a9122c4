//! Fewer and wider buckets, which every process has alike, so that they can be added up.
//!
//! **Invariant:** each fine bucket lies in one coarse bucket.

use super::quantile::{self, Bucket};

/// The buckets that segments have: everything below 2^-24, 16 for each of 64 powers of two, everything above.
#[derive(Debug)]
pub(crate) struct Coarse;

impl Coarse {
    /// Power of two at which the second bucket begins.
    pub(crate) const FIRST: i16 = -24;
    /// Number of powers of two.
    pub(crate) const OCTAVES: u16 = 64;
    /// Each is divided into 2 to this power.
    pub(crate) const BITS: u8 = 4;
    /// Number of buckets.
    pub(crate) const BUCKETS: usize = 2 + ((Self::OCTAVES as usize) << Self::BITS);

    /// Replaces `out` with the counts of all buckets; returns how many of `count` observations are in none.
    pub(super) fn fill(buckets: &[Bucket], count: u64, out: &mut Vec<u64>) -> u64 {
        out.clear();
        out.resize(Self::BUCKETS, 0);
        let mut rest = count;
        for bucket in buckets {
            out[Self::place(bucket.key)] += bucket.count;
            rest = rest.saturating_sub(bucket.count);
        }
        rest
    }

    fn place(key: i32) -> usize {
        let above = Self::BUCKETS - 1;
        if key <= quantile::ZERO {
            return 0;
        }
        // The bias and 7 bits of a place follow from the key's definition.
        let fine = i64::from(key) - 1 - ((1023 + i64::from(Self::FIRST)) << 7);
        match usize::try_from(fine >> (7 - Self::BITS)) {
            Ok(place) => (place + 1).min(above),
            Err(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(v: f64) -> usize {
        let octave = (v.to_bits() >> 52) as usize;
        Coarse::place(quantile::key(octave, quantile::place(v)))
    }

    #[test]
    fn numbers_are_in_their_buckets() {
        let first = 2_f64.powi(-24);
        assert_eq!([place(first / 2.0), place(first), place(-3.0)], [0, 1, 0]);
        assert_eq!(place(1.0), 1 + 24 * 16);
        assert_eq!(place(1.0625), 2 + 24 * 16);
        assert_eq!(place(1.999), 16 + 24 * 16);
        assert_eq!(place(2_f64.powi(40) - 1.0), 64 * 16);
        assert_eq!(
            [place(2_f64.powi(40)), Coarse::place(quantile::INFINITE)],
            [1025; 2]
        );
        let keys = [quantile::ZERO, quantile::NEGATIVE_INFINITE];
        assert_eq!(keys.map(Coarse::place), [0, 0]);
    }
}
