//! Tests of `dataset`.

use super::*;
use std::collections::HashSet;

#[test]
fn families_fill_a_pod_and_every_series_has_labels_of_its_own() {
    let count: usize = FAMILIES.iter().map(|(_, count, _)| count).sum();
    assert_eq!(count, POD_SERIES);
    for (first, name) in [
        (BUCKETS, "http_request_duration_seconds_bucket"),
        (SUM, "http_request_duration_seconds_sum"),
        (CPU, "container_cpu_usage_seconds_total"),
        (MEMORY, "container_memory_usage_bytes"),
        (QUEUES, "queue_length"),
        (REST, "process_open_fds"),
    ] {
        let (found, place, _) = family(first);
        assert_eq!((found, place), (name, 0));
    }
    let mut seen = HashSet::new();
    for pod in [0, 1, 19, 20, 399, 400, 9_999] {
        for (life, series) in (0..3).flat_map(|life| (0..POD_SERIES).map(move |at| (life, at))) {
            let labels = labels(pod, life, series);
            assert!(labels.is_sorted_by(|a, b| a.0 < b.0), "{labels:?}");
            assert!(seen.insert(labels));
        }
    }
}

#[test]
fn a_pods_values_are_what_its_families_say() {
    let mut restarts = 0;
    for pod in 0..20 {
        let mut before = Pod::new(7, pod);
        for _ in 0..500 {
            let mut now = before.clone();
            now.step();
            let is_restart = now.units[0] < before.units[0];
            restarts += usize::from(is_restart);
            for series in 0..POD_SERIES {
                let (name, ..) = family(series);
                let is_counter = series < MEMORY;
                let grows = now.value(series) >= before.value(series);
                assert!(!is_counter || is_restart || grows, "{name} went back");
            }
            let buckets = &now.units[BUCKETS..SUM];
            assert!(buckets.is_sorted(), "{buckets:?}");
            assert_eq!(buckets.last(), Some(&now.units[SUM + 1]));
            assert_eq!(now.value(REST + 2), 1.0);
            before = now;
        }
    }
    assert!((5..80).contains(&restarts), "{restarts} restarts");
}

#[test]
fn a_seed_gives_the_same_values_and_another_one_others() {
    let last = |seed| {
        let mut pod = Pod::new(seed, 3);
        (0..100).for_each(|_| pod.step());
        pod.units
    };
    assert_eq!(last(1), last(1));
    assert_ne!(last(1), last(2));
}

#[test]
fn times_lie_within_the_data() {
    let config = DatasetConfig {
        series: 1_000,
        duration: Duration::from_secs(3600),
        interval: Duration::from_secs(30),
        seed: 1,
        end_ms: 1_700_000_000_000,
        churn: None,
    };
    assert_eq!(
        (config.steps(), config.samples(), config.pods()),
        (120, 120_000, 20)
    );
    for pod in 0..config.pods() {
        assert!(config.time_ms(pod, 0) > config.start_ms());
        assert!(config.time_ms(pod, 119) < config.end_ms);
        assert_eq!(config.time_ms(pod, 1) - config.time_ms(pod, 0), 30_000);
    }
}
