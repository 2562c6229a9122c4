//! Messages parsed into frames: the result for each type, native histograms, and rounds along the expected order.

use crate::messages::{Message, corpus, family, histogram, metric, span};
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser, Round, RoundStats};
use narthex_model::{Frame, LabelSet, MetricType, cell::Cell, histogram::CUSTOM_BUCKETS};

fn parser(options: impl FnOnce(&mut ParseOptions)) -> Parser {
    let mut chosen = ParseOptions::default();
    options(&mut chosen);
    Parser::new(LabelSet::empty(), chosen)
}

fn native(options: &mut ParseOptions) {
    options.native_histograms = true;
}

/// Lists samples as `series value`, in slot order; histograms in test notation.
fn shown(frame: &Frame) -> Vec<String> {
    let line = |at: usize| {
        let column = narthex_model::ColumnId(at as u32);
        let value = match Cell::decode(frame.values()[at]) {
            Cell::Histogram(h) => frame.histograms()[h as usize].test_notation(),
            _ => frame.values()[at].to_string(),
        };
        let time = frame
            .times_ms()
            .get(at)
            .filter(|time| **time != frame.time_ms());
        let time = time.map(|time| format!(" @{time}")).unwrap_or_default();
        format!("{} {value}{time}", frame.schema().column(column).set)
    };
    frame.present().iter().map(line).collect()
}

fn round(parser: &mut Parser, body: &[u8]) -> Round {
    let round = parser.parse(Format::Protobuf, body, 5, &mut KeepLabels);
    round.unwrap()
}

fn parsed(parser: &mut Parser, body: &[u8]) -> Vec<String> {
    shown(&round(parser, body).frame)
}

fn stats(parser: &mut Parser, body: &[u8]) -> RoundStats {
    round(parser, body).stats
}

#[test]
fn every_type_gives_its_series() {
    let mut parser = parser(|_| {});
    let body = &corpus()[0];
    let frame = round(&mut parser, body).frame;
    assert_eq!(
        shown(&frame),
        [
            "requests_total{code=\"200\"} 17",
            "requests_total{code=\"500\"} 3 @1700000000000",
            "temperature_celsius -3.5",
            "rpc_seconds_count{m=\"get\"} 5",
            "rpc_seconds_sum{m=\"get\"} 1.5",
            "rpc_seconds{m=\"get\", quantile=\"0.5\"} 0.2",
            "rpc_seconds{m=\"get\", quantile=\"1.0\"} 0.9",
            "odd{\"u.n\"=\"v\"} 1",
            "latency_seconds_count{p=\"/\"} 7",
            "latency_seconds_sum{p=\"/\"} 12.5",
            "latency_seconds_bucket{le=\"1.0\", p=\"/\"} 3",
            "latency_seconds_bucket{le=\"2.5\", p=\"/\"} 6",
            "latency_seconds_bucket{le=\"+Inf\", p=\"/\"} 7",
            "pool_count 3.5",
            "pool_sum 1",
            "pool_bucket{le=\"+Inf\"} 3.5",
        ]
    );
    let family = parser.schema().families();
    let kinds: Vec<(&str, MetricType, &str)> = family
        .iter()
        .map(|family| (&*family.name, family.metric_type, &*family.unit))
        .collect();
    assert_eq!(
        kinds,
        [
            ("requests_total", MetricType::Counter, ""),
            ("temperature_celsius", MetricType::Gauge, "celsius"),
            ("rpc_seconds", MetricType::Summary, ""),
            ("odd", MetricType::Unknown, ""),
            ("latency_seconds", MetricType::Histogram, ""),
            ("pool", MetricType::GaugeHistogram, ""),
        ]
    );
    let exemplars: Vec<(u32, f64, Option<i64>)> = frame
        .exemplars()
        .iter()
        .map(|(column, exemplar)| (column.0, exemplar.value, exemplar.time_ms))
        .collect();
    assert_eq!(exemplars, [(0, 1.0, Some(5_000)), (11, 2.0, None)]);
    assert!(frame.start_times_ms().is_empty());
    let again = stats(&mut parser, body);
    assert_eq!((again.lines, again.expected, again.added), (16, 16, 0));
}

/// Regression: a gauge was stored as the histogram without buckets that had its name and labels before.
#[test]
fn a_family_of_another_type_has_other_series() {
    let mut parser = parser(|_| {});
    let gauge = |name: &str| {
        let value = metric(&[]).part(2, Message::new().double(1, 2.0));
        family(name, 1).part(4, value).delimited()
    };
    let histogram = Message::new().integer(1, 7).double(2, 12.5);
    let before = family("a", 4).part(4, metric(&[]).part(7, histogram));
    let before = [before.delimited(), gauge("b")].concat();
    let lines = ["a_count 7", "a_sum 12.5", "a_bucket{le=\"+Inf\"} 7", "b 2"];
    assert_eq!(parsed(&mut parser, &before), lines);
    let after = [gauge("b"), gauge("a")].concat();
    assert_eq!(parsed(&mut parser, &after), ["b 2", "a 2"]);
}

