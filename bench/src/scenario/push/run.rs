//! One run: a kind of gateway under one push mode, from empty to full to restarted.
//!
//! **Invariant:** every subject goes through the same phases: every group once, pushing on schedule without scrapes and
//! with them, scrapes alone, comparison of stored data with what was sent, a restart. Latencies include everything.

use super::{
    fleet::Fleet,
    gateways::Gateways,
    plan::Plan,
    pushers::{Pushed, Pushers, Sent, Stretch, Watched},
    stored::Stored,
};
use crate::{
    harness::{BenchError, Meter, Progress, ServerSpec, Ticks, Usage, Used, join},
    load::Scrape,
};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Time between two readings.
const TICK: Duration = Duration::from_secs(1);
/// Polling interval while waiting for a stretch's end.
const NAP: Duration = Duration::from_millis(10);
/// Minimum and maximum scrapes without pushes, of each encoding; and the time after which there are enough.
const QUIET_SCRAPES: std::ops::RangeInclusive<u32> = 3..=20;
const QUIET_TIME: Duration = Duration::from_secs(3);

/// A stretch and its cost.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) pushed: Pushed,
    pub(crate) used: Used,
    pub(crate) scrapes: Vec<Result<Scrape, BenchError>>,
}

/// Scrapes without pushes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quiet {
    pub(crate) took: Duration,
    pub(crate) cpu: Duration,
    pub(crate) bytes: u64,
}

/// Result of a restart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restart {
    pub(crate) ready: Duration,
    pub(crate) stored: Stored,
}

/// All measurements.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) first: Window,
    pub(crate) plain: Window,
    pub(crate) scraped: Option<Window>,
    /// Identity and gzip; `None` if a scrape failed.
    pub(crate) quiet: Option<[Quiet; 2]>,
    /// Usage at the end of the last push, and the peak with all scrapes.
    pub(crate) usage: Usage,
    pub(crate) stored: Stored,
    pub(crate) restart: Option<Restart>,
    pub(crate) ticks: Ticks,
}

impl Outcome {
    /// Returns the stretches whose pushes count, each with the name of its figures.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (&'static str, &Window)> {
        let scraped = self.scraped.iter().map(|window| (" while scraped", window));
        [("", &self.plain)].into_iter().chain(scraped)
    }

    /// Returns the same after the first stretch.
    pub(crate) fn all_windows(&self) -> impl Iterator<Item = &Window> {
        std::iter::once(&self.first).chain(self.windows().map(|(_, window)| window))
    }

    /// Returns notes for a reader of the figures.
    pub(crate) fn notes(&self, label: &str, fleet: &Fleet) -> Vec<String> {
        let (mut notes, groups) = (Vec::new(), fleet.groups());
        let mut add = |text: String| notes.push(format!("{label}, {}: {text}", fleet.mode.name()));
        let filled = self.first.pushed.taken();
        if filled < u64::from(groups) {
            let took = self.first.used.took;
            add(format!(
                "{filled} of {groups} groups had their first push after {took:.0?}"
            ));
        }
        let mut windows = self.all_windows();
        if let Some(why) = windows.find_map(|window| window.pushed.failure.as_ref()) {
            add(format!("the first push that failed: {why}"));
        }
        if self.quiet.is_none() {
            add("scrapes alone failed".to_owned());
        }
        if self.plain.pushed.unsent > 0 {
            let seconds = self.plain.used.took.as_secs_f64();
            add(format!(
                "it took fewer pushes than were due, so latencies grow with the time measured ({seconds:.0} s)"
            ));
        }
        notes
    }
}

/// A run in progress.
pub(crate) struct Session<'a> {
    plan: &'a Plan,
    fleet: &'a Fleet,
    progress: &'a Progress,
    label: String,
    gateways: Gateways,
    sent: Vec<Sent>,
    next_round: u64,
    ticks: Ticks,
    ended_before: u64,
}

impl<'a> Session<'a> {
    /// Starts the gateways.
    pub(crate) fn start(
        plan: &'a Plan,
        fleet: &'a Fleet,
        spec: &ServerSpec,
        progress: &'a Progress,
    ) -> Result<Self, BenchError> {
        let label = format!("{}, {}", spec.label, fleet.mode.name());
        progress.begin(&label, "starting");
        let gateways = Gateways::start(fleet, spec, &plan.base)?;
        Ok(Self {
            plan,
            fleet,
            progress,
            label,
            gateways,
            sent: Vec::new(),
            next_round: 0,
            ticks: Ticks::start(),
            ended_before: 0,
        })
    }

