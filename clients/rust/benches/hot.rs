//! Times the hot paths with 1 and 2 threads on one handle, and rendering 100,000 series.
//!
//! `cargo bench -p narthex-client`; the other libraries are in `compare/`.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

mod timing;

use std::hint::black_box;

use narthex_client::{
    Counter, CounterFamily, CounterVec, DEFAULT_BOUNDS, Format, Gauge, GaugeVec, Histogram,
    HistogramVec, Metric, NativeHistogram, NativeOptions, Registry, Summary,
};
use narthex_client_derive::{LabelValue, Labels};
use timing::{LATENCIES, SERIES, row};

static OFF: Counter = Counter::new("off_total", "Switched off.");
static COUNTER: Counter = Counter::new("counter_total", "Counter.");
static FLOAT_COUNTER: Counter = Counter::new("float_counter_total", "Counter.");
static GAUGE: Gauge = Gauge::new("gauge", "Gauge.");
static HISTOGRAM: Histogram = Histogram::new("histogram", "Histogram.", &DEFAULT_BOUNDS);
static SUMMARY: Summary = Summary::new("summary", "Summary.", &[0.5, 0.9, 0.99]);
static NATIVE: NativeHistogram = NativeHistogram::new("native", "N.", NativeOptions::new());
static BOTH: NativeHistogram = NativeHistogram::new(
    "both",
    "Native and classic.",
    NativeOptions::new().bounds(&DEFAULT_BOUNDS),
);
static VEC: CounterVec<3> = CounterVec::new("vec_total", "Vec.", &["method", "code", "path"]);

#[derive(Clone, Copy, LabelValue)]
#[label(rename_all = "UPPERCASE")]
enum Method {
    Get,
    Post,
}

#[derive(Clone, Copy, LabelValue)]
enum Outcome {
    Ok,
    Failed,
}

#[derive(Labels)]
struct Request<'a> {
    method: Method,
    code: u16,
    path: &'a str,
}

#[derive(Clone, Copy, Labels)]
struct Answer {
    method: Method,
    outcome: Outcome,
    cached: bool,
}

static TYPED: CounterFamily<Request<'static>> = CounterFamily::new("typed_total", "Typed.");
static DENSE: CounterFamily<Answer> = CounterFamily::new("dense_total", "Dense.");

static COUNTERS: CounterVec<4> = CounterVec::new(
    "http_requests_total",
    "Requests.",
    &["method", "code", "handler", "instance"],
)
.with_cap(SERIES);
static GAUGES: GaugeVec<1> = GaugeVec::new("fractions", "Digits.", &["i"]).with_cap(SERIES);
static HISTOGRAMS: HistogramVec<1> =
    HistogramVec::new("http_seconds", "Seconds.", &["handler"], &DEFAULT_BOUNDS).with_cap(SERIES);

fn main() {
    OFF.set_enabled(false);
    timing::head();
    row("empty loop", |i| {
        black_box(i);
    });
    row("counter, switched off", |_| black_box(&OFF).inc());
    row("counter inc", |_| black_box(&COUNTER).inc());
    row("counter add f64", |_| black_box(&FLOAT_COUNTER).add(0.5));
    row("gauge set", |i| black_box(&GAUGE).set(f64::from(i)));
    row("gauge add", |_| black_box(&GAUGE).add(1.0));
    let values = timing::latencies();
    row("histogram observe, 11 bounds", |i| {
        black_box(&HISTOGRAM).observe(values[i as usize % LATENCIES]);
    });
    row("summary observe, 3 quantiles", |i| {
        black_box(&SUMMARY).observe(values[i as usize % LATENCIES]);
    });
    row("histogram observe_sampled, exemplar not asked for", |i| {
        black_box(&HISTOGRAM).observe_sampled(values[i as usize % LATENCIES], || {
            [("trace_id", "4bf92f3577b34da6a3ce929d0e0e4736")]
        });
    });
    row("native histogram observe, schema 3", |i| {
        black_box(&NATIVE).observe(values[i as usize % LATENCIES]);
    });
    row("native and classic histogram observe", |i| {
        black_box(&BOTH).observe(values[i as usize % LATENCIES]);
    });
    let labels = ["GET", "200", "/api/v1/query_range"];
    let handle = VEC.with(&labels);
    row("counter vec, kept handle", |_| black_box(&handle).inc());
    row("counter vec, 3 labels: update", |_| {
        VEC.update(black_box(&labels), |counter| counter.inc());
    });
    row("counter vec, 3 labels: with", |_| {
        VEC.with(black_box(&labels)).inc();
    });
    let request = Request {
        method: Method::Get,
        code: 200,
        path: "/api/v1/query_range",
    };
    row("counter family, 3 labels of a type: update", |_| {
        TYPED.update(black_box(&request), |counter| counter.inc());
    });
    let answers = [(Method::Get, Outcome::Ok), (Method::Post, Outcome::Failed)];
    let answers = answers.map(|(method, outcome)| Answer {
        method,
        outcome,
        cached: false,
    });
    row("counter family, 3 enums: update", |i| {
        DENSE.update(black_box(&answers[i as usize % 2]), |counter| counter.inc());
    });
    row("counter family, 3 enums: with", |i| {
        DENSE.with(black_box(&answers[i as usize % 2])).inc();
    });
    render();
}

fn render() {
    let before = resident_bytes();
    for i in 0..SERIES {
        let counter = COUNTERS.with(&["GET", "200", "/api/v1/query_range", &timing::instance(i)]);
        counter.inc_by(i as u64 * 37);
    }
    let per_series = (resident_bytes() - before) / SERIES as f64;
    println!(
        "\n{SERIES} counters with 4 labels take {per_series:.0} bytes of resident memory each"
    );
    for i in 0..SERIES / 14 {
        HISTOGRAMS
            .with(&[&format!("/api/{i}")])
            .observe(i as f64 / 500.0);
    }
    for i in 0..SERIES {
        GAUGES.with(&[&i.to_string()]).set((i as f64 + 0.5).sqrt());
    }
    timing::render_head();
    let metrics: [(&str, &'static dyn Metric); 3] = [
        ("100,000 counters, 4 labels", &COUNTERS),
        ("7,142 histograms (99,988 series)", &HISTOGRAMS),
        ("100,000 gauges of 17 digits", &GAUGES),
    ];
    for (name, metric) in metrics {
        let registry = Registry::new();
        registry.register(metric).expect("a valid metric");
        for format in [Format::Text, Format::OpenMetrics, Format::Protobuf] {
            timing::render(&format!("{name}: {format:?}"), |out| {
                registry.encode(format, out);
            });
        }
    }
}

fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<f64> = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    kib.expect("a number of KiB") * 1024.0
}
