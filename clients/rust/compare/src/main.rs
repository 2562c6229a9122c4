//! Times narthex-client beside the crates `prometheus` (tikv), `prometheus-client` and `metrics` in one run.
//!
//! `cargo run --release` in this directory. Each library is used as its documentation shows, with handles kept where it
//! has them. The histograms of `metrics` keep each observation until upkeep puts it into buckets, which its exporter does
//! every five seconds: here each thread does so after 65,536 operations, and it is part of their cost.

#[path = "../../benches/timing/mod.rs"]
mod timing;

use std::hint::black_box;

use narthex_client as ours;
use prometheus::{self as tikv, Encoder};
use prometheus_client as client;

use client::encoding::EncodeLabelSet;
use client::metrics::family::Family;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use timing::{LATENCIES, SERIES, row};

static COUNTER: ours::Counter = ours::Counter::new("counter_total", "Counter.");
static HISTOGRAM: ours::Histogram =
    ours::Histogram::new("histogram", "Histogram.", &ours::DEFAULT_BOUNDS);
static VEC: ours::CounterVec<3> =
    ours::CounterVec::new("vec_total", "Vec.", &["method", "code", "path"]);
static SERIES_VEC: ours::CounterVec<4> = ours::CounterVec::new(
    "requests_total",
    "Requests.",
    &["method", "code", "handler", "instance"],
)
.with_cap(SERIES);

const LABELS: [&str; 3] = ["GET", "200", "/api/v1/query_range"];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Three {
    method: String,
    code: String,
    path: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Four {
    method: String,
    code: String,
    handler: String,
    instance: String,
}

/// Operations of a thread between two upkeeps of `metrics`.
const UPKEEP_EVERY: u32 = 1 << 16;

fn main() {
    let recorder = PrometheusBuilder::new()
        .set_buckets(&ours::DEFAULT_BOUNDS)
        .expect("there are bounds")
        .build_recorder();
    let exporter = recorder.handle();
    metrics::set_global_recorder(recorder).expect("the first one");
    timing::head();
    counters();
    histograms(&exporter);
    vecs();
    timing::render_head();
    renders();
}

fn counters() {
    row("counter inc: narthex-client", |_| black_box(&COUNTER).inc());
    let counter = tikv::IntCounter::new("counter_total", "Counter.").expect("a valid name");
    row("counter inc: prometheus", |_| black_box(&counter).inc());
    let counter = client::metrics::counter::Counter::<u64>::default();
    row("counter inc: prometheus-client", |_| {
        black_box(&counter).inc();
    });
    let counter = metrics::counter!("counter_total");
    row("counter inc: metrics", |_| black_box(&counter).increment(1));
}

fn histograms(exporter: &PrometheusHandle) {
    let values = timing::latencies();
    let value = |i: u32| values[i as usize % LATENCIES];
    row("histogram observe: narthex-client", |i| {
        black_box(&HISTOGRAM).observe(value(i))
    });
    let options =
        tikv::HistogramOpts::new("histogram", "H.").buckets(ours::DEFAULT_BOUNDS.to_vec());
    let histogram = tikv::Histogram::with_opts(options).expect("valid options");
    row("histogram observe: prometheus", |i| {
        black_box(&histogram).observe(value(i))
    });
    let histogram = client::metrics::histogram::Histogram::new(ours::DEFAULT_BOUNDS);
    row("histogram observe: prometheus-client", |i| {
        black_box(&histogram).observe(value(i))
    });
    let histogram = metrics::histogram!("histogram");
    row("histogram observe: metrics, upkeep included", |i| {
        black_box(&histogram).record(value(i));
        if i % UPKEEP_EVERY == 0 {
            exporter.run_upkeep();
        }
    });
}

fn vecs() {
    row("look-up of 3 labels, inc: narthex-client update", |_| {
        VEC.update(black_box(&LABELS), |counter| counter.inc());
    });
    row("look-up of 3 labels, inc: narthex-client with", |_| {
        VEC.with(black_box(&LABELS)).inc();
    });
    let options = tikv::Opts::new("vec_total", "Vec.");
    let vec =
        tikv::IntCounterVec::new(options, &["method", "code", "path"]).expect("valid options");
    row("look-up of 3 labels, inc: prometheus", |_| {
        vec.with_label_values(black_box(&LABELS)).inc();
    });
    let family = Family::<Three, client::metrics::counter::Counter>::default();
    row("look-up of 3 labels, inc: prometheus-client", |_| {
        let [method, code, path] = black_box(&LABELS).map(str::to_owned);
        family.get_or_create(&Three { method, code, path }).inc();
    });
    row("look-up of 3 labels, inc: metrics", |_| {
        let [method, code, path] = black_box(&LABELS).map(str::to_owned);
        metrics::counter!("vec_total", "method" => method, "code" => code, "path" => path)
            .increment(1);
    });
    row("look-up of 3 constant labels, inc: metrics", |_| {
        metrics::counter!("vec_total", "method" => "GET", "code" => "200", "path" => "/api/v1/query_range").increment(1);
    });
}

fn renders() {
    let registry = ours::Registry::new();
    registry.register(&SERIES_VEC).expect("a valid metric");
    let names = ["method", "code", "handler", "instance"];
    let vec = tikv::IntCounterVec::new(tikv::Opts::new("requests_total", "Requests."), &names)
        .expect("valid options");
    let tikv_registry = tikv::Registry::new();
    tikv_registry
        .register(Box::new(vec.clone()))
        .expect("a valid metric");
    let family = Family::<Four, client::metrics::counter::Counter>::default();
    let mut client_registry = client::registry::Registry::default();
    client_registry.register("requests", "Requests", family.clone());
    // A recorder of its own, so that its page has these series alone.
    let recorder = PrometheusBuilder::new().build_recorder();
    let exporter = recorder.handle();
    for i in 0..SERIES {
        let instance = timing::instance(i);
        let labels = ["GET", "200", "/api/v1/query_range", &instance];
        let n = i as u64 * 37;
        SERIES_VEC.with(&labels).inc_by(n);
        vec.with_label_values(&labels).inc_by(n);
        let [method, code, handler, instance] = labels.map(str::to_owned);
        let labels = Four {
            method,
            code,
            handler,
            instance,
        };
        family.get_or_create(&labels).inc_by(n);
        let Four {
            method,
            code,
            handler,
            instance,
        } = labels;
        metrics::with_local_recorder(&recorder, || {
            metrics::counter!("requests_total", "method" => method, "code" => code, "handler" => handler,
                "instance" => instance)
            .increment(n);
        });
    }
    timing::render("render 100,000 counters: narthex-client", |out| {
        registry.encode_text(out)
    });
    timing::render("render 100,000 counters: prometheus", |out| {
        let encoder = tikv::TextEncoder::new();
        encoder
            .encode(&tikv_registry.gather(), out)
            .expect("a buffer takes everything");
    });
    timing::render("render 100,000 counters: prometheus-client", |out| {
        let mut text = String::from_utf8(std::mem::take(out)).expect("text");
        client::encoding::text::encode(&mut text, &client_registry)
            .expect("a string takes everything");
        *out = text.into_bytes();
    });
    timing::render("render 100,000 counters: metrics", |out| {
        *out = exporter.render().into_bytes();
    });
}
