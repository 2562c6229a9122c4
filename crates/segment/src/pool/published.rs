//! What the Rust client publishes is what its exposition shows, and its writers behave.

use super::tests::{pool, round};
use super::*;
use narthex_client::{
    CounterVec, GaugeVec, Histogram, HistogramVec, Registry, Summary,
    segment::{GaugeMerge, Publisher, SegmentOptions},
};
use narthex_testkit::TempDir;
use std::sync::atomic::{AtomicBool, Ordering};

const BOUNDS: [f64; 2] = [0.5, 1.5];

fn publisher(dir: &TempDir, worker: &str) -> Publisher {
    Publisher::create(&options(dir, worker)).unwrap()
}

fn options(dir: &TempDir, worker: &str) -> SegmentOptions {
    let mut options = SegmentOptions::new(dir.path(), "shop");
    options.worker = worker.to_owned();
    options.gauges.insert("open".to_owned(), GaugeMerge::Sum);
    options
}

/// Returns the lines of an exposition as rounds show them.
fn exposition(registry: &Registry) -> Vec<String> {
    let mut text = Vec::new();
    registry.encode_text(&mut text);
    let text = String::from_utf8(text).unwrap();
    let mut lines: Vec<String> = (text.lines())
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let line = line.replace("le=\"1\"", "le=\"1.0\"");
            match line.split_once('{') {
                Some((name, rest)) => format!("{name}{{app=\"shop\",{rest}"),
                None => line.replacen(' ', "{app=\"shop\"} ", 1),
            }
        })
        .collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_registry_is_read_as_its_exposition() {
    static REQUESTS: CounterVec<2> = CounterVec::new("requests_total", "R.", &["code", "path"]);
    static OPEN: GaugeVec<1> = GaugeVec::new("open", "O.", &["kind"]);
    static SIZES: HistogramVec<1> = HistogramVec::new("size", "S.", &["kind"], &BOUNDS);
    static TIMES: Summary = Summary::new("times", "T.", &[0.5, 0.9]);
    let registry = Registry::new();
    registry
        .register_all(&[&REQUESTS, &OPEN, &SIZES, &TIMES])
        .unwrap();
    REQUESTS.with(&["200", "/a\"\\\n"]).add(2.5);
    REQUESTS.with(&["404", ""]).inc_by(7);
    OPEN.with(&["x"]).set(-3.0);
    for value in [0.5, 0.7, 9.0, -1.0] {
        SIZES.with(&["b"]).observe(value);
    }
    for value in 1..=100 {
        TIMES.observe(f64::from(value));
    }
    TIMES.observe(f64::NAN);
    let dir = TempDir::new("published");
    let mut pool = pool(dir.path());
    round(&mut pool, 0);
    let mut publisher = publisher(&dir, "0");
    publisher.publish(&registry).unwrap();
    let all = round(&mut pool, 1);
    assert_eq!(pool.problems(), []);
    let is_quantile = |line: &&String| line.contains("quantile");
    let lines: Vec<&String> = all.iter().filter(|line| !is_quantile(line)).collect();
    let expected = exposition(&registry);
    let expected: Vec<&String> = expected.iter().filter(|line| !is_quantile(line)).collect();
    // A label without a value is no label.
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(&expected) {
        assert_eq!(**line, expected.replace(",path=\"\"", ""));
    }
    let quantile = |q: &str| -> f64 {
        let line = all
            .iter()
            .find(|line| line.contains(&format!("quantile=\"{q}\"")))
            .unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!((quantile("0.5") / 50.0 - 1.0).abs() < 0.035, "{all:?}");
    assert!((quantile("0.9") / 90.0 - 1.0).abs() < 0.035, "{all:?}");
}

#[test]
fn a_program_obeys_its_switches() {
    static CALLS: CounterVec<1> = CounterVec::new("calls_total", "C.", &["x"]);
    let registry = Registry::new();
    registry.register(&CALLS).unwrap();
    CALLS.with(&["a"]).inc();
    let dir = TempDir::new("published");
    let mut publisher = publisher(&dir, "0");
    publisher.publish(&registry).unwrap();
    let mut count = |is_on: bool| {
        crate::set_switch(dir.path(), "shop", "calls_total", is_on).unwrap();
        publisher.publish(&registry).unwrap();
        CALLS.with(&["a"]).inc();
        publisher.publish(&registry).unwrap();
        CALLS.with(&["a"]).get()
    };
    assert_eq!([count(false), count(false), count(true)], [1.0, 1.0, 2.0]);
    let line = ["calls_total{app=\"shop\",x=\"a\"} 2"];
    assert_eq!(round(&mut pool(dir.path()), 1), line);
}

#[test]
fn a_series_that_begins_anew_goes_on() {
    static CALLS: CounterVec<1> = CounterVec::new("anew_total", "C.", &["x"]);
    static SIZES: HistogramVec<1> = HistogramVec::new("anew_size", "S.", &["x"], &BOUNDS);
    let registry = Registry::new();
    registry.register_all(&[&CALLS, &SIZES]).unwrap();
    let dir = TempDir::new("published");
    let mut publisher = publisher(&dir, "0");
    for _ in 0..3 {
        CALLS.with(&["a"]).inc_by(5);
        SIZES.with(&["a"]).observe(1.0);
        SIZES.with(&["a"]).observe(1.0);
        publisher.publish(&registry).unwrap();
        CALLS.remove(&["a"]);
        SIZES.remove(&["a"]);
        CALLS.with(&["a"]).inc();
        SIZES.with(&["a"]).observe(0.1);
        publisher.publish(&registry).unwrap();
        CALLS.remove(&["a"]);
        SIZES.remove(&["a"]);
        let _ = CALLS.with(&["a"]);
        let _ = SIZES.with(&["a"]);
        publisher.publish(&registry).unwrap();
    }
    let lines = round(&mut pool(dir.path()), 1);
    assert!(
        lines.contains(&"anew_total{app=\"shop\",x=\"a\"} 18".to_owned()),
        "{lines:?}"
    );
    assert!(
        lines.contains(&"anew_size_count{app=\"shop\",x=\"a\"} 9".to_owned()),
        "{lines:?}"
    );
    assert!(
        lines.contains(&"anew_size_bucket{app=\"shop\",le=\"0.5\",x=\"a\"} 3".to_owned()),
        "{lines:?}"
    );
}

#[test]
fn a_segment_grows_while_it_is_read_and_refuses_what_is_too_much() {
    static CALLS: CounterVec<1> =
        CounterVec::new("many_total", "C.", &["number"]).with_cap(100_000);
    let registry = Registry::new();
    registry.register(&CALLS).unwrap();
    let dir = TempDir::new("published");
    let mut options = options(&dir, "0");
    options.max_cells = 20_001;
    let mut publisher = Publisher::create(&options).unwrap();
    let mut pool = pool(dir.path());
    for series in [10, 10_000, 20_000, 20_500] {
        for number in 0..series {
            CALLS.with(&[&number.to_string()]).inc();
        }
        publisher.publish(&registry).unwrap();
        assert_eq!(round(&mut pool, 1).len(), series.min(20_000));
    }
    let (listed, _) = crate::list(dir.path()).unwrap();
    assert_eq!(
        (listed[0].refused, listed[0].metrics[0].series),
        (500, 20_000)
    );
    let first = "many_total{app=\"shop\",number=\"0\"} 4".to_owned();
    assert!(round(&mut pool, 2).contains(&first));
}

/// A record that a reader does not take would end the segment there.
#[test]
fn what_readers_refuse_is_not_written() {
    let names: [&'static str; 65] = std::array::from_fn(|at| &*format!("l{at}").leak());
    let names = Box::leak(Box::new(names));
    let labelled: &'static CounterVec<65> =
        Box::leak(Box::new(CounterVec::new("a_total", "A.", names)));
    let quantiles: Vec<f64> = (0..65).map(|at| f64::from(at) / 100.0).collect();
    let fine: &'static Summary =
        Box::leak(Box::new(Summary::new("b_seconds", "B.", quantiles.leak())));
    static LAST: CounterVec<1> = CounterVec::new("c_total", "C.", &["x"]);
    let registry = Registry::new();
    registry.register_all(&[labelled, fine, &LAST]).unwrap();
    labelled.with(&["x"; 65]).inc();
    fine.observe(1.0);
    LAST.with(&["1"]).inc();
    let dir = TempDir::new("published");
    let mut publisher = publisher(&dir, "0");
    publisher.publish(&registry).unwrap();
    let mut pool = pool(dir.path());
    assert_eq!(round(&mut pool, 1), ["c_total{app=\"shop\",x=\"1\"} 1"]);
    assert_eq!(pool.problems(), []);
    assert_eq!(publisher.refused(), 2);
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_reader_sees_counters_that_only_grow() {
    static CALLS: CounterVec<1> = CounterVec::new("grow_total", "C.", &["x"]);
    static SECONDS: Histogram = Histogram::new("grow_seconds", "S.", &BOUNDS);
    let registry = Registry::new();
    registry.register_all(&[&CALLS, &SECONDS]).unwrap();
    let dir = TempDir::new("published");
    let mut publisher = publisher(&dir, "0");
    let mut pool = pool(dir.path());
    let (is_over, registry) = (&AtomicBool::new(false), &registry);
    std::thread::scope(|scope| {
        let counting = scope.spawn(move || {
            let mut series = 0;
            while !is_over.load(Ordering::Relaxed) {
                // New series appear while others count.
                CALLS.with(&[&(series % 500).to_string()]).add(0.25);
                SECONDS.observe(1.0);
                publisher.publish(registry).unwrap();
                series += 1;
            }
        });
        let total = |lines: &[String]| -> f64 {
            let values = lines.iter().filter(|line| line.starts_with("grow_total"));
            values
                .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
                .sum()
        };
        // A failed assertion must not leave the other thread counting.
        let over = Over(is_over);
        let mut before = HashMap::new();
        for now_ms in 0..300 {
            for line in round(&mut pool, now_ms) {
                let (name, value) = line.rsplit_once(' ').unwrap();
                let value: f64 = value.parse().unwrap();
                let last = before.insert(name.to_owned(), value).unwrap_or_default();
                assert!(value >= last, "{name}: {value} after {last}");
            }
            assert_eq!(pool.problems(), []);
        }
        drop(over);
        counting.join().unwrap();
        let all: f64 = (0..500)
            .map(|at| CALLS.with(&[&at.to_string()]).get())
            .sum();
        assert_eq!(total(&round(&mut pool, 300)), all);
        assert_eq!(paths(dir.path(), SUFFIX).unwrap().len(), 0);
    });
}

#[test]
fn names_that_are_no_files_are_refused() {
    let dir = TempDir::new("published");
    for app in ["", "a/b", ".a", "ä"] {
        assert!(
            Publisher::create(&SegmentOptions::new(dir.path(), app)).is_err(),
            "{app}"
        );
    }
    assert_eq!(paths(dir.path(), "").unwrap().len(), 0);
}
