//! Labels and label sets: the identity of a series.
//!
//! **Invariant:** live labels with equal name and value are one allocation, so equality is a pointer comparison,
//! and a set's hash is the sum of its labels' hashes, so the hash of a union, a subset or a group is arithmetic
//! and needs no strings.

mod hash;
mod intern;
mod scheme;
mod set;
#[cfg(test)]
mod tests;

pub use hash::LabelHash;
pub use intern::{InternerStats, interned_bytes, stats, sweep};
pub use scheme::NameScheme;
pub use set::{LabelSet, LabelSetBuilder};

use intern::Name;
use std::{cmp::Ordering, fmt};
use triomphe::ThinArc;

/// The label that holds a series' metric name.
pub const METRIC_NAME: &str = "__name__";

/// One interned `name="value"` pair; eight bytes, cheap to clone, equal by pointer.
///
/// Names and values are any UTF-8. The order is by name, then by value, both bytewise.
#[derive(Clone)]
pub struct Label(pub(crate) ThinArc<LabelHeader, u8>);

#[derive(Debug)]
pub(crate) struct LabelHeader {
    pub(crate) hash: LabelHash,
    pub(crate) name: Name,
}

impl Label {
    /// Returns the process-wide label for `name` and `value`.
    #[must_use]
    pub fn new(name: &str, value: &str) -> Self {
        intern::label(name, value)
    }

    /// Returns the label's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.header.header.name.as_str()
    }

    /// Returns the label's value.
    #[must_use]
    pub fn value(&self) -> &str {
        // SAFETY: the bytes are only ever copied from a `&str` in `intern::label`.
        unsafe { std::str::from_utf8_unchecked(&self.0.slice) }
    }

    /// Returns the label's hash, valid within this process.
    #[must_use]
    pub fn hash(&self) -> LabelHash {
        self.0.header.header.hash
    }

    /// Reports whether both labels have the same name, without comparing text.
    #[must_use]
    pub fn same_name(&self, other: &Self) -> bool {
        self.0.header.header.name.same(&other.0.header.header.name)
    }

    fn name_address(&self) -> *const u8 {
        self.0.header.header.name.address()
    }

    fn address(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }
}

impl PartialEq for Label {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for Label {}

impl PartialOrd for Label {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Label {
    fn cmp(&self, other: &Self) -> Ordering {
        if self == other {
            return Ordering::Equal;
        }
        if self.same_name(other) {
            return self.value().cmp(other.value());
        }
        self.name().cmp(other.name())
    }
}

impl std::hash::Hash for Label {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.header.header.hash.low());
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Label {
    /// Writes `name="value"`, the value escaped as a Go string, the name quoted when it is not a legacy name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, self.name())?;
        f.write_str("=")?;
        write_quoted(f, self.value())
    }
}

/// Reports whether `name` matches `[a-zA-Z_][a-zA-Z0-9_]*`, the form that needs no quotes.
#[must_use]
pub fn is_legacy_name(name: &str) -> bool {
    is_legacy_metric_name(name) && !name.contains(':')
}

/// Reports whether `name` matches `[a-zA-Z_:][a-zA-Z0-9_:]*`, the form of metric names that needs no quotes.
#[must_use]
pub fn is_legacy_metric_name(name: &str) -> bool {
    let begins = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b == b':';
    let mut bytes = name.bytes();
    bytes.next().is_some_and(begins) && bytes.all(|b| begins(b) || b.is_ascii_digit())
}

/// Writes the name of a label, in quotes when it is not a legacy name.
pub(crate) fn write_name(out: &mut dyn fmt::Write, name: &str) -> fmt::Result {
    match is_legacy_name(name) {
        true => out.write_str(name),
        false => write_quoted(out, name),
    }
}

/// Writes `text` in double quotes, escaped as Go's `strconv.Quote` does.
pub fn write_quoted(out: &mut dyn fmt::Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\u{7}' => out.write_str("\\a")?,
            '\u{8}' => out.write_str("\\b")?,
            '\u{b}' => out.write_str("\\v")?,
            '\u{c}' => out.write_str("\\f")?,
            c if (c as u32) < 0x20 || c as u32 == 0x7f => write!(out, "\\x{:02x}", c as u32)?,
            c if c.is_control() => write!(out, "\\u{:04x}", c as u32)?,
            c => out.write_char(c)?,
        }
    }
    out.write_char('"')
}
