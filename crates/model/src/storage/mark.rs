//! Marks of listings: whether an answer about series that was given before would be given again.
//!
//! **Invariant:** a mark is compared with marks of the same process and store only; it is never stored or sent.

use crate::labels::LabelHash;
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

/// Makes a mark of a set of series, added each once and in any order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SetMarker {
    sum: u128,
    count: u64,
}

impl SetMarker {
    /// Adds a series.
    pub(super) fn add(&mut self, series: LabelHash) {
        // The hash of labels is the sum of theirs: without mixing, series that exchange labels would have the same sum.
        let mut one = Marker::default();
        one.add_wide(series.wide());
        self.sum = self.sum.wrapping_add(one.finish().0);
        self.count += 1;
    }

    /// Returns the mark of what was added.
    pub(super) fn finish(self) -> ListingMark {
        let mut all = Marker::default();
        all.add_wide(self.sum);
        all.add(self.count);
        all.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_one_mark_in_every_order_and_no_other_set_has_it() {
        let of = |all: &[&[(&str, &str)]]| {
            let mut marker = SetMarker::default();
            for series in all {
                let labels = series
                    .iter()
                    .map(|(name, value)| LabelHash::of_label(name, value));
                marker.add(labels.sum());
            }
            marker.finish()
        };
        let (a1b1, a2b2) = ([("a", "1"), ("b", "1")], [("a", "2"), ("b", "2")]);
        let (a1b2, a2b1) = ([("a", "1"), ("b", "2")], [("a", "2"), ("b", "1")]);
        assert_eq!(of(&[&a1b1, &a2b2]), of(&[&a2b2, &a1b1]));
        let others = [
            of(&[]),
            of(&[&a1b1]),
            of(&[&a1b2, &a2b1]),
            of(&[&a1b1, &a2b2, &[]]),
        ];
        for (at, mark) in others.iter().enumerate() {
            assert!(
                *mark != of(&[&a1b1, &a2b2]) && !others[..at].contains(mark),
                "{at}"
            );
        }
    }

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
