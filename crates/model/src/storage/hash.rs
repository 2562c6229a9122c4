//! Group keys from hashes.

use super::Grouping;
use crate::labels::{LabelHash, LabelSet, METRIC_NAME};

/// Returns the hash of the labels that `grouping` keeps of `labels`.
///
/// It equals the hash of the label set an aggregation would build, so groups are found without building strings.
#[must_use]
pub fn group_key_of(labels: &LabelSet, grouping: &Grouping) -> LabelHash {
    let named = grouping
        .names
        .iter()
        .filter_map(|name| labels.label(name))
        .map(crate::labels::Label::hash)
        .sum();
    if !grouping.without {
        return named;
    }
    let dropped_twice = grouping.names.iter().any(|name| &**name == METRIC_NAME);
    let metric = labels
        .label(METRIC_NAME)
        .filter(|_| !dropped_twice)
        .map(crate::labels::Label::hash);
    labels.hash() - named - metric.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_equal_the_hash_of_the_kept_labels() {
        let labels = LabelSet::new([(METRIC_NAME, "m"), ("a", "1"), ("b", "2"), ("c", "3")]);
        let grouping = |without, names: &[&str]| Grouping {
            without,
            names: names.iter().map(|n| (*n).into()).collect(),
        };
        assert_eq!(
            group_key_of(&labels, &grouping(false, &["a", "x"])),
            labels.only(&["a"]).hash()
        );
        assert_eq!(
            group_key_of(&labels, &grouping(true, &["a"])),
            labels.only(&["b", "c"]).hash()
        );
        assert_eq!(
            group_key_of(&labels, &grouping(true, &[METRIC_NAME, "a"])),
            labels.only(&["b", "c"]).hash()
        );
        assert_eq!(
            group_key_of(&labels, &grouping(false, &[])),
            LabelHash::EMPTY
        );
    }
}
