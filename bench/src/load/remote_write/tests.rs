//! Tests of `remote_write`.

use super::*;
use narthex_testkit::remote_write::{Request, Series};
use std::time::Duration;

fn config(pods: usize, steps: u64) -> DatasetConfig {
    DatasetConfig {
        series: pods * POD_SERIES,
        duration: Duration::from_secs(30 * steps),
        interval: Duration::from_secs(30),
        seed: 5,
        end_ms: 1_700_000_000_000,
    }
}

#[test]
fn requests_are_what_another_encoder_makes_of_the_same_samples() {
    let config = config(3, 7);
    let mut pods: Vec<Pod> = (0..3).map(|pod| Pod::new(5, pod)).collect();
    let mut requests = Requests::new(config);
    let mut body = Vec::new();
    for steps in [0..5, 5..7] {
        let mut series = Vec::new();
        for (pod, values) in pods.iter_mut().enumerate() {
            let mut samples = vec![Vec::new(); POD_SERIES];
            for step in steps.clone() {
                values.step();
                for (at, samples) in samples.iter_mut().enumerate() {
                    samples.push((config.time_ms(pod, step), values.value(at)));
                }
            }
            for (at, samples) in samples.into_iter().enumerate() {
                let owned = |(name, value): (&str, String)| (name.to_owned(), value);
                series.push(Series {
                    labels: labels(pod, at).into_iter().map(owned).collect(),
                    samples,
                    ..Series::default()
                });
            }
        }
        let expected = Request {
            series,
            families: Vec::new(),
        };
        let samples = requests.next(&mut body);
        assert_eq!(samples, 3 * POD_SERIES as u64 * (steps.end - steps.start));
        assert!(body == expected.v1(), "the request of {steps:?} differs");
    }
    assert_eq!((requests.next(&mut body), body.len()), (0, 0));
}

#[test]
fn every_sample_is_in_one_request() {
    for (pods, steps) in [(1, 1), (40, 5), (41, 6), (100, 12), (0, 3), (3, 0)] {
        let config = config(pods, steps);
        let mut requests = Requests::new(config);
        let (mut body, mut all) = (Vec::new(), 0);
        loop {
            match requests.next(&mut body) {
                0 => break,
                samples => all += samples,
            }
        }
        assert_eq!(all, config.samples(), "{pods} pods, {steps} steps");
    }
}
