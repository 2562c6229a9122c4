//! OpenMetrics and protobuf, exemplars and times of creation. Parsers read the same bodies in the tests of
//! `narthex-expfmt`.

use std::io::Read;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::read::GzDecoder;
use narthex_client::{
    Counter, CounterVec, Desc, EncodeOptions, Format, Gauge, Histogram, HistogramVec, Metric,
    NativeHistogram, NativeOptions, Registry, Summary,
};

use crate::leak;

fn registry(metrics: &[&'static dyn Metric]) -> Registry {
    let registry = Registry::new();
    registry.register_all(metrics).unwrap();
    registry
}

fn openmetrics(registry: &Registry) -> String {
    let mut out = Vec::new();
    registry.encode(Format::OpenMetrics, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn openmetrics_differs_from_text_where_it_has_to() {
    let requests = leak(CounterVec::new("requests_total", "A \"quote\".", &["code"]));
    requests.with(&["200"]).inc_by(2);
    let odd = leak(Counter::new("odd", "No suffix."));
    let latency = leak(Histogram::new("latency_seconds", "L.", &[0.5, 1.0, 1e6]));
    latency.observe(1.0);
    let size = leak(Summary::new("size_bytes", "S.", &[0.5, 1.0]));
    size.observe(0.0);
    let expected = r#"# HELP latency_seconds L.
# TYPE latency_seconds histogram
latency_seconds_bucket{le="0.5"} 0
latency_seconds_bucket{le="1.0"} 1
latency_seconds_bucket{le="1e+06"} 1
latency_seconds_bucket{le="+Inf"} 1
latency_seconds_sum 1
latency_seconds_count 1
# HELP odd No suffix.
# TYPE odd unknown
odd 0
# HELP requests A \"quote\".
# TYPE requests counter
requests_total{code="200"} 2
# HELP size_bytes S.
# TYPE size_bytes summary
size_bytes{quantile="0.5"} 0
size_bytes{quantile="1.0"} 0
size_bytes_sum 0
size_bytes_count 1
# EOF
"#;
    assert_eq!(
        openmetrics(&registry(&[requests, odd, latency, size])),
        expected
    );
    assert_eq!(openmetrics(&Registry::new()), "# EOF\n");
}

#[test]
fn a_counter_keeps_its_name_where_another_family_has_the_short_one() {
    let gauge = leak(Gauge::new("jobs", "J."));
    let counter = leak(Counter::new("jobs_total", "J."));
    let expected = "# HELP jobs J.\n# TYPE jobs gauge\njobs 0\n\
                    # HELP jobs_total J.\n# TYPE jobs_total unknown\njobs_total 0\n# EOF\n";
    assert_eq!(openmetrics(&registry(&[counter, gauge])), expected);
}

#[test]
fn exemplars_are_shown_where_the_format_has_them() {
    let requests = leak(Counter::new("requests_total", "R."));
    requests.add_with_exemplar(2.5, [("trace_id", "a\"b")]);
    let latency = leak(HistogramVec::new(
        "latency_seconds",
        "L.",
        &["path"],
        &[1.0],
    ));
    let series = latency.with(&["/"]);
    series.observe_with_exemplar(7.0, [("trace_id", "slow"), ("span_id", "1")]);
    series.observe_with_exemplar(0.5, [("not a name", "x")]);
    let registry = registry(&[requests, latency]);
    let text = openmetrics(&registry);
    let line = |prefix: &str| {
        let line = text.lines().find(|line| line.starts_with(prefix)).unwrap();
        // What follows is the time.
        let (line, time) = line.rsplit_once(' ').unwrap();
        (line.to_owned(), time.parse::<f64>().unwrap())
    };
    let (counter, time) = line("requests_total");
    assert_eq!(counter, r#"requests_total 2.5 # {trace_id="a\"b"} 2.5"#);
    let age = UNIX_EPOCH.elapsed().unwrap().as_secs_f64() - time;
    assert!((0.0..600.0).contains(&age), "{age}");
    let (bucket, _) = line(r#"latency_seconds_bucket{path="/",le="+Inf"}"#);
    let expected =
        r#"latency_seconds_bucket{path="/",le="+Inf"} 2 # {trace_id="slow",span_id="1"} 7"#;
    assert_eq!(bucket, expected);
    assert!(
        text.contains("latency_seconds_bucket{path=\"/\",le=\"1.0\"} 1\n"),
        "{text}"
    );
    let mut plain = Vec::new();
    registry.encode_text(&mut plain);
    assert!(!String::from_utf8(plain).unwrap().contains("trace_id"));
}

#[test]
fn sampled_exemplars_are_asked_for_once_per_exposition() {
    let latency = leak(Histogram::new("latency_seconds", "L.", &[1.0]));
    let requests = leak(Counter::new("requests_total", "R."));
    let registry = registry(&[latency, requests]);
    let mut asked = 0;
    for _ in 0..3 {
        for v in [0.1, 0.2, 5.0, 0.3] {
            latency.observe_sampled(v, || {
                asked += 1;
                [("trace_id", v.to_string())]
            });
            requests.inc_sampled(|| {
                asked += 1;
                [("trace_id", v.to_string())]
            });
        }
        let text = openmetrics(&registry);
        assert!(text.contains(r#"# {trace_id="0.1"} 0.1 "#), "{text}");
        assert!(text.contains(r#"# {trace_id="5"} 5 "#), "{text}");
    }
    assert_eq!((asked, latency.count()), (9, 12));
    // A text exposition shows none and so asks for none.
    registry.encode_text(&mut Vec::new());
    latency.observe_sampled(0.1, || [("trace_id", "first")]);
    registry.encode_text(&mut Vec::new());
    latency.observe_sampled(0.1, || -> [(&str, &str); 1] { panic!("asked again") });
}

#[test]
fn a_metric_that_is_off_keeps_no_exemplar() {
    let counter = leak(Counter::new("c_total", "C."));
    counter.set_enabled(false);
    counter.add_with_exemplar(1.0, [("a", "b")]);
    counter.inc_sampled(|| -> [(&str, &str); 1] { panic!("asked while off") });
    counter.set_enabled(true);
    assert!(!openmetrics(&registry(&[counter])).contains("# {"));
}

#[test]
fn times_of_creation_are_lines_on_request() {
    let before = SystemTime::now();
    let requests = leak(CounterVec::new("requests_total", "R.", &["code"]));
    let _first = requests.with(&["200"]);
    let latency = leak(Histogram::new("latency_seconds", "L.", &[]));
    let gauge = leak(Gauge::new("g", "G."));
    let odd = leak(Counter::new("odd", "O."));
    let registry = registry(&[requests, latency, gauge, odd]);
    let desc = Desc::counter("elsewhere_total", "E.", &[]);
    registry
        .register_fn(desc, |samples| samples.push(&[], 1.0))
        .unwrap();
    let options = EncodeOptions::new(Format::OpenMetrics).created_lines(true);
    let created = || -> Vec<(String, Duration)> {
        let mut out = Vec::new();
        registry.encode_with(options, &mut out);
        let text = String::from_utf8(out).unwrap();
        let lines = text.lines().filter_map(|line| line.split_once("_created"));
        let parse = |(name, rest): (&str, &str)| {
            let seconds = rest.rsplit(' ').next().unwrap().parse().unwrap();
            (name.to_owned(), Duration::from_secs_f64(seconds))
        };
        lines.map(parse).collect()
    };
    let first = created();
    let names: Vec<&str> = first.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["latency_seconds", "requests"]);
    let since = |time| SystemTime::duration_since(&time, UNIX_EPOCH).unwrap();
    let allowed = since(before).saturating_sub(Duration::from_millis(2))
        ..=since(SystemTime::now()) + Duration::from_millis(2);
    assert!(
        first.iter().all(|(_, time)| allowed.contains(time)),
        "{first:?}"
    );
    latency.observe(1.0);
    assert_eq!(created(), first);
    assert!(!openmetrics(&registry).contains("_created"));
}

#[test]
fn native_histograms_show_classic_buckets_in_text() {
    let bare = leak(NativeHistogram::new("bare", "B.", NativeOptions::new()));
    let both = leak(NativeHistogram::new(
        "both",
        "B.",
        NativeOptions::new().bounds(&[1.0]),
    ));
    for v in [0.5, 3.0, 0.0] {
        bare.observe(v);
        both.observe_with_exemplar(v, [("v", v.to_string())]);
    }
    bare.observe_with_exemplar(1.0, [("v", "x")]);
    let registry = registry(&[bare, both]);
    let mut text = Vec::new();
    registry.encode_text(&mut text);
    let expected = r#"# HELP bare B.
# TYPE bare histogram
bare_bucket{le="+Inf"} 4
bare_sum 4.5
bare_count 4
# HELP both B.
# TYPE both histogram
both_bucket{le="1"} 2
both_bucket{le="+Inf"} 3
both_sum 3.5
both_count 3
"#;
    assert_eq!(String::from_utf8(text).unwrap(), expected);
    let text = openmetrics(&registry);
    assert!(
        text.contains(r#"bare_bucket{le="+Inf"} 4 # {v="x"} 1 "#),
        "{text}"
    );
    assert!(
        text.contains(r#"both_bucket{le="1.0"} 2 # {v="0"} 0 "#),
        "{text}"
    );
}

#[test]
fn lengths_of_messages_are_exact() {
    let empty = leak(Counter::new("a", ""));
    // A family of more than 127 and one of more than 16,383 bytes: lengths of one, two and three bytes.
    let some = leak(CounterVec::new("b", "", &["l"]));
    (0..9).for_each(|i| some.with(&[&i.to_string()]).inc());
    let many = leak(CounterVec::new("c", "", &["l"]));
    (0..900).for_each(|i| many.with(&[&i.to_string()]).inc());
    let mut out = Vec::new();
    registry(&[empty, some, many]).encode(Format::Protobuf, &mut out);
    let mut rest = &*out;
    for (name, widths) in [(b'a', 1), (b'b', 2), (b'c', 3)] {
        let mut length = 0;
        for (i, byte) in rest[..widths].iter().enumerate() {
            length |= usize::from(byte & 0x7f) << (7 * i);
        }
        assert!(rest[widths - 1] < 0x80);
        assert_eq!(rest[widths..widths + 3], [0x0a, 1, name]);
        rest = &rest[widths + length..];
    }
    assert!(rest.is_empty());
}

#[test]
fn a_compressed_page_is_the_page() {
    let requests = leak(CounterVec::new("requests_total", "Requests.", &["path"]));
    let latency = leak(HistogramVec::new(
        "latency_seconds",
        "L.",
        &["path"],
        &[0.5, 1.0],
    ));
    for i in 0..3000_u64 {
        let path = format!("/{i}/\"é\"");
        requests.with(&[&path]).inc_by(i * i);
        latency.with(&[&path]).observe(i as f64 / 2000.0);
    }
    let registry = registry(&[requests, latency]);
    for format in [Format::Text, Format::OpenMetrics, Format::Protobuf] {
        let options = EncodeOptions::new(format);
        let (mut plain, mut packed) = (Vec::new(), b"before".to_vec());
        registry.encode_with(options, &mut plain);
        assert_eq!(options.content_encoding(), None);
        registry.encode_with(options.gzip(true), &mut packed);
        let packed = packed.strip_prefix(b"before").unwrap();
        if options.gzip(true).content_encoding().is_none() {
            assert!(packed == plain && format == Format::Protobuf);
            continue;
        }
        let mut unpacked = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut unpacked).unwrap();
        assert!(unpacked == plain);
        assert!(
            packed.len() * 3 < plain.len(),
            "{} of {}",
            packed.len(),
            plain.len()
        );
    }
}
