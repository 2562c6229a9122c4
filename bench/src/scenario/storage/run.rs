//! One server's run through the scenario: start, warm-up, window, checks, queries, crash.
//!
//! **Invariant:** every server goes through the same phases, and has figures only if it holds everything it was sent.

use super::{
    config::{Targets, storage_config},
    plan::Plan,
    queries::{self, asker, classes},
};
use crate::{
    harness::{
        BenchError, Progress, Resident, RunningServer, ServerSpec, Ticks, directory_bytes, machine,
        poll,
    },
    load::{
        Class, Event, PacedLoad,
        fleet::{Answer, Edge, FleetConfig, FleetServer, Schedule, Shape, now_ms},
    },
    record::{Figure, OwnCost},
};
use std::{
    thread,
    time::{Duration, Instant},
};

/// Timeout of a start or restart.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Timeout until an answer about the past is what it was, or until stored data can be read.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Maximum number of readings; two are at least [`TICK`] apart.
const MOST_TICKS: u32 = 900;
const TICK: Duration = Duration::from_secs(1);
/// How often the end of the first round is looked for: at [`TICK`] the CPU of a whole further round may be counted in.
const FIRST_ROUND_TICK: Duration = Duration::from_millis(10);
/// Time for the fleet to finish requests of a killed server.
const SETTLE: Duration = Duration::from_millis(200);

/// Share of all cores above which concurrent servers wait for each other.
const ROOM_FOR_ALL: f64 = 0.7;
/// Lateness of queries with an idle worker beyond which the machine, not the server, is to blame.
const LATEST_QUERY_MS: f64 = 20.0;

/// After `kill -9`, counted from the new start.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) ready: Duration,
    /// Until a question about the time before gets its former answer; `None` if it never did.
    pub(super) correct: Option<Duration>,
    pub(super) first_scrape: Duration,
    pub(super) all_scraped: Duration,
    /// Scrapes answered before the crash, and how many of them are stored.
    pub(super) answered: u64,
    pub(super) stored: u64,
}

/// All measurements of one server.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) started: Instant,
    pub(super) ready: Duration,
    /// Until the first scrape after the first start.
    pub(super) scraping: Duration,
    /// CPU until every target had been scraped once, start included.
    pub(super) first_round_cpu: Duration,
    /// The window.
    pub(super) from: Edge,
    pub(super) to: Edge,
    pub(super) resident: Resident,
    pub(super) peak_with_queries_bytes: u64,
    /// Disk usage of the data directory, and the sum of its files' lengths.
    pub(super) disk_bytes: (u64, u64),
    pub(super) schedule: Schedule,
    /// The queries of each class, due within the window.
    pub(super) asked: Vec<(Class, Vec<Event>)>,
    pub(super) replaced: usize,
    /// Medians of queries without other load.
    pub(super) alone: Vec<Figure>,
    pub(super) recovery: Recovery,
    pub(super) own_costs: Vec<OwnCost>,
    pub(super) ticks: Ticks,
}

/// One server's run.
pub(super) struct Measured<'a> {
    plan: &'a Plan,
    spec: &'a ServerSpec,
    progress: &'a Progress,
    config: FleetConfig,
    with_queries: bool,
    // Dropped in this order: queries end before the server, and the server before its targets.
    load: Option<PacedLoad>,
    server: RunningServer,
    targets: Targets,
    fleet: FleetServer,
    started: Instant,
    ready: Duration,
    scraping: Duration,
    first_round_cpu: Option<Duration>,
    churn: Option<Churn>,
    ticks: Ticks,
}

/// When targets are replaced.
struct Churn {
    next: Instant,
    rounds: usize,
}

