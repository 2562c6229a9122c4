//! One server's run through a plan: start, warm-up, window, checks, queries, crash.
//!
//! **Invariant:** every server goes through the same phases, and has figures only when it holds what it was sent and
//! the fleet was fast enough.

use super::{
    config::scrape_config,
    outcome::{Outcome, Recovery, Tick},
    plan::Plan,
    query,
};
use crate::{
    frame::{
        error::BenchError,
        measure::{Bystanders, Resident, ThreadTime, Usage, directory_bytes, quantile},
        progress::Progress,
        server::{RunningServer, ServerSpec},
    },
    load::{
        fleet_server::{Answer, FleetServer, now_ms},
        schedule::Schedule,
    },
    record::OwnCost,
};
use std::{
    thread,
    time::{Duration, Instant},
};

/// What the fleet may cost, in ns a sample: above it the fleet is worth a warning.
const FLEET_BUDGET_NS: f64 = 60.0;
/// Cores of strangers above which a result is called noisy.
const QUIET_CORES: f64 = 0.1;
/// A share of the interval: the fleet answers later than this only when it is the bottleneck.
const LATEST_ANSWER: f64 = 0.1;
/// A share of one core: above it the fleet might be the bottleneck.
const BUSIEST_FLEET: f64 = 0.5;
/// Longest start or restart.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Time between two readings of the figures.
const TICK: Duration = Duration::from_secs(1);
/// Time for the fleet to finish with a server that was killed.
const SETTLE: Duration = Duration::from_millis(200);
/// What the restart is judged by: all targets, a sum that is exact because its terms are whole numbers.
const PAST: &str = "sum(http_server_requests_00_total)";
/// One server's run.
pub(super) struct Measured<'a> {
    plan: &'a Plan,
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

