//! `storage`: servers scrape the same fleet, one after another, and each is measured from outside.
//!
//! **Invariant:** every server meets the same fleet in its first round, the same configuration and the same phases:
//! start, warm-up, window, checks, queries, crash. A figure is only reported when the server holds what it was sent
//! and the fleet was fast enough.

use crate::{
    cli::{Values, usage},
    error::BenchError,
    fleet_server::{Answer, FleetConfig, FleetServer, MAX_TARGETS, Schedule, now_ms},
    machine,
    measure::{Resident, ThreadTime, Usage, directory_bytes, machine_busy, quantile},
    progress::Progress,
    query::{self, Latency},
    server::{RunningServer, ServerSpec, scrape_config},
};
use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

/// Longest start or restart.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Time between two readings of the figures.
const TICK: Duration = Duration::from_secs(1);
/// What the restart is judged by: all targets, a sum that is exact because its terms are whole numbers.
const PAST: &str = "sum(http_server_requests_00_total)";
/// A share of the interval: the fleet answers later than this only when it is the bottleneck.
const LATEST_ANSWER: f64 = 0.1;
/// A share of one core: above it the fleet might be the bottleneck.
const BUSIEST_FLEET: f64 = 0.5;

/// Everything the scenario can be told.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) fleet: FleetConfig,
    pub(crate) interval: Duration,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    pub(crate) servers: Vec<ServerSpec>,
    /// Where servers keep their data.
    pub(crate) base: PathBuf,
}

impl Scenario {
    /// Reads the command line; the installed presets are the servers when it names none.
    ///
    /// # Errors
    ///
    /// When a value is out of range or a server cannot be found.
    pub(crate) fn from_values(values: &Values) -> Result<Self, BenchError> {
        let named: Result<Vec<_>, _> = values.all("server").map(ServerSpec::parse).collect();
        let mut servers = named?;
        if servers.is_empty() {
            let (found, missing) = ServerSpec::installed();
            for name in missing {
                crate::report::say(&format!(
                    "{name} is not installed: name it with --server {name}=PATH"
                ));
            }
            servers = found;
        }
        if servers.is_empty() {
            return Err(usage("there is no server to measure"));
        }
        for (at, server) in servers.iter().enumerate() {
            if servers[..at]
                .iter()
                .any(|other| other.label == server.label)
            {
                let label = &server.label;
                return Err(usage(format!(
                    "--server: two are called {label}; use {label}@other=PATH"
                )));
            }
        }
        let scenario = Self {
            fleet: FleetConfig {
                targets: values.number("targets", 1..=MAX_TARGETS as u64)? as usize,
                // Fewer than this have no family that queries ask for.
                series: values.number("series", 4..=1_000_000)? as usize,
                seed: values.number("seed", 0..=u64::from(u32::MAX))?,
                gzip: values.switch("gzip")?,
            },
            interval: values.time("interval")?,
            warmup: values.time("warmup")?,
            duration: values.time("duration")?,
            servers,
            base: match values.text("dir") {
                "" => std::env::temp_dir(),
                dir => PathBuf::from(dir),
            },
        };
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), BenchError> {
        if self.interval < Duration::from_millis(100) {
            return Err(usage("--interval is at least 100ms"));
        }
        if self.warmup < self.interval * 2 || self.duration < self.interval {
            return Err(usage(
                "--warmup is at least two intervals and --duration one",
            ));
        }
        if !self.base.is_dir() {
            return Err(usage(format!(
                "--dir: {} is no directory",
                self.base.display()
            )));
        }
        if machine::is_in_memory(&self.base) {
            return Err(usage(format!(
                "{} lies in memory, where written bytes are not counted: name another directory with --dir",
                self.base.display()
            )));
        }
        Ok(())
    }

    /// Returns the number of series of the whole fleet.
    pub(crate) fn all_series(&self) -> u64 {
        self.fleet.targets as u64 * self.fleet.series as u64
    }

    /// Measures every server.
    ///
    /// # Errors
    ///
    /// When a server fails, answers wrongly, or the result is refused.
    pub(crate) fn run(&self) -> Result<Vec<Outcome>, BenchError> {
        // Starting, queries and the restart take about two intervals and some seconds.
        let each = self.warmup + self.duration + self.interval * 2 + Duration::from_secs(5);
        let mut progress = Progress::new(each * self.servers.len() as u32);
        self.servers
            .iter()
            .map(|spec| Run::start(self, spec, &mut progress)?.finish())
            .collect()
    }
}

