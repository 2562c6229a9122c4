//! Contents of a store after requests of both versions.

use crate::support::{NOW_MS, Rig};
use narthex_model::{
    MemStore,
    storage::{Budget, Context, PressureLevels, SeriesQuery, Store, TimeRange},
};
use narthex_remote::{Message, Receiver, ReceiverMemory, Written};
use narthex_testkit::remote_write::{Exemplar, Histogram, Metadata, Request, Series};
use std::sync::Arc;

fn one(labels: &[(&str, &str)], samples: &[(i64, f64)]) -> Request {
    Request {
        series: vec![Series::new(labels, samples)],
        ..Request::default()
    }
}

fn histogram(integer: bool) -> Histogram {
    Histogram {
        time_ms: NOW_MS,
        integer,
        count: 9.0,
        sum: 12.5,
        schema: 1,
        zero_threshold: 0.001,
        zero_count: 1.0,
        positive_spans: vec![(0, 2), (1, 1)],
        positive: vec![1.0, 3.0, 2.0],
        negative_spans: vec![(1, 1)],
        negative: vec![2.0],
        ..Histogram::default()
    }
}

fn of_histogram(histogram: Histogram) -> Request {
    let mut series = Series::new(&[("__name__", "h"), ("job", "j")], &[]);
    series.histograms.push(histogram);
    Request {
        series: vec![series],
        ..Request::default()
    }
}

#[test]
fn floats_staleness_and_special_values_arrive_bit_for_bit() {
    let rig = Rig::new();
    let stale = f64::from_bits(0x7ff0_0000_0000_0002);
    let samples = [
        (NOW_MS, -0.0),
        (NOW_MS + 1, f64::INFINITY),
        (NOW_MS + 2, f64::NAN),
        (NOW_MS + 3, stale),
        (NOW_MS + 4, 1e-300),
    ];
    rig.store(&one(
        &[("__name__", "m"), ("a", "b"), ("empty", "")],
        &samples,
    ));
    let found = rig.samples("m");
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        [(
            "m{a=\"b\"}".to_owned(),
            vec![
                "-0@0".to_owned(),
                "inf@1".to_owned(),
                "NaN@2".to_owned(),
                "stale@3".to_owned(),
                format!("{}@4", 1e-300)
            ]
        )]
    );
}

#[test]
fn labels_in_any_order_are_one_series() {
    let rig = Rig::new();
    rig.store(&one(
        &[("__name__", "m"), ("a", "1"), ("b", "2")],
        &[(NOW_MS, 1.0)],
    ));
    rig.store(&one(
        &[("b", "2"), ("a", "1"), ("__name__", "m")],
        &[(NOW_MS + 1, 2.0)],
    ));
    assert_eq!(rig.samples("m").len(), 1);
    assert_eq!(rig.receiver.series(), 1);
    let both = Request {
        series: vec![
            Series::new(&[("__name__", "n"), ("x", "1")], &[(NOW_MS, 1.0)]),
            Series::new(&[("x", "1"), ("__name__", "n")], &[(NOW_MS + 1, 2.0)]),
            Series::new(&[("__name__", "n"), ("x", "1")], &[(NOW_MS + 2, 3.0)]),
        ],
        ..Request::default()
    };
    rig.store(&both);
    assert_eq!(rig.samples("n")["n{x=\"1\"}"], ["1@0", "2@1", "3@2"]);
}

#[test]
fn series_without_a_name_or_with_a_doubled_label_are_left_out() {
    let request = Request {
        series: vec![
            Series::new(&[("job", "j")], &[(NOW_MS, 1.0)]),
            Series::new(
                &[("__name__", "m"), ("a", "1"), ("a", "2")],
                &[(NOW_MS, 1.0)],
            ),
            Series::new(&[("__name__", "m"), ("", "1")], &[(NOW_MS, 1.0)]),
            Series::new(&[("__name__", "good")], &[(NOW_MS, 1.0)]),
        ],
        ..Request::default()
    };
    let rig = Rig::new();
    let (written, told) = rig.offer(Message::V1, &request);
    assert_eq!(
        (written.samples, told.as_str()),
        (1, ""),
        "version 1 is silent"
    );
    let rig = Rig::new();
    let (written, told) = rig.offer(Message::V2, &request);
    assert_eq!(written.samples, 1);
    assert_eq!(
        told,
        "invalid metric name or labels, got {job=\"j\"}\n\
         invalid labels for series, labels {__name__=\"m\", a=\"1\", a=\"2\"}, duplicated label a\n\
         invalid metric name or labels, got {\"\"=\"1\", __name__=\"m\"}"
    );
    assert_eq!(rig.series().len(), 1);
}

