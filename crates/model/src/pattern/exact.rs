//! Sets of texts that a pattern is limited to: `a|b`, `(foo|bar)-[12]`.
//!
//! **Invariant:** a list holds each text once, in the order of the pattern.

use hashbrown::HashSet;

/// Most texts that a sequence of several lists may multiply to.
const PRODUCT_LIMIT: usize = 256;

/// Most bytes of all texts of one list.
const TOTAL_LIMIT_BYTES: usize = 1 << 20;

/// From this many on a hash finds a text faster than a scan.
const HASHED_FROM: usize = 16;

/// All texts a pattern matches.
pub(super) struct Words {
    all: Vec<String>,
    hashed: Option<HashSet<String>>,
}

impl Words {
    pub(super) fn new(mut all: Vec<String>) -> Self {
        let mut seen = HashSet::with_capacity(all.len());
        all.retain(|word| seen.insert(word.clone()));
        let hashed = (all.len() >= HASHED_FROM).then_some(seen);
        Self { all, hashed }
    }

    pub(super) fn all(&self) -> &[String] {
        &self.all
    }

    pub(super) fn contains(&self, text: &str) -> bool {
        match &self.hashed {
            Some(hashed) => hashed.contains(text),
            None => self.all.iter().any(|word| word == text),
        }
    }
}

/// Returns every text of `left` followed by every text of `right`, when they are not too many.
pub(super) fn product(left: Vec<String>, right: &[String]) -> Option<Vec<String>> {
    if let [only] = right {
        let total: usize = left.iter().map(|word| word.len() + only.len()).sum();
        return (total <= TOTAL_LIMIT_BYTES)
            .then(|| left.into_iter().map(|word| word + only).collect());
    }
    let (count, total) = (
        left.len() * right.len(),
        left.iter().map(String::len).sum::<usize>() * right.len()
            + right.iter().map(String::len).sum::<usize>() * left.len(),
    );
    if (left.len() > 1 && count > PRODUCT_LIMIT) || total > TOTAL_LIMIT_BYTES {
        return None;
    }
    let pairs = left
        .iter()
        .flat_map(|first| right.iter().map(move |second| format!("{first}{second}")));
    Some(pairs.collect())
}
