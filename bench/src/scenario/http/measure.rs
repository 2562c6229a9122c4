//! One subject with one number of series: scrapes alone, then load with and without scrapes.
//!
//! **Invariant:** the server holds the series before anything is measured, and every scraped page contains them.

use super::{
    plan::Plan,
    presets::{self, Paths},
    target::Target,
};
use crate::{
    harness::{
        BenchError, Meter, Progress, RunningServer, ServerSpec, Ticks, Usage, Used, join,
        running_time, usage,
    },
    load::{
        DatasetConfig, POD_SERIES, Scrape, Scraper,
        fleet::now_ms,
        open_loop::{self, Load},
        remote_write,
        scraper::wait,
    },
};
use narthex_testkit::client::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// Timeout of a start, including writing the series.
const START_LIMIT: Duration = Duration::from_secs(300);
/// Time between two readings of the server's figures.
const TICK: Duration = Duration::from_millis(500);
/// How long answers may take after the last request was due.
const DRAIN: Duration = Duration::from_secs(30);

/// Activity of a phase, beside the load or instead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Alone,
    WithoutScrapes,
    WithScrapes,
}

impl Phase {
    /// Returns the name of its runs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Alone => "scrapes without load",
            Self::WithoutScrapes => "load without scrapes",
            Self::WithScrapes => "load with scrapes",
        }
    }
}

/// Result of one phase.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) phase: Phase,
    /// `None` for scrapes without load.
    pub(super) load: Option<Load>,
    pub(super) scrapes: Vec<Scrape>,
    pub(super) used: Used,
    /// Running time of the server while it was only scraped; `None` under load, and for a URL.
    pub(super) running: Option<Duration>,
    /// What the server used that is scraped in place of the one under load.
    pub(super) reader: Option<Used>,
    /// `None` for a URL, whose process is not ours.
    pub(super) ticks: Option<Ticks>,
    pub(super) reloads: u64,
}

/// A subject being measured.
pub(super) struct Session<'a> {
    plan: &'a Plan,
    load: Target,
    scrape: Option<Target>,
    server: Option<RunningServer>,
    /// The server that is scraped in place of it.
    reader: Option<RunningServer>,
    /// Minimum samples of every page.
    expected: u64,
    label: String,
    progress: &'a Progress,
}

impl<'a> Session<'a> {
    /// Starts a server, writes its series and measures it.
    pub(super) fn measure_server(
        plan: &'a Plan,
        spec: &ServerSpec,
        series: u64,
        repetition: usize,
        progress: &'a Progress,
    ) -> Result<Vec<Measured>, BenchError> {
        let label = spec.label.clone();
        progress.begin(&label, &format!("{series} series, starting"));
        let segments = plan.flags.segments_dir.as_deref();
        let memory = presets::memory_dir(&spec.kind, segments)?;
        let places = presets::places(series, &plan.libraries, memory.as_ref());
        let places = places.each_ref().map(|(name, text)| (*name, text.as_str()));
        let mut server = RunningServer::start(spec, &plan.base, &places)?;
        server.wait_ready(START_LIMIT)?;
        let end_ms = now_ms();
        let paths = Paths::new(
            &spec.kind.name,
            &plan.flags.path,
            &plan.flags.scrape_path,
            end_ms / 1000,
        );
        let target = |path: &str| Target::parse(&server.url(path), false).map_err(usage);
        let (load, mut scrape) = (target(&paths.load)?, target(&paths.scrape)?);
        let program = plan.flags.reader.as_ref();
        let reader = program.filter(|_| spec.kind.has_segments()).map(|program| {
            let mut reader = RunningServer::start(&presets::reader(program), &plan.base, &places)?;
            reader.wait_ready(START_LIMIT)?;
            let page = reader.url(presets::READER_PAGE);
            scrape = Target::parse(&page, false).map_err(usage)?;
            Ok::<_, BenchError>(reader)
        });
        let reader = reader.transpose()?;
        let has_own_page = plan.flags.scrape_path.is_empty();
        // In a directory that fills, fewer are a finding and no error.
        let has_room = segments.is_none();
        let mut expected = match spec.kind.config.contains("{series}") && has_own_page && has_room {
            true => series,
            false => 0,
        };
        if paths.is_written {
            let written = write_series(plan, &load, series, end_ms, &label)?;
            expected = if has_own_page { written } else { 0 };
        }
        let mut probe = scrape.scraper();
        server.wait("show its series", START_LIMIT, |_| {
            let scrape = probe.once().ok()?;
            (scrape.samples >= expected).then_some(())
        })?;
        let session = Self {
            plan,
            load,
            scrape: Some(scrape),
            server: Some(server),
            reader,
            expected,
            label,
            progress,
        };
        session.measure(repetition)
    }

