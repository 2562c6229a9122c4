//! Labels of a series that was paired with another one, made only where somebody asks for them: an aggregation over a join
//! wants a label or two of each pair.

use super::META_LABELS;
use narthex_model::{
    Label, LabelHash, LabelSet,
    storage::{Batch, Grouping, group_key_of},
};

/// Labels that a series of the "one" side gives to its partners, in place of theirs with the same names.
pub(crate) struct Given {
    names: Vec<Box<str>>,
    labels: LabelSet,
    /// What is left of a partner's labels.
    rest: Grouping,
}

impl Given {
    /// Returns the labels that `one` gives: those with `names`, none of which is in `META_LABELS`.
    pub(super) fn new(names: &[String], one: &LabelSet) -> Self {
        let listed: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut rest: Vec<Box<str>> = META_LABELS.into_iter().map(Box::from).collect();
        rest.extend(listed.iter().map(|name| Box::from(*name)));
        rest.sort_unstable();
        rest.dedup();
        Self {
            labels: one.only(&listed),
            names: listed.into_iter().map(Box::from).collect(),
            rest: Grouping {
                without: true,
                names: rest,
            },
        }
    }

    /// Returns the labels of a partner, without `META_LABELS`, with those that are given.
    pub(super) fn to(&self, batch: &dyn Batch, index: usize) -> LabelSet {
        let names: Vec<&str> = self.rest.names.iter().map(|name| &**name).collect();
        batch.labels(index).without(&names).union(&self.labels)
    }

    /// Returns the hash of `to`.
    pub(super) fn hash_to(&self, batch: &dyn Batch, index: usize) -> LabelHash {
        batch.group_key(index, &self.rest) + self.labels.hash()
    }

    /// Returns the hash of those labels of `to` that `grouping`, which does not name `META_LABELS` to keep them, keeps.
    pub(super) fn group_key_to(
        &self,
        batch: &dyn Batch,
        index: usize,
        grouping: &Grouping,
    ) -> LabelHash {
        let holds = |names: &[Box<str>], name: &str| names.iter().any(|other| **other == *name);
        let is_given = |name: &str| holds(&self.names, name);
        let is_named = |name: &str| holds(&grouping.names, name);
        let given = |label: &&Label| is_named(label.name());
        let mut wanted = grouping.names.iter().map(|name| &**name);
        if !grouping.without && wanted.clone().all(is_given) {
            return self.labels.iter().filter(given).map(Label::hash).sum();
        }
        let is_untouched = if grouping.without {
            self.names.iter().all(|name| is_named(name))
        } else {
            !wanted.any(is_given)
        };
        if is_untouched {
            return batch.group_key(index, grouping);
        }
        group_key_of([&self.to(batch, index)], grouping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::{
        METRIC_NAME,
        storage::{Context, Layout, StorageError, Tile, TimeRange},
    };
    use narthex_testkit::rng::SplitMix64;

    struct Labels(LabelSet);

    impl Batch for Labels {
        fn len(&self) -> usize {
            1
        }

        fn labels(&self, _series: usize) -> LabelSet {
            self.0.clone()
        }

        fn time_range(&self) -> TimeRange {
            TimeRange::ALL
        }

        fn rows(&self, _range: TimeRange) -> usize {
            0
        }

        fn read(
            &self,
            _series: &[u32],
            _range: TimeRange,
            _layout: Layout,
            _tile: &mut Tile,
            _ctx: &Context,
        ) -> Result<(), StorageError> {
            unreachable!("nobody reads samples")
        }
    }

    #[test]
    fn hashes_are_those_of_the_labels() {
        const NAMES: [&str; 6] = [METRIC_NAME, "a", "b", "c", "d", "e"];
        let mut rng = SplitMix64::new(5);
        for _ in 0..2000 {
            let mut some = |from: usize| -> Vec<&str> {
                let names = NAMES[from..].iter().copied();
                names.filter(|_| rng.one_in(2)).collect()
            };
            let set = |names: &[&'static str], value: &'static str| {
                LabelSet::new(names.iter().map(|name| (*name, value)))
            };
            let (many, one) = (some(0), some(0));
            let include: Vec<String> = some(1).into_iter().map(String::from).collect();
            let mut names: Vec<Box<str>> = some(1).into_iter().map(Box::from).collect();
            names.sort_unstable();
            let batch = Labels(set(&many, "many"));
            let one = set(&one, "one");
            let given = Given::new(&include, &one);
            let mut expected = batch.0.without(&META_LABELS);
            for name in &include {
                expected = expected.with(name, one.get(name).unwrap_or_default());
            }
            assert_eq!(given.to(&batch, 0), expected);
            assert_eq!(given.hash_to(&batch, 0), expected.hash());
            for without in [false, true] {
                let mut names = names.clone();
                if without {
                    names.splice(0..0, META_LABELS.map(Box::from));
                }
                let grouping = Grouping { without, names };
                assert_eq!(
                    given.group_key_to(&batch, 0, &grouping),
                    group_key_of([&expected], &grouping),
                    "{grouping:?} of {expected}, given {include:?}"
                );
            }
        }
    }
}
