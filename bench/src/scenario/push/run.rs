//! One run: a kind of gateway under one way of pushing, from empty to full to restarted.
//!
//! **Invariant:** every subject goes through the same phases: every group once, pushing on schedule without scrapes and
//! with them, scrapes alone, what is stored compared with what was sent, a restart. Nothing is left out of a latency.

use super::{
    fleet::Fleet,
    gateways::{Gateways, Scrape, Scraper},
    plan::Plan,
    pushers::{Pushed, Pushers, Sent, Stretch, Watched},
    stored::Stored,
};
use crate::frame::{
    error::BenchError,
    measure::{Bystanders, Usage},
    progress::Progress,
    server::ServerSpec,
};
use std::{
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

/// Time between two readings.
const TICK: Duration = Duration::from_secs(1);
/// How often the wait for a stretch's end looks.
const NAP: Duration = Duration::from_millis(10);
/// Scrapes without pushes, of each encoding, at least and at most; and the time after which there are enough.
const QUIET_SCRAPES: std::ops::RangeInclusive<u32> = 3..=20;
const QUIET_TIME: Duration = Duration::from_secs(3);

/// A reading while pushers work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tick {
    pub(crate) at: Duration,
    pub(crate) usage: Usage,
    /// Pushes that ended since the run began.
    pub(crate) ended: u64,
}

/// A stretch and what it cost.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) pushed: Pushed,
    pub(crate) took: Duration,
    pub(crate) cpu: Duration,
    pub(crate) scrapes: Vec<Scrape>,
    pub(crate) other_cores: f64,
}

/// Scrapes while nobody pushes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quiet {
    pub(crate) took: Duration,
    pub(crate) cpu: Duration,
    pub(crate) bytes: u64,
}

/// What a restart left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restart {
    pub(crate) ready: Duration,
    pub(crate) stored: Stored,
}

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) first: Window,
    pub(crate) plain: Window,
    pub(crate) scraped: Option<Window>,
    /// Identity and gzip; none when a scrape failed.
    pub(crate) quiet: Option<[Quiet; 2]>,
    /// What is held when the last push has ended, and the peak with all scrapes.
    pub(crate) usage: Usage,
    pub(crate) stored: Stored,
    pub(crate) restart: Option<Restart>,
    pub(crate) ticks: Vec<Tick>,
}

impl Outcome {
    /// Returns what a reader of the figures has to know.
    pub(crate) fn notes(&self, label: &str, fleet: &Fleet) -> Vec<String> {
        let mut notes = Vec::new();
        let way = fleet.way.name();
        let filled = self.first.pushed.taken();
        if filled < u64::from(fleet.groups()) {
            let (groups, took) = (fleet.groups(), self.first.took);
            notes.push(format!(
                "{label}, {way}: {filled} of {groups} groups had their first push after {took:.0?}"
            ));
        }
        let windows = [Some(&self.first), Some(&self.plain), self.scraped.as_ref()];
        let failures = windows.into_iter().flatten();
        if let Some(why) = failures
            .filter_map(|window| window.pushed.failure.as_ref())
            .next()
        {
            notes.push(format!("{label}, {way}: the first push that failed: {why}"));
        }
        if self.quiet.is_none() {
            notes.push(format!("{label}, {way}: scrapes alone failed"));
        }
        if self.plain.pushed.unsent > 0 {
            let seconds = self.plain.took.as_secs_f64();
            notes.push(format!(
                "{label}, {way}: it took fewer pushes than were due, so latencies grow with the time measured ({seconds:.0} s)"
            ));
        }
        notes
    }
}

/// A run under way.
pub(crate) struct Session<'a> {
    plan: &'a Plan,
    fleet: &'a Fleet,
    progress: &'a mut Progress,
    label: String,
    gateways: Gateways,
    addresses: Vec<std::net::SocketAddr>,
    sent: Vec<Sent>,
    next_round: u64,
    started: Instant,
    ticks: Vec<Tick>,
    ended_before: u64,
}

impl<'a> Session<'a> {
    /// Starts the gateways.
    pub(crate) fn start(
        plan: &'a Plan,
        fleet: &'a Fleet,
        spec: &ServerSpec,
        progress: &'a mut Progress,
    ) -> Result<Self, BenchError> {
        let label = format!("{}, {}", spec.label, fleet.way.name());
        progress.begin(&format!("{label}: starting"));
        let gateways = Gateways::start(fleet, spec, &plan.base)?;
        Ok(Self {
            plan,
            fleet,
            progress,
            label,
            addresses: gateways.addresses().to_vec(),
            gateways,
            sent: Vec::new(),
            next_round: 0,
            started: Instant::now(),
            ticks: Vec::new(),
            ended_before: 0,
        })
    }

