//! Label sets: sorted, without duplicates, without empty values.

use super::{Label, LabelHash, METRIC_NAME, intern, is_legacy_metric_name, write_quoted};
use smallvec::SmallVec;
use std::{
    cmp::Ordering,
    fmt,
    hash::{BuildHasher as _, Hasher as _},
};
use triomphe::ThinArc;

/// Labels that few sets have more of.
const MANY_LABELS: usize = 32;

/// A sorted set of labels with distinct names; eight bytes, cheap to clone.
///
/// A label with an empty value is the same as no label and is never stored.
/// Sets need not be interned to be compared; `intern` makes equal sets share one allocation.
#[derive(Clone)]
pub struct LabelSet(ThinArc<LabelHash, Label>);

impl LabelSet {
    /// Returns the empty set.
    #[must_use]
    pub fn empty() -> Self {
        Self::from_sorted(Vec::new())
    }

    /// Builds a set from names and values in any order; of equal names the last wins, empty values are dropped.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut builder = LabelSetBuilder::default();
        for (name, value) in pairs {
            builder.set(name, value);
        }
        builder.finish()
    }

    /// Builds a set from labels in any order; of equal names the last wins, empty values are dropped.
    pub fn from_labels(labels: impl IntoIterator<Item = Label>) -> Self {
        let mut labels: Vec<Label> = labels.into_iter().collect();
        if !labels.is_sorted_by(|a, b| a.name() < b.name()) {
            labels.sort_by(|a, b| a.name().cmp(b.name()));
            labels.reverse();
            labels.dedup_by(|next, kept| next.name() == kept.name());
            labels.reverse();
        }
        labels.retain(|label| !label.value().is_empty());
        Self::from_sorted(labels)
    }

    fn from_sorted(labels: Vec<Label>) -> Self {
        let hash = labels.iter().map(Label::hash).sum();
        Self(ThinArc::from_header_and_iter(hash, labels.into_iter()))
    }

    /// Returns the process-wide copy of this set.
    #[must_use]
    pub fn intern(&self) -> Self {
        intern::set(self)
    }

    /// Returns the value of label `name`, or `None` when the set lacks it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.label(name).map(Label::value)
    }

    /// Returns the label called `name`.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&Label> {
        // Sets are small: a scan of short names beats a binary search's mispredictions.
        self.0.slice.iter().find(|label| label.name() == name)
    }

    /// Reports whether the two sets have a label name in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.iter()
            .any(|mine| other.iter().any(|theirs| mine.same_name(theirs)))
    }

    /// Returns the metric name, or the empty string.
    #[must_use]
    pub fn metric_name(&self) -> &str {
        self.get(METRIC_NAME).unwrap_or_default()
    }

    /// Returns the set's hash, equal for equal sets within this process.
    #[must_use]
    pub fn hash(&self) -> LabelHash {
        self.0.header.header
    }

    /// Returns a key of the labels' names, equal for sets with the same names and, but for chance, for no others.
    ///
    /// Comparable while both sets live: names are told apart by where they are interned.
    #[must_use]
    pub fn names_key(&self) -> u64 {
        let mut hasher = foldhash::quality::FixedState::default().build_hasher();
        self.iter()
            .for_each(|label| hasher.write_usize(label.name_address() as usize));
        hasher.finish()
    }

    /// Returns the labels, sorted by name.
    #[must_use]
    pub fn labels(&self) -> &[Label] {
        &self.0.slice
    }

    /// Iterates over the labels, sorted by name.
    pub fn iter(&self) -> std::slice::Iter<'_, Label> {
        self.labels().iter()
    }

    /// Returns the number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.slice.len()
    }

    /// Reports whether the set has no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.slice.is_empty()
    }

    /// Returns the union of both sets; where names are equal, `other`'s label is kept.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let (mut mine, mut theirs) = (self.labels(), other.labels());
        let mut hash = self.hash() + other.hash();
        let mut labels: SmallVec<[&Label; MANY_LABELS]> = SmallVec::new();
        while let ([a, more_mine @ ..], [b, more_theirs @ ..]) = (mine, theirs) {
            if a.same_name(b) {
                hash -= a.hash();
                mine = more_mine;
            } else if a.name() < b.name() {
                labels.push(a);
                mine = more_mine;
            } else {
                labels.push(b);
                theirs = more_theirs;
            }
        }
        labels.extend(mine.iter().chain(theirs));
        Self(ThinArc::from_header_and_iter(
            hash,
            labels.into_iter().cloned(),
        ))
    }

    /// Returns the set without the labels named in `names`.
    #[must_use]
    pub fn without(&self, names: &[&str]) -> Self {
        self.filtered(|name| !names.contains(&name))
    }

    /// Returns only the labels named in `names`.
    #[must_use]
    pub fn only(&self, names: &[&str]) -> Self {
        self.filtered(|name| names.contains(&name))
    }

    fn filtered(&self, keep: impl Fn(&str) -> bool) -> Self {
        let kept = self.iter().filter(|label| keep(label.name()));
        Self::from_sorted(kept.cloned().collect())
    }

    /// Returns the set with label `name` set to `value`, or removed when `value` is empty.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut builder = self.to_builder();
        builder.set(name, value);
        builder.finish()
    }

    /// Returns a builder that starts with these labels.
    #[must_use]
    pub fn to_builder(&self) -> LabelSetBuilder {
        LabelSetBuilder {
            labels: self.labels().to_vec(),
        }
    }

    /// Returns the memory of this set in bytes, without its labels, which other sets share.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        // The reference count, the hash and the length precede the labels.
        size_of::<usize>()
            + size_of::<LabelHash>()
            + size_of::<usize>()
            + size_of_val(self.labels())
    }

    /// Reports whether somebody else has this set, which is interned.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        // The table of all sets has one reference.
        self.references() > 2
    }

    pub(crate) fn references(&self) -> usize {
        ThinArc::strong_count(&self.0)
    }
}

