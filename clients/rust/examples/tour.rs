//! Declares metrics, counts in them, switches one off, and prints the exposition: `cargo run --example tour`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::thread;

use narthex_client::{
    Counter, CounterVec, DEFAULT_BOUNDS, Desc, Gauge, Histogram, Metric, global, process,
    register_info,
};

static JOBS: Counter = Counter::new("jobs_total", "Jobs done.");
static QUEUED: Gauge = Gauge::new("queued_jobs", "Jobs waiting.");
static SECONDS: Histogram = Histogram::new("job_seconds", "Time a job took.", &DEFAULT_BOUNDS);
static ERRORS: CounterVec<2> =
    CounterVec::new("job_errors_total", "Jobs failed.", &["queue", "reason"]);

fn main() -> Result<(), Box<dyn Error>> {
    let registry = global();
    registry.register_all(&[&JOBS, &QUEUED, &SECONDS, &ERRORS])?;
    process::register(registry)?;
    let version = [env!("CARGO_PKG_VERSION").to_owned()];
    register_info(
        registry,
        "tour_build_info",
        "How this was built.",
        &["version"],
        version,
    )?;
    registry.register_fn(
        Desc::gauge("cpus", "CPUs this process may use.", &[]),
        |samples| {
            if let Ok(cpus) = thread::available_parallelism() {
                samples.push(&[], cpus.get() as f64);
            }
        },
    )?;

    thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || {
                // A kept handle costs no look-up.
                let timeouts = ERRORS.with(&["default", "timeout"]);
                for job in 0..1000 {
                    QUEUED.inc();
                    SECONDS.observe(f64::from(job) / 500.0);
                    if job % 100 == worker {
                        timeouts.inc();
                    }
                    JOBS.inc();
                    QUEUED.dec();
                }
            });
        }
    });

    QUEUED.set_enabled(false);
    let mut text = Vec::new();
    registry.encode_text(&mut text);
    print!("{}", String::from_utf8(text)?);
    Ok(())
}
