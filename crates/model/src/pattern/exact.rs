//! Finite sets of texts that a pattern matches: `a|b`, `(foo|bar)-[12]`.
//!
//! **Invariant:** a list holds each text once, in the order of the pattern.

use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Most texts in the product of several lists.
const PRODUCT_LIMIT: usize = 256;

/// Most bytes in the texts of one list.
const TOTAL_LIMIT_BYTES: usize = 1 << 20;

/// Most bytes of copies in all lists of one pattern: thirty bytes of a pattern can name 256 texts.
const COPIED_LIMIT_BYTES: usize = 1 << 20;

/// Overhead of a text: its list entry, the allocator's share, and its hash table entry.
const WORD_BYTES: usize = 56;

/// From this size on, a hash table finds a text faster than a scan.
const HASHED_FROM: usize = 16;

/// All texts a pattern matches.
pub(super) struct Words {
    all: Vec<String>,
    /// The texts' indexes by hash.
    hashed: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
}

impl Words {
    pub(super) fn new(mut all: Vec<String>) -> Self {
        let hasher = foldhash::fast::RandomState::default();
        let mut hashed: HashTable<u32> = HashTable::with_capacity(all.len());
        let mut kept = 0;
        for at in 0..all.len() {
            let hash = hasher.hash_one(&*all[at]);
            if hashed
                .find(hash, |other| all[*other as usize] == all[at])
                .is_none()
            {
                all.swap(kept, at);
                let place = u32::try_from(kept).expect("a pattern lists fewer than 2^32 texts");
                hashed.insert_unique(hash, place, |other| hasher.hash_one(&*all[*other as usize]));
                kept += 1;
            }
        }
        all.truncate(kept);
        all.shrink_to_fit();
        if all.len() < HASHED_FROM {
            hashed = HashTable::new();
        }
        Self {
            all,
            hashed,
            hasher,
        }
    }

    pub(super) fn all(&self) -> &[String] {
        &self.all
    }

    pub(super) fn contains(&self, text: &str) -> bool {
        if self.all.len() < HASHED_FROM {
            return self.all.iter().any(|word| word == text);
        }
        let hash = self.hasher.hash_one(text);
        let same = |place: &u32| self.all[*place as usize] == text;
        self.hashed.find(hash, same).is_some()
    }

    /// Returns the approximate memory of the list.
    pub(super) fn heap_bytes(&self) -> usize {
        let texts: usize = self.all.iter().map(String::len).sum();
        texts + self.all.len() * WORD_BYTES
    }
}

/// Returns every text of `left` followed by every text of `right`, or `None` if there are too many; `copied`
/// accumulates the bytes by which the lists of one pattern outgrow its source.
pub(super) fn product(
    mut left: Vec<String>,
    right: &[String],
    copied: &mut usize,
) -> Option<Vec<String>> {
    let bytes_of = |words: &[String]| words.iter().map(String::len).sum::<usize>();
    let (lefts, rights) = (bytes_of(&left), bytes_of(right));
    let count = left.len() * right.len();
    let total = lefts * right.len() + rights * left.len();
    *copied += total.saturating_sub(lefts + rights);
    let several = left.len() > 1 && right.len() > 1;
    if several {
        *copied += count * WORD_BYTES;
    }
    let one = left.len() == 1 && right.len() == 1;
    if (several && count > PRODUCT_LIMIT)
        || (!one && total > TOTAL_LIMIT_BYTES)
        || *copied > COPIED_LIMIT_BYTES
    {
        return None;
    }
    if let [only] = right {
        left.iter_mut().for_each(|word| word.push_str(only));
        return Some(left);
    }
    let pairs = left
        .iter()
        .flat_map(|first| right.iter().map(move |second| format!("{first}{second}")));
    Some(pairs.collect())
}
