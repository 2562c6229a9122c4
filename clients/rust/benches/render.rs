//! Times expositions of 100,000 and 1,000,000 series.
//!
//! `cargo bench -p narthex-client --bench render`. With the arguments `pages FORMAT SERIES COUNT` it writes pages of
//! counters and says nothing, for tools that count instructions; a page is the difference between two counts:
//! `valgrind --tool=callgrind BINARY pages text 100000 3`.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

#[allow(dead_code, reason = "shared with benches that time other things")]
mod timing;

use std::env;

use narthex_client::{
    CounterVec, DEFAULT_BOUNDS, EncodeOptions, Format, GaugeVec, HistogramVec, Metric, Registry,
};
use timing::SERIES;

const MANY: usize = 1_000_000;

static COUNTERS: CounterVec<4> = counters().with_cap(SERIES);
static MORE_COUNTERS: CounterVec<4> = counters().with_cap(MANY);
static GAUGES: GaugeVec<1> = GaugeVec::new("fractions", "Digits.", &["i"]).with_cap(SERIES);
static HISTOGRAMS: HistogramVec<1> =
    HistogramVec::new("http_seconds", "Seconds.", &["handler"], &DEFAULT_BOUNDS).with_cap(SERIES);

const fn counters() -> CounterVec<4> {
    CounterVec::new(
        "http_requests_total",
        "Requests.",
        &["method", "code", "handler", "instance"],
    )
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [pages, format, series, count] = &arguments[..]
        && pages == "pages"
    {
        fill(&MORE_COUNTERS, series.parse().expect("a number of series"));
        let mut out = Vec::new();
        for _ in 0..count.parse().expect("a number of pages") {
            out.clear();
            encode(&registry(&MORE_COUNTERS), format, &mut out);
        }
        return;
    }
    let before = resident_bytes();
    fill(&COUNTERS, SERIES);
    let mut out = Vec::with_capacity(16 << 20);
    encode(&registry(&COUNTERS), "text", &mut out);
    let per_series = (resident_bytes() - before - out.len() as f64) / SERIES as f64;
    drop(out);
    println!("{SERIES} counters with 4 labels take {per_series:.0} bytes of resident memory each");
    for i in 0..SERIES / 14 {
        HISTOGRAMS
            .with(&[&format!("/api/{i}")])
            .observe(i as f64 / 500.0);
    }
    for i in 0..SERIES {
        GAUGES.with(&[&i.to_string()]).set((i as f64 + 0.5).sqrt());
    }
    timing::render_head();
    table("100,000 counters, 4 labels", &COUNTERS);
    table("7,142 histograms (99,988 series)", &HISTOGRAMS);
    table("100,000 gauges of 17 digits", &GAUGES);
    fill(&MORE_COUNTERS, MANY);
    table("1,000,000 counters, 4 labels", &MORE_COUNTERS);
}

fn table(name: &str, metric: &'static dyn Metric) {
    let registry = registry(metric);
    for format in FORMATS {
        timing::render(&format!("{name}: {format}"), |out| {
            encode(&registry, format, out);
        });
    }
}

const FORMATS: [&str; 4] = ["text", "openmetrics", "protobuf", "gzip"];

fn encode(registry: &Registry, format: &str, out: &mut Vec<u8>) {
    match format {
        "text" => registry.encode(Format::Text, out),
        "openmetrics" => registry.encode(Format::OpenMetrics, out),
        "protobuf" => registry.encode(Format::Protobuf, out),
        // Text.
        "gzip" => registry.encode_with(EncodeOptions::new(Format::Text).gzip(true), out),
        other => panic!("{other} is none of {FORMATS:?}"),
    }
}

fn registry(metric: &'static dyn Metric) -> Registry {
    let registry = Registry::new();
    registry.register(metric).expect("a valid metric");
    registry
}

fn fill(counters: &CounterVec<4>, series: usize) {
    for i in 0..series {
        let counter = counters.with(&["GET", "200", "/api/v1/query_range", &timing::instance(i)]);
        counter.inc_by(i as u64 * 37);
    }
}

fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<f64> = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    kib.expect("a number of KiB") * 1024.0
}
