//! Marks of listings: whether an answer about series that was given before would be given again.
//!
//! **Invariant:** a mark is compared with marks of the same process and store only; it is never stored or sent.

use std::hash::{BuildHasher as _, Hasher as _};

/// What is listed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ListingOf<'a> {
    /// [`super::View::label_names`].
    Names,
    /// [`super::View::label_values`] of a label.
    Values(&'a str),
    /// [`super::View::series`].
    Series,
    /// [`super::View::cardinality`].
    Cardinality,
}

/// State of a store as far as one listing depends on it: two listings that differ in the range of their query alone
/// are equal if their marks are, but for a chance of 1 in 2^128.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ListingMark(u128);

/// Makes a mark of everything that a listing depends on, in order.
#[derive(Clone)]
pub struct Marker {
    low: foldhash::quality::FoldHasher<'static>,
    high: foldhash::quality::FoldHasher<'static>,
    /// Numbers so far: these hashes do not tell zeros at the end from nothing.
    count: u64,
}

impl Default for Marker {
    fn default() -> Self {
        let hasher = |seed| foldhash::quality::FixedState::with_seed(seed).build_hasher();
        Self {
            low: hasher(1),
            high: hasher(2),
            count: 0,
        }
    }
}

impl Marker {
    /// Adds a number.
    pub fn add(&mut self, number: u64) {
        self.count += 1;
        self.low.write_u64(number);
        self.high.write_u64(number);
    }

    /// Adds a number that takes more bits.
    pub fn add_wide(&mut self, number: u128) {
        self.count += 1;
        self.low.write_u128(number);
        self.high.write_u128(number);
    }

    /// Returns the mark of what was added.
    #[must_use]
    pub fn finish(&self) -> ListingMark {
        let [low, high] = [&self.low, &self.high].map(|hasher| {
            let mut hasher = hasher.clone();
            hasher.write_u64(self.count + 1);
            hasher.finish()
        });
        ListingMark((u128::from(high) << 64) | u128::from(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_depend_on_every_number_and_their_order() {
        let of = |numbers: &[u64]| {
            let mut marker = Marker::default();
            numbers.iter().for_each(|number| marker.add(*number));
            marker.finish()
        };
        assert_eq!(of(&[1, 2]), of(&[1, 2]));
        let all = [
            of(&[]),
            of(&[0]),
            of(&[0, 0]),
            of(&[1, 2]),
            of(&[2, 1]),
            of(&[1, 2, 0]),
        ];
        for (at, mark) in all.iter().enumerate() {
            assert!(!all[..at].contains(mark), "{at}");
        }
    }
}
