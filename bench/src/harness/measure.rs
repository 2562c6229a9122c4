//! Resource usage of processes, from procfs: CPU, memory and bytes written of a whole tree.
//!
//! **Invariant:** a figure is the kernel's own; a failure to read it is an error, never zero. Only a descendant that
//! ends while the tree is being read is left out: its parent's figures include it once it is waited for.

use super::error::BenchError;
use crate::record::OwnCost;
use narthex_testkit::proc::{ProcFile, ThreadTime, children};
use rustix::time::{ClockId, clock_gettime};
use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};

const READING: &str = "read procfs";
/// Cores used by other processes above which most results are noisy.
pub(crate) const QUIET_CORES: f64 = 0.1;

/// Usage of a process tree since its start, and the memory it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    /// User and system time, including that of ended children.
    pub(crate) cpu: Duration,
    pub(crate) rss_bytes: u64,
    /// Sum of the processes' peaks.
    pub(crate) peak_rss_bytes: u64,
    /// Bytes of files made dirty, whether or not they have reached the device.
    pub(crate) write_bytes: u64,
    pub(crate) processes: u64,
    pub(crate) threads: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.rss_bytes += other.rss_bytes;
        self.peak_rss_bytes += other.peak_rss_bytes;
        self.write_bytes += other.write_bytes;
        self.processes += other.processes;
        self.threads += other.threads;
    }
}

impl Usage {
    /// Reads the usage of the process `root` and its descendants.
    pub(crate) fn read_tree(root: i32) -> Result<Self, BenchError> {
        let (mut usage, mut waiting) = (Self::default(), vec![root]);
        while let Some(pid) = waiting.pop() {
            match usage.add(pid, &mut waiting) {
                Err(e) if pid != root && e.kind() == io::ErrorKind::NotFound => {}
                other => other.map_err(BenchError::io(READING))?,
            }
        }
        Ok(usage)
    }

    fn add(&mut self, pid: i32, waiting: &mut Vec<i32>) -> io::Result<()> {
        let stat = ProcFile::read(pid, "stat")?;
        let status = ProcFile::read(pid, "status")?;
        if stat.is_zombie() || !status.has_memory() {
            // It holds nothing any more, but its parent's figures do not include its time yet.
            self.cpu += ticks(stat.cpu_ticks()?);
            return Ok(());
        }
        let io = ProcFile::read(pid, "io")?;
        self.cpu += ticks(stat.cpu_ticks()?);
        self.rss_bytes += status.bytes("VmRSS:")?;
        self.peak_rss_bytes += status.bytes("VmHWM:")?;
        self.threads += status.number("Threads:")?;
        self.write_bytes += io.number("write_bytes:")?;
        self.processes += 1;
        waiting.extend(children(pid)?);
        Ok(())
    }
}

/// Resident memory according to `smaps_rollup`: exact where `status` may lag behind, and slow to read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Resident {
    pub(crate) rss_bytes: u64,
    /// Memory not backed by a file.
    pub(crate) anonymous_bytes: u64,
}

impl Resident {
    /// Reads one process.
    pub(crate) fn read(pid: i32) -> Result<Self, BenchError> {
        let read = || {
            let rollup = ProcFile::read(pid, "smaps_rollup")?;
            Ok(Self {
                rss_bytes: rollup.bytes("Rss:")?,
                anonymous_bytes: rollup.bytes("Anonymous:")?,
            })
        };
        read().map_err(BenchError::io(READING))
    }
}

/// Returns the running time of every thread of a process, by its id.
pub(crate) fn running_times(pid: i32) -> Result<BTreeMap<String, Duration>, BenchError> {
    let times = ThreadTime::of_all(pid).map_err(BenchError::io(READING))?;
    Ok(times.into_iter().map(|(id, time)| (id, time.run)).collect())
}

/// Returns the running time of all threads of a process and its descendants: in nanoseconds, where [`Usage`] counts clock
/// ticks, but without threads and processes that have ended.
pub(crate) fn running_time(root: i32) -> Result<Duration, BenchError> {
    let (mut total, mut waiting) = (Duration::ZERO, vec![root]);
    while let Some(pid) = waiting.pop() {
        total += running_times(pid)?.values().sum::<Duration>();
        waiting.extend(children(pid).map_err(BenchError::io(READING))?);
    }
    Ok(total)
}

/// Reads the running time of a thread of this process, and how long it waited for a CPU.
pub(crate) fn own_thread_time(id: i32) -> Result<ThreadTime, BenchError> {
    ThreadTime::of_own(id).map_err(BenchError::io(READING))
}

