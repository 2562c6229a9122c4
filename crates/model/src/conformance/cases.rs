//! Named cases, each testing one promise.

use super::{BASE_MS, Dump, Sampled, Subject, dump, dump::dump_prepared};
use crate::{
    MatchOp, Matcher, MetricType, cell,
    frame::{Exemplar, Frame},
    histogram::{Histogram, Span},
    labels::{LabelSet, METRIC_NAME},
    metadata::Family,
    schema::{ColumnId, Schema},
    storage::{
        Budget, Context, ExemplarSeries, Layout, Outcome, Selector, SeriesQuery, SeriesSample,
        StopReason, StorageError, Store, Tile, TimeRange, View,
    },
};
use std::sync::Arc;

type Case = fn(&mut dyn Subject);

/// Lists cases by name.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => {
        &[$((stringify!($case), $case)),+]
    };
}

pub(super) const CASES: &[(&str, Case)] = cases![
    values_come_back_bit_for_bit,
    absence_and_staleness_are_not_values,
    matchers_select_as_prometheus_does,
    schemas_grow_and_shrink,
    histograms_travel,
    exemplars_are_kept,
    samples_may_have_times_of_their_own,
    ungrouped_and_late_samples_are_kept,
    the_first_of_two_values_stays,
    two_origins_may_report_one_series,
    listings_are_sorted_distinct_and_limited,
    metadata_is_kept,
    a_view_is_consistent,
    budgets_and_stops_are_respected,
    an_empty_store_answers,
    start_times_are_kept,
];

pub(super) fn schema(common: &[(&str, &str)], names: &[&str]) -> Schema {
    extend(&Schema::new(LabelSet::new(common.iter().copied())), names)
}

pub(super) fn extend(schema: &Schema, names: &[&str]) -> Schema {
    let mut edit = schema.edit();
    for name in names {
        let (metric, labels) = name.split_once('/').unwrap_or((name, ""));
        let family = Family {
            name: metric.into(),
            metric_type: MetricType::Gauge,
            ..Family::default()
        };
        let family = edit.family(family);
        let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
        edit.push(&LabelSet::new(pairs.chain([(METRIC_NAME, metric)])), family);
    }
    edit.finish()
}

/// Appends a frame with ones in all columns.
fn append_ones(subject: &mut dyn Subject, schema: &Schema) {
    append_rows(subject, schema, 1, |_, frame| {
        schema.columns().for_each(|(id, _)| frame.set(id, 1.0));
    });
}

/// Appends a frame for each row, a second apart unless `fill` says otherwise, and settles; returns how many samples were
/// accepted of each.
fn append_rows(
    subject: &mut dyn Subject,
    schema: &Schema,
    rows: i64,
    fill: impl Fn(i64, &mut Frame),
) -> Vec<u64> {
    let mut binding = subject.sink().bind(schema).expect("a binding");
    let mut frame = Frame::new(schema.clone(), BASE_MS);
    let append = |row: i64| {
        frame.restart(schema, at(row));
        fill(row, &mut frame);
        binding.append(&frame).expect("appended").accepted
    };
    let accepted = (0..rows).map(append).collect();
    drop(binding);
    subject.settle();
    accepted
}

/// Returns the time of a row.
fn at(row: i64) -> i64 {
    BASE_MS + row * 1000
}

fn append(subject: &dyn Subject, samples: &[SeriesSample]) -> Outcome {
    subject.sink().append_samples(samples).expect("appended")
}

fn view(subject: &dyn Subject) -> Arc<dyn View> {
    subject.store().view(TimeRange::ALL).expect("a view")
}

fn column(at: u32) -> ColumnId {
    ColumnId(at)
}

fn only(subject: &dyn Subject, labels: &LabelSet) -> Vec<(i64, Sampled)> {
    let matchers: Vec<Matcher> = labels
        .iter()
        .map(|label| Matcher::equal(label.name(), label.value()))
        .collect();
    let mut all = dump(subject.store(), &matchers, TimeRange::ALL);
    assert!(all.len() <= 1, "{labels} selects {all:?}");
    let samples = all
        .pop_first()
        .map(|(_, samples)| samples)
        .unwrap_or_default();
    samples
        .into_iter()
        .map(|(time_ms, sampled, _)| (time_ms, sampled))
        .collect()
}

