//! What a collector costs: CPU time, system calls, bytes read, series and their share of the page.
//!
//! Invariant: counting a system call is two additions to a thread's own numbers; clocks of CPU time, which are system
//! calls themselves, are read only in rounds that are measured.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::kind::CollectorKind;

/// What one run of a collector cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time on a CPU, the kernel's part included.
    pub cpu: Duration,
    /// System calls that read something: files, directories, netlink, `statfs`.
    pub calls: u64,
    /// Bytes that they returned.
    pub read_bytes: u64,
}

/// A collector's part of a round.
#[derive(Debug, Clone)]
pub struct CollectorCost {
    /// The collector.
    pub kind: CollectorKind,
    /// Its last measured run; `None` while it has had none.
    pub cost: Option<Cost>,
    /// Series in this round.
    pub series: usize,
    /// Bytes of their lines in the text format, their families' included.
    pub page_bytes: usize,
    /// Age of the values, unless they are this round's.
    pub age: Option<Duration>,
    /// Why it failed.
    pub error: Option<String>,
}

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static READ_BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Counts a system call that returned this many bytes.
pub(crate) fn count(bytes: usize) {
    CALLS.set(CALLS.get() + 1);
    READ_BYTES.set(READ_BYTES.get() + bytes as u64);
}

/// The start of a measured run on this thread.
pub(crate) struct Meter {
    cpu: Duration,
    calls: u64,
    read_bytes: u64,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self {
            cpu: thread_cpu(),
            calls: CALLS.get(),
            read_bytes: READ_BYTES.get(),
        }
    }

    pub(crate) fn stop(self) -> Cost {
        Cost {
            cpu: thread_cpu().saturating_sub(self.cpu),
            calls: CALLS.get().wrapping_sub(self.calls),
            read_bytes: READ_BYTES.get().wrapping_sub(self.read_bytes),
        }
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.calls += other.calls;
        self.read_bytes += other.read_bytes;
    }
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_file::{End, OpenFile, ReadBuf};

    #[test]
    fn reading_a_file_is_counted() {
        let dir = narthex_testkit::TempDir::new("host-cost");
        let path = dir.write("a", "0123456789");
        let meter = Meter::start();
        let mut buf = ReadBuf::new();
        let mut file = OpenFile::new(path);
        file.read(&mut buf, End::Short).expect("there");
        let cost = meter.stop();
        // Opened and read.
        assert_eq!((cost.calls, cost.read_bytes), (2, 10));
        let meter = Meter::start();
        file.read(&mut buf, End::Empty).expect("there");
        let cost = meter.stop();
        assert_eq!((cost.calls, cost.read_bytes), (2, 10));
        let mut twice = cost;
        twice += cost;
        assert_eq!((twice.calls, twice.read_bytes), (4, 20));
    }

    #[test]
    fn work_takes_time() {
        let meter = Meter::start();
        let mut sum = 0_u64;
        while meter.cpu + Duration::from_micros(200) > thread_cpu() {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(meter.stop().cpu >= Duration::from_micros(200));
    }
}