    /// Goes through all phases. A gateway that takes no push at all gives its reason instead.
    pub(crate) fn finish(mut self) -> Result<Result<Outcome, String>, BenchError> {
        let plan = self.plan;
        let first = self.stretch("first pushes", plan.fill_limit, false, false)?;
        if first.pushed.taken() == 0 {
            let why = first.pushed.failure.unwrap_or_default();
            return Ok(Err(format!("{} takes no such push: {why}", self.label)));
        }
        self.stretch("warm-up", plan.warmup, true, false)?;
        let plain = self.stretch("pushing", plan.duration, true, false)?;
        let scraped = match plan.scrape_every.is_zero() {
            true => None,
            false => Some(self.stretch("pushing, scraped", plan.duration, true, true)?),
        };
        self.progress
            .begin(&format!("{}: scrapes alone", self.label));
        let held = self.gateways.usage()?;
        let quiet = self.quiet()?;
        let usage = Usage {
            rss_bytes: held.rss_bytes,
            ..self.gateways.usage()?
        };
        self.progress.begin(&format!("{}: comparing", self.label));
        let stored = self.gateways.compare(self.fleet, &self.sent, plan.limit)?;
        let restart = match plan.persist {
            true => Some(self.restart()?),
            false => None,
        };
        Ok(Ok(Outcome {
            first,
            plain,
            scraped,
            quiet,
            usage,
            stored,
            restart,
            ticks: self.ticks,
        }))
    }

    /// Pushes for so long on schedule, or every group once as fast as the gateway takes it.
    fn stretch(
        &mut self,
        phase: &str,
        time: Duration,
        is_paced: bool,
        is_scraped: bool,
    ) -> Result<Window, BenchError> {
        let (plan, fleet) = (self.plan, self.fleet);
        self.progress.begin(&format!("{}: {phase}", self.label));
        let scraper = is_scraped
            .then(|| Scraper::start(&self.gateways, plan.scrape_every, plan.limit))
            .transpose()?;
        let before = self.gateways.usage()?.cpu;
        let bystanders = Bystanders::read(before)?;
        let start = Instant::now();
        let stretch = Stretch {
            start,
            end: start + time,
            pushes: match is_paced {
                true => fleet.pushes_within(time),
                false => u64::from(fleet.groups()),
            },
            first_round: self.next_round,
            is_paced,
        };
        let addresses = self.addresses.clone();
        let pushers = Pushers {
            fleet,
            gateways: &addresses,
            count: plan.pushers,
            limit: plan.limit,
        };
        let mut next = start + TICK;
        let pushed = pushers.run(stretch, |watched| {
            thread::sleep(NAP);
            if Instant::now() < next {
                return Ok(());
            }
            next += TICK;
            self.tick(phase, watched)
        })?;
        let took = start.elapsed();
        let after = self.gateways.usage()?.cpu;
        let other_cores = Bystanders::read(after)?.cores_since(&bystanders);
        self.ended_before += pushed.sent.len() as u64;
        self.next_round += 1 + (time.as_nanos() / fleet.interval.as_nanos()) as u64;
        self.sent.extend_from_slice(&pushed.sent);
        Ok(Window {
            pushed,
            took,
            cpu: after.saturating_sub(before),
            scrapes: scraper.map(Scraper::stop).unwrap_or_default(),
            other_cores,
        })
    }

    fn tick(&mut self, phase: &str, watched: &Watched) -> Result<(), BenchError> {
        self.gateways.check()?;
        let tick = Tick {
            at: self.started.elapsed(),
            usage: self.gateways.usage()?,
            ended: self.ended_before + watched.ended.load(Relaxed),
        };
        let before = self.ticks.last().copied();
        self.ticks.push(tick);
        let (mut cores, mut rate) = (0.0, 0.0);
        if let Some(before) = before {
            let seconds = (tick.at - before.at).as_secs_f64();
            cores = tick
                .usage
                .cpu
                .saturating_sub(before.usage.cpu)
                .as_secs_f64()
                / seconds;
            rate = tick.ended.saturating_sub(before.ended) as f64 / seconds;
        }
        self.progress.show(&format!(
            "{}: {phase}, {cores:.2} cores, {} MB, {rate:.0} pushes a second",
            self.label,
            tick.usage.rss_bytes / 1_000_000,
        ));
        Ok(())
    }

    /// Scrapes in both encodings, often enough for the kernel's clock of CPU time; nothing when one fails.
    fn quiet(&self) -> Result<Option<[Quiet; 2]>, BenchError> {
        let mut both = [None; 2];
        for (gzip, quiet) in [false, true].into_iter().zip(&mut both) {
            let (start, before) = (Instant::now(), self.gateways.usage()?.cpu);
            let (mut fastest, mut count, mut bytes) = (Duration::MAX, 0, 0);
            while count < *QUIET_SCRAPES.end()
                && (count < *QUIET_SCRAPES.start() || start.elapsed() < QUIET_TIME)
            {
                let scrape = self.gateways.scrape(self.plan.limit, gzip);
                if !scrape.is_success {
                    return Ok(None);
                }
                (fastest, bytes, count) = (fastest.min(scrape.took), scrape.bytes, count + 1);
            }
            let cpu = self.gateways.usage()?.cpu.saturating_sub(before) / count;
            *quiet = Some(Quiet {
                took: fastest,
                cpu,
                bytes,
            });
        }
        let [identity, gzip] = both;
        Ok(identity.zip(gzip).map(|(identity, gzip)| [identity, gzip]))
    }

    fn restart(&mut self) -> Result<Restart, BenchError> {
        self.progress.begin(&format!("{}: restart", self.label));
        let ready = self.gateways.restart()?;
        let stored = self
            .gateways
            .compare(self.fleet, &self.sent, self.plan.limit)?;
        Ok(Restart { ready, stored })
    }
}
