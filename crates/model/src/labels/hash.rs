//! Additive 128-bit label hashes.
//!
//! **Invariant:** the hash of a label set is the wrapping sum of its labels' hashes, regardless of order and of how
//! the set is split. The seed is drawn once per process: hashes are never stored or sent.

use std::{
    hash::{BuildHasher, Hasher},
    iter::Sum,
    ops::{Add, AddAssign, Sub, SubAssign},
    sync::OnceLock,
};

/// Identifies a label or a label set within this process.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LabelHash(u128);

impl LabelHash {
    /// The hash of the empty label set.
    pub const EMPTY: Self = Self(0);

    /// Returns the hash of one label.
    #[must_use]
    pub fn of_label(name: &str, value: &str) -> Self {
        let (low, high) = seeds();
        let half = |seed: &foldhash::quality::RandomState| {
            let mut hasher = seed.build_hasher();
            hasher.write(name.as_bytes());
            hasher.write_u8(0xff);
            hasher.write(value.as_bytes());
            hasher.finish()
        };
        Self((u128::from(half(high)) << 64) | u128::from(half(low)))
    }

    /// Returns the low half, enough to pick a bucket.
    #[must_use]
    pub fn low(self) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low half is what is asked for"
        )]
        {
            self.0 as u64
        }
    }

    /// Returns all 128 bits.
    #[must_use]
    pub fn bits(self) -> u128 {
        self.0
    }
}

impl Add for LabelHash {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl AddAssign for LabelHash {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for LabelHash {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

impl SubAssign for LabelHash {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for LabelHash {
    fn sum<I: Iterator<Item = Self>>(hashes: I) -> Self {
        hashes.fold(Self::EMPTY, Add::add)
    }
}

type Seed = foldhash::quality::RandomState;

fn seeds() -> &'static (Seed, Seed) {
    static SEEDS: OnceLock<(Seed, Seed)> = OnceLock::new();
    SEEDS.get_or_init(Default::default)
}
