//! A dense set of small numbers, for presence bits.
//!
//! **Invariant:** bits at or beyond `len` are zero, so whole words can be compared, counted and written.

/// A growable bit set over `0..len`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BitSet {
    words: Vec<u64>,
    len: usize,
}

impl BitSet {
    /// Returns a set over `0..len` with no bit set.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(64)],
            len,
        }
    }

    /// Returns the size of the domain, not the number of set bits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Reports whether the domain is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Grows or shrinks the domain; grown bits are clear.
    pub fn resize(&mut self, len: usize) {
        self.words.resize(len.div_ceil(64), 0);
        self.len = len;
        self.trim();
    }

    /// Clears every bit.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Sets every bit.
    pub fn fill(&mut self) {
        self.words.fill(u64::MAX);
        self.trim();
    }

    /// Sets bit `index`.
    ///
    /// # Panics
    /// Panics when `index` is not below `len`.
    #[inline]
    pub fn insert(&mut self, index: usize) {
        assert!(index < self.len, "bit {index} of {}", self.len);
        self.words[index / 64] |= 1 << (index % 64);
    }

    /// Clears bit `index`; does nothing beyond the domain.
    #[inline]
    pub fn remove(&mut self, index: usize) {
        if let Some(word) = self.words.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    /// Reports whether bit `index` is set; `false` beyond the domain.
    #[must_use]
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.words
            .get(index / 64)
            .is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    /// Counts the set bits.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Reports whether every bit of the domain is set.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count() == self.len
    }

    /// Returns the words, bit 0 of word 0 first.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Iterates over the set bits, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        bits_of(self.words.iter().copied())
    }

    /// Iterates over the bits that are set here and not in `other`, ascending, at the cost of a word each 64 bits.
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = usize> + 'a {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        bits_of(
            self.words
                .iter()
                .zip(others)
                .map(|(word, other)| word & !other),
        )
    }

    fn trim(&mut self) {
        if let (Some(last), tail @ 1..) = (self.words.last_mut(), self.len % 64) {
            *last &= (1 << tail) - 1;
        }
    }
}

/// Iterates over the numbers of the set bits of consecutive words.
fn bits_of(words: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    words.enumerate().flat_map(|(at, word)| {
        std::iter::successors((word != 0).then_some(word), |rest| {
            let rest = rest & (rest - 1);
            (rest != 0).then_some(rest)
        })
        .map(move |rest| at * 64 + rest.trailing_zeros() as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_set() {
        let mut bits = BitSet::new(130);
        for index in [0, 63, 64, 129] {
            bits.insert(index);
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert_eq!(bits.count(), 4);
        bits.remove(63);
        assert!(!bits.contains(63) && bits.contains(64) && !bits.contains(1000));
        bits.fill();
        assert!(bits.is_full());
        assert_eq!(bits.words()[2], 3);
        bits.resize(65);
        assert_eq!(bits.count(), 65);
        bits.resize(130);
        assert_eq!(bits.count(), 65);
    }
    #[test]
    fn differences_of_sets_over_other_domains() {
        let set = |len: usize, bits: &[usize]| {
            let mut set = BitSet::new(len);
            bits.iter().for_each(|bit| set.insert(*bit));
            set
        };
        let (long, short) = (set(200, &[0, 5, 63, 64, 130, 199]), set(65, &[5, 6, 64]));
        let difference = |a: &BitSet, b: &BitSet| a.difference(b).collect::<Vec<_>>();
        assert_eq!(difference(&long, &short), [0, 63, 130, 199]);
        assert_eq!(difference(&short, &long), [6]);
        assert_eq!(difference(&short, &short), [0; 0]);
    }
}
