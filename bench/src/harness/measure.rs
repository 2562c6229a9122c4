//! Resource usage of processes, from procfs: CPU, memory and bytes written of a whole tree.
//!
//! **Invariant:** a figure is the kernel's own; a failure to read it is an error, never zero. Only a descendant that
//! ends while the tree is being read is left out: its parent's figures include it once it is waited for.

use super::error::BenchError;
use crate::record::OwnCost;
use rustix::time::{ClockId, clock_gettime};
use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

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
        let mut usage = Self::default();
        let mut waiting = vec![root];
        while let Some(pid) = waiting.pop() {
            match usage.add(pid, &mut waiting) {
                Err(BenchError::Io { source, .. }) if pid != root && has_ended(&source) => {}
                other => other?,
            }
        }
        Ok(usage)
    }

    fn add(&mut self, pid: i32, children: &mut Vec<i32>) -> Result<(), BenchError> {
        let stat = Proc::read(pid, "stat")?;
        let status = Proc::read(pid, "status")?;
        if stat.is_zombie() || !status.has_memory() {
            // It holds nothing any more, but its parent's figures do not include its time yet.
            self.cpu += stat.cpu()?;
            return Ok(());
        }
        let io = Proc::read(pid, "io")?;
        self.cpu += stat.cpu()?;
        self.rss_bytes += status.kib("VmRSS:")?;
        self.peak_rss_bytes += status.kib("VmHWM:")?;
        self.threads += status.number("Threads:")?;
        self.write_bytes += io.number("write_bytes:")?;
        self.processes += 1;
        add_children(pid, children)
    }
}

fn add_children(pid: i32, children: &mut Vec<i32>) -> Result<(), BenchError> {
    for task in tasks(pid)? {
        // A thread may have ended; its children then belong to another one, which the next reading finds.
        let text = fs::read_to_string(task.join("children")).unwrap_or_default();
        children.extend(
            text.split_ascii_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
    }
    Ok(())
}

fn has_ended(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
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
        let rollup = Proc::read(pid, "smaps_rollup")?;
        Ok(Self {
            rss_bytes: rollup.kib("Rss:")?,
            anonymous_bytes: rollup.kib("Anonymous:")?,
        })
    }
}

/// Running time of one of our own threads, and the time it was ready to run but did not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThreadTime {
    pub(crate) run: Duration,
    pub(crate) waited: Duration,
}

impl ThreadTime {
    /// Reads thread `id` of this process.
    pub(crate) fn read(id: i32) -> Result<Self, BenchError> {
        Proc::open(PathBuf::from(format!("/proc/self/task/{id}/schedstat")))?.thread_time()
    }

    /// Reads the running time of every thread of a process, by its id.
    pub(crate) fn read_all(pid: i32) -> Result<BTreeMap<String, Duration>, BenchError> {
        let mut all = BTreeMap::new();
        for task in tasks(pid)? {
            // A thread may end while the others are read.
            if let Ok(file) = Proc::open(task.join("schedstat")) {
                let id = task.file_name().unwrap_or_default().display().to_string();
                all.insert(id, file.thread_time()?.run);
            }
        }
        Ok(all)
    }
}

/// Returns the running time of all threads of a process and its descendants: in nanoseconds, where [`Usage`] counts clock
/// ticks, but without threads and processes that have ended.
pub(crate) fn running_time(root: i32) -> Result<Duration, BenchError> {
    let mut total = Duration::ZERO;
    let mut waiting = vec![root];
    while let Some(pid) = waiting.pop() {
        total += ThreadTime::read_all(pid)?.values().sum::<Duration>();
        add_children(pid, &mut waiting)?;
    }
    Ok(total)
}

/// Returns the directories of a process' threads.
fn tasks(pid: i32) -> Result<Vec<PathBuf>, BenchError> {
    let tasks = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&tasks).map_err(BenchError::io(tasks))?;
    let paths = entries.map(|task| task.map(|task| task.path()));
    paths
        .collect::<io::Result<_>>()
        .map_err(BenchError::io("list threads"))
}

/// Returns one of the clocks of this process or thread.
pub(crate) fn cpu_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Returns the busy time of all the machine's CPUs since it started.
fn machine_busy() -> Result<Duration, BenchError> {
    let path = PathBuf::from("/proc/stat");
    let text = fs::read_to_string(&path).map_err(BenchError::io("/proc/stat"))?;
    busy_ticks(&text).map(ticks).ok_or(BenchError::Parse {
        path,
        what: "the line of all CPUs",
    })
}

/// Sums user, nice, system, (not idle, iowait), irq, softirq, steal; guest time is part of user.
fn busy_ticks(text: &str) -> Option<u64> {
    let fields = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = fields
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let counted = [0, 1, 2, 5, 6, 7];
    counted.iter().map(|at| fields.get(*at)).sum()
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

    /// Returns how many cores were used since `earlier` by processes that are neither measured nor this one.
    pub(crate) fn cores_since(&self, earlier: &Self) -> f64 {
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

/// One file of a process, as text.
struct Proc {
    path: PathBuf,
    text: String,
}

impl Proc {
    fn read(pid: i32, name: &str) -> Result<Self, BenchError> {
        Self::open(PathBuf::from(format!("/proc/{pid}/{name}")))
    }

    fn open(path: PathBuf) -> Result<Self, BenchError> {
        let text = fs::read_to_string(&path).map_err(BenchError::io(path.display().to_string()))?;
        Ok(Self { path, text })
    }

    fn missing(&self, what: &'static str) -> BenchError {
        BenchError::Parse {
            path: self.path.clone(),
            what,
        }
    }

    /// Returns the fields of `stat` from the state on; the name before it, in parentheses, may contain anything.
    fn stat_fields(&self) -> impl Iterator<Item = &str> {
        let fields = self.text.rfind(')').map(|at| &self.text[at + 1..]);
        fields.unwrap_or_default().split_ascii_whitespace()
    }

    fn is_zombie(&self) -> bool {
        matches!(self.stat_fields().next(), Some("Z" | "X"))
    }

    /// Reports whether a process, according to its `status`, has memory: one that ends gives it back before it is a
    /// zombie.
    fn has_memory(&self) -> bool {
        self.text.lines().any(|line| line.starts_with("VmRSS:"))
    }

    /// Parses utime, stime, cutime and cstime of `stat`.
    fn cpu(&self) -> Result<Duration, BenchError> {
        let times = self.stat_fields().skip(11).take(4);
        let times: Vec<u64> = times.map_while(|field| field.parse().ok()).collect();
        if times.len() < 4 {
            return Err(self.missing("utime"));
        }
        Ok(ticks(times.iter().sum()))
    }

    /// Parses run and wait time of `schedstat`.
    fn thread_time(&self) -> Result<ThreadTime, BenchError> {
        let mut fields = self.text.split_ascii_whitespace().map(str::parse);
        let mut next = |what| match fields.next() {
            Some(Ok(ns)) => Ok(Duration::from_nanos(ns)),
            _ => Err(self.missing(what)),
        };
        Ok(ThreadTime {
            run: next("run time")?,
            waited: next("wait time")?,
        })
    }

    fn number(&self, key: &'static str) -> Result<u64, BenchError> {
        let line = self.text.lines().find_map(|line| line.strip_prefix(key));
        let number = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
        number.ok_or_else(|| self.missing(key))
    }

    fn kib(&self, key: &'static str) -> Result<u64, BenchError> {
        Ok(self.number(key)? * 1024)
    }
}

fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests;
