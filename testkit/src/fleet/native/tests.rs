//! Tests of `native`.

use super::*;

#[test]
fn short_gaps_are_zeros_and_long_ones_end_a_span() {
    let mut native = Native::new(&mut SplitMix64::new(1));
    native.counts = [0; BUCKETS];
    assert_eq!(native.spans().count(), 0);
    for (at, count) in [(0, 4), (1, 2), (4, 1), (8, 3), (39, 5)] {
        native.counts[at] = count;
    }
    let spans: Vec<_> = native.spans().collect();
    assert_eq!(spans, [0..5, 8..9, 39..40]);
}

#[test]
fn the_count_is_that_of_all_buckets_and_grows() {
    let mut rng = SplitMix64::new(7);
    let mut native = Native::new(&mut rng);
    let before = native.count;
    for _ in 0..100 {
        let count = native.step(&mut rng);
        let all = native.counts.iter().sum::<u64>() + native.zeros;
        assert_eq!(count, all as f64);
    }
    assert!(native.count > before + 500 && native.zeros > 0);
}