fn floats(values: &[(i64, f64)]) -> Vec<(i64, Sampled)> {
    values
        .iter()
        .map(|(time_ms, value)| (*time_ms, Sampled::Float(value.to_bits())))
        .collect()
}

fn values_come_back_bit_for_bit(subject: &mut dyn Subject) {
    let odd = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.1,
        0.30000000000000004,
        1e-300,
        f64::MIN_POSITIVE / 4.0,
        f64::MAX,
        f64::MIN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        cell::NAN,
        f64::NAN,
        f64::from_bits(0x7ff8_dead_beef_0001),
        f64::from_bits(0xfff8_0000_0000_0001),
        9_007_199_254_740_991.0,
        9_007_199_254_740_993.0,
        -9_007_199_254_740_992.0,
        1_767_225_600.123,
        0.001,
        123_456.789,
        1e22,
        5e-324,
    ];
    let names: Vec<String> = (0..40).map(|i| format!("m{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let schema = schema(&[("job", "bits")], &names);
    let value = |row: i64, column: u32| {
        let (row, column) = (row as usize, column as usize);
        odd[(row * 7 + column * (row / 24 + 1)) % odd.len()]
    };
    let accepted = append_rows(subject, &schema, 60, |row, frame| {
        frame.restart(&schema, at(row * 5));
        (0..40).for_each(|of| frame.set(column(of), value(row, of)));
    });
    assert_eq!(accepted, [40; 60]);
    for of in 0..40 {
        let expected: Vec<_> = (0..60).map(|row| (at(row * 5), value(row, of))).collect();
        let found = only(subject, &schema.labels(column(of)));
        assert_eq!(found, floats(&expected), "m{of}");
    }
}

fn absence_and_staleness_are_not_values(subject: &mut dyn Subject) {
    let schema = schema(&[("job", "gaps")], &["flaps", "steady", "ends", "never"]);
    append_rows(subject, &schema, 20, |row, frame| {
        if row % 3 != 0 {
            frame.set(column(0), row as f64);
        }
        frame.set(column(1), 7.0);
        match row {
            0..10 => frame.set(column(2), row as f64 / 10.0),
            10 => frame.mark_stale(column(2)),
            _ => {}
        }
    });
    let flaps: Vec<_> = (0..20)
        .filter(|row| row % 3 != 0)
        .map(|row| (at(row), row as f64))
        .collect();
    assert_eq!(only(subject, &schema.labels(column(0))), floats(&flaps));
    assert_eq!(only(subject, &schema.labels(column(1))).len(), 20);
    let ends: Vec<_> = (0..10).map(|row| (at(row), row as f64 / 10.0)).collect();
    let mut ends = floats(&ends);
    ends.push((at(10), Sampled::Stale));
    assert_eq!(only(subject, &schema.labels(column(2))), ends);
    assert_eq!(only(subject, &schema.labels(column(3))), []);
}

/// Matchers of every kind, alone and together.
const EXPRESSIONS: [&[(MatchOp, &str, &str)]; 14] = [
    &[],
    &[(MatchOp::Equal, METRIC_NAME, "up")],
    &[(MatchOp::Equal, "job", "a")],
    &[(MatchOp::Equal, "pod", "")],
    &[(MatchOp::NotEqual, "pod", "")],
    &[
        (MatchOp::NotEqual, "zone", "z1"),
        (MatchOp::Equal, METRIC_NAME, "req"),
    ],
    &[(MatchOp::Regex, "code", "2..|4..")],
    &[(MatchOp::Regex, "code", "200|500")],
    &[(MatchOp::Regex, "code", "")],
    &[(MatchOp::Regex, "code", "(2..)?")],
    &[(MatchOp::NotRegex, "code", "5..|")],
    &[
        (MatchOp::Regex, "pod", ".+"),
        (MatchOp::NotRegex, "zone", "z1"),
    ],
    &[(MatchOp::Equal, "nope", "x")],
    &[
        (MatchOp::Regex, "zone", ".*"),
        (MatchOp::NotEqual, "job", "b"),
        (MatchOp::Regex, METRIC_NAME, "u.*|req"),
    ],
];

fn matchers_select_as_prometheus_does(subject: &mut dyn Subject) {
    let first = schema(
        &[("job", "a"), ("zone", "z1")],
        &["up", "req/code=200", "req/code=500,pod=p"],
    );
    let second = schema(
        &[("job", "b"), ("pod", "q")],
        &["up", "req/code=404,zone=z2", "odd/code=200"],
    );
    append_ones(subject, &first);
    append_ones(subject, &second);
    let all: Vec<LabelSet> = [&first, &second]
        .iter()
        .flat_map(|schema| schema.columns().map(|(id, _)| schema.labels(id)))
        .collect();
    for expression in EXPRESSIONS {
        let matchers: Vec<Matcher> = expression
            .iter()
            .map(|(op, name, value)| Matcher::new(*op, name, value).expect("a matcher"))
            .collect();
        let query = SeriesQuery {
            any_of: vec![matchers.clone()],
            ..SeriesQuery::all(TimeRange::ALL)
        };
        let mut expected: Vec<LabelSet> = all
            .iter()
            .filter(|labels| query.matches(labels))
            .cloned()
            .collect();
        expected.sort();
        let found: Vec<LabelSet> = dump(subject.store(), &matchers, TimeRange::ALL)
            .into_keys()
            .collect();
        assert_eq!(found, expected, "{matchers:?}");
        let listed = view(subject).series(&query, &Context::unlimited());
        let listed = listed.expect("series");
        assert_eq!(listed.items, expected, "series for {matchers:?}");
    }
}

fn schemas_grow_and_shrink(subject: &mut dyn Subject) {
    let first = schema(&[("job", "grow")], &["a", "b"]);
    let mut binding = subject.sink().bind(&first).expect("a binding");
    let mut frame = Frame::new(first.clone(), BASE_MS);
    frame.set(column(0), 1.0);
    frame.set(column(1), 2.0);
    binding.append(&frame).expect("appended");
    let mut edit = extend(&first, &["c"]).edit();
    edit.retire(column(0));
    let second = edit.finish();
    binding.rebind(&second).expect("rebound");
    frame.restart(&second, at(1));
    frame.set(column(1), 3.0);
    frame.set(column(2), 4.0);
    binding.append(&frame).expect("appended");
    let third = extend(&second, &["a"]);
    binding.rebind(&third).expect("rebound");
    frame.restart(&third, at(2));
    frame.set(column(1), 5.0);
    frame.set(column(3), 6.0);
    binding.append(&frame).expect("appended");
    let other = schema(&[("job", "grow")], &["b", "d"]);
    binding.rebind(&other).expect("rebound to another lineage");
    frame.restart(&other, at(3));
    frame.set(column(0), 7.0);
    frame.set(column(1), 8.0);
    binding.append(&frame).expect("appended");
    // A frame brings its schema along.
    frame.restart(&extend(&other, &["e"]), at(4));
    frame.set(column(2), 9.0);
    binding.append(&frame).expect("appended");
    drop(binding);
    subject.settle();
    let expected: [(_, &[_]); 5] = [
        ("a", &[(at(0), 1.0), (at(2), 6.0)]),
        (
            "b",
            &[(at(0), 2.0), (at(1), 3.0), (at(2), 5.0), (at(3), 7.0)],
        ),
        ("c", &[(at(1), 4.0)]),
        ("d", &[(at(3), 8.0)]),
        ("e", &[(at(4), 9.0)]),
    ];
    for (name, samples) in expected {
        let labels = LabelSet::new([(METRIC_NAME, name), ("job", "grow")]);
        assert_eq!(only(subject, &labels), floats(samples), "{name}");
    }
}

pub(super) fn exponential(count: f64) -> Arc<Histogram> {
    Arc::new(Histogram {
        histogram_schema: 3,
        integer_counts: count.fract() == 0.0,
        zero_threshold: 1e-128,
        zero_count: 1.0,
        count: count * 3.0 + 1.0,
        sum: count * 1.5,
        positive_spans: vec![
            Span {
                offset: -2,
                length: 2,
            },
            Span {
                offset: 3,
                length: 1,
            },
        ],
        positive_buckets: vec![count, count * 0.5, count * 0.5],
        negative_spans: vec![Span {
            offset: 0,
            length: 1,
        }],
        negative_buckets: vec![count],
        ..Histogram::default()
    })
}

fn histograms_travel(subject: &mut dyn Subject) {
    let schema = schema(&[("job", "hist")], &["h", "mixed", "custom"]);
    let custom = |count: f64| {
        Arc::new(Histogram {
            histogram_schema: crate::histogram::CUSTOM_BUCKETS,
            count,
            sum: count * 2.0,
            positive_spans: vec![Span {
                offset: 0,
                length: 3,
            }],
            positive_buckets: vec![count, 0.0, 0.0],
            custom_values: vec![0.1, 1.0],
            ..Histogram::default()
        })
    };
    let accepted = append_rows(subject, &schema, 12, |row, frame| {
        frame.set_histogram(column(0), exponential(row as f64 * 2.0));
        match row % 3 {
            0 => frame.set(column(1), row as f64),
            1 => frame.set_histogram(column(1), exponential(row as f64 + 0.25)),
            _ => frame.mark_stale(column(1)),
        }
        frame.set_histogram(column(2), custom(row as f64));
    });
    assert_eq!(accepted, [3; 12]);
    let expected: Vec<_> = (0..12)
        .map(|row| (at(row), Sampled::Histogram(exponential(row as f64 * 2.0))))
        .collect();
    assert_eq!(only(subject, &schema.labels(column(0))), expected);
    let mixed: Vec<_> = (0..12)
        .map(|row| match row % 3 {
            0 => (at(row), Sampled::Float((row as f64).to_bits())),
            1 => (at(row), Sampled::Histogram(exponential(row as f64 + 0.25))),
            _ => (at(row), Sampled::Stale),
        })
        .collect();
    assert_eq!(only(subject, &schema.labels(column(1))), mixed);
    let expected: Vec<_> = (0..12)
        .map(|row| (at(row), Sampled::Histogram(custom(row as f64))))
        .collect();
    assert_eq!(only(subject, &schema.labels(column(2))), expected);
}

fn samples_may_have_times_of_their_own(subject: &mut dyn Subject) {
    let schema = schema(&[("job", "cadvisor")], &["a", "b", "c"]);
    let own_ms = |row: i64| at(row * 10) - 333 * (row % 3);
    let old_ms = |row: i64| at(-60) + row;
    let accepted = append_rows(subject, &schema, 10, |row, frame| {
        frame.restart(&schema, at(row * 10));
        frame.set(column(0), row as f64);
        frame.set(column(1), row as f64 + 0.5);
        frame.set_time(column(1), own_ms(row));
        frame.set(column(2), 1.0);
        frame.set_time(column(2), old_ms(row));
    });
    assert_eq!(accepted, [3; 10]);
    let own: Vec<_> = (0..10).map(|row| (own_ms(row), row as f64 + 0.5)).collect();
    assert_eq!(only(subject, &schema.labels(column(1))), floats(&own));
    let old: Vec<_> = (0..10).map(|row| (old_ms(row), 1.0)).collect();
    assert_eq!(only(subject, &schema.labels(column(2))), floats(&old));
    assert_eq!(only(subject, &schema.labels(column(0))).len(), 10);
}

fn ungrouped_and_late_samples_are_kept(subject: &mut dyn Subject) {
    let series =
        |i: usize| LabelSet::new([(METRIC_NAME, "scattered"), ("i", i.to_string().as_str())]);
    let mut samples = Vec::new();
    for step in 0..30i64 {
        for i in 0..5usize {
            let time_ms = BASE_MS + (step * 17 % 30) * 1000 + i as i64;
            samples.push(SeriesSample::float(series(i), time_ms, time_ms as f64));
        }
    }
    for chunk in samples.chunks(7) {
        let outcome = append(subject, chunk);
        let counts = (outcome.accepted as usize, outcome.out_of_order);
        assert_eq!(counts, (chunk.len(), 0));
    }
    subject.settle();
    for i in 0..5 {
        let times = (0..30).map(|step| BASE_MS + step * 1000 + i as i64);
        let expected: Vec<_> = times.map(|time_ms| (time_ms, time_ms as f64)).collect();
        assert_eq!(only(subject, &series(i)), floats(&expected));
    }
    let late = [
        SeriesSample::float(series(0), BASE_MS - 3_600_000, 1.0),
        SeriesSample::float(series(0), BASE_MS + 500, 2.0),
        SeriesSample::float(series(0), BASE_MS + 90_000, cell::STALE),
        SeriesSample::histogram(series(1), BASE_MS - 7_000_000, exponential(2.0)),
    ];
    assert_eq!(append(subject, &late).accepted, 4);
    subject.settle();
    let found = only(subject, &series(0));
    assert_eq!(found.len(), 33);
    assert_eq!(found[..1], floats(&[(BASE_MS - 3_600_000, 1.0)]));
    assert_eq!(found[2..3], floats(&[(BASE_MS + 500, 2.0)]));
    assert_eq!(found[32], (BASE_MS + 90_000, Sampled::Stale));
    let oldest = (BASE_MS - 7_000_000, Sampled::Histogram(exponential(2.0)));
    assert_eq!(only(subject, &series(1))[0], oldest);
}

fn the_first_of_two_values_stays(subject: &mut dyn Subject) {
    let labels = LabelSet::new([(METRIC_NAME, "twice")]);
    let counts = |value| {
        let sample = SeriesSample::float(labels.clone(), BASE_MS, value);
        let outcome = append(subject, &[sample]);
        (outcome.accepted, outcome.duplicate)
    };
    let found = [1.0, 1.0, 2.0].map(counts);
    assert_eq!(found, [(1, 0), (1, 0), (0, 1)]);
    subject.settle();
    assert_eq!(only(subject, &labels), floats(&[(BASE_MS, 1.0)]));
}

fn two_origins_may_report_one_series(subject: &mut dyn Subject) {
    let one = schema(&[("job", "fed")], &["shared/instance=x", "mine"]);
    let two = schema(&[("instance", "x")], &["shared/job=fed", "yours"]);
    let mut first = subject.sink().bind(&one).expect("a binding");
    let mut second = subject.sink().bind(&two).expect("a binding");
    for row in 0..10i64 {
        let mut frame = Frame::new(one.clone(), at(row));
        frame.set(column(0), row as f64);
        frame.set(column(1), 1.0);
        first.append(&frame).expect("appended");
        let mut frame = Frame::new(two.clone(), at(row) + 500 * (row % 2));
        frame.set(column(0), row as f64 + 100.0 * (row % 2) as f64);
        frame.set(column(1), 2.0);
        second.append(&frame).expect("appended");
    }
    drop((first, second));
    subject.settle();
    let mut expected = Vec::new();
    for row in 0..10i64 {
        expected.push((at(row), row as f64));
        if row % 2 == 1 {
            expected.push((at(row) + 500, row as f64 + 100.0));
        }
    }
    assert_eq!(only(subject, &one.labels(column(0))), floats(&expected));
    assert_eq!(dump(subject.store(), &[], TimeRange::ALL).len(), 3);
}

fn listings_are_sorted_distinct_and_limited(subject: &mut dyn Subject) {
    let schema = schema(
        &[("job", "list"), ("zone", "z")],
        &["b/x=1", "b/x=2", "a/y=3", "c/x=1,y=4"],
    );
    append_ones(subject, &schema);
    let ctx = Context::unlimited();
    let view = view(subject);
    let names = |query: &SeriesQuery| view.label_names(query, &ctx).expect("names").items;
    let listed = |name: &str, query: &SeriesQuery| view.label_values(name, query, &ctx);
    let values = |name: &str, query: &SeriesQuery| listed(name, query).expect("values").items;
    let all = SeriesQuery::all(TimeRange::ALL);
    assert_eq!(names(&all), ["__name__", "job", "x", "y", "zone"]);
    assert_eq!(values(METRIC_NAME, &all), ["a", "b", "c"]);
    assert_eq!(values("job", &all), ["list"]);
    assert_eq!(values("nope", &all), Vec::<String>::new());
    let limited = SeriesQuery {
        limit: Some(2),
        ..all.clone()
    };
    let two = listed(METRIC_NAME, &limited).expect("values");
    assert_eq!((two.items.len(), two.truncated), (2, true));
    let of_b = SeriesQuery {
        any_of: vec![
            vec![Matcher::equal(METRIC_NAME, "b")],
            vec![Matcher::equal("y", "3")],
        ],
        ..all
    };
    assert_eq!(names(&of_b), ["__name__", "job", "x", "y", "zone"]);
    assert_eq!(values("y", &of_b), ["3"]);
    assert_eq!(values("x", &of_b), ["1", "2"]);
    assert_eq!(view.series(&of_b, &ctx).expect("series").items.len(), 3);
    cardinality_is_counted(&*view);
}

fn cardinality_is_counted(view: &dyn View) {
    let cardinality = view
        .cardinality(2, &Context::unlimited())
        .expect("cardinality");
    assert_eq!((cardinality.series, cardinality.pairs), (4, 9));
    let counts = |counts: [(&str, u64); 2]| counts.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(cardinality.by_metric, counts([("b", 2), ("a", 1)]));
    let by_label = counts([("__name__", 3), ("x", 2)]);
    assert_eq!(cardinality.values_by_label, by_label);
    let by_pair = counts([("job=list", 4), ("zone=z", 4)]);
    assert_eq!(cardinality.by_pair, by_pair);
}

fn metadata_is_kept(subject: &mut dyn Subject) {
    let mut edit = Schema::new(LabelSet::new([("job", "meta")])).edit();
    let family = Family {
        name: "requests".into(),
        metric_type: MetricType::Counter,
        unit: "seconds".into(),
        help: "What\nit is.".into(),
    };
    let id = edit.family(family.clone());
    edit.push(&LabelSet::new([(METRIC_NAME, "requests")]), id);
    let schema = edit.finish();
    append_ones(subject, &schema);
    let (view, ctx) = (view(subject), Context::unlimited());
    let listed = |metric| view.metadata(metric, &ctx).expect("metadata");
    assert_eq!(listed(None), std::slice::from_ref(&family));
    assert_eq!(listed(Some("requests")), [family]);
    assert_eq!(listed(Some("nope")), []);
}

fn exemplars(subject: &dyn Subject, query: &SeriesQuery) -> Vec<ExemplarSeries> {
    let found = view(subject).exemplars(query, &Context::unlimited());
    found.expect("exemplars")
}

fn exemplars_are_kept(subject: &mut dyn Subject) {
    let schema = schema(&[("job", "exemplars")], &["a", "b"]);
    let exemplar = |trace: &str, value: f64, time_ms: Option<i64>| Exemplar {
        labels: LabelSet::new([("trace_id", trace)]),
        value,
        time_ms,
    };
    let mut expected = [Vec::new(), Vec::new()];
    for round in 0..2i64 {
        let mut binding = subject.sink().bind(&schema).expect("a binding");
        for row in 0..3i64 {
            let time_ms = BASE_MS + round * 60_000 + row * 1000;
            let mut frame = Frame::new(schema.clone(), time_ms);
            frame.set(column(0), row as f64);
            frame.set(column(1), 1.0);
            let of_a = exemplar(
                &format!("{round}/{row}"),
                row as f64 / 3.0,
                Some(time_ms - 7),
            );
            frame.push_exemplar(column(0), of_a.clone());
            expected[0].push((time_ms - 7, of_a));
            if row == 1 {
                let of_b = exemplar("b", -0.0, None);
                frame.push_exemplar(column(1), of_b.clone());
                // Without its own time it is the same exemplar in every round.
                if round == 0 {
                    expected[1].push((time_ms, of_b));
                }
            }
            binding.append(&frame).expect("appended");
        }
        drop(binding);
        subject.settle();
        let found = exemplars(subject, &SeriesQuery::all(TimeRange::ALL));
        // An exemplar repeated without a time may be kept once or, where a store restarted, once more.
        let once = |mut exemplars: Vec<(i64, Exemplar)>| {
            exemplars.dedup_by(|next, before| next.1 == before.1 && next.1.time_ms.is_none());
            exemplars
        };
        let found: Vec<_> = found
            .into_iter()
            .map(|series| once(series.exemplars))
            .collect();
        assert_eq!(found, expected, "round {round}");
    }
    let query = SeriesQuery {
        any_of: vec![vec![Matcher::equal(METRIC_NAME, "a")]],
        range: TimeRange::new(BASE_MS, BASE_MS + 1000),
        limit: None,
    };
    let found = exemplars(subject, &query);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].labels, schema.labels(column(0)));
    assert_eq!(found[0].exemplars, [expected[0][1].clone()]);
}