#[test]
fn a_second_value_for_a_time_is_refused_and_the_first_stays() {
    let labels = [("__name__", "m"), ("job", "j"), ("instance", "i")];
    for message in [Message::V1, Message::V2] {
        let rig = Rig::new();
        rig.store(&one(&labels, &[(NOW_MS, 1.0)]));
        rig.store(&one(&labels, &[(NOW_MS, 1.0)]));
        let (written, told) =
            rig.offer(message, &one(&labels, &[(NOW_MS, 2.0), (NOW_MS + 1, 3.0)]));
        assert_eq!(written.samples, 1);
        assert!(told.starts_with("duplicate sample for timestamp"), "{told}");
        assert_eq!(
            rig.samples("m").into_values().next().unwrap(),
            ["1@0", "3@1"]
        );
    }
}

#[test]
fn samples_far_ahead_of_the_clock_are_refused() {
    let rig = Rig::new();
    let request = one(
        &[("__name__", "m")],
        &[(NOW_MS + 600_000, 1.0), (NOW_MS + 600_001, 2.0)],
    );
    let (written, told) = rig.offer(Message::V1, &request);
    assert_eq!(written.samples, 1);
    assert_eq!(told, "out of bounds: timestamp is too far in the future");
}

#[test]
fn how_far_ahead_samples_may_be_can_be_set() {
    let request = one(&[("__name__", "m")], &[(NOW_MS + 600_001, 2.0)]);
    for (limit_ms, stored) in [(Some(600_000), 0), (Some(600_001), 1), (None, 1)] {
        let rig = Rig::new();
        let receiver = rig.receiver.with_future_limit(limit_ms);
        let (written, refused) = receiver.store(Message::V1, &request.v1()).unwrap();
        assert_eq!(written.samples, stored);
        assert_eq!(refused.is_none(), stored == 1, "{refused:?}");
    }
}

#[test]
fn histograms_of_both_kinds_arrive() {
    for message in [Message::V1, Message::V2] {
        for integer in [false, true] {
            let rig = Rig::new();
            let (written, told) = rig.offer(message, &of_histogram(histogram(integer)));
            assert_eq!(told, "");
            assert_eq!((written.samples, written.histograms), (0, 1));
            assert_eq!(
                rig.samples("h").into_values().next().unwrap(),
                [
                    "{{schema:1 count:9 sum:12.5 z_bucket:1 z_bucket_w:0.001 buckets:[1 3 0 2] n_offset:1 n_buckets:[2]}}@0"
                ]
            );
        }
    }
}

#[test]
fn floats_and_histograms_of_ungrouped_series_are_counted_apart() {
    for message in [Message::V1, Message::V2] {
        let rig = Rig::new();
        rig.store(&of_histogram(histogram(true)));
        let mut other = of_histogram(Histogram {
            sum: 13.5,
            ..histogram(true)
        });
        let float = one(&[("__name__", "m")], &[(NOW_MS, 1.0)]);
        other.series.extend(float.series);
        let (written, told) = rig.offer(message, &other);
        assert!(told.starts_with("duplicate sample for timestamp"), "{told}");
        assert_eq!((written.samples, written.histograms), (1, 0));
    }
}

#[test]
fn histograms_that_make_no_sense_are_refused_in_prometheus_words() {
    let cases: [(Histogram, &str); 6] = [
        (
            Histogram {
                count: 8.0,
                ..histogram(true)
            },
            "9 observations found in buckets, but the Count field is 8: histogram's observation count should equal the number of observations found in the buckets (in absence of NaN)",
        ),
        (
            Histogram {
                positive: vec![1.0, 3.0],
                ..histogram(false)
            },
            "positive side: spans need 3 buckets, have 2 buckets: histogram spans specify different number of buckets than provided",
        ),
        (
            Histogram {
                negative: vec![-2.0],
                ..histogram(false)
            },
            "negative side: bucket number 1 has observation count of -2: histogram has a bucket whose observation count is negative",
        ),
        (
            Histogram {
                positive_spans: vec![(0, 2), (-1, 1)],
                ..histogram(false)
            },
            "positive side: span number 2 with offset -1: histogram has a span whose offset is negative",
        ),
        (
            Histogram {
                schema: -9,
                ..histogram(false)
            },
            "histogram has an invalid schema, which must be between -4 and 8 for exponential buckets, or -53 for custom buckets, got schema -9",
        ),
        (
            Histogram {
                schema: -53,
                custom: vec![1.0, 1.0],
                ..histogram(false)
            },
            "custom buckets: previous bound is 1.000000 and current is 1.000000: histogram custom bounds must be in strictly increasing order",
        ),
    ];
    for (histogram, reason) in cases {
        let rig = Rig::new();
        let (written, told) = rig.offer(Message::V1, &of_histogram(histogram));
        assert_eq!((written, told.as_str()), (Written::default(), reason));
    }
}

