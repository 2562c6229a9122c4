//! Measurement shared by the benches of this crate and of `compare/`.
//!
//! **Invariant:** the same loop, rounds and statistics for every library.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

/// Rounds are short, so that on a busy machine some of them have all their CPUs.
const ROUNDS: usize = 100;
const ENOUGH: usize = 10;
const ATTEMPTS: usize = 20;
const STEPS: u32 = 200_000;
const RENDERS: usize = 30;

/// Prints the head of the table that [`row`] fills.
pub(crate) fn head() {
    println!(
        "{:<52} {:>9} {:>9} {:>9} {:>9}",
        "ns/op", "1 thread", "median", "2 threads", "median"
    );
}

/// Prints the fastest and the median of all rounds, with 1 and with 2 threads in the same loop.
///
/// A round lasts from the first thread's start to the last one's end; its time is divided by the operations of one
/// thread. Rounds in which the threads ran together for less than half the time are left out: they show no contention.
pub(crate) fn row(name: &str, f: impl Fn(u32) + Sync) {
    let (one, one_median) = measure(1, &f).expect("one thread has nobody to wait for");
    // On a busy machine both threads may share one CPU for long: new threads are placed again.
    let two = (0..ATTEMPTS).find_map(|_| measure(2, &f));
    let (two, two_median) = two.unwrap_or((f64::NAN, f64::NAN));
    println!("{name:<52} {one:>9.2} {one_median:>9.2} {two:>9.2} {two_median:>9.2}");
}

/// Returns `None` if there were too few rounds for a median.
fn measure(threads: usize, f: &(impl Fn(u32) + Sync)) -> Option<(f64, f64)> {
    let arrived = &AtomicUsize::new(0);
    let round = move |round| {
        // Threads spin: waking one takes longer than a round.
        arrived.fetch_add(1, SeqCst);
        while arrived.load(SeqCst) < threads * (round + 1) {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        (0..STEPS).for_each(f);
        (start, Instant::now())
    };
    let times: Vec<Vec<(Instant, Instant)>> = thread::scope(|scope| {
        let spawn = |_| scope.spawn(move || (0..ROUNDS).map(round).collect());
        let workers: Vec<_> = (0..threads).map(spawn).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().expect("a bench thread does not panic")
        };
        workers.into_iter().map(join).collect()
    });
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .filter_map(|round| {
            let starts = || times.iter().map(|thread| thread[round].0);
            let ends = || times.iter().map(|thread| thread[round].1);
            let all = ends().max()?.duration_since(starts().min()?);
            let together = ends().min()?.saturating_duration_since(starts().max()?);
            (together * 2 >= all).then_some(all)
        })
        .collect();
    if rounds.len() < ENOUGH {
        return None;
    }
    rounds.sort_unstable();
    let ns = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(STEPS);
    Some((ns(rounds[0]), ns(rounds[rounds.len() / 2])))
}

/// Prints the head of the table that [`render`] fills.
pub(crate) fn render_head() {
    println!(
        "\n{:<52} {:>9} {:>9} {:>9}",
        "ms", "fastest", "median", "MB"
    );
}

/// Prints the fastest and the median time `f` takes to fill the emptied buffer.
pub(crate) fn render(name: &str, mut f: impl FnMut(&mut Vec<u8>)) {
    let mut out = Vec::new();
    let mut times: Vec<f64> = (0..RENDERS)
        .map(|_| {
            out.clear();
            let start = Instant::now();
            f(&mut out);
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    let (fastest, median) = (times[0], times[RENDERS / 2]);
    println!(
        "{name:<52} {fastest:>9.2} {median:>9.2} {:>9.2}",
        out.len() as f64 / 1e6
    );
}

/// Returns lognormal seconds around 10 ms, in an order a branch predictor cannot learn.
pub(crate) fn latencies() -> [f64; LATENCIES] {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut unit = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut normal = move || (0..12).map(|_| unit()).sum::<f64>() - 6.0;
    std::array::from_fn(|_| 0.01 * (1.5 * normal()).exp())
}

/// Number of latencies; a power of two, so that picking one costs no division.
pub(crate) const LATENCIES: usize = 1024;

/// Series of a render.
pub(crate) const SERIES: usize = 100_000;

/// Returns the label that differs between the series of a render.
pub(crate) fn instance(i: usize) -> String {
    format!("10.0.{}.{}:9100", i / 250, i % 250)
}