impl<'a> Measured<'a> {
    /// Starts the fleet and the server, and waits for the first scrape. Call it from the main thread.
    pub(super) fn start(
        plan: &'a Plan,
        spec: &'a ServerSpec,
        version: &str,
        with_queries: bool,
        progress: &'a Progress,
    ) -> Result<Self, BenchError> {
        progress.begin(&spec.label, "making the fleet");
        let config = plan.fleet();
        let fleet = FleetServer::start(config)?;
        let targets = Targets::new(plan, &spec.label, fleet.addresses())?;
        let scrape = targets.scrape_config(plan, version);
        let storage = storage_config(plan);
        let places = [("scrape", scrape.as_str()), ("storage", &storage)];
        let (started, ticks) = (Instant::now(), Ticks::start());
        let mut server = RunningServer::start(spec, &plan.base, &places)?;
        server.wait_ready(START_LIMIT)?;
        let ready = started.elapsed();
        // Prometheus takes 5 s before it scrapes; warm-up is time spent scraping.
        server.wait("scrape", START_LIMIT, |_| {
            fleet.with_answers(|answers| answers.first().map(drop))
        })?;
        Ok(Self {
            plan,
            spec,
            progress,
            config,
            with_queries,
            load: None,
            server,
            targets,
            fleet,
            ready,
            scraping: started.elapsed(),
            started,
            first_round_cpu: None,
            churn: None,
            ticks,
        })
    }

    /// Runs all phases.
    pub(super) fn finish(mut self) -> Result<Outcome, BenchError> {
        let plan = self.plan;
        self.watch("warm-up", plan.flags.warmup)?;
        self.churn = (plan.churned > 0).then(|| Churn {
            next: Instant::now() + plan.flags.churn_every,
            rounds: 0,
        });
        if self.with_queries {
            let (server, clock) = (&self.server, self.config.clock);
            let make = |class| asker(plan, server, clock, class);
            self.load = Some(PacedLoad::start(&classes(&plan.flags), make)?);
        }
        let from = Edge::read(&self.server, &self.fleet)?;
        self.watch("measuring", plan.flags.duration)?;
        let to = Edge::read(&self.server, &self.fleet)?;
        let asked = self.asked(from.at, to.at);
        let late_starts_ms = self.load.as_ref().map(PacedLoad::late_starts_p99_ms);
        self.load = None;
        let replaced = self.churn.take().map_or(0, |churn| churn.rounds) * plan.churned;
        let resident = Resident::read(self.server.pid())?;
        let disk_bytes = directory_bytes(&self.server.data())?;
        let own_costs = self.own_costs(&from, &to, late_starts_ms);
        let targets = plan.fleet.targets;
        let schedule = self.fleet.with_answers(|answers| {
            Schedule::read(answers, targets, plan.flags.interval, from.at_ms, to.at_ms)
        });
        self.progress.begin(&self.spec.label, "queries");
        self.check_content()?;
        let alone = queries::time_all(plan, self.config.clock, &self.server)?;
        let peak_with_queries_bytes = self.server.usage()?.peak_rss_bytes;
        let recovery = self.crash()?;
        Ok(Outcome {
            started: self.started,
            ready: self.ready,
            scraping: self.scraping,
            first_round_cpu: self.first_round_cpu.unwrap_or_default(),
            from,
            to,
            resident,
            peak_with_queries_bytes,
            disk_bytes,
            schedule,
            asked,
            replaced,
            alone,
            recovery,
            own_costs,
            ticks: self.ticks,
        })
    }

