//! Calls on a schedule that does not wait for responses, each class by a few threads.
//!
//! Each class has a rate and a few workers. A worker takes the next request, sleeps until it is due and sends it; if
//! all workers wait for the server, the next request is sent late, and its corrected latency includes that.
//! **Invariant:** due times depend only on the rate. A late start is the generator's fault only if a worker had been
//! sleeping for it.

use super::latency::{Histogram, Latencies};
use crate::harness::{BenchError, lock};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Longest sleep before a worker checks whether to stop.
const NAP: Duration = Duration::from_millis(100);

/// One class of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Class {
    pub(crate) key: &'static str,
    /// Requests per second; 0 sends none.
    pub(crate) rate: f64,
    /// Maximum requests in progress.
    pub(crate) workers: usize,
}

/// A request that was answered or failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) due: Instant,
    pub(crate) sent: Instant,
    pub(crate) ended: Instant,
    /// Whether a worker slept until it was due.
    pub(crate) was_awaited: bool,
    pub(crate) is_success: bool,
}

/// Requests in progress; it stops on drop.
#[derive(Debug)]
pub(crate) struct PacedLoad {
    classes: Vec<(Class, Arc<Shared>)>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    next: AtomicU64,
    events: Mutex<Vec<Event>>,
}

impl PacedLoad {
    /// Starts all classes. `make` receives the class and returns the function that each worker calls with the index of
    /// a request; it returns whether the request succeeded.
    pub(crate) fn start(
        classes: &[Class],
        make: impl Fn(usize) -> Box<dyn FnMut(u64) -> bool + Send>,
    ) -> Result<Self, BenchError> {
        let mut all = Self {
            classes: Vec::new(),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        let start = Instant::now();
        for (at, class) in classes.iter().enumerate() {
            let shared = Arc::<Shared>::default();
            all.classes.push((*class, Arc::clone(&shared)));
            if class.rate <= 0.0 {
                continue;
            }
            for _ in 0..class.workers {
                let worker = Worker {
                    start,
                    period: Duration::from_secs_f64(1.0 / class.rate),
                    shared: Arc::clone(&shared),
                    stop: Arc::clone(&all.stop),
                };
                let send = make(at);
                let thread = thread::Builder::new()
                    .name(format!("load-{at}"))
                    .spawn(move || worker.run(send))
                    .map_err(BenchError::io("start the load"))?;
                all.threads.push(thread);
            }
        }
        Ok(all)
    }

    /// Returns the classes with the events so far, in the order they ended.
    pub(crate) fn events(&self) -> Vec<(Class, Vec<Event>)> {
        let of = |(class, shared): &(Class, Arc<Shared>)| {
            let events = lock(&shared.events);
            (*class, events.clone())
        };
        self.classes.iter().map(of).collect()
    }

    /// Returns the 99th percentile of how late workers that had waited for a request sent it.
    pub(crate) fn late_starts_p99_ms(&self) -> f64 {
        let mut late = Histogram::default();
        for (_, events) in self.events() {
            for event in events.iter().filter(|event| event.was_awaited) {
                late.add(event.sent.saturating_duration_since(event.due));
            }
        }
        late.quantile_ms(0.99)
    }

    /// Starts no further requests and waits for those in progress, which end by their own deadlines.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // The thread printed its panic; its requests are missing from the count.
            let _ = thread.join();
        }
    }
}

impl Drop for PacedLoad {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Aggregates events that were due within `from..to`.
pub(crate) fn latencies(events: &[Event], from: Instant, to: Instant) -> Latencies {
    let mut latencies = Latencies::default();
    for event in events
        .iter()
        .filter(|event| (from..to).contains(&event.due))
    {
        latencies.add(event.due, event.sent, event.ended);
    }
    latencies
}

struct Worker {
    start: Instant,
    period: Duration,
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    fn run(&self, mut send: impl FnMut(u64) -> bool) {
        loop {
            let number = self.shared.next.fetch_add(1, Relaxed);
            let due = self.start + self.period.mul_f64(number as f64);
            let was_awaited = Instant::now() < due;
            loop {
                if self.stop.load(Relaxed) {
                    return;
                }
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                thread::sleep(left.min(NAP));
            }
            let sent = Instant::now();
            let is_success = send(number);
            let event = Event {
                due,
                sent,
                ended: Instant::now(),
                was_awaited,
                is_success,
            };
            lock(&self.shared.events).push(event);
        }
    }
}

#[cfg(test)]
mod tests;
