//! Memory needed for compiling, computed in advance.
//!
//! The figures are the most bytes that the `regex` crate holds at once while it parses and compiles one of each kind,
//! measured and rounded up; each copy made by a counted repetition counts. About a third of the total remains
//! afterwards.
//!
//! **Invariant:** the sum over a pattern is an upper bound; a test compares it with an allocator's count.

/// Fixed cost of any pattern.
pub(super) const BASE: u64 = 350 << 10;

/// Returns the extra cost of capturing groups in a pattern whose other cost is `height`.
pub(super) fn captures(height: u64) -> u64 {
    (64 << 10) + height.saturating_mul(4).min(1 << 20)
}

/// Costlier patterns are rejected. A named class in a hundred copies is below the limit, and so are ten thousand
/// branches of a word with `.*`.
pub(super) const LIMIT: u64 = 64 << 20;

/// Smallest and largest size of one pattern's lazy DFA cache.
const SEARCH: std::ops::RangeInclusive<u64> = 64 << 10..=2 << 20;

/// `.`, or a complement.
pub(super) const ANY: u64 = 5 << 10;
/// A zero-width assertion.
pub(super) const ASSERTION: u64 = 1 << 10;
/// A pair of parentheses.
pub(super) const GROUP: u64 = 1 << 10;
/// One more branch of an alternation.
pub(super) const BRANCH: u64 = 384;
/// `*` and its kin.
pub(super) const REPETITION: u64 = 640;
/// A pair of brackets.
pub(super) const CLASS: u64 = 512;
/// A range within ASCII.
pub(super) const ASCII_RANGE: u64 = 256;
/// Parsing a named class.
pub(super) const NAMED_CLASS: u64 = 16 << 10;
/// Compiling a class with a Unicode property.
pub(super) const PROPERTY: u64 = 144 << 10;

/// Returns the cost of a character.
pub(super) fn literal(c: char) -> u64 {
    288 * c.len_utf8() as u64
}

/// Returns the cost of a character in either case.
pub(super) fn folded(c: char) -> u64 {
    if c.is_ascii() { 768 } else { 2 << 10 }
}

/// Returns the cost of a range of a class.
pub(super) fn range(low: u32, high: u32) -> u64 {
    if high < 0x80 {
        ASCII_RANGE
    } else if high - low < 0x40 {
        1 << 10
    } else {
        6 << 10
    }
}

/// Returns how much of `height` remains while the pattern lives.
pub(super) fn kept(height: u64) -> u64 {
    (height.saturating_sub(BASE)) / 3 + (16 << 10)
}

/// Returns the size of the lazy DFA cache, for each direction.
pub(super) fn search(height: u64) -> u64 {
    kept(height).clamp(*SEARCH.start(), *SEARCH.end())
}
