//! Publishing of a registry in shared memory, where another process reads it.
//!
//! A [`Publisher`] keeps the registry's numbers in a file on a memory file system, the **segment** of this process. A
//! server that watches the directory adds up the segments of all workers of an application, keeps the counts of those
//! that ended, and can switch metrics off in them. So a pool of worker processes needs no port, no exposition and no lock.
//!
//! ```no_run
//! use narthex_client::{Counter, global, segment::{Publisher, SegmentOptions}};
//! use std::time::Duration;
//!
//! static REQUESTS: Counter = Counter::new("app_requests_total", "Requests answered.");
//!
//! fn main() -> std::io::Result<()> {
//!     global().register(&REQUESTS).expect("a valid name");
//!     // In each worker, after it was forked.
//!     let publisher = Publisher::create(&SegmentOptions::new("/dev/shm/narthex", "app"))?;
//!     let publishing = publisher.spawn(global(), Duration::from_secs(1))?;
//!     REQUESTS.inc();
//!     drop(publishing); // publishes for the last time
//!     Ok(())
//! }
//! ```
//!
//! # What it costs
//!
//! Counting costs what it always does. Publishing reads the registry once and stores numbers: labels are written when a
//! series appears. A series takes 8 bytes for each number and its labels; a summary 8 KiB.
//!
//! # What it is not
//!
//! - A worker that is killed loses what it counted since it last published.
//! - A process that forks has to publish after that: what was counted before is in each child, and a publisher that was
//!   inherited fails.
//! - A summary's quantiles are computed by the reader, from 16 buckets for each power of two between 2^-24 and 2^40.
//! - A native histogram is published with its classic buckets, without any as sum and count; exemplars are not.
//! - A metric that the program itself switches off, and a series that it removes, keep their last numbers.
//! - Linux with 64 bits only.

mod map;
mod writer;

use crate::clock::unix_ms;
use crate::metric::{Raw, RawVisitor, Spec};
use crate::registry::Registry;
use crate::summary::Coarse;
use crate::visit::MetricType;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use writer::Writer;

/// Maximum number of labels that readers take.
const LABELS_MAX: usize = 64;

/// How the gauges of several workers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GaugeMerge {
    /// They are added up.
    Sum = 0,
    /// The least.
    Least = 1,
    /// The greatest.
    Greatest = 2,
    /// That of the worker that published last.
    Last = 3,
    /// They are not merged: each has its worker's name as a label.
    Each = 4,
}

/// Where and as whom to publish.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SegmentOptions {
    /// Directory of the segments, on a memory file system; created with mode 2770 if it does not exist.
    pub dir: PathBuf,
    /// Name of the application: letters, digits, `_`, `-` and `.`.
    pub app: String,
    /// Name of this worker; its process' number by default. A worker that takes another's place takes its name.
    pub worker: String,
    /// Permissions of the file; 0640 by default.
    pub mode: u32,
    /// Most numbers; a million by default. Memory is taken when it is used.
    pub max_cells: usize,
    /// Most bytes of labels; 32 MiB by default.
    pub max_record_bytes: usize,
    /// How gauges are merged, by name; others are not.
    pub gauges: HashMap<String, GaugeMerge>,
}

impl SegmentOptions {
    /// Creates options for a worker named after its process.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, app: impl Into<String>) -> Self {
        Self {
            dir: dir.into(),
            app: app.into(),
            worker: process::id().to_string(),
            mode: 0o640,
            max_cells: 1 << 20,
            max_record_bytes: 1 << 25,
            gauges: HashMap::new(),
        }
    }
}

/// Keeps a registry's numbers in a segment.
#[derive(Debug)]
pub struct Publisher {
    writer: Writer,
    pid: u32,
    gauges: HashMap<String, GaugeMerge>,
    metrics: HashMap<&'static str, Metric>,
}

/// A metric in the segment; `None` if it had no room.
#[derive(Debug)]
struct Metric {
    place: Option<writer::Metric>,
    /// What the switch said last.
    is_on: bool,
    series: HashMap<Box<[u8]>, Option<Series>>,
}

#[derive(Debug)]
struct Series {
    first: usize,
    /// Its observations when it was last published, and the cells of the series that had its labels before.
    count: f64,
    before: Option<Box<[u64]>>,
}

impl Publisher {
    /// Creates the segment of this process.
    ///
    /// # Errors
    ///
    /// If the directory cannot be written, its file system is full, or a name is invalid.
    pub fn create(options: &SegmentOptions) -> io::Result<Self> {
        Ok(Self {
            writer: Writer::create(options)?,
            pid: process::id(),
            gauges: options.gauges.clone(),
            metrics: HashMap::new(),
        })
    }

