//! OpenMetrics parsed into frames, and features common to the line formats: bounds, conversions, times.

use narthex_expfmt::{Format, KeepLabels, Lint, ParseOptions, Parser, check, lint};
use narthex_model::{ColumnId, Frame, LabelSet, MetricType, cell::Cell};

fn parser(options: impl FnOnce(&mut ParseOptions)) -> Parser {
    let mut chosen = ParseOptions::default();
    options(&mut chosen);
    Parser::new(LabelSet::empty(), chosen)
}

/// Lists samples as `series value [@time]`, in slot order; histograms in test notation.
fn shown(frame: &Frame) -> Vec<String> {
    let line = |at: usize| {
        let column = ColumnId(at as u32);
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

fn parsed(parser: &mut Parser, body: &str) -> Vec<String> {
    let round = parser.parse(Format::OpenMetrics, body.as_bytes(), 5, &mut KeepLabels);
    shown(&round.unwrap().frame)
}

const BODY: &str = "# TYPE req_seconds counter\n# UNIT req_seconds seconds\n# HELP req_seconds A \\\"help\\n.\n\
req_seconds_total{p=\"/\"} 17.5 1.5 # {trace_id=\"a b\"} 0.5 1700000000.123\nreq_seconds_created{p=\"/\"} 1600000000.25\n\
# TYPE build info\nbuild_info{v=\"1\"} 1\n# TYPE mode stateset\nmode{mode=\"on\"} 1\n\
# TYPE pool gaugehistogram\npool_bucket{le=\"1\"} 2\npool_gcount 2\npool_gsum 1.5\n\
# TYPE rpc summary\nrpc{quantile=\".5\"} 0.25\nrpc_count 3\n{\"u.n\",\"l.n\"=\"v\"} 4 # {} 1\n# EOF\n";

#[test]
fn everything_the_format_has_is_read() {
    let mut parser = parser(|_| {});
    let round = parser.parse(Format::OpenMetrics, BODY.as_bytes(), 5, &mut KeepLabels);
    let frame = round.unwrap().frame;
    assert_eq!(
        shown(&frame),
        [
            "req_seconds_total{p=\"/\"} 17.5 @1500",
            "req_seconds_created{p=\"/\"} 1600000000.25",
            "build_info{v=\"1\"} 1",
            "mode{mode=\"on\"} 1",
            "pool_bucket{le=\"1\"} 2",
            "pool_gcount 2",
            "pool_gsum 1.5",
            "rpc{quantile=\"0.5\"} 0.25",
            "rpc_count 3",
            "{\"u.n\", \"l.n\"=\"v\"} 4",
        ]
    );
    let families: Vec<(&str, MetricType, &str, &str)> = parser
        .schema()
        .families()
        .iter()
        .map(|family| {
            (
                &*family.name,
                family.metric_type,
                &*family.unit,
                &*family.help,
            )
        })
        .collect();
    assert_eq!(
        families,
        [
            ("req_seconds", MetricType::Counter, "seconds", "A \"help\n."),
            ("build", MetricType::Info, "", ""),
            ("mode", MetricType::StateSet, "", ""),
            ("pool", MetricType::GaugeHistogram, "", ""),
            ("rpc", MetricType::Summary, "", ""),
            ("u.n", MetricType::Unknown, "", ""),
        ]
    );
    let shown: Vec<String> = frame
        .exemplars()
        .iter()
        .map(|(column, e)| format!("{} {} {} {:?}", column.0, e.labels, e.value, e.time_ms))
        .collect();
    assert_eq!(
        shown,
        [
            "0 {trace_id=\"a b\"} 0.5 Some(1700000000123)",
            "9 {} 1 None"
        ]
    );
}

#[test]
fn lines_with_times_and_exemplars_run_along_the_template() {
    let mut parser = parser(|_| {});
    parsed(&mut parser, BODY);
    let schema = parser.schema().clone();
    let later = BODY
        .replace("17.5 1.5", "18 2.5")
        .replace("a b\"} 0.5 1700000000.123", "c\"} 0.75");
    let round = parser
        .parse(Format::OpenMetrics, later.as_bytes(), 6, &mut KeepLabels)
        .unwrap();
    assert_eq!((round.stats.lines, round.stats.expected), (10, 10));
    assert_eq!(round.frame.time_of(ColumnId(0)), 2_500);
    let (_, exemplar) = &round.frame.exemplars()[0];
    assert_eq!(
        (
            exemplar.labels.get("trace_id"),
            exemplar.value,
            exemplar.time_ms
        ),
        (Some("c"), 0.75, None)
    );
    assert!(parser.schema().same(&schema));
}

#[test]
fn start_times_are_series_unless_they_are_asked_for() {
    let body = "# TYPE a counter\na_total{x=\"1\"} 1\na_created{x=\"1\"} 100.5\na_total{x=\"2\"} 2\n\
# TYPE h histogram\nh_bucket{le=\"+Inf\"} 3\nh_count 3\nh_sum 4\nh_created 200\n# TYPE g gauge\ng_created 7\n# EOF\n";
    let mut asking = parser(|options| options.start_times = true);
    for _ in 0..2 {
        let round = asking
            .parse(Format::OpenMetrics, body.as_bytes(), 5, &mut KeepLabels)
            .unwrap();
        assert_eq!(
            (
                round.stats.lines,
                round.stats.consumed,
                round.stats.samples()
            ),
            (8, 2, 6)
        );
        assert_eq!(
            shown(&round.frame),
            [
                "a_total{x=\"1\"} 1",
                "a_total{x=\"2\"} 2",
                "h_bucket{le=\"+Inf\"} 3",
                "h_count 3",
                "h_sum 4",
                "g_created 7"
            ]
        );
        let starts: Vec<(u32, i64)> = round
            .frame
            .start_times_ms()
            .iter()
            .map(|(column, ms)| (column.0, *ms))
            .collect();
        assert_eq!(
            starts,
            [(0, 100_500), (2, 200_000), (3, 200_000), (4, 200_000)]
        );
    }
}

#[test]
fn bounds_are_spelled_alike_in_every_format() {
    let body = "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"1e6\"} 2\nh_bucket{le=\"+Inf\"} 3\n\
# TYPE g gauge\ng{le=\"1\"} 1\n# EOF\n";
    let expected = [
        "h_bucket{le=\"1.0\"} 1",
        "h_bucket{le=\"1e+06\"} 2",
        "h_bucket{le=\"+Inf\"} 3",
        "g{le=\"1\"} 1",
    ];
    assert_eq!(parsed(&mut parser(|_| {}), body), expected);
    let mut text = parser(|_| {});
    let round = text
        .parse(Format::Text, body.as_bytes(), 5, &mut KeepLabels)
        .unwrap();
    assert_eq!(shown(&round.frame), expected);
    // A bucket added later, between expected lines, is spelled and grouped like the others.
    let more = body.replace(
        "h_bucket{le=\"+Inf",
        "h_bucket{le=\"2e6\"} 3\nh_bucket{le=\"+Inf",
    );
    let round = text
        .parse(Format::Text, more.as_bytes(), 6, &mut KeepLabels)
        .unwrap();
    assert_eq!(round.stats.added, 1);
    let frame = round.frame;
    assert_eq!(
        frame.schema().column(ColumnId(4)).set.get("le"),
        Some("2e+06")
    );
    assert_eq!(
        frame.schema().family(ColumnId(4)).metric_type,
        MetricType::Histogram
    );
}

#[test]
fn classic_histograms_become_native_ones_on_request() {
    let body = "# TYPE h histogram\nh_bucket{x=\"1\",le=\"1\"} 1 # {t=\"a\"} 0.5 3\nh_bucket{x=\"1\",le=\"+Inf\"} 3\n\
h_count{x=\"1\"} 3\nh_sum{x=\"1\"} 4.5\nh_bucket{x=\"2\",le=\"+Inf\"} 1\nh_count{x=\"2\"} 2\n# TYPE c counter\nc_total 1\n# EOF\n";
    let native = "h{x=\"1\"} {{schema:-53 count:3 sum:4.5 custom_values:[1] buckets:[1 2]}}";
    let mut only = parser(|options| options.custom_buckets = true);
    for _ in 0..2 {
        let round = only
            .parse(Format::OpenMetrics, body.as_bytes(), 5, &mut KeepLabels)
            .unwrap();
        // Contradictory lines yield nothing.
        assert_eq!(shown(&round.frame), [native, "c_total 1"]);
        assert_eq!(
            (round.stats.lines, round.stats.samples(), round.stats.kept()),
            (7, 2, 2)
        );
        let exemplars = round.frame.exemplars();
        assert_eq!(
            (exemplars.len(), exemplars[0].0, exemplars[0].1.time_ms),
            (1, ColumnId(0), Some(3_000))
        );
    }
    assert_eq!(only.stats().expected, 7);
    let mut both = parser(|options| {
        options.custom_buckets = true;
        options.classic_histograms = true;
    });
    let lines = parsed(&mut both, body);
    assert_eq!((lines.len(), lines[0].as_str()), (8, native), "{lines:?}");
    // Missing lines end the histogram like any series.
    let gone = "# TYPE c counter\nc_total 1\n# EOF\n";
    let round = only
        .parse(Format::OpenMetrics, gone.as_bytes(), 6, &mut KeepLabels)
        .unwrap();
    assert_eq!(round.frame.stale(), [ColumnId(0)]);
}

#[test]
fn series_may_come_more_than_once_at_different_times() {
    let mut parser = parser(|_| {});
    let body = "a 1 1\na 2 2\na 3\nb 1\n# EOF\n";
    for _ in 0..2 {
        let round = parser
            .parse(Format::OpenMetrics, body.as_bytes(), 5, &mut KeepLabels)
            .unwrap();
        assert_eq!(shown(&round.frame), ["a 1 @1000", "b 1"]);
        let more: Vec<(u32, i64, f64)> = round
            .more
            .iter()
            .map(|more| (more.column.0, more.time_ms, more.value))
            .collect();
        assert_eq!(more, [(0, 2_000, 2.0)]);
        assert_eq!((round.stats.repeated, round.stats.kept()), (1, 4));
    }
}

#[test]
fn limits_count_what_is_kept() {
    let body = "a 1\nb 1\nc 1\n# EOF\n";
    let mut tight = parser(|options| options.sample_limit = 2);
    let error = tight
        .parse(Format::OpenMetrics, body.as_bytes(), 5, &mut KeepLabels)
        .unwrap_err();
    assert_eq!(error.to_string(), "sample limit exceeded");
    assert_eq!((tight.stats().samples(), tight.stats().kept()), (3, 3));
    assert_eq!(tight.schema().len(), 0, "nothing of a refused body stays");
    assert_eq!(
        parsed(&mut parser(|options| options.sample_limit = 3), body).len(),
        3
    );
}

#[test]
fn what_prometheus_refuses_is_refused() {
    let cases = [
        ("a 1\n", "data does not end with # EOF"),
        ("", "data does not end with # EOF"),
        (
            "a 1\n# EOF\nb 1\n",
            "line 3, column 1: unexpected data after # EOF",
        ),
        ("a 1", "data does not end with # EOF"),
        (
            "\n# EOF\n",
            "line 1, column 1: expected a metric name, '{' or '#', got \"\"",
        ),
        (
            "a  1\n# EOF\n",
            "line 1, column 3: expected a value, got \" 1\"",
        ),
        (
            "a{x=\"1\", y=\"2\"} 1\n# EOF\n",
            "line 1, column 9: expected a label name, got \" y=\\\"2\\\"} 1\"",
        ),
        (
            "# comment\n# EOF\n",
            "line 1, column 2: expected \" HELP \", \" TYPE \", \" UNIT \" or \" EOF\", got \" comment\"",
        ),
        (
            "# TYPE a gouge\n# EOF\n",
            "line 1, column 10: invalid metric type \"gouge\"",
        ),
        (
            "# UNIT a s\n# EOF\n",
            "line 1, column 10: unit \"s\" not a suffix of metric \"a\"",
        ),
        (
            "a 1 NaN\n# EOF\n",
            "line 1, column 5: not a timestamp: \"NaN\"",
        ),
        (
            "a 1 # {x=1} 1\n# EOF\n",
            "line 1, column 10: expected a quoted label value, got \"1} 1\"",
        ),
    ];
    for (body, message) in cases {
        let error = parser(|_| {})
            .parse(Format::OpenMetrics, body.as_bytes(), 5, &mut KeepLabels)
            .unwrap_err();
        assert_eq!(error.to_string(), message, "{body:?}");
    }
    let mut known = parser(|_| {});
    parsed(&mut known, "a 1\nb 2\n# EOF\n");
    assert!(
        known
            .parse(Format::OpenMetrics, b"a 1\nb 2\n", 5, &mut KeepLabels)
            .is_err(),
        "along the template too"
    );
    let text = known
        .parse(Format::Text, b"a 1\nb 2\n", 6, &mut KeepLabels)
        .unwrap();
    assert_eq!(text.stats.added, 0);
}

#[test]
fn hostile_bodies_leave_memory_flat() {
    let mut parser = parser(|options| options.sample_limit = 150);
    let mut held = Vec::new();
    for round in 0..20 {
        let body: String = (0..300)
            .map(|i| format!("m{round}_{i}{{a=\"{round}\"}} {i} # {{t=\"{round}-{i}\"}} 1\n"))
            .chain(["# EOF\n".to_owned()])
            .collect();
        let refused = parser.parse(Format::OpenMetrics, body.as_bytes(), round, &mut KeepLabels);
        assert!(refused.is_err());
        held.push(parser.heap_bytes());
    }
    assert_eq!(parser.schema().len(), 0);
    assert_eq!(held[19], held[1]);
    // Other series in every round, all accepted: dead ones are dropped.
    for round in 0..60 {
        let body: String = (0..100)
            .map(|i| format!("n{{a=\"{round}\",i=\"{i}\"}} {i}\n"))
            .chain(["# EOF\n".to_owned()])
            .collect();
        parser
            .parse(Format::OpenMetrics, body.as_bytes(), round, &mut KeepLabels)
            .unwrap();
        assert!(
            parser.schema().len() <= 100 * 45,
            "{} columns",
            parser.schema().len()
        );
        assert!(
            parser.heap_bytes() < 400_000,
            "{} bytes",
            parser.heap_bytes()
        );
    }
}

#[test]
fn problems_have_lines_and_lints_are_prometheus() {
    let body = "# TYPE a counter\n# TYPE a counter\na_total -1\n# TYPE b gauge\nb 1\n# HELP b Late.\n# EOF\n";
    let shown: Vec<String> = check(Format::OpenMetrics, body.as_bytes())
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        shown,
        [
            "line 2: a second TYPE of \"a\"",
            "line 3: a count or sum below zero",
            "line 6: HELP of \"b\" behind its samples"
        ]
    );
    let text = "# HELP x_total X.\n# TYPE x_total gauge\nx_total 1\nlatency_ms{camelCase=\"1\"} 1\n\
# HELP req_minutes R.\n# TYPE req_minutes counter\nreq_minutes{le=\"1\"} 1\nreq_minutes{le=\"1\"} 1\n";
    let lints: Vec<String> = lint(Format::Text, text.as_bytes())
        .unwrap()
        .iter()
        .map(Lint::to_string)
        .collect();
    assert_eq!(
        lints,
        [
            "latency_ms label names should be written in 'snake_case' not 'camelCase'",
            "latency_ms metric names should not contain abbreviated units",
            "latency_ms no help text",
            "req_minutes counter metrics should have \"_total\" suffix",
            "req_minutes metric not unique",
            "req_minutes non-histogram metrics should not have \"le\" label",
            "req_minutes non-histogram metrics should not have \"le\" label",
            "req_minutes use base unit \"seconds\" instead of \"minutes\"",
            "x_total non-counter metrics should not have \"_total\" suffix",
        ]
    );
    assert!(lint(Format::Text, b"a one\n").is_err());
}

/// As with Prometheus' feature of this name: what the body says itself is used only where the format says nothing.
#[test]
fn types_and_units_become_labels() {
    let typed = |format: Format, body: &str| {
        let mut parser = parser(|options| options.type_and_unit_labels = true);
        let mut shown = Vec::new();
        // Later bodies are parsed along the first, and change what a series is called no more.
        for body in [body, body, &body.replace("counter", "gauge")] {
            let round = parser.parse(format, body.as_bytes(), 5, &mut KeepLabels);
            let frame = round.unwrap().frame;
            let labels = frame
                .present()
                .iter()
                .map(|at| frame.schema().column(ColumnId(at as u32)).set.to_string());
            let labels: Vec<String> = labels.collect();
            assert!(shown.is_empty() || shown == labels, "{labels:?}");
            shown = labels;
        }
        shown
    };
    let body = "# TYPE req_seconds counter\n# UNIT req_seconds seconds\n\
req_seconds_total{__type__=\"own\",__unit__=\"own\",p=\"/\"} 17.5\n# TYPE temp unknown\ntemp{__type__=\"own\"} 1\n\
# TYPE rpc histogram\nrpc_bucket{le=\"+Inf\"} 3\nrpc_count 3\nrpc_sum 3\nfree 1\n# EOF\n";
    assert_eq!(
        typed(Format::OpenMetrics, body),
        [
            "req_seconds_total{__type__=\"counter\", __unit__=\"seconds\", p=\"/\"}",
            "temp{__type__=\"own\"}",
            "rpc_bucket{__type__=\"histogram\", le=\"+Inf\"}",
            "rpc_count{__type__=\"histogram\"}",
            "rpc_sum{__type__=\"histogram\"}",
            "free",
        ]
    );
    let body = "# TYPE a counter\na 1\n# TYPE b untyped\nb{__unit__=\"own\"} 1\n# TYPE c summary\nc{quantile=\"1\"} 1\n";
    assert_eq!(
        typed(Format::Text, body),
        [
            "a{__type__=\"counter\"}",
            "b{__unit__=\"own\"}",
            "c{__type__=\"summary\", quantile=\"1.0\"}",
        ]
    );
    let body = "# TYPE a counter\na 1\n";
    let mut plain = parser(|_| {});
    let round = plain.parse(Format::Text, body.as_bytes(), 5, &mut KeepLabels);
    let frame = round.unwrap().frame;
    assert_eq!(frame.schema().column(ColumnId(0)).set.to_string(), "a");
}
