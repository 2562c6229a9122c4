//! Times the hot paths with 1 and 2 threads on one handle, and rendering 100,000 series.
//!
//! `cargo bench -p narthex-client`. Prints, per operation, the fastest and the median of all rounds: wall time of the
//! slowest thread divided by its operations, loop included. On a busy machine the fastest round is the one to compare.
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use narthex_client::{
    Counter, CounterVec, DEFAULT_BOUNDS, Gauge, Histogram, HistogramVec, Metric, Registry, Summary,
};

const ROUNDS: usize = 200;
const STEPS: u32 = 100_000;
const SERIES: usize = 100_000;

static OFF: Counter = Counter::new("off_total", "Switched off.");
static COUNTER: Counter = Counter::new("counter_total", "Counter.");
static FLOAT_COUNTER: Counter = Counter::new("float_counter_total", "Counter.");
static GAUGE: Gauge = Gauge::new("gauge", "Gauge.");
static HISTOGRAM: Histogram = Histogram::new("histogram", "Histogram.", &DEFAULT_BOUNDS);
static SUMMARY: Summary = Summary::new("summary", "Summary.", &[0.5, 0.9, 0.99]);
static VEC: CounterVec<3> = CounterVec::new("vec_total", "Vec.", &["method", "code", "path"]);

fn main() {
    OFF.set_enabled(false);
    println!(
        "{:<40} {:>9} {:>9} {:>9} {:>9}",
        "ns/op", "1 thread", "median", "2 threads", "median"
    );
    row("empty loop", |i| {
        black_box(i);
    });
    row("counter, switched off", |_| black_box(&OFF).inc());
    row("counter inc", |_| black_box(&COUNTER).inc());
    row("counter add f64", |_| black_box(&FLOAT_COUNTER).add(0.5));
    row("gauge set", |i| black_box(&GAUGE).set(f64::from(i)));
    row("gauge add", |_| black_box(&GAUGE).add(1.0));
    let values = latencies();
    row("histogram observe, 11 bounds", |i| {
        black_box(&HISTOGRAM).observe(values[i as usize % values.len()]);
    });
    row("summary observe, 3 quantiles", |i| {
        black_box(&SUMMARY).observe(values[i as usize % values.len()]);
    });
    let labels = ["GET", "200", "/api/v1/query_range"];
    let handle = VEC.with(&labels);
    row("vec, kept handle", |_| black_box(&handle).inc());
    row("vec, 3 labels: update", |_| {
        VEC.update(black_box(&labels), |counter| counter.inc());
    });
    row("vec, 3 labels: with", |_| {
        VEC.with(black_box(&labels)).inc();
    });
    render();
}

/// Returns lognormal seconds around 10 ms, in an order a branch predictor cannot learn.
fn latencies() -> Vec<f64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut unit = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut normal = move || (0..12).map(|_| unit()).sum::<f64>() - 6.0;
    (0..8192).map(|_| 0.01 * (1.5 * normal()).exp()).collect()
}

fn row(name: &str, f: impl Fn(u32) + Sync) {
    let (one, one_median) = measure(1, &f);
    let (two, two_median) = measure(2, &f);
    println!("{name:<40} {one:>9.2} {one_median:>9.2} {two:>9.2} {two_median:>9.2}");
}

/// Returns the fastest and the median nanoseconds per operation.
fn measure(threads: usize, f: &(impl Fn(u32) + Sync)) -> (f64, f64) {
    let barrier = Barrier::new(threads);
    let (barrier, mut rounds) = (&barrier, vec![Duration::ZERO; ROUNDS]);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(move || {
                    (0..ROUNDS)
                        .map(|_| {
                            barrier.wait();
                            let start = Instant::now();
                            (0..STEPS).for_each(f);
                            start.elapsed()
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        for worker in workers {
            let times = worker.join().expect("a bench thread does not panic");
            for (round, time) in rounds.iter_mut().zip(times) {
                *round = time.max(*round);
            }
        }
    });
    rounds.sort_unstable();
    let ns = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(STEPS);
    (ns(rounds[0]), ns(rounds[ROUNDS / 2]))
}

fn render() {
    static COUNTERS: CounterVec<4> = CounterVec::new(
        "http_requests_total",
        "Requests.",
        &["method", "code", "handler", "instance"],
    )
    .with_cap(SERIES);
    static HISTOGRAMS: HistogramVec<1> =
        HistogramVec::new("http_seconds", "Seconds.", &["handler"], &DEFAULT_BOUNDS)
            .with_cap(SERIES);
    for i in 0..SERIES {
        let instance = format!("10.0.{}.{}:9100", i / 250, i % 250);
        let counter = COUNTERS.with(&["GET", "200", "/api/v1/query_range", &instance]);
        counter.inc_by(i as u64 * 37);
    }
    for i in 0..SERIES / 14 {
        HISTOGRAMS
            .with(&[&format!("/api/{i}")])
            .observe(i as f64 / 500.0);
    }
    println!(
        "\n{:<40} {:>9} {:>9} {:>9}",
        "ms", "fastest", "median", "MB"
    );
    time_render("render 100,000 counters, 4 labels", &COUNTERS);
    time_render("render 7,142 histograms (99,988 series)", &HISTOGRAMS);
}

fn time_render(name: &str, metric: &'static dyn Metric) {
    let registry = Registry::new();
    registry.register(metric).expect("a valid metric");
    let mut out = Vec::new();
    let mut times: Vec<f64> = (0..30)
        .map(|_| {
            out.clear();
            let start = Instant::now();
            registry.encode_text(&mut out);
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    let (fastest, median, mb) = (times[0], times[times.len() / 2], out.len() as f64 / 1e6);
    println!("{name:<40} {fastest:>9.2} {median:>9.2} {mb:>9.2}");
}
