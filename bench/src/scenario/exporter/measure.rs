//! A running exporter, and the resources that scraping it uses.
//!
//! **Invariant:** CPU is the kernel's count in nanoseconds per thread; a clock tick is as long as a whole scrape.

use super::{
    Flags,
    page::Page,
    syscalls::{self, Calls},
};
use crate::{
    harness::{
        error::BenchError,
        measure::{Meter, Resident, Usage, Used},
        server::{RunningServer, ServerSpec},
    },
    load::{client::Client, scraper::ACCEPT},
};
use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

/// Timeout of a start, and of a scrape.
const LIMIT: Duration = Duration::from_secs(60);
/// Scrapes before anything is measured: the first ones discover the host's devices.
const WARM_UP: usize = 3;
/// Scrapes under strace.
const TRACED: u64 = 20;

/// Measurements of each exporter.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) flags: Flags,
    pub(super) base: PathBuf,
}

/// Result of one turn of scrapes.
#[derive(Debug)]
pub(super) struct Scraped {
    pub(super) took: Vec<Duration>,
    pub(super) cpu: Duration,
    pub(super) resident: Resident,
    pub(super) used: Used,
    /// Average size as transferred.
    pub(super) bytes: f64,
    /// Series and families of the last page; `None` if it was compressed.
    pub(super) series: Option<(usize, usize)>,
}

/// A running exporter.
pub(super) struct Exporter {
    server: RunningServer,
    client: Client,
}

impl Exporter {
    pub(super) fn start(plan: &Plan, spec: &ServerSpec) -> Result<Self, BenchError> {
        let mut server = RunningServer::start(spec, &plan.base, &[])?;
        server.wait_ready(LIMIT)?;
        Ok(Self {
            client: Client::to_server(&server, LIMIT)?,
            server,
        })
    }

    pub(super) fn label(&self) -> &str {
        self.server.label()
    }

    /// Scrapes it as often as planned.
    pub(super) fn scrape(&mut self, plan: &Plan, is_packed: bool) -> Result<Scraped, BenchError> {
        for _ in 0..WARM_UP {
            self.once(plan, is_packed)?;
        }
        let pid = self.server.pid();
        let (mut took, mut bytes, mut last) = (Vec::new(), 0, Vec::new());
        let from = Threads::read(pid)?;
        let meter = Meter::start(Usage::read_tree(pid)?)?;
        for _ in 0..plan.flags.scrapes {
            let next = Instant::now() + plan.flags.interval;
            let start = Instant::now();
            last = self.once(plan, is_packed)?;
            took.push(start.elapsed());
            bytes += last.len();
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        let used = meter.stop(Usage::read_tree(pid)?)?;
        let cpu = Threads::read(pid)?.since(&from);
        self.server.check()?;
        let series = (!is_packed).then(|| self.read(plan, &last)).transpose()?;
        Ok(Scraped {
            took,
            cpu,
            resident: Resident::read(pid)?,
            used,
            bytes: bytes as f64 / f64::from(plan.flags.scrapes.max(1)),
            series: series.map(|page| (page.len(), page.families.len())),
        })
    }

    pub(super) fn page(&mut self, plan: &Plan) -> Result<Page, BenchError> {
        let body = self.once(plan, false)?;
        self.read(plan, &body)
    }

    /// Counts the system calls of a scrape, by name.
    pub(super) fn syscalls(
        &mut self,
        plan: &Plan,
    ) -> Result<Result<BTreeMap<String, f64>, String>, BenchError> {
        let pid = self.server.pid();
        let counted = syscalls::count(pid, &plan.base, || {
            for _ in 0..TRACED {
                self.once(plan, false)?;
            }
            Ok(())
        })?;
        let each = |calls: Calls| {
            let each = |(name, count)| (name, count as f64 / TRACED as f64);
            calls.into_iter().map(each).collect()
        };
        Ok(counted.map(each))
    }

    fn once(&mut self, plan: &Plan, is_packed: bool) -> Result<Vec<u8>, BenchError> {
        let encoding = if is_packed { "gzip" } else { "identity" };
        let headers = [ACCEPT, ("Accept-Encoding", encoding)];
        let answer = self.client.get(&plan.flags.path, &headers);
        let label = self.server.label();
        let answer = answer.map_err(BenchError::io(format!("scrape {label}")))?;
        if answer.status == 200 {
            return Ok(answer.body);
        }
        Err(self.wrong(plan, format!("with {}", answer.status)))
    }

    fn read(&self, plan: &Plan, body: &[u8]) -> Result<Page, BenchError> {
        let text = String::from_utf8_lossy(body);
        Page::read(&text).map_err(|bad| self.wrong(plan, format!("a page of which {bad}")))
    }

    fn wrong(&self, plan: &Plan, what: String) -> BenchError {
        BenchError::answer(self.label(), &plan.flags.path, what)
    }
}

/// Running time of each thread of a process.
#[derive(Debug)]
struct Threads {
    ran: BTreeMap<String, Duration>,
    /// Clock ticks of the whole process.
    ticks: Duration,
}

impl Threads {
    fn read(pid: i32) -> Result<Self, BenchError> {
        let tasks = format!("/proc/{pid}/task");
        let mut ran = BTreeMap::new();
        for task in fs::read_dir(&tasks).map_err(BenchError::io(tasks))? {
            let task = task.map_err(BenchError::io("list threads"))?;
            // A thread may end while the others are read.
            let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else {
                continue;
            };
            let ns = text
                .split_ascii_whitespace()
                .next()
                .and_then(|ns| ns.parse().ok());
            let ns = ns.ok_or_else(|| BenchError::Parse {
                path: task.path().join("schedstat"),
                what: "run time",
            })?;
            let name = task.file_name().to_string_lossy().into_owned();
            ran.insert(name, Duration::from_nanos(ns));
        }
        let ticks = Usage::read_tree(pid)?.cpu;
        Ok(Self { ran, ticks })
    }

    /// Returns the CPU time since `earlier`: exact, unless a thread ended and its count is lost.
    fn since(&self, earlier: &Self) -> Duration {
        if earlier
            .ran
            .keys()
            .any(|thread| !self.ran.contains_key(thread))
        {
            return self.ticks.saturating_sub(earlier.ticks);
        }
        let sum = |threads: &Self| threads.ran.values().sum::<Duration>();
        sum(self).saturating_sub(sum(earlier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ended_leaves_the_count_to_clock_ticks() {
        let threads = |ran: &[(&str, u64)], ticks| Threads {
            ran: ran
                .iter()
                .map(|(name, ns)| ((*name).to_owned(), Duration::from_nanos(*ns)))
                .collect(),
            ticks: Duration::from_millis(ticks),
        };
        let before = threads(&[("1", 100), ("2", 50)], 10);
        let after = threads(&[("1", 180), ("2", 50), ("3", 5)], 30);
        assert_eq!(after.since(&before), Duration::from_nanos(85));
        let gone = threads(&[("1", 180)], 30);
        assert_eq!(gone.since(&before), Duration::from_millis(20));
        let own = Threads::read(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.ran.values().any(|ran| !ran.is_zero()));
    }
}