    /// Runs all phases. If a gateway accepts no push at all, returns its reason instead.
    pub(crate) fn finish(mut self) -> Result<Result<Outcome, String>, BenchError> {
        let plan = self.plan;
        let first = self.stretch("first pushes", plan.flags.fill_limit, false, false)?;
        if first.pushed.taken() == 0 {
            let why = first.pushed.failure.unwrap_or_default();
            return Ok(Err(format!("{} takes no such push: {why}", self.label)));
        }
        self.stretch("warm-up", plan.flags.warmup, true, false)?;
        let plain = self.stretch("pushing", plan.flags.duration, true, false)?;
        let scraped = match plan.flags.scrape_every.is_zero() {
            true => None,
            false => Some(self.stretch("pushing, scraped", plan.flags.duration, true, true)?),
        };
        self.progress.begin(&self.label, "scrapes alone");
        let held = self.gateways.usage()?;
        let quiet = self.quiet()?;
        let usage = Usage {
            rss_bytes: held.rss_bytes,
            ..self.gateways.usage()?
        };
        self.progress.begin(&self.label, "comparing");
        let stored = self
            .gateways
            .compare(self.fleet, &self.sent, plan.flags.push_timeout)?;
        let restart = match plan.flags.persist {
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

    /// Pushes on schedule for a given time, or every group once as fast as the gateway accepts it.
    fn stretch(
        &mut self,
        phase: &str,
        time: Duration,
        is_paced: bool,
        is_scraped: bool,
    ) -> Result<Window, BenchError> {
        let (plan, fleet) = (self.plan, self.fleet);
        self.progress.begin(&self.label, phase);
        let mut scraper = self.gateways.scraper(plan.flags.push_timeout).gzip();
        let meter = Meter::start(self.gateways.usage()?)?;
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
        let addresses = self.gateways.addresses();
        let pushers = Pushers {
            fleet,
            gateways: &addresses,
            count: plan.flags.pushers,
            limit: plan.flags.push_timeout,
        };
        let (is_over, mut next) = (AtomicBool::new(false), start + TICK);
        let (pushed, used, scrapes) = thread::scope(|scope| {
            let scraping = is_scraped
                .then(|| scope.spawn(|| scraper.until(&is_over, plan.flags.scrape_every)));
            let pushed = pushers.run(stretch, |watched| {
                thread::sleep(NAP);
                if Instant::now() < next {
                    return Ok(());
                }
                next += TICK;
                self.tick(phase, watched)
            });
            let used = self.gateways.usage().and_then(|usage| meter.stop(usage));
            // The scrape in progress ends by its own deadline.
            is_over.store(true, Ordering::Release);
            (pushed, used, scraping.map_or_else(Vec::new, join))
        });
        let (pushed, used) = (pushed?, used?);
        self.ended_before += pushed.sent.len() as u64;
        self.next_round += 1 + (time.as_nanos() / fleet.settings.interval.as_nanos()) as u64;
        self.sent.extend_from_slice(&pushed.sent);
        Ok(Window {
            pushed,
            used,
            scrapes,
        })
    }

    fn tick(&mut self, phase: &str, watched: &Watched) -> Result<(), BenchError> {
        self.gateways.check()?;
        let usage = self.gateways.usage()?;
        let ended = self.ended_before + watched.ended.load(Ordering::Relaxed);
        let rates = self.ticks.push(usage, 0, ended);
        self.progress.show(&format!(
            "{}: {phase}, {:.2} cores, {} MB, {:.0} pushes a second",
            self.label,
            rates.cores,
            usage.rss_bytes / 1_000_000,
            rates.counted
        ));
        Ok(())
    }

    /// Scrapes in both encodings, often enough for the kernel's CPU clock; `None` if one fails.
    fn quiet(&self) -> Result<Option<[Quiet; 2]>, BenchError> {
        let mut both = [None; 2];
        for (is_packed, quiet) in [false, true].into_iter().zip(&mut both) {
            let scraper = self.gateways.scraper(self.plan.flags.push_timeout);
            let mut scraper = if is_packed { scraper.gzip() } else { scraper };
            let (start, before) = (Instant::now(), self.gateways.usage()?.cpu);
            let (mut fastest, mut count, mut bytes) = (Duration::MAX, 0, 0);
            while count < *QUIET_SCRAPES.end()
                && (count < *QUIET_SCRAPES.start() || start.elapsed() < QUIET_TIME)
            {
                let Ok(scrape) = scraper.once() else {
                    return Ok(None);
                };
                (fastest, bytes, count) = (fastest.min(scrape.took), scrape.bytes, count + 1);
            }
            *quiet = Some(Quiet {
                took: fastest,
                cpu: self.gateways.usage()?.cpu.saturating_sub(before) / count,
                bytes,
            });
        }
        let [identity, gzip] = both;
        Ok(identity.zip(gzip).map(|(identity, gzip)| [identity, gzip]))
    }

    fn restart(&mut self) -> Result<Restart, BenchError> {
        self.progress.begin(&self.label, "restart");
        let ready = self.gateways.restart()?;
        let stored = self
            .gateways
            .compare(self.fleet, &self.sent, self.plan.flags.push_timeout)?;
        Ok(Restart { ready, stored })
    }
}
