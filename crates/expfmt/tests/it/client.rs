//! What `narthex-client` encodes, read back: by this crate, and by Prometheus' own parsers.

use crate::oracle::{Oracle, difference, ours};
use narthex_client::{
    CounterVec, DEFAULT_BOUNDS, EncodeOptions, Format as Encoding, GaugeVec, HistogramVec,
    NativeHistogramVec, NativeOptions, Registry, Sample, SummaryVec, Visitor,
};
use narthex_expfmt::{Format, KeepLabels, Negotiated, ParseOptions, Parser, check};
use narthex_model::{LabelSet, cell::Cell};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const FORMATS: [(Encoding, Format); 3] = [
    (Encoding::Text, Format::Text),
    (Encoding::OpenMetrics, Format::OpenMetrics),
    (Encoding::Protobuf, Format::Protobuf),
];

/// Name, labels and bits of every series; a bound or a quantile as a number.
type Series = BTreeMap<(String, Vec<(String, String)>), u64>;

#[derive(Default)]
struct Seen(Series);

impl Visitor for Seen {
    fn family(&mut self, _: &str, _: &str, _: narthex_client::MetricType) {}

    fn sample(&mut self, sample: &Sample<'_>) {
        let name = format!("{}{}", sample.name, sample.suffix);
        self.0
            .insert(key(&name, sample.labels.iter()), sample.value.to_bits());
    }
}

fn key<'a>(
    name: &str,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
) -> (String, Vec<(String, String)>) {
    // Labels without a value are no labels.
    let labels = labels.filter(|(_, value)| !value.is_empty());
    let mut labels: Vec<(String, String)> = labels
        .map(|(name, value)| match (name, value.parse::<f64>()) {
            ("le" | "quantile", Ok(number)) => (name.to_owned(), number.to_string()),
            _ => (name.to_owned(), value.to_owned()),
        })
        .collect();
    labels.sort();
    (name.to_owned(), labels)
}

fn read(format: Format, body: &[u8], options: ParseOptions) -> Series {
    let mut parser = Parser::new(LabelSet::empty(), options);
    let round = parser.parse(format, body, 1, &mut KeepLabels).unwrap();
    let frame = &round.frame;
    let columns = frame.schema().columns();
    columns
        .map(|(id, column)| {
            let labels = column.set.iter().map(|label| (label.name(), label.value()));
            let labels = labels.filter(|(name, _)| *name != "__name__");
            let value = frame.values()[id.index()];
            (key(column.set.metric_name(), labels), value.to_bits())
        })
        .collect()
}

fn encode(registry: &Registry, encoding: Encoding) -> Vec<u8> {
    let mut out = Vec::new();
    registry.encode(encoding, &mut out);
    out
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("payloads of NaN are not kept", |v| !v.is_nan()),
        (-1_000_000..1_000_000_i32).prop_map(f64::from),
        (0..1000_u32).prop_map(|v| f64::from(v) / 1000.0),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_format_is_read_as_what_was_counted(
        rows in proptest::collection::vec(("[^\0]{0,12}", "\\PC*", number()), 1..8),
        help in "[^\0]{0,20}",
    ) {
        let help: &'static str = Box::leak(help.into_boxed_str());
        let labels = &["a", "b"];
        let counters = Arc::new(CounterVec::new("counters_total", help, labels));
        let gauges = Arc::new(GaugeVec::new("gauges", help, labels));
        let histograms = Arc::new(HistogramVec::new("histograms", help, labels, &DEFAULT_BOUNDS));
        let summaries = Arc::new(SummaryVec::new("summaries", help, labels, &[0.5, 1.0]));
        for (a, b, value) in &rows {
            let values = &[a.as_str(), b.as_str()];
            counters.with(values).add(value.abs());
            gauges.with(values).set(*value);
            let series = histograms.with(values);
            series.observe_sampled(*value, || [("trace_id", "x\"\\\n")]);
            summaries.with(values).observe(*value);
        }
        let registry = Registry::new();
        registry.register_shared(counters).unwrap();
        registry.register_shared(gauges).unwrap();
        registry.register_shared(histograms).unwrap();
        registry.register_shared(summaries).unwrap();
        let mut expected = Seen::default();
        registry.visit(&mut expected);
        for (encoding, format) in FORMATS {
            let body = encode(&registry, encoding);
            let found = read(format, &body, ParseOptions::default());
            prop_assert_eq!(&found, &expected.0, "{:?}", encoding);
        }
    }
}

