//! Tests of `remote_write`.

use super::*;
use crate::load::Churn;
use narthex_testkit::remote_write::{Request, Series};
use std::{collections::BTreeMap, time::Duration};

fn config(pods: usize, steps: u64) -> DatasetConfig {
    DatasetConfig {
        series: pods * POD_SERIES,
        duration: Duration::from_secs(30 * steps),
        interval: Duration::from_secs(30),
        seed: 5,
        end_ms: 1_700_000_000_000,
        churn: None,
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
                    labels: labels(pod, 0, at).into_iter().map(owned).collect(),
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

/// A field of a message: its tag, its number and its bytes.
type Field<'b> = (u64, u64, &'b [u8]);

type Labels = Vec<(String, String)>;

/// Returns the fields of a message.
fn fields(mut message: &[u8]) -> Vec<Field<'_>> {
    fn number(bytes: &mut &[u8]) -> u64 {
        let end = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let (own, rest) = bytes.split_at(end);
        *bytes = rest;
        let digits = own.iter().rev();
        digits.fold(0, |all, byte| all << 7 | u64::from(byte & 0x7f))
    }
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = number(&mut message);
        match tag & 7 {
            0 => fields.push((tag, number(&mut message), &message[..0])),
            1 => {
                let (bits, rest) = message.split_at(8);
                fields.push((tag, u64::from_le_bytes(bits.try_into().unwrap()), bits));
                message = rest;
            }
            _ => {
                let length = number(&mut message) as usize;
                fields.push((tag, 0, &message[..length]));
                message = &message[length..];
            }
        }
    }
    fields
}

fn text(field: &Field<'_>) -> String {
    String::from_utf8(field.2.to_vec()).unwrap()
}

#[test]
fn a_replaced_pod_ends_and_another_begins() {
    let config = DatasetConfig {
        churn: Some(Churn {
            share: 0.6,
            every: 3,
        }),
        ..config(30, 20)
    };
    let mut lives: BTreeMap<Labels, Vec<(u64, u64)>> = BTreeMap::new();
    let (mut requests, mut body, mut samples) = (Requests::new(config), Vec::new(), 0);
    loop {
        match requests.next(&mut body) {
            0 => break,
            more => samples += more,
        }
        for (_, _, series) in fields(&body) {
            let (mut labels, mut samples) = (Vec::new(), Vec::new());
            for (tag, _, inner) in fields(series) {
                match (tag, &*fields(inner)) {
                    (0x0a, [name, value]) => labels.push((text(name), text(value))),
                    (0x12, [(9, bits, _), (16, time_ms, _)]) => samples.push((*time_ms, *bits)),
                    // Zero is left out.
                    (0x12, [(16, time_ms, _)]) => samples.push((*time_ms, 0)),
                    other => panic!("{other:?}"),
                }
            }
            lives.entry(labels).or_default().extend(samples);
        }
    }
    assert_eq!(samples, config.samples());
    let stale = STALE.to_bits();
    let ended = lives
        .values()
        .filter(|samples| samples.last().is_some_and(|last| last.1 == stale));
    let (all, ended) = (lives.len(), ended.count());
    // Six times six in ten of thirty pods.
    assert!((85 * 50..130 * 50).contains(&ended), "{ended}");
    assert_eq!(all - ended, config.series, "as many live as without");
    for (labels, samples) in &lives {
        assert!(samples.is_sorted_by(|a, b| a.0 < b.0), "{labels:?}");
        let marks = samples.iter().filter(|(_, bits)| *bits == stale);
        assert!(marks.count() <= 1, "{labels:?}");
    }
    let values: usize = lives
        .values()
        .flatten()
        .filter(|one| one.1 != stale)
        .count();
    assert_eq!(values as u64, samples);
}
