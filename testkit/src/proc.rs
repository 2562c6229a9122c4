//! What the kernel counts of a process and its threads, read from procfs.
//!
//! **Invariant:** a failure to read a figure is an error that names the file, never zero.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

/// One file of a process, as text.
#[derive(Debug)]
pub struct ProcFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its contents.
    pub text: String,
}

impl ProcFile {
    /// Reads `/proc/PID/NAME`; `pid` may be `self`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, [`ErrorKind::NotFound`] if the process has ended.
    pub fn read(pid: impl fmt::Display, name: &str) -> io::Result<Self> {
        Self::open(format!("/proc/{pid}/{name}"))
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// As [`ProcFile::read`].
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Self { path, text }),
            Err(error) => Err(named(&path, error)),
        }
    }

    /// Returns the number after a key such as `Threads:`, at the beginning of a line.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn number(&self, key: &str) -> io::Result<u64> {
        let line = self.text.lines().find_map(|line| line.strip_prefix(key));
        let number = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
        number.ok_or_else(|| self.missing(key))
    }

    /// Returns the bytes after a key such as `VmRSS:`, which are written in kB.
    ///
    /// # Errors
    ///
    /// When there are none.
    pub fn bytes(&self, key: &str) -> io::Result<u64> {
        Ok(self.number(key)? << 10)
    }

    /// Returns the fields of `stat` from the state on; the name before it, in parentheses, may contain anything.
    fn stat_fields(&self) -> impl Iterator<Item = &str> {
        let fields = self.text.rfind(')').map(|at| &self.text[at + 1..]);
        fields.unwrap_or_default().split_ascii_whitespace()
    }

    /// Reports whether a process, according to its `stat`, has ended and was not waited for.
    #[must_use]
    pub fn is_zombie(&self) -> bool {
        matches!(self.stat_fields().next(), Some("Z" | "X"))
    }

    /// Reports whether a process, according to its `status`, has memory: one that ends gives it back before it is a
    /// zombie.
    #[must_use]
    pub fn has_memory(&self) -> bool {
        self.text.lines().any(|line| line.starts_with("VmRSS:"))
    }

    /// Returns the clock ticks of a process according to its `stat`: user and system time, its own and that of the
    /// children it waited for.
    ///
    /// # Errors
    ///
    /// When they are missing.
    pub fn cpu_ticks(&self) -> io::Result<u64> {
        let times = self.stat_fields().skip(11).take(4);
        let times: Vec<u64> = times.map_while(|field| field.parse().ok()).collect();
        match times.len() {
            4 => Ok(times.iter().sum()),
            _ => Err(self.missing("utime")),
        }
    }

    /// Returns the clock ticks of all CPUs that were not idle according to `/proc/stat`.
    ///
    /// # Errors
    ///
    /// When they are missing.
    pub fn busy_ticks(&self) -> io::Result<u64> {
        let line = self.text.lines().next();
        let fields = line.and_then(|line| line.strip_prefix("cpu "));
        let fields = fields.unwrap_or_default().split_ascii_whitespace();
        let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        // User, nice, system, (not idle, iowait), irq, softirq, steal; guest time is part of user.
        let counted = [0, 1, 2, 5, 6, 7].map(|at: usize| fields.get(at));
        let sum: Option<u64> = counted.into_iter().sum();
        sum.ok_or_else(|| self.missing("the line of all CPUs"))
    }

    fn missing(&self, what: &str) -> io::Error {
        let error = io::Error::new(ErrorKind::InvalidData, format!("{what} is missing"));
        named(&self.path, error)
    }
}

fn named(path: &Path, error: io::Error) -> io::Error {
    // A process that ends while its file is read.
    const ESRCH: i32 = 3;
    let has_ended = error.raw_os_error() == Some(ESRCH);
    let kind = if has_ended {
        ErrorKind::NotFound
    } else {
        error.kind()
    };
    io::Error::new(kind, format!("{}: {error}", path.display()))
}

/// Running time of a thread, and the time it was ready to run but did not.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadTime {
    /// How long it ran.
    pub run: Duration,
    /// How long it waited for a CPU.
    pub waited: Duration,
}

impl ThreadTime {
    /// Reads a `schedstat`.
    fn read(path: PathBuf) -> io::Result<Self> {
        let file = ProcFile::open(path)?;
        let mut fields = file.text.split_ascii_whitespace().map(str::parse);
        let mut next = |what| match fields.next() {
            Some(Ok(ns)) => Ok(Duration::from_nanos(ns)),
            _ => Err(file.missing(what)),
        };
        Ok(Self {
            run: next("run time")?,
            waited: next("wait time")?,
        })
    }

    /// Reads a thread of this process.
    ///
    /// # Errors
    ///
    /// When there is no such thread.
    pub fn of_own(id: i32) -> io::Result<Self> {
        Self::read(format!("/proc/self/task/{id}/schedstat").into())
    }

    /// Reads every thread of a process, by its id.
    ///
    /// # Errors
    ///
    /// When the process has ended.
    pub fn of_all(pid: impl fmt::Display) -> io::Result<BTreeMap<String, Self>> {
        let mut all = BTreeMap::new();
        for task in tasks(pid)? {
            // A thread may end while the others are read.
            if let Ok(time) = Self::read(task.join("schedstat")) {
                let id = task.file_name().unwrap_or_default().display().to_string();
                all.insert(id, time);
            }
        }
        Ok(all)
    }
}

/// Returns the children of a process.
///
/// # Errors
///
/// When the process has ended.
pub fn children(pid: impl fmt::Display) -> io::Result<Vec<i32>> {
    let mut children = Vec::new();
    for task in tasks(pid)? {
        // A thread may have ended; its children then belong to another one, which the next reading finds.
        let text = fs::read_to_string(task.join("children")).unwrap_or_default();
        let pids = text.split_ascii_whitespace();
        children.extend(pids.filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Ok(children)
}

/// Returns the directories of a process' threads.
fn tasks(pid: impl fmt::Display) -> io::Result<Vec<PathBuf>> {
    let path = PathBuf::from(format!("/proc/{pid}/task"));
    let entries = fs::read_dir(&path).map_err(|error| named(&path, error))?;
    entries.map(|task| task.map(|task| task.path())).collect()
}