fn a_view_is_consistent(subject: &mut dyn Subject) {
    let schema = schema(&[("job", "view")], &["a", "b"]);
    let mut binding = subject.sink().bind(&schema).expect("a binding");
    let mut append = |row: i64| {
        let mut frame = Frame::new(schema.clone(), at(row));
        frame.set(column(0), row as f64);
        frame.set(column(1), row as f64);
        binding.append(&frame).expect("appended");
    };
    (0..5).for_each(&mut append);
    let snapshot = Snapshot(view(subject));
    let selector = Selector::new(Vec::new(), TimeRange::ALL);
    let prepared = subject
        .store()
        .prepare(TimeRange::ALL, &[selector], &Context::unlimited());
    (5..10).for_each(&mut append);
    let prepared = prepared.expect("prepared");
    let seen = [
        dump_prepared(&*prepared, TimeRange::ALL),
        dump(&snapshot, &[], TimeRange::ALL),
    ];
    for seen in seen {
        assert_eq!(lengths(&seen), [5, 5], "{seen:?}");
    }
    let seen = dump(subject.store(), &[], TimeRange::ALL);
    assert_eq!(
        lengths(&seen),
        [10, 10],
        "writes are read at once: {seen:?}"
    );
    let part = dump(subject.store(), &[], TimeRange::new(at(2), at(6)));
    assert_eq!(lengths(&part), [5, 5], "both ends are inclusive: {part:?}");
}

