//! Histograms against a model that counts each bucket by itself.

use narthex_client::{
    DEFAULT_BOUNDS, Histogram, HistogramVec, MetricType, Registry, Sample, Visitor,
};
use proptest::prelude::*;

use crate::leak;

/// Collects `le` and value of the buckets, then sum and count.
#[derive(Default)]
struct Seen {
    buckets: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

impl Visitor for Seen {
    fn family(&mut self, _: &str, _: &str, kind: MetricType) {
        assert_eq!(kind, MetricType::Histogram);
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        match sample.suffix {
            "_bucket" => {
                let le = sample
                    .labels
                    .iter()
                    .find(|(name, _)| *name == "le")
                    .unwrap();
                self.buckets.push((le.1.parse().unwrap(), sample.value));
            }
            "_sum" => self.sum = sample.value,
            "_count" => self.count = sample.value,
            other => panic!("{other}"),
        }
    }
}

fn read(histogram: &'static Histogram) -> Seen {
    let registry = Registry::new();
    registry.register(histogram).unwrap();
    let mut seen = Seen::default();
    registry.visit(&mut seen);
    seen
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        -10.0..10.0_f64,
        any::<f64>(),
        (-20..20_i32).prop_map(f64::from),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(-0.0),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_model(
        // Both sides of the limit between comparing all bounds and searching them.
        bounds in proptest::collection::btree_set(-15..60_i32, 0..60),
        values in proptest::collection::vec(value(), 0..200),
    ) {
        let bounds: Vec<f64> = bounds.into_iter().map(f64::from).collect();
        let histogram = leak(Histogram::new("h", "H.", leak(bounds.clone())));
        values.iter().for_each(|v| histogram.observe(*v));
        let seen = read(histogram);
        let model: Vec<(f64, f64)> = bounds
            .iter()
            .map(|bound| (*bound, values.iter().filter(|v| *v <= bound).count() as f64))
            .chain([(f64::INFINITY, values.len() as f64)])
            .collect();
        prop_assert_eq!(&seen.buckets, &model);
        prop_assert_eq!(seen.count, values.len() as f64);
        prop_assert_eq!(histogram.count(), values.len() as u64);
        let sum = values.iter().fold(0.0, |sum, v| sum + v);
        prop_assert!(seen.sum == sum || (seen.sum.is_nan() && sum.is_nan()));
    }
}

#[test]
fn bounds_are_inclusive() {
    static HISTOGRAM: Histogram = Histogram::new("h", "H.", &DEFAULT_BOUNDS);
    for bound in DEFAULT_BOUNDS {
        HISTOGRAM.observe(bound);
        HISTOGRAM.observe(bound.next_up());
    }
    let seen = read(&HISTOGRAM);
    let counts: Vec<f64> = seen.buckets.iter().map(|(_, count)| *count).collect();
    assert_eq!(
        counts,
        [
            1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0, 19.0, 21.0, 22.0
        ]
    );
}

#[test]
fn count_is_the_last_bucket_and_buckets_ascend_while_others_observe() {
    static HISTOGRAM: Histogram = Histogram::new("h", "H.", &DEFAULT_BOUNDS);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| (0..200_000).for_each(|i| HISTOGRAM.observe(f64::from(i % 13))))
            })
            .collect();
        while !writers
            .iter()
            .all(std::thread::ScopedJoinHandle::is_finished)
        {
            let seen = read(&HISTOGRAM);
            assert!(seen.buckets.is_sorted_by(|a, b| a.1 <= b.1));
            assert_eq!(seen.buckets.last().unwrap().1, seen.count);
        }
    });
    assert_eq!(HISTOGRAM.count(), 400_000);
}

#[test]
fn timers_observe_seconds_once() {
    static VEC: HistogramVec<1> = HistogramVec::new("h", "H.", &["a"], &[1.0]);
    let handle = VEC.with(&["x"]);
    drop(handle.start_timer());
    handle.start_timer().discard();
    handle.observe_duration(std::time::Duration::from_millis(1500));
    assert_eq!(handle.count(), 2);
    assert!(
        handle.sum() >= 1.5 && handle.sum() < 2.5,
        "{}",
        handle.sum()
    );
}