#[test]
fn series_have_the_type_and_unit_of_their_family_on_request() {
    let mut labelled = parser(|options| options.type_and_unit_labels = true);
    let value = || metric(&[]).part(2, Message::new().double(1, 2.0));
    let mut body = family("disk_bytes", 1)
        .part(4, value())
        .text(5, "bytes")
        .delimited();
    body.extend(family("load", 1).part(4, value()).delimited());
    let expected = [
        "disk_bytes{__type__=\"gauge\", __unit__=\"bytes\"} 2",
        "load{__type__=\"gauge\"} 2",
    ];
    for _ in 0..2 {
        assert_eq!(parsed(&mut labelled, &body), expected);
    }
    let units: Vec<String> = labelled
        .schema()
        .families()
        .iter()
        .map(|family| family.unit.to_string())
        .collect();
    assert_eq!(units, ["bytes", ""]);
    assert_eq!(stats(&mut labelled, &body).expected, 2);
}

#[test]
fn native_histograms_are_read_and_classic_ones_kept_on_request() {
    let body = family("h", 4)
        .part(4, metric(&[]).part(7, histogram()))
        .delimited();
    let buckets =
        "{{schema:1 count:7 sum:12.5 z_bucket:1 z_bucket_w:0.001 offset:-1 buckets:[1 3 0 0 0 2]}}";
    let mut only = parser(native);
    let frame = round(&mut only, &body).frame;
    assert_eq!(shown(&frame), [format!("h {buckets}")]);
    let exemplars: Vec<&str> = frame
        .exemplars()
        .iter()
        .filter_map(|(_, exemplar)| exemplar.labels.get("trace_id"))
        .collect();
    assert_eq!(
        exemplars,
        ["early", "late"],
        "in order of time, none without one"
    );
    let mut both = parser(|options| {
        native(options);
        options.classic_histograms = true;
        options.start_times = true;
    });
    let frame = round(&mut both, &body).frame;
    let lines = shown(&frame);
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert_eq!(lines[0], format!("h {buckets}"));
    assert_eq!(frame.start_times_ms().len(), 6);
    assert!(
        frame
            .start_times_ms()
            .iter()
            .all(|(_, at)| *at == 1_700_000_000_123)
    );
    assert_eq!(stats(&mut both, &body).expected, 6);
}

#[test]
fn classic_histograms_become_native_ones_on_request() {
    let body = family("h", 4)
        .part(4, metric(&[]).part(7, histogram()))
        .delimited();
    let mut converting = parser(|options| options.custom_buckets = true);
    assert_eq!(
        parsed(&mut converting, &body),
        ["h {{schema:-53 count:7 sum:12.5 custom_values:[1 2.5] buckets:[3 3 1]}}"]
    );
    let round = converting
        .parse(Format::Protobuf, &body, 5, &mut KeepLabels)
        .unwrap();
    assert_eq!(round.frame.histograms()[0].histogram_schema, CUSTOM_BUCKETS);
    assert_eq!((round.stats.samples(), round.stats.expected), (1, 1));
    let mut both = parser(|options| {
        options.custom_buckets = true;
        options.classic_histograms = true;
    });
    assert_eq!(parsed(&mut both, &body).len(), 6);
}

#[test]
fn limits_reduce_resolution_or_refuse() {
    let wide = Message::new()
        .integer(1, 8)
        .signed(5, 3)
        .part(12, span(1, 8))
        .bytes(13, &[2, 0, 0, 0, 0, 0, 0, 0]);
    let body = family("h", 4)
        .part(4, metric(&[]).part(7, wide))
        .delimited();
    let resolution = |options: &dyn Fn(&mut ParseOptions)| {
        let mut parser = parser(|chosen| {
            native(chosen);
            options(chosen);
        });
        let round = parser.parse(Format::Protobuf, &body, 5, &mut KeepLabels);
        round
            .map(|round| round.frame.histograms()[0].histogram_schema)
            .map_err(|error| error.to_string())
    };
    assert_eq!(resolution(&|_| {}), Ok(3));
    assert_eq!(resolution(&|options| options.bucket_limit = 4), Ok(2));
    assert_eq!(
        resolution(&|options| options.max_histogram_schema = 1),
        Ok(1)
    );
    let two = |options: &mut ParseOptions| options.bucket_limit = 1;
    assert_eq!(resolution(&two), Ok(0));
    let custom = family("h", 4)
        .part(4, metric(&[]).part(7, histogram()))
        .delimited();
    let mut parser = parser(|options| {
        options.custom_buckets = true;
        options.bucket_limit = 2;
    });
    let error = parser
        .parse(Format::Protobuf, &custom, 5, &mut KeepLabels)
        .unwrap_err();
    assert_eq!(error.to_string(), "histogram bucket limit exceeded");
}

