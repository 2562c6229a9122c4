//! Totals are exact, however many threads count and whatever shards they get.

use std::cell::Cell;
use std::sync::Barrier;
use std::thread;

use narthex_client::{Counter, CounterVec, Gauge, Histogram, Summary};

/// Runs `f` in `threads` threads that all exist at the same time.
fn in_threads(threads: u64, f: impl Fn(u64) + Sync) {
    let barrier = Barrier::new(usize::try_from(threads).unwrap());
    thread::scope(|scope| {
        for i in 0..threads {
            let (barrier, f) = (&barrier, &f);
            scope.spawn(move || {
                barrier.wait();
                f(i);
                // No thread may end, and release its shard, before all have counted.
                barrier.wait();
            });
        }
    });
}

#[test]
fn totals_are_exact_with_more_threads_than_shards() {
    static COUNTER: Counter = Counter::new("c_total", "C.");
    static GAUGE: Gauge = Gauge::new("g", "G.");
    static HISTOGRAM: Histogram = Histogram::new("h", "H.", &[1.0, 2.0]);
    static SUMMARY: Summary = Summary::new("s", "S.", &[0.5]);
    let (threads, steps) = (90, 2_000);
    in_threads(threads, |i| {
        for step in 0..steps {
            COUNTER.inc();
            COUNTER.add(0.25);
            GAUGE.inc();
            GAUGE.sub(0.5);
            HISTOGRAM.observe(((i + step) % 3) as f64 + 0.5);
            SUMMARY.observe((step % 4) as f64 - 1.0);
        }
    });
    let n = threads * steps;
    assert_eq!(COUNTER.get(), n as f64 * 1.25);
    assert_eq!(GAUGE.get(), n as f64 * 0.5);
    assert_eq!(HISTOGRAM.count(), n);
    assert_eq!(HISTOGRAM.sum(), n as f64 * 1.5);
    assert_eq!((SUMMARY.count(), SUMMARY.sum()), (n, n as f64 * 0.5));
}

#[test]
fn shards_pass_from_thread_to_thread_without_a_loss() {
    static COUNTER: Counter = Counter::new("c_total", "C.");
    for _ in 0..300 {
        in_threads(3, |_| COUNTER.inc_by(7));
    }
    assert_eq!(COUNTER.get(), 300.0 * 3.0 * 7.0);
}

#[test]
fn a_thread_that_waited_long_enough_gets_a_shard_of_its_own() {
    // More writes than the interval between two attempts, first without a free shard, then with all others free.
    static COUNTER: Counter = Counter::new("c_total", "C.");
    let (threads, steps) = (90, 10_000);
    in_threads(threads, |_| (0..10).for_each(|_| COUNTER.inc()));
    let all_started = &Barrier::new(90);
    thread::scope(|scope| {
        for i in 0..threads {
            scope.spawn(move || {
                COUNTER.inc();
                all_started.wait();
                if i >= 80 {
                    (0..steps).for_each(|_| COUNTER.inc());
                }
            });
        }
    });
    assert_eq!(COUNTER.get(), (threads * 10 + threads + 10 * steps) as f64);
}

#[test]
fn destructors_of_other_thread_locals_can_count() {
    static COUNTER: Counter = Counter::new("c_total", "C.");
    struct CountsAtTheEnd;
    impl Drop for CountsAtTheEnd {
        fn drop(&mut self) {
            COUNTER.inc();
        }
    }
    thread_local!(static FIRST: Cell<Option<CountsAtTheEnd>> = const { Cell::new(None) });
    thread_local!(static LAST: Cell<Option<CountsAtTheEnd>> = const { Cell::new(None) });
    for _ in 0..20 {
        let thread = thread::spawn(|| {
            // One destructor is registered before the shard's, one after it.
            FIRST.set(Some(CountsAtTheEnd));
            COUNTER.inc();
            LAST.set(Some(CountsAtTheEnd));
        });
        thread.join().unwrap();
    }
    assert_eq!(COUNTER.get(), 60.0);
}

#[test]
fn series_are_created_once_and_counted_exactly_by_many_threads() {
    static VEC: CounterVec<2> = CounterVec::new("v_total", "V.", &["a", "b"]);
    in_threads(16, |_| {
        for i in 0..500 {
            let a = (i % 25).to_string();
            VEC.with(&[&a, "x"]).inc();
            VEC.update(&[&a, "x"], |counter| counter.inc());
        }
    });
    assert_eq!(VEC.len(), 25);
    for i in 0..25 {
        assert_eq!(VEC.with(&[&i.to_string(), "x"]).get(), 16.0 * 20.0 * 2.0);
    }
}

#[test]
fn readers_see_counters_grow_only() {
    static COUNTER: Counter = Counter::new("c_total", "C.");
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| (0..100_000).for_each(|_| COUNTER.inc())))
            .collect();
        let mut last = 0.0;
        while !writers.iter().all(thread::ScopedJoinHandle::is_finished) {
            let next = COUNTER.get();
            assert!(next >= last);
            last = next;
        }
    });
    assert_eq!(COUNTER.get(), 200_000.0);
}