/// The fleet's own cost and how promptly it answered.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) fleet_ns_a_sample: f64,
    pub(crate) bytes_a_sample: f64,
    pub(crate) fleet_cores: f64,
    /// From the wake-up to the first byte.
    pub(crate) lag_p99_ms: f64,
    /// Mean time the fleet's thread was ready without running, for each answer.
    pub(crate) waited_ms: f64,
    /// CPU of processes that are neither the server nor this program.
    pub(crate) other_cores: f64,
    pub(crate) load: String,
}

impl Meta {
    fn refusal(&self, interval: Duration) -> Option<String> {
        let latest_ms = interval.as_secs_f64() * 1e3 * LATEST_ANSWER;
        if self.fleet_cores > BUSIEST_FLEET {
            return Some(format!(
                "the fleet used {:.2} of one core",
                self.fleet_cores
            ));
        }
        let late_ms = self.lag_p99_ms + self.waited_ms;
        (late_ms > latest_ms).then(|| format!("the fleet answered {late_ms:.0} ms late"))
    }
}

/// One reading while a server runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tick {
    pub(crate) at: Duration,
    pub(crate) usage: Usage,
    pub(crate) disk_bytes: u64,
    pub(crate) answered: u64,
}

/// After `kill -9`, counted from the new start.
#[derive(Debug)]
pub(crate) struct Recovery {
    pub(crate) ready: Duration,
    /// Until a question about the time before has the answer it had then.
    pub(crate) correct: Duration,
    pub(crate) first_scrape: Duration,
    pub(crate) all_scraped: Duration,
    /// Scrapes that were answered in the time before the crash, and of them those that are stored.
    pub(crate) answered: u64,
    pub(crate) stored: u64,
}

/// All that was measured of one server.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) spec: ServerSpec,
    pub(crate) version: String,
    pub(crate) ready: Duration,
    /// Until the first scrape after the first start.
    pub(crate) scraping: Duration,
    /// CPU until every target had been scraped once, start included.
    pub(crate) first_round_cpu: Duration,
    pub(crate) window: Duration,
    pub(crate) samples: u64,
    pub(crate) from: Usage,
    pub(crate) to: Usage,
    pub(crate) resident: Resident,
    pub(crate) peak_with_queries_bytes: u64,
    /// Samples since the start, which is what the directory holds.
    pub(crate) stored_samples: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) disk_apparent_bytes: u64,
    pub(crate) schedule: Schedule,
    pub(crate) latencies: Vec<Latency>,
    pub(crate) recovery: Recovery,
    pub(crate) meta: Meta,
    pub(crate) ticks: Vec<Tick>,
}

/// One server's run.
struct Run<'a> {
    scenario: &'a Scenario,
    spec: &'a ServerSpec,
    progress: &'a mut Progress,
    // Dropped in this order: the server goes before its targets.
    server: RunningServer,
    fleet: FleetServer,
    started: Instant,
    ready: Duration,
    scraping: Duration,
    first_round_cpu: Option<Duration>,
    ticks: Vec<Tick>,
}

impl<'a> Run<'a> {
    fn start(
        scenario: &'a Scenario,
        spec: &'a ServerSpec,
        progress: &'a mut Progress,
    ) -> Result<Self, BenchError> {
        progress.begin(&format!("{}: making the fleet", spec.label));
        let fleet = FleetServer::start(scenario.fleet)?;
        let config = scrape_config(fleet.addresses(), scenario.interval);
        let started = Instant::now();
        let mut server = RunningServer::start(spec, &scenario.base, &config)?;
        server.wait_ready(START_LIMIT)?;
        let ready = started.elapsed();
        // Prometheus takes 5 s to begin; warm-up is time spent scraping.
        server.wait("scrape", START_LIMIT, |_| {
            fleet.with_answers(|answers| answers.first().map(drop))
        })?;
        Ok(Self {
            scenario,
            spec,
            progress,
            server,
            fleet,
            ready,
            scraping: started.elapsed(),
            started,
            first_round_cpu: None,
            ticks: Vec::new(),
        })
    }

