//! Processes and threads by state, and their limits.
//!
//! Invariant: a process or thread that ends while it is looked at is not counted; a process with one thread costs one
//! small file.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::io::{Errno, pread};

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::cost;
use crate::error::HostError;
use crate::open_file::{End, OpenFile};
use crate::scan::{next_field, number, trim};
use crate::sink::{Desc, Sink, Slot};
use crate::table::Series;

const STATE: (Desc<'static>, &str) = (
    Desc::gauge("node_processes_state", "Processes by state."),
    "state",
);
const THREADS_STATE: (Desc<'static>, &str) = (
    Desc::gauge("node_processes_threads_state", "Threads by state."),
    "thread_state",
);
/// Longer than any `stat`.
const STAT_BYTES: usize = 1024;

pub(crate) struct Processes {
    procfs: PathBuf,
    limits: [OpenFile; 2],
    totals: Series,
    states: [States; 2],
}

/// Counts by state, which is a letter.
struct States {
    counts: [u32; 128],
    slots: [Option<Slot>; 128],
}

/// State and number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: u8,
    pub(crate) threads: u64,
}

impl Processes {
    pub(crate) fn new(config: &HostConfig) -> Self {
        let limit = |name: &str| OpenFile::new(config.procfs.join("sys/kernel").join(name));
        let states = || States {
            counts: [0; 128],
            slots: [None; 128],
        };
        Self {
            procfs: config.procfs.clone(),
            limits: [limit("threads-max"), limit("pid_max")],
            totals: Series::new(include_str!("processes.txt")),
            states: [states(), states()],
        }
    }

    /// Counts everything; returns the numbers of threads and processes.
    fn count(&mut self) -> Result<(u64, u64), Errno> {
        for states in &mut self.states {
            states.counts = [0; 128];
        }
        let [processes, threads] = &mut self.states;
        let (mut thread_count, mut process_count) = (0, 0);
        // Fixture trees have no threads.
        let mut has_tasks = None;
        let procfs = open_dir(CWD, &self.procfs)?;
        for pid in numbers(&procfs)? {
            let Some(stat) = ended(read_stat(&procfs, &format!("{pid}/stat")))? else {
                continue;
            };
            process_count += 1;
            thread_count += stat.threads;
            processes.add(stat.state);
            let tasks = format!("{pid}/task");
            if stat.threads == 1 && has_tasks == Some(true) {
                threads.add(stat.state);
                continue;
            }
            let Some(tasks) = ended(open_dir(&procfs, Path::new(&tasks)))? else {
                has_tasks.get_or_insert(false);
                continue;
            };
            has_tasks = Some(true);
            for thread in ended(numbers(&tasks))?.unwrap_or_default() {
                if thread == pid {
                    threads.add(stat.state);
                } else if let Some(stat) = ended(read_stat(&tasks, &format!("{thread}/stat")))? {
                    threads.add(stat.state);
                }
            }
        }
        Ok((thread_count, process_count))
    }
}

impl States {
    fn add(&mut self, state: u8) {
        if let Some(count) = self.counts.get_mut(usize::from(state)) {
            *count += 1;
        }
    }

    fn set(&mut self, (desc, label): &(Desc<'_>, &str), out: &mut Sink) {
        let counted = (0_u8..).zip(&self.counts).zip(&mut self.slots);
        for ((state, count), slot) in counted.filter(|((_, count), _)| **count > 0) {
            let slot = slot.get_or_insert_with(|| {
                let state = char::from(state).to_string();
                out.add(desc, &[(label, &state)])
            });
            out.set(*slot, f64::from(*count));
        }
    }
}

impl Collector for Processes {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let counted = self.count().map_err(|source| HostError::Read {
            path: self.procfs.clone(),
            source,
        })?;
        let mut limits = [0; 2];
        for (limit, file) in limits.iter_mut().zip(&mut self.limits) {
            let text = file.read(ctx.buf, End::Numbers)?;
            *limit = number(trim(text)).ok_or_else(|| file.expected(1, "a number"))?;
        }
        let values = [counted.0, counted.1, limits[0], limits[1]];
        self.totals.set(values.map(|value| value as f64), out);
        self.states[0].set(&STATE, out);
        self.states[1].set(&THREADS_STATE, out);
        Ok(())
    }
}

/// Returns `None` for what ended in between.
fn ended<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::SRCH) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn open_dir(at: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(at, path, flags, Mode::empty())
}

/// Lists the entries whose names are numbers.
fn numbers(dir: &OwnedFd) -> Result<Vec<u64>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        found.extend(number(entry?.file_name().to_bytes()));
    }
    Ok(found)
}

fn read_stat(dir: &OwnedFd, path: &str) -> Result<Stat, Errno> {
    let file = openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = [0; STAT_BYTES];
    let len = pread(&file, &mut bytes[..], 0)?;
    // Opened, read, closed.
    cost::count(0);
    cost::count(len);
    cost::count(0);
    // A process that ends meanwhile may print nothing.
    parse(bytes.get(..len).unwrap_or_default()).ok_or(Errno::SRCH)
}

/// Parses `1 (name) S …`; the name may contain anything.
pub(crate) fn parse(text: &[u8]) -> Option<Stat> {
    /// Numbers between the state and the number of threads.
    const SKIPPED: usize = 16;
    let at = memchr::memrchr(b')', text)?;
    let mut rest = text.get(at + 1..)?;
    let state = *next_field(&mut rest)?.first()?;
    for _ in 0..SKIPPED {
        next_field(&mut rest)?;
    }
    let threads = number(next_field(&mut rest)?)?;
    Some(Stat { state, threads })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_anything() {
        let text = b"7 (a) R (b) D 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 5 18";
        let stat = Stat {
            state: b'D',
            threads: 5,
        };
        assert_eq!(parse(text), Some(stat));
        assert_eq!(parse(b"7 (a) D 1 2"), None);
        assert_eq!(parse(b""), None);
    }
}