/// Returns one of the clocks of this process or thread.
pub(crate) fn cpu_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Returns the busy time of all the machine's CPUs since it started.
fn machine_busy() -> Result<Duration, BenchError> {
    let busy = ProcFile::open("/proc/stat").and_then(|stat| stat.busy_ticks());
    busy.map(ticks).map_err(BenchError::io(READING))
}

/// The machine's busy time and our own, from which that of other processes follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineLoad {
    at: Instant,
    busy: Duration,
    known: Duration,
}

impl MachineLoad {
    /// Reads both; `subjects` is the CPU time that the measured processes have used so far.
    pub(crate) fn read(subjects: Duration) -> Result<Self, BenchError> {
        Ok(Self {
            at: Instant::now(),
            busy: machine_busy()?,
            known: subjects + cpu_time(ClockId::ProcessCPUTime),
        })
    }

    /// Returns how many cores of the machine were busy since `earlier`, whatever used them.
    pub(crate) fn busy_cores_since(&self, earlier: &Self) -> f64 {
        let busy = self.busy.saturating_sub(earlier.busy).as_secs_f64();
        busy / (self.at - earlier.at).as_secs_f64().max(1e-9)
    }

    /// Returns the cost that makes a run noisy: cores that other processes used since `earlier`.
    pub(crate) fn others_since(&self, earlier: &Self) -> OwnCost {
        OwnCost::new("cores of others", "", self.cores_since(earlier)).warn_above(QUIET_CORES)
    }

    /// Returns how many cores were used since `earlier` by processes that are neither measured nor this one.
    fn cores_since(&self, earlier: &Self) -> f64 {
        let known = self.known.saturating_sub(earlier.known);
        let others = self.busy.saturating_sub(earlier.busy).saturating_sub(known);
        others.as_secs_f64() / (self.at - earlier.at).as_secs_f64().max(1e-9)
    }
}

/// Readings from before a measured interval.
#[derive(Debug)]
pub(crate) struct Meter {
    started: Instant,
    from: Usage,
    own: Duration,
    machine: MachineLoad,
}

/// Usage during an interval.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) took: Duration,
    pub(crate) from: Usage,
    pub(crate) to: Usage,
    /// CPU time of this program.
    pub(crate) own_cpu: Duration,
    /// Cores used by neither the servers under test nor this program.
    pub(crate) other_cores: f64,
}

impl Meter {
    /// Starts from the servers' usage so far.
    pub(crate) fn start(from: Usage) -> Result<Self, BenchError> {
        Ok(Self {
            started: Instant::now(),
            from,
            own: cpu_time(ClockId::ProcessCPUTime),
            machine: MachineLoad::read(from.cpu)?,
        })
    }

    /// Stops at the servers' current usage.
    pub(crate) fn stop(&self, to: Usage) -> Result<Used, BenchError> {
        Ok(Used {
            took: self.started.elapsed(),
            from: self.from,
            to,
            own_cpu: cpu_time(ClockId::ProcessCPUTime).saturating_sub(self.own),
            other_cores: MachineLoad::read(to.cpu)?.cores_since(&self.machine),
        })
    }
}

impl Used {
    /// Returns the CPU time of the servers under test.
    pub(crate) fn cpu(&self) -> Duration {
        self.to.cpu.saturating_sub(self.from.cpu)
    }

    /// Returns the bytes the servers made dirty.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.to.write_bytes.saturating_sub(self.from.write_bytes)
    }

    /// Returns how many cores this program used.
    pub(crate) fn own_cores(&self) -> f64 {
        self.own_cpu.as_secs_f64() / self.took.as_secs_f64().max(1e-9)
    }

    /// Returns how many cores the servers under test used.
    pub(crate) fn cores(&self) -> f64 {
        self.cpu().as_secs_f64() / self.took.as_secs_f64().max(1e-9)
    }

    /// Returns the cost that makes a run noisy: cores that other processes used.
    pub(crate) fn others(&self, quiet_cores: f64) -> OwnCost {
        OwnCost::new("cores of others", "", self.other_cores).warn_above(quiet_cores)
    }
}

/// Returns the disk usage of a directory and the sum of its files' lengths.
pub(crate) fn directory_bytes(path: &Path) -> Result<(u64, u64), BenchError> {
    let (mut allocated, mut apparent) = (0, 0);
    let entries = fs::read_dir(path).map_err(BenchError::io(path.display().to_string()))?;
    for entry in entries.flatten() {
        let Ok(data) = entry.metadata() else { continue };
        allocated += data.blocks() * 512;
        if data.is_file() {
            apparent += data.len();
        } else if data.is_dir() {
            let inner = directory_bytes(&entry.path()).unwrap_or_default();
            allocated += inner.0;
            apparent += inner.1;
        }
    }
    Ok((allocated, apparent))
}

/// Returns a time in milliseconds.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the value below which `share` of the sorted values lie (the nearest one), 0 without values.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests;