    /// Waits, reading the figures and replacing targets.
    fn watch(&mut self, phase: &str, time: Duration) -> Result<(), BenchError> {
        self.progress.begin(&self.spec.label, phase);
        let tick = TICK.max((self.plan.flags.warmup + self.plan.flags.duration) / MOST_TICKS);
        let end = Instant::now() + time;
        let mut next = Instant::now() + tick;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let mut pause = next.saturating_duration_since(Instant::now());
            if self.first_round_cpu.is_none() {
                self.note_first_round()?;
                pause = pause.min(FIRST_ROUND_TICK);
            }
            thread::sleep(left.min(pause));
            if Instant::now() < next.min(end) {
                continue;
            }
            // Ticks keep their schedule, however long a reading takes.
            next = (next + tick).max(Instant::now());
            self.server.check()?;
            self.fleet.check()?;
            self.replace()?;
            self.tick(phase)?;
        }
    }

    /// Replaces some targets when it is time.
    fn replace(&mut self) -> Result<(), BenchError> {
        let Some(churn) = &mut self.churn else {
            return Ok(());
        };
        if Instant::now() < churn.next {
            return Ok(());
        }
        churn.next += self.plan.flags.churn_every;
        churn.rounds += 1;
        // In rotation through the fleet, so that every target gets replaced.
        let (all, some) = (self.plan.fleet.targets, self.plan.churned);
        let first = (churn.rounds - 1) * some;
        let places = (0..some).map(|at| (first + at) % all);
        self.fleet.replace(places.clone(), churn.rounds);
        self.targets.replace(&self.config, places, churn.rounds)
    }

    /// Reads the CPU used so far once every target has been scraped.
    fn note_first_round(&mut self) -> Result<(), BenchError> {
        let targets = self.plan.fleet.targets;
        let nth = |answers: &[Answer]| nth_target_ms(answers, targets, 0, targets);
        if self.fleet.with_answers(nth).is_some() {
            self.first_round_cpu = Some(self.server.usage()?.cpu);
        }
        Ok(())
    }

    fn tick(&mut self, phase: &str) -> Result<(), BenchError> {
        let usage = self.server.usage()?;
        let (answered, samples) = self.fleet.counts();
        let disk_bytes = directory_bytes(&self.server.data()).unwrap_or_default().0;
        let cores = self.ticks.push(usage, disk_bytes, samples).cores;
        let (label, mb) = (&self.spec.label, usage.rss_bytes / 1_000_000);
        self.progress.show(&format!(
            "{label}: {phase}, {cores:.2} cores, {mb} MB, {answered} scrapes"
        ));
        Ok(())
    }

    /// Returns the queries that were due between two times.
    fn asked(&self, from: Instant, to: Instant) -> Vec<(Class, Vec<Event>)> {
        let mut asked = self.load.as_ref().map_or_else(Vec::new, PacedLoad::events);
        for (_, events) in &mut asked {
            events.retain(|event| (from..to).contains(&event.due));
        }
        asked.retain(|(class, _)| class.rate > 0.0);
        asked
    }

    /// Returns the costs of the fleet and the queries, their lateness, and other processes' usage.
    fn own_costs(&self, from: &Edge, to: &Edge, late_starts_ms: Option<f64>) -> Vec<OwnCost> {
        let mut costs = from.costs_until(to, &self.fleet, self.plan.flags.interval);
        costs.extend(late_starts_ms.map(|late| {
            OwnCost::new("queries sent late (p99)", "ms", late).refuse_above(LATEST_QUERY_MS)
        }));
        let (before, after) = (&from.machine, &to.machine);
        costs.push(if self.plan.flags.parallel {
            // Other servers are measured too; the question is whether there was room for all.
            let room = machine::facts().cores as f64 * ROOM_FOR_ALL;
            OwnCost::new(
                "busy cores of the machine",
                "",
                after.busy_cores_since(before),
            )
            .warn_above(room)
        } else {
            after.others_since(before)
        });
        costs
    }

    /// Fails unless the server holds everything it was sent.
    fn check_content(&mut self) -> Result<(), BenchError> {
        let (targets, all) = (
            self.plan.fleet.targets as f64,
            self.plan.all_series() as f64,
        );
        let least = match self.config.shape {
            Shape::Flapping => all * 0.85,
            _ => all,
        };
        let server = &mut self.server;
        wait_number(server, "count(up == 1)", &|up| up == targets)?;
        let is_all = |sum: f64| (least..=all).contains(&sum);
        wait_number(server, "sum(scrape_samples_scraped)", &is_all)?;
        let families = self.config.shape.families();
        if !families.native.is_empty() && self.config.clock.is_none() {
            // One family: without the name, another family's series would have the same labels.
            let all = self.plan.fleet.targets * self.fleet.first_family();
            let count = format!("count(histogram_count({}_00))", families.native);
            wait_number(server, &count, &|count| count == all as f64)?;
        }
        if self.config.clock.is_some() || self.config.shape.has_old_stamps() {
            // The latest scrape has another timestamp.
            return Ok(());
        }
        // The last scrape may not be stored yet, and another one may have happened while the query ran.
        let fleet = &self.fleet;
        let sent = |value: f64| {
            fleet.with_answers(|answers| {
                let of_target = answers.iter().rev().filter(|answer| answer.target == 0);
                of_target.take(4).any(|answer| answer.first_value == value)
            })
        };
        let address = self.fleet.addresses()[0];
        let counter = families.counter;
        let text = if self.config.shape == Shape::Objects {
            format!("{counter}{{pod=~\"app-000000-.*\"}}")
        } else {
            format!("{counter}{{instance=\"{address}\",route=\"/api/v1/r00\"}}")
        };
        wait_number(server, &text, &sent)
    }

    /// Kills the server and waits until it has recovered its former state.
    fn crash(&mut self) -> Result<Recovery, BenchError> {
        let interval = self.plan.flags.interval;
        self.progress.begin(&self.spec.label, "kill -9");
        let interval_ms = interval.as_millis() as i64;
        let shown = |real_ms| self.config.clock.map_or(real_ms, |clock| clock.at(real_ms));
        // All targets: a sum that is exact because its terms are whole numbers.
        let past = format!("sum({})", self.config.shape.families().counter);
        // Lines older than their scrape keep changing the past for as long as they can be old.
        let oldest_ms = self.config.shape.oldest_stamp_ms(interval_ms);
        let past_ms = shown(now_ms() - interval_ms - oldest_ms);
        let expected = queries::number(&self.server, &past, Some(past_ms))?
            .ok_or_else(|| queries::wrong(&self.server, &past, "with nothing"))?;
        let crash_ms = now_ms();
        self.server.crash();
        // Its last requests are still being answered.
        thread::sleep(SETTLE);
        let (started, start_ms) = (Instant::now(), now_ms());
        self.server.restart()?;
        self.server.wait_ready(START_LIMIT)?;
        let ready = started.elapsed();
        let correct = self.server.wait("answer at all", START_LIMIT, |server| {
            let got = queries::number(server, &past, Some(past_ms)).ok()?;
            let is_over = started.elapsed() > ANSWER_LIMIT;
            (got == Some(expected))
                .then(|| Some(started.elapsed()))
                .or(is_over.then_some(None))
        })?;
        let counted = interval_ms.max(30_000.min(self.plan.flags.duration.as_millis() as i64));
        let stored = format!("sum(count_over_time(up[{counted}ms]))");
        let stored = queries::number(&self.server, &stored, Some(crash_ms))?.unwrap_or(0.0) as u64;
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

/// Polls until the answer is right: recent samples may not be visible yet.
fn wait_number(
    server: &mut RunningServer,
    text: &str,
    is_right: &dyn Fn(f64) -> bool,
) -> Result<(), BenchError> {
    let mut got = None;
    let right = poll(SETTLE, ANSWER_LIMIT, || {
        got = queries::number(server, text, None)?;
        server.check()?;
        Ok(got.filter(|got| is_right(*got)))
    })?;
    right.map(drop).ok_or_else(|| {
        let got = got.map_or_else(|| "nothing".to_owned(), |got| got.to_string());
        let what = format!("with {got}, which is not what the fleet sent");
        queries::wrong(server, text, &what)
    })
}

/// Returns when the `nth` of the targets was first scraped after `after_ms`.
fn nth_target_ms(answers: &[Answer], targets: usize, after_ms: i64, nth: usize) -> Option<i64> {
    let mut was_seen = vec![false; targets];
    let later = answers.iter().filter(|answer| answer.at_ms > after_ms);
    let mut first =
        later.filter(|answer| !std::mem::replace(&mut was_seen[answer.target as usize], true));
    first.nth(nth.checked_sub(1)?).map(|answer| answer.at_ms)
}
