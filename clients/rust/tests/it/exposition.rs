//! The text format, byte for byte, and the visitor that sees the same.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use narthex_client::{
    Counter, CounterVec, Desc, Gauge, GaugeVec, Histogram, HistogramVec, MetricType, Registry,
    Sample, Summary, SummaryVec, Visitor, process, register_info,
};

use crate::{encode, leak, text};

#[test]
fn every_kind_is_written_as_client_golang_writes_it() {
    let requests = leak(CounterVec::new(
        "requests_total",
        "Requests by code.",
        &["method", "code"],
    ));
    requests.with(&["PUT", "200"]).inc_by(1_500_000);
    requests.with(&["GET", "404"]).inc();
    requests.with(&["GET", "200"]).add(0.5);
    let temperature = leak(Gauge::new("temperature_celsius", "Outside."));
    temperature.set(-2.25);
    let latency = leak(Histogram::new(
        "latency_seconds",
        "Time to answer.",
        &[0.005, 0.1, 1.0],
    ));
    for seconds in [0.001, 0.005, 0.05, 5.0, 7.0] {
        latency.observe(seconds);
    }
    let sizes = leak(HistogramVec::new("size_bytes", "Sizes.", &["path"], &[1e6]));
    sizes.with(&["/"]).observe(10.0);
    let unused = leak(Counter::new("unused_total", "Never counted."));
    let empty = leak(GaugeVec::new("no_series", "Nothing to show.", &["a"]));
    let expected = r#"# HELP latency_seconds Time to answer.
# TYPE latency_seconds histogram
latency_seconds_bucket{le="0.005"} 2
latency_seconds_bucket{le="0.1"} 3
latency_seconds_bucket{le="1"} 3
latency_seconds_bucket{le="+Inf"} 5
latency_seconds_sum 12.056000000000001
latency_seconds_count 5
# HELP requests_total Requests by code.
# TYPE requests_total counter
requests_total{method="GET",code="200"} 0.5
requests_total{method="GET",code="404"} 1
requests_total{method="PUT",code="200"} 1.5e+06
# HELP size_bytes Sizes.
# TYPE size_bytes histogram
size_bytes_bucket{path="/",le="1e+06"} 1
size_bytes_bucket{path="/",le="+Inf"} 1
size_bytes_sum{path="/"} 10
size_bytes_count{path="/"} 1
# HELP temperature_celsius Outside.
# TYPE temperature_celsius gauge
temperature_celsius -2.25
# HELP unused_total Never counted.
# TYPE unused_total counter
unused_total 0
"#;
    assert_eq!(
        text(&[empty, unused, temperature, sizes, latency, requests]),
        expected
    );
}

#[test]
fn special_values_are_spelled_as_prometheus_reads_them() {
    let gauge = leak(GaugeVec::new("g", "G.", &["is"]));
    gauge.with(&["a"]).set(f64::INFINITY);
    gauge.with(&["b"]).set(f64::NEG_INFINITY);
    gauge.with(&["c"]).set(f64::NAN);
    gauge.with(&["d"]).set(795_452_531.224);
    let text = text(&[gauge]);
    let lines: Vec<&str> = text.lines().skip(2).collect();
    assert_eq!(
        lines,
        [
            "g{is=\"a\"} +Inf",
            "g{is=\"b\"} -Inf",
            "g{is=\"c\"} NaN",
            "g{is=\"d\"} 7.95452531224e+08"
        ]
    );
}

#[test]
fn help_and_label_values_are_escaped() {
    let gauge = leak(GaugeVec::new(
        "g",
        "A \\ and a\nline, \"quoted\".",
        &["v", "w"],
    ));
    gauge.with(&["C:\\dir\n\"x\"", "é✓"]).set(1.0);
    assert_eq!(
        text(&[gauge]),
        "# HELP g A \\\\ and a\\nline, \"quoted\".\n# TYPE g gauge\ng{v=\"C:\\\\dir\\n\\\"x\\\"\",w=\"é✓\"} 1\n"
    );
}

#[test]
fn a_counter_ignores_what_would_make_it_fall() {
    let counter = leak(Counter::new("c_total", "C."));
    counter.add(2.0);
    counter.add(-1.0);
    counter.add(f64::NAN);
    assert_eq!(counter.get(), 2.0);
}

#[test]
fn functions_and_hooks_feed_families() {
    let registry = Registry::new();
    let scrapes = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&scrapes);
    registry.before_collect(move || {
        scrapes.fetch_add(1, Relaxed);
    });
    let desc = Desc::counter("scrapes_total", "Scrapes.", &["by"]);
    registry
        .register_fn(desc, move |samples| {
            samples.push(&["a\n"], shown.load(Relaxed) as f64);
            samples.push(&["b"], 7.0);
        })
        .unwrap();
    registry
        .register_fn(Desc::gauge("nothing", "No samples.", &[]), |_| {})
        .unwrap();
    let expected = |n: u64| {
        format!(
            "# HELP scrapes_total Scrapes.\n# TYPE scrapes_total counter\n\
             scrapes_total{{by=\"a\\n\"}} {n}\nscrapes_total{{by=\"b\"}} 7\n"
        )
    };
    assert_eq!(encode(&registry), expected(1));
    assert_eq!(encode(&registry), expected(2));
}