    /// Measures a server that is already running.
    pub(super) fn measure_url(
        plan: &'a Plan,
        load: &Target,
        scrape: Option<&Target>,
        repetition: usize,
        progress: &'a Progress,
    ) -> Result<Vec<Measured>, BenchError> {
        let session = Self {
            plan,
            load: load.clone(),
            scrape: scrape.cloned(),
            server: None,
            reader: None,
            expected: 0,
            label: load.host.clone(),
            progress,
        };
        session.measure(repetition)
    }

    fn measure(mut self, repetition: usize) -> Result<Vec<Measured>, BenchError> {
        let mut phases = Vec::new();
        if self.scrape.is_some() {
            if self.plan.flags.idle_scrapes > 0 {
                phases.push(self.alone()?);
            }
            let mut pair = [Phase::WithoutScrapes, Phase::WithScrapes];
            if repetition % 2 == 1 {
                pair.reverse();
            }
            for phase in pair {
                phases.push(self.loaded(phase)?);
            }
        } else {
            phases.push(self.loaded(Phase::WithoutScrapes)?);
        }
        Ok(phases)
    }

    fn begin(&self, phase: Phase) {
        self.progress.begin(&self.label, phase.name());
    }

    fn usage(&self) -> Result<Usage, BenchError> {
        let server = self.server.as_ref();
        server.map_or_else(|| Ok(Usage::default()), RunningServer::usage)
    }

    /// Begins to measure what the server under load uses, and the one that is scraped in its place.
    fn meters(&self) -> Result<(Meter, Option<Meter>), BenchError> {
        let reader = self.reader.as_ref();
        let reader = reader.map(|reader| Meter::start(reader.usage()?));
        Ok((Meter::start(self.usage()?)?, reader.transpose()?))
    }

    fn stop(
        &self,
        (server, reader): (Meter, Option<Meter>),
    ) -> Result<(Used, Option<Used>), BenchError> {
        let used = server.stop(self.usage()?)?;
        let reader = self.reader.as_ref().zip(reader);
        let reader = reader.map(|(running, meter)| meter.stop(running.usage()?));
        Ok((used, reader.transpose()?))
    }

    fn running_time(&self) -> Result<Option<Duration>, BenchError> {
        let server = self.server.as_ref();
        server.map(|server| running_time(server.pid())).transpose()
    }

    fn scraper(&self) -> Option<Scraper> {
        self.scrape.as_ref().map(Target::scraper)
    }

    fn alone(&mut self) -> Result<Measured, BenchError> {
        self.begin(Phase::Alone);
        let mut scrapes = Vec::new();
        let meters = self.meters()?;
        let began = self.running_time()?;
        if let Some(mut scraper) = self.scraper() {
            for _ in 0..self.plan.flags.idle_scrapes {
                scrapes.push(scraper.once()?);
            }
        }
        let ended = self.running_time()?;
        let (used, reader) = self.stop(meters)?;
        self.check(&scrapes)?;
        Ok(Measured {
            phase: Phase::Alone,
            load: None,
            scrapes,
            used,
            running: ended
                .zip(began)
                .map(|(ended, began)| ended.saturating_sub(began)),
            reader,
            ticks: self.server.is_some().then(Ticks::start),
            reloads: 0,
        })
    }