impl Default for LabelSet {
    fn default() -> Self {
        Self::empty()
    }
}

impl PartialEq for LabelSet {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0.as_ptr(), other.0.as_ptr())
            || (self.hash() == other.hash() && self.labels() == other.labels())
    }
}

impl Eq for LabelSet {}

impl std::hash::Hash for LabelSet {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.header.header.low());
    }
}

impl PartialOrd for LabelSet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LabelSet {
    /// Compares label by label, by name and then by value; a prefix sorts first.
    fn cmp(&self, other: &Self) -> Ordering {
        self.labels().cmp(other.labels())
    }
}

impl<'a> IntoIterator for &'a LabelSet {
    type Item = &'a Label;
    type IntoIter = std::slice::Iter<'a, Label>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for LabelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for LabelSet {
    /// Writes `metric{a="b", c="d"}`, the way series are displayed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.metric_name();
        let bare = is_legacy_metric_name(name);
        if bare {
            f.write_str(name)?;
        }
        if bare && self.len() == 1 {
            return Ok(());
        }
        f.write_str("{")?;
        let mut separator = "";
        if !name.is_empty() && !bare {
            write_quoted(f, name)?;
            separator = ", ";
        }
        for label in self.iter().filter(|label| label.name() != METRIC_NAME) {
            write!(f, "{separator}{label}")?;
            separator = ", ";
        }
        f.write_str("}")
    }
}

/// Collects labels for a set; of equal names the last wins.
#[derive(Clone, Debug, Default)]
pub struct LabelSetBuilder {
    labels: Vec<Label>,
}

impl LabelSetBuilder {
    /// Sets label `name` to `value`; an empty value removes it.
    pub fn set(&mut self, name: &str, value: &str) -> &mut Self {
        if value.is_empty() {
            return self.remove(name);
        }
        self.set_label(Label::new(name, value))
    }

    /// Sets an already interned label; an empty value removes it.
    pub fn set_label(&mut self, label: Label) -> &mut Self {
        if label.value().is_empty() {
            return self.remove(label.name());
        }
        match self
            .labels
            .iter_mut()
            .find(|other| other.name() == label.name())
        {
            Some(other) => *other = label,
            None => self.labels.push(label),
        }
        self
    }

    /// Removes label `name`, if present.
    pub fn remove(&mut self, name: &str) -> &mut Self {
        self.labels.retain(|label| label.name() != name);
        self
    }

    /// Returns the value of label `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|label| label.name() == name)
            .map(Label::value)
    }

    /// Returns the set collected so far.
    #[must_use]
    pub fn finish(mut self) -> LabelSet {
        self.labels.sort_by(|a, b| a.name().cmp(b.name()));
        LabelSet::from_sorted(self.labels)
    }
}