#[test]
fn facts_become_an_info_gauge() {
    let registry = Registry::new();
    let values = ["0.1.0".to_owned(), "abc\"1".to_owned()];
    register_info(
        &registry,
        "narthex_build_info",
        "Build.",
        &["version", "revision"],
        values,
    )
    .unwrap();
    assert_eq!(
        encode(&registry),
        "# HELP narthex_build_info Build.\n# TYPE narthex_build_info gauge\n\
         narthex_build_info{version=\"0.1.0\",revision=\"abc\\\"1\"} 1\n"
    );
}

/// Stores a visitor's input as text of another form.
#[derive(Default)]
struct Log(Vec<String>);

impl Visitor for Log {
    fn family(&mut self, name: &str, help: &str, kind: MetricType) {
        self.0.push(format!("{name}|{help}|{kind}"));
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let labels: Vec<_> = sample
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(labels.len(), sample.labels.len());
        let labels = labels.join(",");
        self.0.push(format!(
            "{}{} {labels} {}",
            sample.name, sample.suffix, sample.value
        ));
    }
}

#[test]
fn a_visitor_sees_names_labels_and_values_unescaped() {
    let registry = Registry::new();
    let vec = leak(HistogramVec::new("h", "H\n.", &["a", "b"], &[0.5]));
    vec.with(&["x\n", ""]).observe(0.25);
    registry.register(vec).unwrap();
    registry
        .register_fn(Desc::gauge("f", "F.", &["l"]), |samples| {
            samples.push(&["\""], 2.0);
        })
        .unwrap();
    let mut log = Log::default();
    registry.visit(&mut log);
    assert_eq!(
        log.0,
        [
            "f|F.|gauge",
            "f l=\" 2",
            "h|H\n.|histogram",
            "h_bucket a=x\n,b=,le=0.5 1",
            "h_bucket a=x\n,b=,le=+Inf 1",
            "h_sum a=x\n,b= 0.25",
            "h_count a=x\n,b= 1",
        ]
    );
}

#[test]
fn the_process_reports_itself() {
    let registry = Registry::new();
    process::register(&registry).unwrap();
    let text = encode(&registry);
    let value = |name: &str| -> f64 {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name} is missing in\n{text}"))
            .parse()
            .unwrap()
    };
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    let start = value("process_start_time_seconds");
    assert!((now - 3600.0..now + 5.0).contains(&start), "{start}");
    let resident = value("process_resident_memory_bytes");
    assert!(resident > 500_000.0 && resident < value("process_virtual_memory_bytes"));
    assert!(value("process_cpu_seconds_total") >= 0.0);
    assert!(value("process_virtual_memory_max_bytes") > 0.0);
    let open = value("process_open_fds");
    assert!(open >= 3.0 && open <= value("process_max_fds"), "{open}");
    assert!(
        process::register(&registry).is_err(),
        "a second time is a duplicate"
    );
    // Values follow the process: a file that stays open is read again.
    let before = value("process_cpu_seconds_total");
    let mut spent = before;
    let mut x = 1_u64;
    while spent < before + 0.02 {
        for i in 0..1_000_000 {
            x = std::hint::black_box(x.wrapping_mul(i | 1));
        }
        let text = encode(&registry);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("process_cpu_seconds_total "));
        spent = line.unwrap().parse().unwrap();
    }
}

#[test]
fn summaries_show_quantiles_sum_and_count() {
    let summary = leak(Summary::new("s_seconds", "S.", &[0.5, 0.99]));
    let empty = leak(Summary::new("empty", "E.", &[0.5]));
    let vec = leak(SummaryVec::new("v", "V.", &["a"], &[]));
    (0..5).for_each(|_| summary.observe(0.0));
    summary.observe(f64::INFINITY);
    vec.with(&["x"]).observe(2.0);
    let expected = r#"# HELP empty E.
# TYPE empty summary
empty{quantile="0.5"} NaN
empty_sum 0
empty_count 0
# HELP s_seconds S.
# TYPE s_seconds summary
s_seconds{quantile="0.5"} 0
s_seconds{quantile="0.99"} +Inf
s_seconds_sum +Inf
s_seconds_count 6
# HELP v V.
# TYPE v summary
v_sum{a="x"} 2
v_count{a="x"} 1
"#;
    assert_eq!(text(&[summary, empty, vec]), expected);
}