/// Returns the number of samples of each series.
fn lengths(all: &Dump) -> Vec<usize> {
    all.values().map(Vec::len).collect()
}

struct Snapshot(Arc<dyn View>);

impl Store for Snapshot {
    fn view(&self, _: TimeRange) -> Result<Arc<dyn View>, StorageError> {
        Ok(Arc::clone(&self.0))
    }

    fn time_range(&self) -> Option<TimeRange> {
        None
    }
}

fn budgets_and_stops_are_respected(subject: &mut dyn Subject) {
    let schema = schema(&[("job", "stop")], &["a"]);
    append_ones(subject, &schema);
    let ctx = Context::unlimited();
    ctx.stop.stop(StopReason::Canceled);
    let view = view(subject);
    let selector = Selector::new(Vec::new(), TimeRange::ALL);
    let outcome = view
        .prepare(std::slice::from_ref(&selector), &ctx)
        .and_then(|prepared| {
            let batches = prepared.batches(0, &ctx)?;
            batches.iter().try_for_each(|batch| {
                let mut tile = Tile::default();
                batch.read(&[0], TimeRange::ALL, Layout::SeriesMajor, &mut tile, &ctx)
            })
        });
    assert!(
        matches!(outcome, Err(StorageError::Stopped(StopReason::Canceled))),
        "{outcome:?}"
    );
    let budget = Budget::new("test", 1 << 30);
    let ctx = Context {
        budget: budget.clone(),
        ..Context::unlimited()
    };
    let prepared = view.prepare(&[selector], &ctx).expect("prepared");
    drop(prepared.batches(0, &ctx).expect("batches"));
    drop(prepared);
    assert_eq!(budget.used_bytes(), 0, "everything leased came back");
}

