//! Group keys from hashes.

use super::Grouping;
use crate::labels::{LabelHash, LabelSet, METRIC_NAME};

/// Returns the hash of the labels that `grouping` keeps of a series whose labels are in `parts`, in one each.
///
/// It equals the hash of the label set an aggregation would build, so groups are found without building strings.
#[must_use]
pub fn group_key_of<const N: usize>(parts: [&LabelSet; N], grouping: &Grouping) -> LabelHash {
    let hash = |name: &str| parts.iter().find_map(|part| Some(part.label(name)?.hash()));
    let named = grouping.names.iter().filter_map(|name| hash(name)).sum();
    if !grouping.without {
        return named;
    }
    let listed = grouping.names.iter().any(|name| &**name == METRIC_NAME);
    let metric = if listed { None } else { hash(METRIC_NAME) };
    let all: LabelHash = parts.iter().map(|part| part.hash()).sum();
    all - named - metric.unwrap_or_default()
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
            group_key_of([&labels], &grouping(false, &["a", "x"])),
            labels.only(&["a"]).hash()
        );
        assert_eq!(
            group_key_of([&labels], &grouping(true, &["a"])),
            labels.only(&["b", "c"]).hash()
        );
        assert_eq!(
            group_key_of([&labels], &grouping(true, &[METRIC_NAME, "a"])),
            labels.only(&["b", "c"]).hash()
        );
        assert_eq!(
            group_key_of([&labels], &grouping(false, &[])),
            LabelHash::EMPTY
        );
    }
}
