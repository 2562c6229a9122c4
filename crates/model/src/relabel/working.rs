//! A label set under modification by rules.
//!
//! **Invariant:** labels are visited in the order of Prometheus' builder: first the labels of the original set that
//! were not set again, by name, then the others in the order they were first set.

use crate::LabelSet;

pub(super) struct Working<'a> {
    original: &'a LabelSet,
    /// Whether each label of the original set is unchanged.
    stands: Vec<bool>,
    /// Labels that were set.
    added: Vec<(String, String)>,
    changed: bool,
}

impl<'a> Working<'a> {
    pub(super) fn new(original: &'a LabelSet) -> Self {
        Self {
            stands: vec![true; original.len()],
            original,
            added: Vec::new(),
            changed: false,
        }
    }

    /// Returns a label's value, or the empty string.
    pub(super) fn get(&self, name: &str) -> &str {
        let added = self.added.iter().find(|(added, _)| added == name);
        if let Some((_, value)) = added {
            return value;
        }
        self.standing()
            .find(|(standing, _)| *standing == name)
            .map_or("", |(_, value)| value)
    }

    /// Returns the values of `names` with `separator` between them.
    pub(super) fn join(&self, names: &[String], separator: &str) -> String {
        let values: Vec<&str> = names.iter().map(|name| self.get(name)).collect();
        values.join(separator)
    }

    /// Sets a label; an empty value removes it.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        let mut labels = self.stands.iter_mut().zip(self.original);
        if let Some((stands, label)) = labels.find(|(_, label)| label.name() == name)
            && std::mem::replace(stands, false)
            && label.value() == value
        {
            // The value is the same but the order changes, which `labelmap` exposes when two names become one.
            self.added.push((name.to_owned(), value.to_owned()));
            return;
        }
        self.changed = true;
        if value.is_empty() {
            self.added.retain(|(added, _)| added != name);
            return;
        }
        match self.added.iter_mut().find(|(added, _)| added == name) {
            Some((_, added)) => value.clone_into(added),
            None => self.added.push((name.to_owned(), value.to_owned())),
        }
    }

    /// Returns all labels, in order.
    pub(super) fn list(&self) -> Vec<(String, String)> {
        let standing = self
            .standing()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        standing.chain(self.added.iter().cloned()).collect()
    }

    /// Removes the labels whose name `keep` rejects.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        for (stands, label) in self.stands.iter_mut().zip(self.original) {
            if *stands && !keep(label.name()) {
                *stands = false;
                self.changed = true;
            }
        }
        let before = self.added.len();
        self.added.retain(|(name, _)| keep(name));
        self.changed |= self.added.len() != before;
    }

    /// Returns the resulting set.
    pub(super) fn finish(&self) -> LabelSet {
        if !self.changed {
            return self.original.clone();
        }
        LabelSet::new(
            self.standing()
                .chain(self.added.iter().map(|(name, value)| (&**name, &**value))),
        )
    }

    fn standing(&self) -> impl Iterator<Item = (&str, &str)> {
        self.original
            .iter()
            .zip(&self.stands)
            .filter(|(_, stands)| **stands)
            .map(|(label, _)| (label.name(), label.value()))
    }
}
