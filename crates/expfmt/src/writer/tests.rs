//! Output in each format, and that it reads back.

use super::*;
use crate::{KeepLabels, ParseOptions, Parser, Resolver};
use narthex_model::{ColumnId, Exemplar, Family, Histogram, LabelSet, MetricType, histogram::Span};
use std::sync::Arc;

const BODY: &str = "# HELP a Some \\\\ text\\nhere \"quoted\".\n# TYPE a counter\na{x=\"1\",job=\"j\"} 1\na{x=\"q\\\"\\\\\\n\",job=\"j\"} 2.5\n\
# TYPE b untyped\nb{job=\"j\"} 1e+06\n# TYPE h histogram\nh_bucket{le=\"+Inf\",job=\"j\"} 3\nh_sum{job=\"j\"} 0.1\nh_count{job=\"j\"} 3\n\
# TYPE \"u.n\" gauge\n{\"u.n\",\"l.n\"=\"v\",job=\"j\"} NaN\n";

struct Strip;

impl Resolver for Strip {
    fn resolve(&mut self, parsed: &LabelSet, _: &LabelSet) -> Result<Option<LabelSet>, String> {
        Ok(Some(parsed.without(&["job"])))
    }
}

fn frame(body: &str) -> Frame {
    let mut parser = Parser::new(LabelSet::new([("job", "j")]), ParseOptions::default());
    let round = parser.parse(Format::Text, body.as_bytes(), 0, &mut Strip);
    round.unwrap().frame
}

fn style(accept: &str) -> Negotiated {
    Negotiated::from_accept(accept)
}

fn written(frame: &Frame, style: Negotiated) -> String {
    let mut page = Vec::new();
    Writer::new(frame.schema(), style).write(frame, &mut page);
    Writer::end(style, &mut page);
    String::from_utf8(page).unwrap()
}

#[test]
fn text_prints_what_the_parser_reads() {
    let utf8 = style("text/plain;version=0.0.4;escaping=allow-utf-8");
    let frame = frame(BODY);
    assert_eq!(written(&frame, utf8), BODY);
    let mut partial = frame.clone();
    partial.restart(frame.schema(), 7);
    partial.set(ColumnId(1), 4.0);
    partial.set_time(ColumnId(1), 99);
    assert_eq!(
        written(&partial, utf8),
        "# HELP a Some \\\\ text\\nhere \"quoted\".\n# TYPE a counter\na{x=\"q\\\"\\\\\\n\",job=\"j\"} 4 99\n"
    );
}

#[test]
fn names_are_escaped_as_asked() {
    let frame = frame("# TYPE \"u.n\" gauge\n{\"u.n\",\"l.n\"=\"v\",job=\"j\"} 1\n");
    for (escaping, shown) in [
        (
            "underscores",
            "# TYPE u_n gauge\nu_n{l_n=\"v\",job=\"j\"} 1\n",
        ),
        (
            "dots",
            "# TYPE u_dot_n gauge\nu_dot_n{l_dot_n=\"v\",job=\"j\"} 1\n",
        ),
        (
            "values",
            "# TYPE U__u_2e_n gauge\nU__u_2e_n{U__l_2e_n=\"v\",job=\"j\"} 1\n",
        ),
    ] {
        assert_eq!(
            written(&frame, style(&format!("text/plain;escaping={escaping}"))),
            shown
        );
    }
}

