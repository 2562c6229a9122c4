//! Families: look-up, order, cap, removal.

use narthex_client::{CounterVec, GaugeVec, OVERFLOW};

use crate::{leak, text};

#[test]
fn values_that_only_differ_in_where_they_split_are_different_series() {
    let vec = leak(CounterVec::new("v_total", "V.", &["a", "b"]));
    let pairs = [
        ["ab", "c"],
        ["a", "bc"],
        ["abc", ""],
        ["", "abc"],
        ["a\0", "b"],
        ["a", "\0b"],
    ];
    for (i, pair) in pairs.iter().enumerate() {
        vec.with(pair).inc_by(i as u64 + 1);
    }
    for (i, pair) in pairs.iter().enumerate() {
        assert_eq!(vec.with(pair).get(), i as f64 + 1.0, "{pair:?}");
    }
    assert_eq!(vec.len(), pairs.len());
}

#[test]
fn a_handle_is_the_series_it_was_made_for() {
    let vec = leak(GaugeVec::new("v", "V.", &["a"]));
    let handle = vec.with(&["x"]);
    let clone = handle.clone();
    clone.set(5.0);
    vec.with(&["x"]).inc();
    assert_eq!((handle.get(), clone.get()), (6.0, 6.0));
    assert_eq!(vec.update(&["x"], |gauge| gauge.get()), 6.0);
}

#[test]
fn series_are_listed_by_label_values() {
    let vec = leak(GaugeVec::new("v", "V.", &["a", "b"]));
    for pair in [["b", "a"], ["a", "z"], ["ab", "a"], ["a", "b"], ["", "q"]] {
        vec.with(&pair).set(1.0);
    }
    let text = text(&[vec]);
    let series: Vec<&str> = text.lines().skip(2).collect();
    assert_eq!(
        series,
        [
            "v{a=\"\",b=\"q\"} 1",
            "v{a=\"a\",b=\"b\"} 1",
            "v{a=\"a\",b=\"z\"} 1",
            "v{a=\"ab\",b=\"a\"} 1",
            "v{a=\"b\",b=\"a\"} 1",
        ]
    );
}

#[test]
fn above_the_cap_one_series_takes_the_rest() {
    let vec = leak(CounterVec::new("v_total", "V.", &["user"]).with_cap(3));
    for i in 0..10 {
        vec.with(&[&format!("u{i}")]).inc();
    }
    assert_eq!(vec.len(), 4);
    assert_eq!(vec.overflows(), 7);
    assert_eq!(vec.with(&[OVERFLOW]).get(), 7.0);
    // Known series are still found.
    vec.with(&["u1"]).inc();
    assert_eq!(vec.overflows(), 7);
    // Removing one frees room for one, not for two.
    assert!(vec.remove(&["u0"]));
    vec.with(&["u8"]).inc();
    vec.with(&["u9"]).inc();
    assert_eq!((vec.len(), vec.overflows()), (4, 8));
    let expected = "v_total{user=\"_overflow\"} 8\nv_total{user=\"u1\"} 2\nv_total{user=\"u2\"} 1\nv_total{user=\"u8\"} 1\n";
    assert!(text(&[vec]).ends_with(expected));
}

#[test]
fn a_removed_overflow_series_comes_back_beside_the_cap() {
    let vec = leak(CounterVec::new("v_total", "V.", &["user"]).with_cap(1));
    vec.with(&["a"]).inc();
    vec.with(&["b"]).inc();
    assert!(vec.remove(&[OVERFLOW]));
    assert!(vec.remove(&["a"]));
    vec.with(&["c"]).inc();
    vec.with(&["d"]).inc();
    assert_eq!(vec.len(), 2);
    assert_eq!(vec.with(&[OVERFLOW]).get(), 1.0);
}

#[test]
fn a_removed_series_is_not_exposed_and_begins_anew() {
    let vec = leak(CounterVec::new("v_total", "V.", &["a"]));
    let old = vec.with(&["x"]);
    old.inc_by(5);
    assert!(vec.remove(&["x"]));
    assert!(!vec.remove(&["x"]));
    assert!(vec.is_empty());
    assert_eq!(text(&[vec]), "");
    old.inc();
    assert_eq!(old.get(), 6.0);
    vec.with(&["x"]).inc();
    assert!(text(&[vec]).ends_with("v_total{a=\"x\"} 1\n"));
}

#[test]
fn cells_of_removed_series_are_used_again_from_zero() {
    let vec = leak(CounterVec::new("v_total", "V.", &["a"]));
    for i in 0..50_000 {
        let value = i.to_string();
        let handle = vec.with(&[&value]);
        assert_eq!(handle.get(), 0.0);
        handle.inc();
        drop(handle);
        assert!(vec.remove(&[&value]));
    }
}