fn an_empty_store_answers(subject: &mut dyn Subject) {
    subject.settle();
    assert_eq!(subject.store().time_range(), None);
    assert!(dump(subject.store(), &[], TimeRange::ALL).is_empty());
    let (view, ctx) = (view(subject), Context::unlimited());
    let names = view.label_names(&SeriesQuery::all(TimeRange::ALL), &ctx);
    assert!(names.expect("names").items.is_empty());
    assert_eq!(view.cardinality(10, &ctx).expect("cardinality").series, 0);
}

fn start_times_are_kept(subject: &mut dyn Subject) {
    let schema = schema(&[("job", "starts")], &["counter", "gauge"]);
    let started_ms = |row: i64| at(-5) + (row / 4) * 4000;
    append_rows(subject, &schema, 9, |row, frame| {
        frame.set(column(0), (row % 4) as f64);
        frame.set_start_time(column(0), started_ms(row));
        frame.set(column(1), 1.0);
    });
    let all = dump(subject.store(), &[], TimeRange::ALL);
    let starts = |of: u32| -> Vec<i64> {
        let samples = all[&schema.labels(column(of))].iter();
        samples.map(|(_, _, start_ms)| *start_ms).collect()
    };
    assert_eq!(starts(0), (0..9).map(started_ms).collect::<Vec<_>>());
    assert_eq!(starts(1), [0; 9]);
    let range = subject.store().time_range().expect("samples");
    assert_eq!(range, TimeRange::new(at(0), at(8)));
}
