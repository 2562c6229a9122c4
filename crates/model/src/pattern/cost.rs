//! What compiling takes, known before anything is compiled.
//!
//! The figures are the most bytes that the `regex` crate holds at once while it reads and compiles one of each kind,
//! measured and rounded up; of what is repeated with counts each copy is counted. About a third of it stays.
//!
//! **Invariant:** the sum over a pattern is an upper bound: a test compares it with what an allocator counts.

/// Whatever the pattern is.
pub(super) const BASE: u64 = 350 << 10;

/// Keeping track of what groups match in a pattern that costs so much without.
pub(super) fn captures(height: u64) -> u64 {
    (64 << 10) + height.saturating_mul(4).min(1 << 20)
}

/// Beyond this a pattern is refused. A named class in a hundred copies is below it, and so are ten thousand branches of
/// a word with `.*`.
pub(super) const LIMIT: u64 = 64 << 20;

/// What one pattern's search may hold of states it has seen, at least and at most.
const SEARCH: std::ops::RangeInclusive<u64> = 64 << 10..=2 << 20;

/// `.`, or the complement of something.
pub(super) const ANY: u64 = 5 << 10;
/// A place that is looked at, not read.
pub(super) const ASSERTION: u64 = 1 << 10;
/// A pair of parentheses.
pub(super) const GROUP: u64 = 1 << 10;
/// One more alternative.
pub(super) const BRANCH: u64 = 384;
/// `*` and its kin.
pub(super) const REPETITION: u64 = 640;
/// A pair of brackets.
pub(super) const CLASS: u64 = 512;
/// A range within ASCII.
pub(super) const ASCII_RANGE: u64 = 256;
/// A name in a class: reading it.
pub(super) const NAMED_CLASS: u64 = 16 << 10;
/// A class with a Unicode property: compiling it.
pub(super) const PROPERTY: u64 = 144 << 10;

/// A character.
pub(super) fn literal(c: char) -> u64 {
    288 * c.len_utf8() as u64
}

/// A character in either case.
pub(super) fn folded(c: char) -> u64 {
    if c.is_ascii() { 768 } else { 2 << 10 }
}

/// A range of a class.
pub(super) fn range(low: u32, high: u32) -> u64 {
    if high < 0x80 {
        ASCII_RANGE
    } else if high - low < 0x40 {
        1 << 10
    } else {
        6 << 10
    }
}

/// Returns what of `height` stays while the pattern lives.
pub(super) fn kept(height: u64) -> u64 {
    (height.saturating_sub(BASE)) / 3 + (16 << 10)
}

/// Returns how much of what a search has seen it may hold, in each direction.
pub(super) fn search(height: u64) -> u64 {
    kept(height).clamp(*SEARCH.start(), *SEARCH.end())
}
