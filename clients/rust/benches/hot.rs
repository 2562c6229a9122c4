//! Times the hot paths with 1 and 2 threads on one handle.
//!
//! `cargo bench -p narthex-client --bench hot`; the other libraries are in `compare/`.

#[allow(dead_code, reason = "shared with benches that time other things")]
mod timing;

use std::hint::black_box;

use narthex_client::{
    Counter, CounterFamily, CounterVec, DEFAULT_BOUNDS, Gauge, Histogram, Metric, NativeHistogram,
    NativeOptions, Summary,
};
use narthex_client_derive::{LabelValue, Labels};
use timing::{LATENCIES, row};

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
}
