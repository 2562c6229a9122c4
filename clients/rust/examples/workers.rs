//! A pool of forked workers, each of which publishes its metrics in a segment.
//!
//! `cargo run --example workers -- DIR` forks four workers that count for some seconds; `narthex segment watch --dir=DIR` shows
//! what they count together, and `narthex segment switch --dir=DIR workers example_requests_total off` stops them counting.

use narthex_client::segment::{GaugeMerge, Publisher, SegmentOptions};
use narthex_client::{CounterVec, DEFAULT_BOUNDS, Gauge, Histogram, global};
use std::error::Error;
use std::ffi::c_int;
use std::time::{Duration, Instant};

static REQUESTS: CounterVec<1> = CounterVec::new("example_requests_total", "Requests.", &["code"]);
static SECONDS: Histogram = Histogram::new("example_seconds", "Time to answer.", &DEFAULT_BOUNDS);
static ACTIVE: Gauge = Gauge::new("example_active", "Requests being answered.");

const WORKERS: u32 = 4;
const RUNS_FOR: Duration = Duration::from_secs(10);

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args()
        .nth(1)
        .unwrap_or("/dev/shm/narthex".to_owned());
    global().register_all(&[&REQUESTS, &SECONDS, &ACTIVE])?;
    let mut children = Vec::new();
    for worker in 0..WORKERS {
        // SAFETY: this process has one thread, so a child may go on as if nothing had happened.
        match unsafe { fork() } {
            0 => return work(&dir, worker),
            pid if pid > 0 => children.push(pid),
            _ => return Err("no process could be forked".into()),
        }
    }
    for pid in children {
        // SAFETY: a null pointer says that the status is not wanted.
        unsafe { waitpid(pid, std::ptr::null_mut(), 0) };
    }
    Ok(())
}

/// Creates the segment after the fork, and publishes twice a second while it counts.
fn work(dir: &str, worker: u32) -> Result<(), Box<dyn Error>> {
    let mut options = SegmentOptions::new(dir, "workers");
    options.worker = worker.to_string();
    options
        .gauges
        .insert("example_active".to_owned(), GaugeMerge::Sum);
    let publisher = Publisher::create(&options)?;
    let publishing = publisher.spawn(global(), Duration::from_millis(500))?;
    let ok = REQUESTS.with(&["200"]);
    let start = Instant::now();
    while start.elapsed() < RUNS_FOR {
        ACTIVE.inc();
        SECONDS.observe_duration(Duration::from_millis(5));
        std::thread::sleep(Duration::from_millis(5));
        ok.inc();
        ACTIVE.dec();
    }
    drop(publishing);
    Ok(())
}
