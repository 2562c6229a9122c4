//! Tests of labels and sets.

use super::*;

#[test]
fn equal_labels_are_one_allocation() {
    assert_eq!(Label::new("job", "api"), Label::new("job", "api"));
    assert_ne!(Label::new("job", "api"), Label::new("job", "db"));
    assert_ne!(Label::new("ab", "c"), Label::new("a", "bc"));
}

#[test]
fn sets_sort_drop_empty_values_and_let_the_last_win() {
    let set = LabelSet::new([("z", "1"), ("a", "2"), ("m", ""), ("z", "3")]);
    assert_eq!(set.to_string(), r#"{a="2", z="3"}"#);
    let from = LabelSet::from_labels([
        Label::new("z", "1"),
        Label::new("a", "2"),
        Label::new("z", "3"),
    ]);
    assert_eq!(from, set);
    assert_eq!(from.hash(), set.hash());
}

#[test]
fn the_hash_of_a_union_is_the_sum() {
    let common = LabelSet::new([("job", "api"), ("instance", "h:1")]);
    let local = LabelSet::new([(METRIC_NAME, "up"), ("code", "200")]);
    assert_eq!(common.union(&local).hash(), common.hash() + local.hash());
    assert_eq!(
        common.union(&local),
        LabelSet::new([
            (METRIC_NAME, "up"),
            ("code", "200"),
            ("job", "api"),
            ("instance", "h:1")
        ])
    );
    let overriding = common.union(&LabelSet::new([("job", "db")]));
    assert_eq!(overriding.get("job"), Some("db"));
}

#[test]
fn display_follows_prometheus() {
    assert_eq!(LabelSet::new([(METRIC_NAME, "up")]).to_string(), "up");
    assert_eq!(
        LabelSet::new([(METRIC_NAME, "up"), ("a", "x\"\n")]).to_string(),
        r#"up{a="x\"\n"}"#
    );
    assert_eq!(
        LabelSet::new([(METRIC_NAME, "a.b"), ("c.d", "e")]).to_string(),
        r#"{"a.b", "c.d"="e"}"#
    );
    assert_eq!(LabelSet::empty().to_string(), "{}");
}

#[test]
fn order_is_by_name_then_value() {
    let mut sets = [
        LabelSet::new([("b", "1")]),
        LabelSet::new([("a", "2")]),
        LabelSet::new([("a", "1"), ("b", "1")]),
        LabelSet::new([("a", "1")]),
    ];
    sets.sort();
    let shown: Vec<String> = sets.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            r#"{a="1"}"#,
            r#"{a="1", b="1"}"#,
            r#"{a="2"}"#,
            r#"{b="1"}"#
        ]
    );
}

#[test]
fn sweeping_frees_what_nobody_holds() {
    let kept = Label::new("sweep_test", "kept");
    for i in 0..1000 {
        drop(LabelSet::new([("sweep_test", i.to_string().as_str())]).intern());
    }
    sweep();
    let survivors = tables_with_name("sweep_test");
    assert_eq!(survivors, 1);
    assert_eq!(kept.value(), "kept");
}

fn tables_with_name(name: &str) -> usize {
    intern::count_labels(|label| label.name() == name)
}
