//! Tests of accuracy, special numbers and age.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn summary() -> SummaryValue {
    SummaryValue::new(DEFAULT_MAX_AGE, DEFAULT_AGE_BUCKETS)
}

fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

fn at(summary: &SummaryValue, now: Instant, q: f64) -> f64 {
    quantile(&summary.reading(&Reader::new(), now).young, q)
}

/// Returns the observation of rank `⌈q·n⌉`.
fn exact(values: &[f64], q: f64) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        -1e3..1e3_f64,
        1e-3..1.0_f64,
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MIN_POSITIVE),
        Just(5e-324),
        Just(f64::MAX),
        Just(f64::MIN),
    ]
}

proptest! {
    #[test]
    fn quantiles_are_in_the_bucket_of_the_exact_one(
        values in proptest::collection::vec(number(), 0..300),
        q in 0.0..=1.0_f64,
    ) {
        let summary = summary();
        values.iter().for_each(|v| summary.observe(*v));
        prop_assert_eq!(summary.count(), values.len() as u64);
        let (got, exact) = (summary.quantile(q), exact(&values, q));
        if exact.is_nan() {
            prop_assert!(got.is_nan());
        } else if exact.is_infinite() || exact == 0.0 {
            prop_assert_eq!(got, exact);
        } else if exact.is_normal() {
            prop_assert!((got / exact - 1.0).abs() <= 1.0 / 128.0, "{got} for {exact}");
        } else {
            prop_assert!((got - exact).abs() <= f64::MIN_POSITIVE / 128.0, "{got} for {exact}");
        }
    }
}

#[test]
fn ranks_are_close_where_many_values_share_a_bucket() {
    // N(100, 1) by the sum of twelve uniforms: five buckets hold almost everything.
    let mut state = 1_u64;
    let mut unit = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let values: Vec<f64> = (0..20_000)
        .map(|_| 94.0 + (0..12).map(|_| unit()).sum::<f64>())
        .collect();
    let summary = summary();
    values.iter().for_each(|v| summary.observe(*v));
    for q in [0.01, 0.1, 0.5, 0.9, 0.99] {
        let got = summary.quantile(q);
        let rank = values.iter().filter(|v| **v <= got).count() as f64 / values.len() as f64;
        assert!((rank - q).abs() < 0.01, "q {q}: rank {rank}");
    }
}

#[test]
fn observations_age_like_in_client_golang() {
    let summary = summary();
    let start = Instant::now();
    summary.observe(1.0);
    assert_eq!(at(&summary, start, 0.5).round(), 1.0);
    // A reader every minute, as a scraper would; a second value after five minutes.
    let mut seen = BTreeMap::new();
    for minute in 0..20 {
        if minute == 5 {
            summary.observe(100.0);
        }
        let now = start + minutes(minute) + Duration::from_secs(1);
        seen.insert(
            minute,
            (
                at(&summary, now, 0.0).round(),
                at(&summary, now, 1.0).round(),
            ),
        );
    }
    // The first value is forgotten between 8 and 10 minutes, the second between 13 and 15.
    assert_eq!(seen[&7], (1.0, 100.0));
    assert_eq!(seen[&10], (100.0, 100.0));
    assert_eq!(seen[&12], (100.0, 100.0));
    assert!(seen[&15].0.is_nan() && seen[&15].1.is_nan());
    assert_eq!(summary.count(), 2);
    assert_eq!(summary.sum(), 101.0);
}

#[test]
fn an_unread_summary_forgets_old_values_and_keeps_fresh_ones() {
    let summary = summary();
    let start = Instant::now();
    (0..1000).for_each(|_| summary.observe(1.0));
    // One read a step later, then none for an hour.
    at(&summary, start + minutes(2) + Duration::from_secs(1), 0.5);
    summary.observe(50.0);
    let now = start + minutes(62);
    assert_eq!(at(&summary, now, 0.0).round(), 50.0);
    assert!(at(&summary, now + minutes(11), 0.5).is_nan());
    assert_eq!(summary.count(), 1001);
}

#[test]
fn observing_threads_let_windows_end_when_nobody_reads() {
    let summary = SummaryValue::new(Duration::from_millis(50), 5);
    (0..100).for_each(|_| summary.observe(1.0));
    let deadline = Instant::now() + Duration::from_secs(20);
    // Inspects without turning the window, which reading would do.
    let oldest = || {
        quantile(
            &summary
                .window()
                .young(summary.totals(&Reader::new()).buckets),
            0.0,
        )
    };
    while oldest().floor() != 64.0 {
        (0..LOOK_AT_CLOCK_EVERY).for_each(|_| summary.observe(64.0));
        assert!(
            Instant::now() < deadline,
            "nobody but the observer turns the window"
        );
    }
    assert_eq!(summary.window().marks(), 5);
}

#[test]
fn dropping_gives_every_octave_back() {
    let summary = summary();
    for exponent in -300..300 {
        summary.observe(10_f64.powi(exponent));
    }
    assert_eq!(summary.octaves.iter().count(), 600);
    drop(summary);
    // Concurrent tests take some of them.
    let free = crate::range::free(BUCKETS_PER_OCTAVE);
    assert!(free >= 300, "{free} free");
}