    fn finish(mut self) -> Result<Outcome, BenchError> {
        let scenario = self.scenario;
        self.watch("warm-up", scenario.warmup)?;
        let from = Point::of(&self)?;
        self.watch("measuring", scenario.duration)?;
        let to = Point::of(&self)?;
        let resident = Resident::of(self.server.pid())?;
        let (disk_bytes, disk_apparent_bytes) = directory_bytes(&self.server.data())?;
        let meta = self.meta(&from, &to);
        if let Some(why) = meta.refusal(scenario.interval) {
            return Err(BenchError::Refused(format!("{}: {why}", self.spec.label)));
        }
        let schedule = self.fleet.with_answers(|answers| {
            Schedule::of(
                answers,
                scenario.fleet.targets,
                scenario.interval,
                from.at_ms,
                to.at_ms,
            )
        });
        self.progress
            .begin(&format!("{}: queries", self.spec.label));
        self.check_content()?;
        let latencies = query::time_all(&self.server)?;
        let peak_with_queries_bytes = Usage::of_tree(self.server.pid())?.peak_rss_bytes;
        let recovery = self.crash()?;
        let series = scenario.fleet.series as u64;
        Ok(Outcome {
            spec: self.spec.clone(),
            version: self.spec.version(),
            ready: self.ready,
            scraping: self.scraping,
            first_round_cpu: self.first_round_cpu.unwrap_or_default(),
            window: to.at - from.at,
            samples: (to.answered - from.answered) * series,
            from: from.usage,
            to: to.usage,
            resident,
            peak_with_queries_bytes,
            stored_samples: to.answered * series,
            disk_bytes,
            disk_apparent_bytes,
            schedule,
            latencies,
            recovery,
            meta,
            ticks: self.ticks,
        })
    }

    /// Lets time pass, reading the figures every second.
    fn watch(&mut self, phase: &str, time: Duration) -> Result<(), BenchError> {
        self.progress
            .begin(&format!("{}: {phase}", self.spec.label));
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(TICK));
            self.server.check()?;
            self.fleet.check()?;
            let before = self.ticks.last().copied();
            let tick = self.tick()?;
            self.ticks.push(tick);
            let rate = before.map_or(0.0, |before| {
                let cpu = tick.usage.cpu.saturating_sub(before.usage.cpu);
                cpu.as_secs_f64() / (tick.at - before.at).as_secs_f64()
            });
            self.progress.show(&format!(
                "{}: {phase}, {rate:.2} cores, {} MB, {} scrapes",
                self.spec.label,
                tick.usage.rss_bytes / 1_000_000,
                tick.answered,
            ));
        }
    }

    fn tick(&mut self) -> Result<Tick, BenchError> {
        let usage = Usage::of_tree(self.server.pid())?;
        if self.first_round_cpu.is_none() {
            let targets = self.scenario.fleet.targets;
            let all = self
                .fleet
                .with_answers(|answers| nth_target_ms(answers, targets, 0, targets));
            self.first_round_cpu = all.map(|_| usage.cpu);
        }
        Ok(Tick {
            at: self.started.elapsed(),
            usage,
            disk_bytes: directory_bytes(&self.server.data()).unwrap_or_default().0,
            answered: self.fleet.with_answers(<[_]>::len) as u64,
        })
    }

    fn meta(&self, from: &Point, to: &Point) -> Meta {
        let window = to.at - from.at;
        let answered = to.answered - from.answered;
        let ran = to.thread.run.saturating_sub(from.thread.run);
        let waited = to.thread.waited.saturating_sub(from.thread.waited);
        let inside: Vec<Answer> = self.fleet.with_answers(|answers| {
            let inside = answers
                .iter()
                .filter(|answer| (from.at_ms..to.at_ms).contains(&answer.at_ms));
            inside.copied().collect()
        });
        let samples = (answered * self.scenario.fleet.series as u64).max(1) as f64;
        let bytes: f64 = inside.iter().map(|answer| f64::from(answer.bytes)).sum();
        let mut lags: Vec<f64> = inside
            .iter()
            .map(|answer| f64::from(answer.lag_us) / 1e3)
            .collect();
        lags.sort_by(f64::total_cmp);
        let used = |point: &Point| point.usage.cpu + point.own_cpu;
        let busy = to.busy.saturating_sub(from.busy);
        let others = busy.saturating_sub(used(to).saturating_sub(used(from)));
        Meta {
            fleet_ns_a_sample: ran.as_nanos() as f64 / samples,
            bytes_a_sample: bytes / (inside.len() * self.scenario.fleet.series).max(1) as f64,
            fleet_cores: ran.as_secs_f64() / window.as_secs_f64(),
            lag_p99_ms: quantile(&lags, 0.99),
            waited_ms: waited.as_secs_f64() * 1e3 / answered.max(1) as f64,
            other_cores: others.as_secs_f64() / window.as_secs_f64(),
            load: machine::load(),
        }
    }

    /// Fails unless the server holds what it was sent.
    fn check_content(&mut self) -> Result<(), BenchError> {
        let fleet = self.scenario.fleet;
        query::expect(&self.server, "count(up == 1)", fleet.targets as f64)?;
        query::expect(
            &self.server,
            "sum(scrape_samples_scraped)",
            self.scenario.all_series() as f64,
        )?;
        let address = self.fleet.addresses()[0];
        let text = format!(
            "http_server_requests_00_total{{instance=\"{address}\",route=\"/api/v1/r00\"}}"
        );
        let got = query::number(&self.server, &text, None)?;
        // The last scrape may not be stored yet, and another one may have come while the query ran.
        let sent: Vec<f64> = self.fleet.with_answers(|answers| {
            let of_target = answers.iter().rev().filter(|answer| answer.target == 0);
            of_target.take(3).map(|answer| answer.first_value).collect()
        });
        if got.is_some_and(|got| sent.contains(&got)) {
            return Ok(());
        }
        Err(query::wrong(
            &self.server,
            &text,
            &format!("with {got:?} where {sent:?} were sent"),
        ))
    }

    /// Kills the server and waits until it has come back to where it was.
    fn crash(&mut self) -> Result<Recovery, BenchError> {
        let interval = self.scenario.interval;
        self.progress
            .begin(&format!("{}: kill -9", self.spec.label));
        let interval_ms = interval.as_millis() as i64;
        let past_ms = now_ms() - interval_ms;
        let expected = query::number(&self.server, PAST, Some(past_ms))?
            .ok_or_else(|| query::wrong(&self.server, PAST, "with nothing"))?;
        let crash_ms = now_ms();
        self.server.crash_and_restart()?;
        let started = Instant::now();
        self.server.wait_ready(START_LIMIT)?;
        let ready = started.elapsed();
        let correct = self
            .server
            .wait("answer as before", START_LIMIT, |server| {
                let got = query::number(server, PAST, Some(past_ms)).ok()?;
                (got == Some(expected)).then(|| started.elapsed())
            })?;
        let counted = interval_ms.max(30_000.min(self.scenario.duration.as_millis() as i64));
        let stored = format!("sum(count_over_time(up[{counted}ms]))");
        let stored = query::number(&self.server, &stored, Some(crash_ms))?.unwrap_or(0.0) as u64;
        let targets = self.scenario.fleet.targets;
        let fleet = &self.fleet;
        let limit = START_LIMIT + interval * 2;
        let all_ms = self.server.wait("scrape every target", limit, |_| {
            fleet.with_answers(|answers| nth_target_ms(answers, targets, crash_ms, targets))
        })?;
        let first_ms = fleet.with_answers(|answers| nth_target_ms(answers, targets, crash_ms, 1));
        let first_ms = first_ms.unwrap_or(all_ms);
        let since = |at_ms: i64| Duration::from_millis((at_ms - crash_ms).unsigned_abs());
        let in_time =
            |answer: &&Answer| answer.at_ms > crash_ms - counted && answer.at_ms <= crash_ms;
        let answered = fleet.with_answers(|answers| answers.iter().filter(in_time).count() as u64);
        Ok(Recovery {
            ready,
            correct,
            first_scrape: since(first_ms),
            all_scraped: since(all_ms),
            answered,
            stored,
        })
    }
}

