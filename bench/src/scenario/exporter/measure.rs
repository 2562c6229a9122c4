//! A running exporter, and the resources that scraping it uses.
//!
//! **Invariant:** CPU is the kernel's count in nanoseconds per thread; a clock tick is as long as a whole scrape.

use super::{
    Flags,
    page::Page,
    syscalls::{self, Calls},
};
use crate::{
    harness::{BenchError, Meter, Resident, RunningServer, ServerSpec, Usage, Used, running_times},
    load::Scraper,
};
use std::{
    collections::BTreeMap,
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

impl Plan {
    /// Returns the approximate time of one turn.
    pub(super) fn each(&self) -> Duration {
        self.flags.interval * self.flags.scrapes + Duration::from_secs(2)
    }
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
    scraper: Scraper,
}

impl Exporter {
    pub(super) fn start(plan: &Plan, spec: &ServerSpec) -> Result<Self, BenchError> {
        let mut server = RunningServer::start(spec, &plan.base, &[])?;
        server.wait_ready(LIMIT)?;
        Ok(Self {
            scraper: Scraper::of_server(&server, &plan.flags.path, LIMIT)?,
            server,
        })
    }

    pub(super) fn label(&self) -> &str {
        self.server.label()
    }

    /// Scrapes it as often as planned.
    pub(super) fn scrape(&mut self, plan: &Plan, is_packed: bool) -> Result<Scraped, BenchError> {
        self.scraper.set_gzip(is_packed);
        for _ in 0..WARM_UP {
            self.scraper.get(0)?;
        }
        let pid = self.server.pid();
        let (mut took, mut bytes, mut last) = (Vec::new(), 0, Vec::new());
        let from = Threads::read(pid)?;
        let meter = Meter::start(self.server.usage()?)?;
        for _ in 0..plan.flags.scrapes {
            let next = Instant::now() + plan.flags.interval;
            let start = Instant::now();
            last = self.scraper.get(0)?.body;
            took.push(start.elapsed());
            bytes += last.len();
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        let used = meter.stop(self.server.usage()?)?;
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
        self.scraper.set_gzip(false);
        let body = self.scraper.get(0)?.body;
        self.read(plan, &body)
    }

    /// Counts the system calls of a scrape, by name.
    pub(super) fn syscalls(
        &mut self,
        plan: &Plan,
    ) -> Result<Result<BTreeMap<String, f64>, String>, BenchError> {
        self.scraper.set_gzip(false);
        let counted = syscalls::count(self.server.pid(), &plan.base, || {
            (0..TRACED).try_for_each(|_| self.scraper.get(0).map(drop))
        })?;
        let each = |calls: Calls| {
            let each = |(name, count)| (name, count as f64 / TRACED as f64);
            calls.into_iter().map(each).collect()
        };
        Ok(counted.map(each))
    }

    fn read(&self, plan: &Plan, body: &[u8]) -> Result<Page, BenchError> {
        let text = String::from_utf8_lossy(body);
        Page::read(&text).map_err(|bad| {
            let what = format!("a page of which {bad}");
            BenchError::answer(self.label(), &plan.flags.path, what)
        })
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
        let ran = running_times(pid)?;
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
mod tests;
