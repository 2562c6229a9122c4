//! Memory of labels that nobody holds any more.

use narthex_model::{Label, LabelSet, labels};
use std::sync::{Mutex, MutexGuard};

const VALUE_BYTES: usize = 1 << 20;
/// Bound for dead values: in each shard, as much as triggers a sweep, plus the value being added.
const MOST_BYTES: usize = 2 * 16 * 2 * VALUE_BYTES;

/// Only one test at a time fills the process' table: what one drops, another may sweep.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap()
}

/// Returns the most bytes that were in the table beyond those of before, after any of 200 calls.
fn most_bytes(add: impl Fn(usize)) -> usize {
    let before = labels::interned_bytes();
    let after = (0..200).map(|number| {
        add(number);
        labels::interned_bytes()
    });
    after.max().unwrap_or_default().saturating_sub(before)
}

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
    let _alone = alone();
    let live = live();
    let names = most_bytes(|number| drop(Label::new(&value("a", number), "x")));
    assert!(names < MOST_BYTES, "{names}");
    let values = most_bytes(|number| drop(Label::new("large", &value("b", number))));
    assert!(values < MOST_BYTES, "{values}");
    // A set holds its labels, and the table of sets holds the set.
    let set = |number| LabelSet::new([("large", value("c", number).as_str())]);
    let sets = most_bytes(|number| drop(set(number).intern()));
    assert!(sets < MOST_BYTES, "{sets}");
    assert_eq!(live[19_999].get("live"), Some("19999"));
}

#[test]
fn bytes_are_counted_until_a_sweep_drops_them() {
    const COUNT: usize = 64;
    let _alone = alone();
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