/// Returns when the `nth` of the targets was scraped for the first time after `after_ms`.
fn nth_target_ms(answers: &[Answer], targets: usize, after_ms: i64, nth: usize) -> Option<i64> {
    let mut was_seen = vec![false; targets];
    let later = answers.iter().filter(|answer| answer.at_ms > after_ms);
    let mut first =
        later.filter(|answer| !std::mem::replace(&mut was_seen[answer.target as usize], true));
    first.nth(nth.checked_sub(1)?).map(|answer| answer.at_ms)
}

/// The figures at one end of the window.
struct Point {
    at: Instant,
    at_ms: i64,
    usage: Usage,
    own_cpu: Duration,
    busy: Duration,
    thread: ThreadTime,
    answered: u64,
}

impl Point {
    fn of(run: &Run<'_>) -> Result<Self, BenchError> {
        let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Ok(Self {
            at: Instant::now(),
            at_ms: now_ms(),
            usage: Usage::of_tree(run.server.pid())?,
            own_cpu: Duration::new(own.tv_sec.unsigned_abs(), own.tv_nsec as u32),
            busy: machine_busy()?,
            thread: ThreadTime::of(run.fleet.thread_id())?,
            answered: run.fleet.with_answers(<[_]>::len) as u64,
        })
    }
}
