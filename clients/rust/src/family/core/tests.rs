//! Tests of keys and hashes.

use std::collections::BTreeSet;

use super::*;

fn series(values: &[&str]) -> Series<()> {
    Series::new(values, ())
}

#[test]
fn a_series_is_what_has_its_values_even_when_hashes_collide() {
    let one = series(&["ab", "", "c"]);
    assert!(one.is(&["ab", "", "c"]));
    for other in [
        ["ac", "", "c"],
        ["ab", "c", ""],
        ["a", "b", "c"],
        ["ab", "", "d"],
        ["ab", "", "cc"],
    ] {
        assert!(!one.is(&other), "{other:?}");
    }
}

#[test]
fn hashes_differ_where_any_byte_or_split_does() {
    let text = "abcdefghijklmnopqrst";
    let mut hashes = BTreeSet::new();
    let mut keys = 0;
    for len in 0..text.len() {
        for split in 0..=len {
            hashes.insert(hash_of(&[&text[..split], &text[split..len]]));
            keys += 1;
        }
        for changed in 0..len {
            let mut other = text[..len].to_owned();
            other.replace_range(changed..=changed, "#");
            hashes.insert(hash_of(&[&other, "x"]));
            keys += 1;
        }
    }
    assert_eq!(hashes.len(), keys);
}