#[test]
fn openmetrics_has_its_own_heads_and_ends() {
    let body = "# TYPE a_total counter\na_total 1\n# HELP plain Odd.\n# TYPE plain counter\nplain 2\n\
# TYPE h histogram\nh_bucket{le=\"1\",p=\"/\"} 1\nh_bucket{le=\"1\",p=\"/b\"} 1\nh_bucket{le=\"+Inf\",p=\"/\"} 3\n\
h_count{p=\"/\"} 3\n# TYPE u untyped\nu 4\n";
    let mut frame = frame(body);
    frame.push_exemplar(
        ColumnId(0),
        Exemplar {
            labels: LabelSet::new([("trace_id", "x\"y")]),
            value: 0.5,
            time_ms: Some(1_700_000_000_001),
        },
    );
    frame.set_time(ColumnId(6), 1_500);
    let page = written(&frame, style("application/openmetrics-text;version=1.0.0"));
    assert_eq!(
        page,
        "# TYPE a counter\na_total{job=\"j\"} 1 # {trace_id=\"x\\\"y\"} 0.5 1700000000.001\n\
# TYPE h histogram\nh_bucket{le=\"1.0\",p=\"/\",job=\"j\"} 1\nh_bucket{le=\"+Inf\",p=\"/\",job=\"j\"} 3\n\
h_count{p=\"/\",job=\"j\"} 3\nh_bucket{le=\"1.0\",p=\"/b\",job=\"j\"} 1\n\
# HELP plain Odd.\n# TYPE plain unknown\nplain{job=\"j\"} 2\n# TYPE u unknown\nu{job=\"j\"} 4 1.500\n# EOF\n"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn messages_read_back_as_they_were() {
    let family = |name: &str, metric_type| Family {
        name: name.into(),
        metric_type,
        help: "Help.".into(),
        unit: if name == "g_volts" {
            "volts".into()
        } else {
            "".into()
        },
    };
    let mut edit = Schema::new(LabelSet::new([("job", "j")])).edit();
    let mut column = |metric: &str, pair: (&str, &str), name: &str, metric_type| {
        let family = edit.family(family(name, metric_type));
        edit.push(&LabelSet::new([("__name__", metric), pair]), family)
    };
    let counter = column("a_total", ("x", "1"), "a_total", MetricType::Counter);
    let gauge = column("g_volts", ("x", ""), "g_volts", MetricType::Gauge);
    let native = column("h", ("p", "/"), "h", MetricType::Histogram);
    let floats = column("h", ("p", "/f"), "h", MetricType::Histogram);
    let summary = [("s_count", ""), ("s_sum", ""), ("s", "0.5")]
        .map(|(metric, q)| column(metric, ("quantile", q), "s", MetricType::Summary));
    let classic = [
        ("c_bucket", "1.0"),
        ("c_bucket", "+Inf"),
        ("c_count", ""),
        ("c_sum", ""),
    ]
    .map(|(metric, le)| column(metric, ("le", le), "c", MetricType::Histogram));
    let mut frame = Frame::new(edit.finish(), 5);
    frame.set(counter, 17.0);
    frame.set(gauge, -0.5);
    let integers = Histogram {
        histogram_schema: 2,
        integer_counts: true,
        zero_threshold: 1e-128,
        zero_count: 1.0,
        count: 7.0,
        sum: 3.25,
        positive_spans: vec![
            Span {
                offset: -3,
                length: 2,
            },
            Span {
                offset: 4,
                length: 1,
            },
        ],
        positive_buckets: vec![3.0, 1.0, 2.0],
        ..Histogram::default()
    };
    let fractions = Histogram {
        integer_counts: false,
        count: 2.5,
        zero_count: 0.0,
        zero_threshold: 0.0,
        negative_spans: vec![Span {
            offset: 0,
            length: 1,
        }],
        negative_buckets: vec![2.5],
        ..Histogram::default()
    };
    frame.set_histogram(native, Arc::new(integers));
    frame.set_histogram(floats, Arc::new(fractions));
    for (at, id) in summary.into_iter().chain(classic).enumerate() {
        frame.set(id, at as f64);
    }
    for id in [counter, native] {
        let exemplar = Exemplar {
            labels: LabelSet::new([("trace_id", "abc")]),
            value: 0.25,
            time_ms: Some(1_700_000_000_123),
        };
        frame.push_exemplar(id, exemplar);
    }
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let mut page = Vec::new();
    Writer::new(frame.schema(), style(accept)).write(&frame, &mut page);
    let options = ParseOptions {
        native_histograms: true,
        ..ParseOptions::default()
    };
    let mut reader = Parser::new(LabelSet::empty(), options);
    let back = reader
        .parse(Format::Protobuf, &page, 5, &mut KeepLabels)
        .unwrap()
        .frame;
    let shown = |frame: &Frame| {
        let mut lines: Vec<String> = frame
            .present()
            .iter()
            .map(|at| {
                let id = ColumnId(at as u32);
                let family = frame.schema().family(id);
                let value = match narthex_model::cell::Cell::decode(frame.values()[at]) {
                    narthex_model::cell::Cell::Histogram(h) => {
                        format!("{:?}", frame.histograms()[h as usize])
                    }
                    _ => frame.values()[at].to_string(),
                };
                let exemplars = frame.exemplars().iter().filter(|(column, _)| *column == id);
                let exemplars: Vec<String> = exemplars.map(|(_, e)| format!("{e:?}")).collect();
                format!(
                    "{} {value} {family:?} {exemplars:?}",
                    frame.schema().labels(id)
                )
            })
            .collect();
        lines.sort();
        lines
    };
    assert_eq!(shown(&back), shown(&frame));
    assert!(
        written(&frame, style("text/plain"))
            .lines()
            .all(|line| !line.starts_with("h{"))
    );
}
