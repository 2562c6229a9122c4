//! Tests of `fleet`.

use narthex_testkit::fleet::Target;

#[test]
fn a_service_has_every_kind_and_as_many_series_as_asked_for() {
    for series in [4, 50, 500, 588] {
        let one = Target::service(3, 1, series);
        assert_eq!((one.prefixes().len(), one.values().len()), (series, series));
    }
    for series in [100, 500, 588, 1234] {
        let one = Target::native(3, 1, series);
        assert_eq!((one.prefixes().len(), one.values().len()), (series, series));
    }
    let one = Target::service(3, 1, 500);
    let page = one.prefixes().concat();
    for kind in ["counter", "gauge", "histogram", "summary"] {
        assert!(page.contains(&format!(" {kind}\n")), "{kind}");
    }
    let labels = |prefix: &String| prefix.matches("=\"").count();
    // The scrape adds job and instance.
    assert!(
        one.prefixes()
            .iter()
            .map(labels)
            .all(|n| (6..=10).contains(&n))
    );
}

#[test]
fn buckets_never_fall_and_the_last_is_the_count() {
    let mut one = Target::service(0, 0, 500);
    let at = one
        .prefixes()
        .iter()
        .position(|p| p.contains("_bucket{"))
        .unwrap();
    for _ in 0..50 {
        one.step();
        let buckets = &one.values()[at..at + 13];
        assert!(buckets[..12].is_sorted(), "{buckets:?}");
        assert_eq!(buckets[11], buckets[12]);
    }
}

#[test]
fn objects_seldom_change_and_have_their_own_labels() {
    let mut one = Target::objects(0, 0, 8_000);
    assert_eq!(one.prefixes().len(), 8_000);
    let mut names: Vec<&String> = one.prefixes().iter().collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 8_000);
    let before = one.values().to_vec();
    one.step();
    let changed = before
        .iter()
        .zip(one.values())
        .filter(|(a, b)| a != b)
        .count();
    assert!((400..800).contains(&changed), "{changed} of 8000");
}