#[test]
fn finer_histograms_are_made_coarser_and_stale_ones_end_their_series() {
    let rig = Rig::new();
    let fine = Histogram {
        schema: 9,
        ..histogram(true)
    };
    rig.store(&of_histogram(fine));
    let stale = Histogram {
        time_ms: NOW_MS + 1,
        sum: f64::from_bits(0x7ff0_0000_0000_0002),
        ..Histogram::default()
    };
    rig.store(&of_histogram(stale));
    let found = rig.samples("h").into_values().next().unwrap();
    assert!(found[0].starts_with("{{schema:8 "), "{found:?}");
    assert_eq!(found[1], "stale@1");
}

#[test]
fn custom_buckets_arrive() {
    let rig = Rig::new();
    rig.store(&of_histogram(Histogram {
        time_ms: NOW_MS,
        integer: true,
        count: 6.0,
        sum: 7.0,
        schema: -53,
        positive_spans: vec![(0, 3)],
        positive: vec![1.0, 2.0, 3.0],
        custom: vec![0.5, 1.0],
        ..Histogram::default()
    }));
    assert_eq!(
        rig.samples("h").into_values().next().unwrap(),
        ["{{schema:-53 count:6 sum:7 custom_values:[0.5 1] buckets:[1 2 3]}}@0"]
    );
}

#[test]
fn metadata_of_both_versions_is_kept() {
    let family = Metadata {
        family: "http_seconds".to_owned(),
        metric_type: 3,
        help: "Help.".to_owned(),
        unit: "seconds".to_owned(),
    };
    let mut series = Series::new(&[("__name__", "http_seconds_count")], &[(NOW_MS, 1.0)]);
    series.metadata = Some(family.clone());
    for (message, families) in [(Message::V1, vec![family]), (Message::V2, Vec::new())] {
        let rig = Rig::new();
        let request = Request {
            series: vec![series.clone()],
            families,
        };
        rig.offer(message, &request);
        rig.offer(message, &request);
        let view = rig.store.view(TimeRange::ALL).unwrap();
        let known = view.metadata(None, &Context::unlimited()).unwrap();
        let known: Vec<_> = known
            .iter()
            .filter(|family| !family.name.is_empty())
            .collect();
        assert_eq!(known.len(), 1, "{known:?}");
        assert_eq!(&*known[0].name, "http_seconds");
        assert_eq!((&*known[0].help, &*known[0].unit), ("Help.", "seconds"));
    }
}

#[test]
fn exemplars_of_rows_and_of_ungrouped_series_are_kept() {
    for message in [Message::V1, Message::V2] {
        let rig = Rig::new();
        let mut request = Request::default();
        let exemplar = Exemplar {
            labels: vec![("trace_id".to_owned(), "t".to_owned())],
            value: 0.5,
            time_ms: NOW_MS - 5,
        };
        for at in 0..20 {
            let name = format!("m{at:02}");
            let labels = [("__name__", name.as_str()), ("instance", "i"), ("job", "j")];
            let mut series = Series::new(&labels, &[(NOW_MS, 1.0)]);
            series.exemplars = vec![exemplar.clone()];
            request.series.push(series);
        }
        let mut ungrouped = Series::new(&[("__name__", "ungrouped")], &[(NOW_MS, 1.0)]);
        ungrouped.exemplars = vec![exemplar.clone()];
        request.series.push(ungrouped);
        let (written, told) = rig.offer(message, &request);
        assert_eq!(
            (written.samples, written.exemplars, told.as_str()),
            (21, 21, "")
        );
        let view = rig.store.view(TimeRange::ALL).unwrap();
        let all = SeriesQuery::all(TimeRange::ALL);
        let found = view.exemplars(&all, &Context::unlimited()).unwrap();
        assert_eq!(found.len(), 21);
        assert!(
            found
                .iter()
                .all(|series| series.exemplars[0].0 == NOW_MS - 5)
        );
    }
}

