//! Limits and resets of native histograms, with a clock that the tests move.

use super::*;

fn value(options: NativeOptions) -> NativeHistogramValue {
    NativeHistogramValue::new(options.native, options.bounds)
}

#[test]
fn too_many_buckets_lower_the_schema_for_good() {
    let histogram = value(NativeOptions::new().max_buckets(10));
    let now = Instant::now();
    let read = || histogram.exposed(&Reader::new(), now);
    (1..=8).for_each(|i| histogram.observe((f64::from(i) / 8.0).exp2()));
    assert_eq!((read().0.buckets(), read().1), (8, 3));
    (1..=16).for_each(|i| histogram.observe(-(f64::from(i) / 8.0).exp2()));
    // 24 buckets, of which 4 + 8 remain at schema 2, and 2 + 4 at schema 1.
    let (shown, schema) = read();
    assert_eq!((shown.buckets(), schema), (6, 1));
    assert_eq!(shown.count(), 24);
    histogram.observe(1.0);
    assert_eq!(read().1, 1);
}

#[test]
fn a_reset_restores_the_schema_and_loses_nothing() {
    let min_reset = Duration::from_secs(3600);
    let options = NativeOptions::new().max_buckets(4).min_reset(min_reset);
    let histogram = value(options.bounds(&[1.5]));
    let start = Instant::now();
    let read = |after: Duration| histogram.exposed(&Reader::new(), start + after);
    (1..=8).for_each(|i| histogram.observe((f64::from(i) / 8.0).exp2()));
    assert_eq!(read(Duration::ZERO).1, 2);
    assert_eq!(histogram.restarted_ms(), 0);
    (9..=16).for_each(|i| histogram.observe((f64::from(i) / 8.0).exp2()));
    let (shown, schema) = read(min_reset);
    assert_eq!((shown.count(), schema), (16, 1));
    assert_ne!(histogram.restarted_ms(), 0);
    histogram.observe(1.0);
    histogram.observe(2.0);
    let (shown, schema) = read(min_reset);
    assert_eq!(shown.positive, [(0, 1), (8, 1)]);
    assert_eq!(
        (shown.count(), schema, &*shown.classic),
        (2, 3, &[1, 1][..])
    );
    assert!((shown.sum - 3.0).abs() < 1e-9, "{}", shown.sum);
    assert_eq!(histogram.count(), 18);
}

#[test]
fn the_zero_bucket_widens_before_the_schema_falls() {
    let options = NativeOptions::new().max_buckets(6);
    let min_reset = Duration::from_secs(3600);
    let options = options.max_zero_threshold(1.2).min_reset(min_reset);
    let histogram = value(options);
    let start = Instant::now();
    let read = |after: Duration| histogram.exposed(&Reader::new(), start + after);
    let bound = |i: i32| buckets::upper_bound(3, i);
    (1..=6).for_each(|i| histogram.observe(bound(i)));
    let (shown, schema) = read(Duration::ZERO);
    assert_eq!((shown.zero, shown.buckets(), schema), (0, 6, 3));
    assert_eq!(shown.zero_threshold, options.native.zero_threshold);
    // Two buckets too many, which the pair next to zero has.
    histogram.observe(-bound(1));
    histogram.observe(-bound(2));
    let (shown, schema) = read(Duration::ZERO);
    assert_eq!((shown.zero, shown.buckets(), schema), (2, 6, 3));
    assert_eq!(shown.zero_threshold, bound(1));
    // As wide with fewer buckets or more observations in it, and never wider than allowed.
    histogram.observe(-1.01);
    (7..=12).for_each(|i| histogram.observe(bound(i)));
    let (shown, schema) = read(Duration::ZERO);
    assert_eq!((shown.zero, shown.zero_threshold, schema), (5, bound(2), 2));
    assert_eq!(shown.count(), 15);
    // A reset narrows it again.
    (13..=30).for_each(|i| histogram.observe(bound(i)));
    let (shown, _) = read(min_reset);
    assert_eq!((shown.zero_threshold, shown.count()), (bound(2), 33));
    histogram.observe(bound(1));
    let (shown, schema) = read(min_reset);
    assert_eq!((shown.zero, shown.buckets(), schema), (0, 1, 3));
    assert_eq!(shown.zero_threshold, options.native.zero_threshold);
}

#[test]
fn low_schemas_merge_octaves() {
    let histogram = value(NativeOptions::new().schema(-2));
    for v in [1.0, 1.5, 16.0, 17.0, 1e300, f64::INFINITY, -16.5] {
        histogram.observe(v);
    }
    let (shown, schema) = histogram.exposed(&Reader::new(), Instant::now());
    assert_eq!(schema, -2);
    assert_eq!(shown.positive, [(0, 1), (1, 2), (2, 1), (250, 1), (257, 1)]);
    assert_eq!(shown.negative, [(2, 1)]);
}

#[test]
fn what_is_no_bucket_counts_all_the_same() {
    let histogram = value(NativeOptions::new().zero_threshold(0.5));
    for v in [0.0, -0.0, 0.5, -0.5, 0.25, 5e-324, f64::NAN] {
        histogram.observe(v);
    }
    let (shown, _) = histogram.exposed(&Reader::new(), Instant::now());
    assert_eq!((shown.zero, shown.nan, shown.buckets()), (6, 1, 0));
    assert_eq!(shown.count(), 7);
    assert!(shown.sum.is_nan());
    histogram.observe(0.5_f64.next_up());
    assert_eq!(histogram.totals(&Reader::new()).positive, [(-7, 1)]);
}

#[test]
fn dropping_gives_every_cell_back() {
    // No other test has octaves of 64 cells.
    let before = crate::range::free(64);
    let histogram = value(NativeOptions::new().schema(6));
    (-300..300).for_each(|exponent| histogram.observe(2_f64.powi(exponent)));
    drop(histogram);
    assert_eq!(crate::range::free(64), before + 427);
}