impl<'a> Measured<'a> {
    /// Starts the fleet and the server, and waits for the first scrape.
    ///
    /// # Errors
    ///
    /// When either does not start.
    pub(super) fn start(
        plan: &'a Plan,
        spec: &'a ServerSpec,
        progress: &'a mut Progress,
    ) -> Result<Self, BenchError> {
        progress.begin(&format!("{}: making the fleet", spec.label));
        let fleet = FleetServer::start(plan.fleet)?;
        let config = scrape_config(fleet.addresses(), plan.interval, |target| {
            plan.fleet.labels_of(target)
        });
        let started = Instant::now();
        let mut server = RunningServer::start(spec, &plan.base, &[("scrape", &config)])?;
        server.wait_ready(START_LIMIT)?;
        let ready = started.elapsed();
        // Prometheus takes 5 s to begin; warm-up is time spent scraping.
        server.wait("scrape", START_LIMIT, |_| {
            fleet.with_answers(|answers| answers.first().map(drop))
        })?;
        Ok(Self {
            plan,
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

    /// Goes through all phases.
    ///
    /// # Errors
    ///
    /// When the server fails, answers wrongly, or the result is refused.
    pub(super) fn finish(mut self) -> Result<Outcome, BenchError> {
        let plan = self.plan;
        self.watch("warm-up", plan.warmup)?;
        let from = Point::of(&self)?;
        self.watch("measuring", plan.duration)?;
        let to = Point::of(&self)?;
        let resident = Resident::of(self.server.pid())?;
        let (disk_bytes, disk_apparent_bytes) = directory_bytes(&self.server.data())?;
        let own_costs = self.own_costs(&from, &to);
        let schedule = self.fleet.with_answers(|answers| {
            Schedule::of(
                answers,
                plan.fleet.targets,
                plan.interval,
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
        let series = plan.fleet.series as u64;
        Ok(Outcome {
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
            own_costs,
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
            let targets = self.plan.fleet.targets;
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

    /// Says what the fleet cost, how promptly it answered, and what else ran.
    fn own_costs(&self, from: &Point, to: &Point) -> Vec<OwnCost> {
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
        let samples = (answered * self.plan.fleet.series as u64).max(1) as f64;
        let bytes: f64 = inside.iter().map(|answer| f64::from(answer.bytes)).sum();
        let mut lags: Vec<f64> = inside
            .iter()
            .map(|answer| f64::from(answer.lag_us) / 1e3)
            .collect();
        lags.sort_by(f64::total_cmp);
        let making = (to.making - from.making).as_nanos() as f64 / samples;
        let waited_ms = waited.as_secs_f64() * 1e3 / answered.max(1) as f64;
        let late_ms = quantile(&lags, 0.99) + waited_ms;
        let latest_ms = self.plan.interval.as_secs_f64() * 1e3 * LATEST_ANSWER;
        vec![
            // Sending includes the server's half of loopback TCP.
            OwnCost::new("the fleet", "ns a sample", ran.as_nanos() as f64 / samples)
                .warn_above(FLEET_BUDGET_NS),
            OwnCost::new("without sending", "ns a sample", making),
            OwnCost::new("of", "B a sample", bytes / samples),
            OwnCost::new("its cores", "", ran.as_secs_f64() / window.as_secs_f64())
                .refuse_above(BUSIEST_FLEET),
            OwnCost::new("first byte after (p99)", "ms", late_ms).refuse_above(latest_ms),
            OwnCost::new(
                "cores of others",
                "",
                to.bystanders.cores_since(&from.bystanders),
            )
            .warn_above(QUIET_CORES),
        ]
    }

    /// Fails unless the server holds what it was sent.
    fn check_content(&mut self) -> Result<(), BenchError> {
        let fleet = self.plan.fleet;
        query::expect(&self.server, "count(up == 1)", fleet.targets as f64)?;
        query::expect(
            &self.server,
            "sum(scrape_samples_scraped)",
            self.plan.all_series() as f64,
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
        let interval = self.plan.interval;
        self.progress
            .begin(&format!("{}: kill -9", self.spec.label));
        let interval_ms = interval.as_millis() as i64;
        let past_ms = now_ms() - interval_ms;
        let expected = query::number(&self.server, PAST, Some(past_ms))?
            .ok_or_else(|| query::wrong(&self.server, PAST, "with nothing"))?;
        let crash_ms = now_ms();
        self.server.crash();
        // What it had asked for is still being answered.
        thread::sleep(SETTLE);
        let (started, start_ms) = (Instant::now(), now_ms());
        self.server.restart()?;
        self.server.wait_ready(START_LIMIT)?;
        let ready = started.elapsed();
        let correct = self
            .server
            .wait("answer as before", START_LIMIT, |server| {
                let got = query::number(server, PAST, Some(past_ms)).ok()?;
                (got == Some(expected)).then(|| started.elapsed())
            })?;
        let counted = interval_ms.max(30_000.min(self.plan.duration.as_millis() as i64));
        let stored = format!("sum(count_over_time(up[{counted}ms]))");
        let stored = query::number(&self.server, &stored, Some(crash_ms))?.unwrap_or(0.0) as u64;
        let targets = self.plan.fleet.targets;
        let fleet = &self.fleet;
        let limit = START_LIMIT + interval * 2;
        let all_ms = self.server.wait("scrape every target", limit, |_| {
            fleet.with_answers(|answers| nth_target_ms(answers, targets, start_ms, targets))
        })?;
        let first_ms = fleet.with_answers(|answers| nth_target_ms(answers, targets, start_ms, 1));
        let first_ms = first_ms.unwrap_or(all_ms);
        let since = |at_ms: i64| Duration::from_millis((at_ms - start_ms).unsigned_abs());
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
    making: Duration,
    bystanders: Bystanders,
    thread: ThreadTime,
    answered: u64,
}

impl Point {
    fn of(run: &Measured<'_>) -> Result<Self, BenchError> {
        let usage = Usage::of_tree(run.server.pid())?;
        Ok(Self {
            at: Instant::now(),
            at_ms: now_ms(),
            usage,
            making: run.fleet.making(),
            bystanders: Bystanders::read(usage.cpu)?,
            thread: ThreadTime::of(run.fleet.thread_id())?,
            answered: run.fleet.with_answers(<[_]>::len) as u64,
        })
    }
}