    /// Obeys the metrics' switches and stores the numbers of all others.
    ///
    /// # Errors
    ///
    /// In a process that was forked from the publisher's: its numbers would be added to its parent's.
    pub fn publish(&mut self, registry: &Registry) -> io::Result<()> {
        if process::id() != self.pid {
            let text = "the segment is that of the process that this one was forked from";
            return Err(io::Error::other(text));
        }
        for (name, metric) in &mut self.metrics {
            let is_on = metric.place.is_none_or(|place| self.writer.is_on(place));
            if is_on != metric.is_on {
                metric.is_on = is_on;
                registry.set_enabled(name, is_on);
            }
        }
        registry.visit_raw(&mut Round {
            publisher: self,
            now_ms: unix_ms(),
        });
        Ok(())
    }

    /// Returns how many metrics and series the segment has no room for.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.writer.refused()
    }

    /// Publishes from a thread, until what is returned is dropped.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn spawn(
        mut self,
        registry: &'static Registry,
        interval: Duration,
    ) -> io::Result<Publishing> {
        let (stop, stopped) = mpsc::channel();
        let work = move || {
            loop {
                let is_over = stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout);
                // Cannot fail: a forked process does not have this thread.
                let _ = self.publish(registry);
                if is_over {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("publish".into()).spawn(work)?;
        Ok(Publishing {
            stop,
            thread: Some(thread),
        })
    }
}

/// Publishes from its own thread until it is dropped, and then for the last time.
#[derive(Debug)]
#[must_use = "dropped at once, it publishes once"]
pub struct Publishing {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Publishing {
    fn drop(&mut self) {
        // Fails only if the thread has ended already.
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            // A panic was printed where it happened.
            let _ = thread.join();
        }
    }
}

/// One publication.
struct Round<'a> {
    publisher: &'a mut Publisher,
    now_ms: u64,
}

impl RawVisitor for Round<'_> {
    fn series(&mut self, spec: &Spec, labels: &[u8], raw: &Raw<'_>) {
        let Publisher {
            writer,
            gauges,
            metrics,
            ..
        } = &mut *self.publisher;
        let metric = metrics.entry(spec.name).or_insert_with(|| {
            let merge = gauges.get(spec.name).copied();
            Metric {
                place: writer.metric(spec, merge),
                is_on: true,
                series: HashMap::new(),
            }
        });
        let labels = labels.strip_prefix(b"{").unwrap_or(labels);
        let labels = labels.strip_suffix(b"}").unwrap_or(labels);
        if !metric.series.contains_key(labels) {
            let place = metric.place.filter(|_| spec.labels.len() <= LABELS_MAX);
            let first = place.and_then(|place| writer.series(place, labels, cells(spec)));
            if first.is_none() {
                writer.refuse();
            }
            let series = first.map(|first| Series {
                first,
                count: 0.0,
                before: None,
            });
            metric.series.insert(labels.into(), series);
        }
        if let Some(Some(series)) = metric.series.get_mut(labels) {
            series.store(writer, cells(spec), raw, self.now_ms);
        }
    }
}

fn cells(spec: &Spec) -> usize {
    match spec.kind {
        MetricType::Counter => 1,
        MetricType::Gauge | MetricType::Untyped => 2,
        MetricType::Histogram => spec.bounds.len() + 2,
        MetricType::Summary => 2 + Coarse::BUCKETS,
    }
}

impl Series {
    /// Stores a series' numbers. If it was removed and has begun again, they are added to what it had.
    fn store(&mut self, writer: &Writer, cells: usize, raw: &Raw<'_>, now_ms: u64) {
        let count = raw.count();
        if count < self.count {
            let all = self.first..self.first + cells;
            self.before = Some(all.map(|at| writer.cell(at)).collect());
        }
        self.count = count;
        let before = |at: usize| self.before.as_ref().map_or(0, |before| before[at]);
        let set = |at: usize, value: u64| writer.set(self.first + at, value);
        let set_float = |value: f64| set(0, (f64::from_bits(before(0)) + value).to_bits());
        match raw {
            Raw::Counter(value) => set_float(*value),
            Raw::Gauge(value) => {
                set(0, value.to_bits());
                set(1, now_ms);
            }
            Raw::Histogram { sum, buckets } => {
                for (at, count) in buckets.iter().enumerate() {
                    set(1 + at, before(1 + at).wrapping_add(*count));
                }
                set_float(*sum);
            }
            Raw::Summary { sum, nan, buckets } => {
                set(1, before(1).wrapping_add(*nan));
                for (at, count) in buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
                    set(2 + at, before(2 + at).wrapping_add(*count));
                }
                set_float(*sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::TempDir;

    #[test]
    fn an_inherited_publisher_fails() {
        let dir = TempDir::new("publisher");
        let mut publisher = Publisher::create(&SegmentOptions::new(dir.path(), "a")).unwrap();
        publisher.publish(&Registry::new()).unwrap();
        publisher.pid += 1;
        assert!(publisher.publish(&Registry::new()).is_err());
    }
}