#[test]
fn later_bodies_only_move_numbers() {
    let body = |codes: &[&str], value: f64| {
        let metric =
            |code: &&str| metric(&[("code", code)]).part(3, Message::new().double(1, value));
        family("a_total", 0)
            .parts(4, codes.iter().map(metric))
            .delimited()
    };
    let mut parser = parser(|_| {});
    let all = ["1", "2", "3", "4", "5", "6"];
    assert_eq!(stats(&mut parser, &body(&all, 1.0)).added, 6);
    let schema = parser.schema().clone();
    assert_eq!(
        parsed(&mut parser, &body(&all, 2.0))[5],
        "a_total{code=\"6\"} 2"
    );
    let gone = stats(&mut parser, &body(&["1", "4", "6"], 3.0));
    assert_eq!((gone.lines, gone.expected, gone.added), (3, 3, 0));
    let turned = stats(&mut parser, &body(&["6", "5", "4", "3", "2", "1"], 4.0));
    assert_eq!((turned.lines, turned.found, turned.added), (6, 6, 0));
    let again = stats(&mut parser, &body(&["6", "5", "4", "3", "2", "1"], 5.0));
    assert_eq!((again.expected, again.added), (6, 0));
    assert!(parser.schema().same(&schema));
    let new = stats(
        &mut parser,
        &body(&["6", "5", "7", "4", "3", "2", "1"], 6.0),
    );
    assert_eq!((new.added, new.expected), (1, 6));
    let other_help = Message::new()
        .text(1, "a_total")
        .text(2, "Other.")
        .integer(3, 0)
        .part(
            4,
            metric(&[("code", "1")]).part(3, Message::new().double(1, 7.0)),
        )
        .delimited();
    let changed = stats(&mut parser, &other_help);
    assert_eq!((changed.found, changed.added), (1, 0));
    assert_eq!(&*parser.schema().families()[0].help, "Other.");
}

#[test]
fn formats_may_change_between_bodies() {
    let body = family("a_total", 0)
        .part(
            4,
            metric(&[("x", "1")]).part(3, Message::new().double(1, 1.0)),
        )
        .delimited();
    let mut parser = parser(|_| {});
    stats(&mut parser, &body);
    let text = b"# TYPE a_total counter\na_total{x=\"1\"} 2\n";
    let round = parser
        .parse(Format::Text, text, 5, &mut KeepLabels)
        .unwrap();
    assert_eq!(
        (round.stats.added, shown(&round.frame)),
        (0, vec!["a_total{x=\"1\"} 2".to_owned()])
    );
    let marked = b"# TYPE a counter\na_total{x=\"1\"} 3\n# EOF\n";
    let round = parser
        .parse(Format::OpenMetrics, marked, 5, &mut KeepLabels)
        .unwrap();
    assert_eq!((round.stats.added, round.frame.values()[0]), (0, 3.0));
    assert_eq!(
        stats(&mut parser, &body).expected,
        1,
        "the order of messages is remembered"
    );
}

#[test]
fn nonsense_is_refused_where_it_stands() {
    let of = |histogram: Message| {
        family("h", 4)
            .part(4, metric(&[]).part(7, histogram))
            .delimited()
    };
    let spans = Message::new()
        .integer(1, 1)
        .part(12, span(0, u64::from(u32::MAX)))
        .signed(13, 1);
    let negative = Message::new()
        .integer(1, 1)
        .part(12, span(0, 2))
        .signed(13, 2)
        .signed(13, -3);
    let cases: [(Vec<u8>, &str); 6] = [
        (vec![5, 1], "a length beyond the end of its message"),
        (vec![0x80; 12], "a number that does not end"),
        (
            family("a", 9).part(4, metric(&[])).delimited(),
            "an unknown metric type",
        ),
        (
            family("", 0).part(4, metric(&[])).delimited(),
            "a metric family without a name",
        ),
        (of(spans), "spans require 4294967295 buckets, have 1"),
        (of(negative), "negative count"),
    ];
    for (body, message) in cases {
        let error = parser(native)
            .parse(Format::Protobuf, &body, 5, &mut KeepLabels)
            .unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert!(error.to_string().starts_with("byte "), "{error}");
    }
    let unlabelled = family("a", 0).part(4, metric(&[("", "x")])).delimited();
    assert!(
        parser(|_| {})
            .parse(Format::Protobuf, &unlabelled, 5, &mut KeepLabels)
            .is_err()
    );
}