    /// Loads the subject, with scrapes if the phase includes them.
    fn loaded(&mut self, phase: Phase) -> Result<Measured, BenchError> {
        self.begin(phase);
        let plan = open_loop::Plan {
            address: self.load.address,
            request: self.load.request(),
            rate: self.plan.flags.rate,
            connections: self.plan.flags.connections,
            threads: self.plan.flags.threads,
            warmup: self.plan.flags.warmup,
            duration: self.plan.flags.duration,
            drain: DRAIN,
        };
        let (warmup, interval) = (self.plan.flags.warmup, self.plan.flags.scrape_interval);
        let meters = self.meters()?;
        let scraper = self.scraper().filter(|_| phase == Phase::WithScrapes);
        let is_over = &AtomicBool::new(false);
        let every = Some(self.plan.flags.reload_every).filter(|every| !every.is_zero());
        let pid = self.server.as_ref().map(RunningServer::pid);
        let (load, scrapes, reloads, ticks) = thread::scope(|scope| {
            let load = scope.spawn(|| {
                let load = open_loop::run(&plan);
                is_over.store(true, Ordering::Release);
                load
            });
            let scrapes = scraper.map(|mut scraper| {
                scope.spawn(move || {
                    wait(warmup, is_over);
                    scraper.until(is_over, interval)
                })
            });
            let reloads = every.zip(pid).map(|(every, pid)| {
                scope.spawn(move || {
                    wait(warmup, is_over);
                    reload(pid, every, is_over)
                })
            });
            let ticks = self.watch(is_over);
            (join(load), scrapes.map(join), reloads.map(join), ticks)
        });
        let scrapes = scrapes
            .unwrap_or_default()
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        self.check(&scrapes)?;
        let (used, reader) = self.stop(meters)?;
        Ok(Measured {
            phase,
            load: Some(load?),
            scrapes,
            used,
            running: None,
            reader,
            ticks: Some(ticks?).filter(|_| self.server.is_some()),
            reloads: reloads.transpose()?.unwrap_or_default(),
        })
    }

    /// Reads the server's figures until it is over.
    fn watch(&mut self, is_over: &AtomicBool) -> Result<Ticks, BenchError> {
        let mut ticks = Ticks::start();
        loop {
            let ended = is_over.load(Ordering::Acquire);
            ticks.push(self.usage()?, 0, 0);
            if ended {
                return Ok(ticks);
            }
            if let Some(server) = &mut self.server {
                server.check()?;
            }
            wait(TICK, is_over);
        }
    }

    /// Fails if a page lacks series.
    fn check(&self, scrapes: &[Scrape]) -> Result<(), BenchError> {
        let fewest = scrapes.iter().map(|scrape| scrape.samples).min();
        match fewest.filter(|fewest| *fewest < self.expected) {
            None => Ok(()),
            Some(fewest) => {
                let path = self.scrape.as_ref().map_or("", |target| &target.path);
                let what = format!("with {fewest} samples instead of {}", self.expected);
                Err(BenchError::answer(&self.label, path, what))
            }
        }
    }
}

/// Tells a server to reload until it is over; returns how often.
fn reload(pid: i32, every: Duration, is_over: &AtomicBool) -> Result<u64, BenchError> {
    let pid =
        Pid::from_raw(pid).ok_or_else(|| BenchError::answer("server", "", "has no process"))?;
    let mut reloads = 0;
    loop {
        wait(every, is_over);
        if is_over.load(Ordering::Acquire) {
            return Ok(reloads);
        }
        kill_process(pid, Signal::HUP)
            .map_err(|error| BenchError::io("reload the server")(error.into()))?;
        reloads += 1;
    }
}

/// Writes the newest sample of each series, and returns their number.
fn write_series(
    plan: &Plan,
    target: &Target,
    series: u64,
    end_ms: i64,
    label: &str,
) -> Result<u64, BenchError> {
    let interval = Duration::from_secs(15);
    let config = DatasetConfig {
        series: (series as usize).next_multiple_of(POD_SERIES),
        duration: interval,
        interval,
        seed: plan.seed,
        end_ms,
        churn: None,
    };
    let mut client = Client::new(target.address, START_LIMIT);
    remote_write::send(&mut client, "/api/v1/write", config, label, |_| ())?;
    Ok(config.series as u64)
}