/// Returns a registry with every kind of metric, exemplars and special values.
fn every_kind() -> Registry {
    let registry = Registry::new();
    let counters = Arc::new(CounterVec::new("counters_total", "C \"\\\n.", &["a"]));
    counters
        .with(&["x\"\\\n"])
        .add_with_exemplar(1e15, [("trace_id", "a1")]);
    counters.with(&["é"]).add(0.1);
    let odd = Arc::new(CounterVec::new("odd", "No suffix.", &[]));
    odd.with(&[]).inc();
    let gauges = Arc::new(GaugeVec::new("gauges", "G.", &["a"]));
    for (name, value) in [("a", f64::INFINITY), ("b", f64::NEG_INFINITY), ("c", -0.0)] {
        gauges.with(&[name]).set(value);
    }
    let classic = Arc::new(HistogramVec::new(
        "classic",
        "H.",
        &["a"],
        &[0.25, 0.5, 1e6],
    ));
    let summaries = Arc::new(SummaryVec::new(
        "summaries",
        "S.",
        &["a"],
        &[0.0, 0.5, 0.99],
    ));
    let bare = Arc::new(NativeHistogramVec::new(
        "bare",
        "N.",
        &["a"],
        NativeOptions::new(),
    ));
    let options = NativeOptions::new()
        .schema(8)
        .max_buckets(20)
        .bounds(&[0.1, 1.0]);
    let both = Arc::new(NativeHistogramVec::new("both", "N.", &["a"], options));
    let _empty = (
        bare.with(&["empty"]),
        both.with(&["empty"]),
        classic.with(&["empty"]),
    );
    for i in -40..60 {
        let v = f64::from(i) / 7.0;
        let trace = [("trace_id", i.to_string())];
        classic.with(&["x"]).observe_with_exemplar(v, trace.clone());
        bare.with(&["x"]).observe_with_exemplar(v, trace.clone());
        both.with(&["x"]).observe_with_exemplar(v, trace);
        // OpenMetrics has no quantile below zero.
        summaries.with(&["x"]).observe(v.abs());
    }
    bare.with(&["x"]).observe(f64::INFINITY);
    registry.register_shared(counters).unwrap();
    registry.register_shared(odd).unwrap();
    registry.register_shared(gauges).unwrap();
    registry.register_shared(classic).unwrap();
    registry.register_shared(summaries).unwrap();
    registry.register_shared(bare).unwrap();
    registry.register_shared(both).unwrap();
    registry
}

#[test]
fn prometheus_reads_every_format_as_we_do() {
    let registry = every_kind();
    let mut oracle = Oracle::start();
    let mut exemplars = 0;
    for (encoding, format) in FORMATS {
        for created_lines in [false, true] {
            let mut body = Vec::new();
            let options = EncodeOptions::new(encoding).created_lines(created_lines);
            registry.encode_with(options, &mut body);
            for native in [false, true] {
                let mut options = ParseOptions::default();
                options.native_histograms = native;
                options.classic_histograms = true;
                options.start_times = created_lines;
                let theirs = oracle.read(format, &body, &options).unwrap();
                exemplars += theirs
                    .0
                    .iter()
                    .filter(|one| one.contains("trace_id"))
                    .count();
                let differs = difference(&theirs, &ours(format, &body, &options));
                assert_eq!(differs, None, "{encoding:?} {options:?}");
            }
        }
    }
    assert!(exemplars > 20, "{exemplars}");
}

#[test]
fn the_specifications_have_no_complaints() {
    let registry = every_kind();
    for (encoding, format) in FORMATS {
        let mut body = Vec::new();
        let options = EncodeOptions::new(encoding).created_lines(true);
        registry.encode_with(options, &mut body);
        assert_eq!(
            check(format, &body),
            [],
            "{}",
            String::from_utf8_lossy(&body)
        );
        assert_eq!(Format::of_content_type(encoding.content_type()), Ok(format));
        let negotiated = Negotiated::from_accept(encoding.content_type());
        assert_eq!(Encoding::negotiate(encoding.content_type()), encoding);
        assert_eq!(negotiated.format, format);
    }
}

#[test]
fn native_buckets_are_read_where_they_were_observed() {
    let values = [0.5, 1.0, 1.01, -3.0, 0.0, 1e-40, 1e300, 7.25];
    for schema in [-4, -1, 0, 1, 3, 5, 8] {
        let options = NativeOptions::new().schema(schema);
        let family = Arc::new(NativeHistogramVec::new("native", "N.", &[], options));
        for v in values {
            family.with(&[]).observe(v);
        }
        let registry = Registry::new();
        registry.register_shared(family).unwrap();
        let mut options = ParseOptions::default();
        (options.native_histograms, options.start_times) = (true, true);
        let mut parser = Parser::new(LabelSet::empty(), options);
        let body = encode(&registry, Encoding::Protobuf);
        let round = parser
            .parse(Format::Protobuf, &body, 1, &mut KeepLabels)
            .unwrap();
        let frame = &round.frame;
        let Cell::Histogram(at) = Cell::decode(frame.values()[0]) else {
            panic!("no native histogram");
        };
        assert_eq!(frame.start_times_ms().len(), 1);
        let histogram = &frame.histograms()[at as usize];
        assert_eq!(histogram.histogram_schema, i32::from(schema));
        assert_eq!((histogram.count, histogram.zero_count), (8.0, 2.0));
        // The bounds are those that queries compute with.
        let mut expected = BTreeMap::new();
        for v in values.into_iter().filter(|v| *v > 1e-39) {
            let width = (-f64::from(schema)).exp2();
            let index = (v.log2() / width).ceil() as i32;
            *expected.entry(index).or_insert(0.0) += 1.0;
        }
        let found: BTreeMap<i32, f64> = histogram.positive().filter(|one| one.1 > 0.0).collect();
        assert_eq!(found, expected, "{schema}");
        assert_eq!(histogram.negative().filter(|one| one.1 > 0.0).count(), 1);
    }
}
