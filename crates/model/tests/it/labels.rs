//! Memory of labels that nobody holds any more.

use narthex_model::{Label, LabelSet, labels};
use narthex_testkit::alloc;

const VALUE_BYTES: usize = 1 << 20;
/// Bound for dead values: in each shard, as much as triggers a sweep, plus the value being added.
const MOST_BYTES: i64 = 2 * 16 * 2 * VALUE_BYTES as i64;

/// Returns live sets, so many that every shard has spare room and need not grow.
fn live() -> Vec<LabelSet> {
    let set = |at: u32| LabelSet::new([("live", at.to_string().as_str())]).intern();
    (0..20_000).map(set).collect()
}

/// Returns a value that no other call returns.
fn value(kind: &str, number: usize) -> String {
    let start = format!("{kind}{number}_");
    format!("{start}{}", "x".repeat(VALUE_BYTES - start.len()))
}

/// Regression: a shard was swept only when its table was full. With room for a thousand entries it kept a gigabyte of
/// values that queries had created and dropped.
#[test]
fn large_values_that_nobody_holds_do_not_pile_up() {
    let live = live();
    let (_, used) = alloc::measured(|| {
        for number in 0..200 {
            drop(Label::new("large", &value("a", number)));
        }
    });
    assert!(used.peak_bytes < MOST_BYTES, "{used:?}");
    // A set holds its labels, and the table of sets holds the set.
    let (_, used) = alloc::measured(|| {
        for number in 0..200 {
            drop(LabelSet::new([("large", value("b", number).as_str())]).intern());
        }
    });
    assert!(used.peak_bytes < MOST_BYTES, "{used:?}");
    let (_, used) = alloc::measured(|| {
        for number in 0..200 {
            drop(Label::new(&value("c", number), "x"));
        }
    });
    assert!(used.peak_bytes < MOST_BYTES, "{used:?}");
    assert_eq!(live[19_999].get("live"), Some("19999"));
}

#[test]
fn bytes_are_counted_until_a_sweep_drops_them() {
    const COUNT: usize = 64;
    let make = |at| Label::new("counted", &value("d", at));
    let before = labels::interned_bytes();
    let held: Vec<Label> = (0..COUNT).map(make).collect();
    let with = labels::interned_bytes();
    // Other tests run meanwhile and use less than this.
    let slack = COUNT / 2 * VALUE_BYTES;
    assert!(
        with + slack > before + COUNT * VALUE_BYTES,
        "{before} then {with}"
    );
    drop(held);
    labels::sweep();
    let after = labels::interned_bytes();
    assert!(after < with - slack, "{with} then {after}");
}