#[test]
fn references_behind_the_symbols_refuse_one_series() {
    let rig = Rig::new();
    let request = one(&[("__name__", "m")], &[(NOW_MS, 1.0)]);
    let mut body = request.v2();
    // A series whose label refers to symbols 8 and 9, and one with half a label.
    body.extend_from_slice(&[0x2a, 0x04, 0x0a, 0x02, 0x08, 0x09]);
    body.extend_from_slice(&[0x2a, 0x03, 0x0a, 0x01, 0x01]);
    let (written, refused) = rig.receiver.store(Message::V2, &body).unwrap();
    assert_eq!(written.samples, 1);
    assert_eq!(
        refused.unwrap().to_string(),
        "parsing labels for series [8 9]: labelRefs 8 (name) = 9 (value) outside of symbols table (size 3)\n\
         parsing labels for series [1]: invalid labelRefs length 1"
    );
    let (_, told) = rig.offer(Message::V2, &one(&[("__name__", "m")], &[]));
    assert_eq!(
        told,
        "TimeSeries must contain at least one sample or histogram for series m"
    );
}

#[test]
fn start_times_arrive_with_version_2() {
    let rig = Rig::new();
    let mut request = one(&[("__name__", "m"), ("job", "j")], &[(NOW_MS, 1.0)]);
    request.series[0].start_ms = NOW_MS - 1000;
    rig.offer(Message::V2, &request);
    let ctx = Context::unlimited();
    let view = rig.store.view(TimeRange::ALL).unwrap();
    let mut selector = narthex_model::storage::Selector::new(Vec::new(), TimeRange::ALL);
    selector.hints.start_times = true;
    let prepared = view.prepare(&[selector], &ctx).unwrap();
    let batches = prepared.batches(0, &ctx).unwrap();
    let mut last = Vec::new();
    batches[0]
        .last(&[0], TimeRange::ALL, &mut last, &ctx)
        .unwrap();
    assert_eq!(last[0].as_ref().unwrap().start_time_ms, NOW_MS - 1000);
}

#[test]
fn entries_beyond_what_the_length_allows_are_refused() {
    let rig = Rig::new();
    // Empty samples: two bytes each.
    let mut series = vec![0x0a, 0x06, 0x0a, 0x04, 0x0a, 0x02, b'a', b'b'];
    let mut message = Vec::new();
    for _ in 0..100_000 {
        message.extend_from_slice(&[0x12, 0x00]);
    }
    series.push(0x0a);
    let mut length = message.len();
    while length >= 0x80 {
        series.push(length as u8 | 0x80);
        length >>= 7;
    }
    series.push(length as u8);
    series.extend_from_slice(&message);
    let error = rig.receiver.store(Message::V1, &series).unwrap_err();
    assert_eq!(
        error.to_string(),
        "more entries than the body's length allows"
    );
    assert!(rig.series().is_empty());
}

/// Found by fuzzing: with a NaN sum, the second of two equal histograms was rejected as a duplicate.
#[test]
fn a_histogram_whose_sum_is_nan_may_be_sent_again() {
    let rig = Rig::new();
    let request = of_histogram(Histogram {
        sum: f64::NAN,
        ..histogram(true)
    });
    rig.store(&request);
    rig.store(&request);
}

/// Without a directory entry, only the store knows whether a series exists: while memory is short, the store is asked.
#[test]
fn while_memory_is_short_known_series_are_stored_and_remembered_by_nobody() {
    let store = MemStore::new();
    let process = Budget::new("process", 1 << 30);
    let memory = process.share("remote write", 1 << 28, u64::MAX);
    let sink = Arc::new(store.clone());
    let memory = ReceiverMemory {
        requests: memory,
        ..ReceiverMemory::default()
    };
    let receiver = Receiver::within(sink, Arc::new(|| NOW_MS), &memory);
    let send = |time_ms: i64| {
        let request = one(&[("__name__", "m"), ("job", "j")], &[(time_ms, 1.0)]);
        receiver.store(Message::V1, &request.v1()).unwrap().0
    };
    let full = process.account();
    full.set(800 << 20);
    process.observe(&PressureLevels::default(), 0);
    assert_eq!((send(NOW_MS).samples, receiver.series()), (1, 0));
    full.set(0);
    process.observe(&PressureLevels::default(), 0);
    assert_eq!((send(NOW_MS + 1).samples, receiver.series()), (1, 1));
    full.set(800 << 20);
    process.observe(&PressureLevels::default(), 0);
    assert_eq!((send(NOW_MS + 2).samples, receiver.series()), (1, 1));
    assert_eq!(store.time_range(), Some(TimeRange::new(NOW_MS, NOW_MS + 2)));
}
