//! One subject with one number of series: scrapes alone, then load with and without scrapes.
//!
//! **Invariant:** the server holds the series before anything is measured, and every page that is scraped has them.

use super::{
    figures,
    plan::Plan,
    presets::{self, Paths},
    scraper::{Scrape, Scraper},
    target::Target,
};
use crate::{
    frame::{
        error::BenchError,
        measure::{Bystanders, Usage},
        progress::Progress,
        server::{RunningServer, ServerSpec},
    },
    load::{
        client::Client,
        dataset::{DatasetConfig, POD_SERIES},
        fleet::clock::now_ms,
        open_loop::{self, Load},
        remote_write,
    },
    record::Run,
};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Longest start, series included.
const START_LIMIT: Duration = Duration::from_secs(300);
/// Time between two readings of the server's figures.
const TICK: Duration = Duration::from_millis(500);
/// How long answers may take after the last request was due.
const DRAIN: Duration = Duration::from_secs(30);

/// The server's figures at one time of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tick {
    pub(super) at: Duration,
    pub(super) usage: Usage,
}

/// What one run under load came to.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) load: Load,
    pub(super) scrapes: Vec<Scrape>,
    /// None of a URL, whose process is not ours.
    pub(super) ticks: Option<Vec<Tick>>,
    pub(super) other_cores: f64,
}

/// What scrapes without load came to.
#[derive(Debug)]
pub(super) struct Alone {
    pub(super) scrapes: Vec<Scrape>,
    pub(super) cpu: Option<Duration>,
    /// None when it was over too soon to say.
    pub(super) other_cores: Option<f64>,
}

/// One subject under measurement.
pub(super) struct Turn<'a> {
    plan: &'a Plan,
    load: Target,
    scrape: Option<Target>,
    server: Option<RunningServer>,
    /// What runs are called: the server's series.
    series: String,
    /// Samples every page must have.
    expected: u64,
    label: String,
    progress: &'a Progress,
}

impl<'a> Turn<'a> {
    /// Starts a server, gives it its series and measures it.
    pub(super) fn of_server(
        plan: &'a Plan,
        spec: &ServerSpec,
        series: u64,
        repetition: usize,
        progress: &'a Progress,
    ) -> Result<Vec<Run>, BenchError> {
        let label = spec.label.clone();
        progress.begin(&format!("{label}: {series} series, starting"));
        let places = presets::places(series, plan.library.as_deref());
        let places = places.each_ref().map(|(name, text)| (*name, text.as_str()));
        let mut server = RunningServer::start(spec, &plan.base, &places)?;
        server.wait_ready(START_LIMIT)?;
        let end_ms = now_ms();
        let paths = Paths::of(
            &spec.kind.name,
            &plan.path,
            &plan.scrape_path,
            end_ms / 1000,
        );
        let target =
            |path: &str| Target::parse(&server.url(path), false).map_err(crate::frame::cli::usage);
        let (load, scrape) = (target(&paths.load)?, target(&paths.scrape)?);
        let has_own_page = plan.scrape_path.is_empty();
        let mut expected = match spec.kind.config.contains("{series}") && has_own_page {
            true => series,
            false => 0,
        };
        if paths.is_written {
            let written = write_series(plan, &load, series, end_ms, &label)?;
            expected = if has_own_page { written } else { 0 };
        }
        let mut probe = Scraper::new(&scrape);
        server.wait("show its series", START_LIMIT, |_| {
            let scrape = probe.once().ok()?;
            (scrape.series >= expected).then_some(())
        })?;
        let turn = Self {
            plan,
            load,
            scrape: Some(scrape),
            server: Some(server),
            series: format!("{series} series"),
            expected,
            label,
            progress,
        };
        turn.measure(repetition)
    }

    /// Measures what answers already.
    pub(super) fn of_url(
        plan: &'a Plan,
        load: &Target,
        scrape: Option<&Target>,
        repetition: usize,
        progress: &'a Progress,
    ) -> Result<Vec<Run>, BenchError> {
        let turn = Self {
            plan,
            load: load.clone(),
            scrape: scrape.cloned(),
            server: None,
            series: String::new(),
            expected: 0,
            label: load.host.clone(),
            progress,
        };
        turn.measure(repetition)
    }

    fn measure(mut self, repetition: usize) -> Result<Vec<Run>, BenchError> {
        let variant = |what: &str| match self.series.as_str() {
            "" => what.to_owned(),
            series => format!("{series}, {what}"),
        };
        let (alone, without, with) = (
            variant(figures::ALONE),
            variant(figures::WITHOUT),
            variant(figures::WITH),
        );
        let mut runs = Vec::new();
        if let Some(scrape) = self.scrape.clone() {
            if self.plan.idle_scrapes > 0 {
                let measured = self.alone(&alone, &scrape)?;
                runs.push(figures::alone(alone, &measured));
            }
            let mut pair = [(without, None), (with, Some(scrape))];
            if repetition % 2 == 1 {
                pair.reverse();
            }
            for (variant, scrape) in pair {
                let loaded = self.loaded(&variant, scrape.as_ref())?;
                runs.push(figures::loaded(variant, self.plan, &loaded));
            }
        } else {
            let loaded = self.loaded(&without, None)?;
            runs.push(figures::loaded(without, self.plan, &loaded));
        }
        Ok(runs)
    }

    fn usage(&self) -> Result<Option<Usage>, BenchError> {
        let pid = self.server.as_ref().map(RunningServer::pid);
        pid.map(Usage::read_tree).transpose()
    }

    fn bystanders(&self) -> Result<Bystanders, BenchError> {
        Bystanders::read(self.usage()?.map_or(Duration::ZERO, |usage| usage.cpu))
    }

    fn alone(&mut self, what: &str, target: &Target) -> Result<Alone, BenchError> {
        self.progress.begin(&format!("{}: {what}", self.label));
        let mut scraper = Scraper::new(target);
        let (from, bystanders) = (self.usage()?, self.bystanders()?);
        let started = Instant::now();
        let scrapes: Vec<Scrape> = (0..self.plan.idle_scrapes)
            .map(|_| scraper.once())
            .collect::<Result<_, _>>()?;
        let (to, later) = (self.usage()?, self.bystanders()?);
        self.check(&scrapes)?;
        Ok(Alone {
            scrapes,
            cpu: from
                .zip(to)
                .map(|(from, to)| to.cpu.saturating_sub(from.cpu)),
            // Shorter than this, a clock tick is most of it.
            other_cores: (started.elapsed() > TICK).then(|| later.cores_since(&bystanders)),
        })
    }

    /// Loads the subject, and scrapes it meanwhile where a page is given.
    fn loaded(&mut self, what: &str, scrape: Option<&Target>) -> Result<Loaded, BenchError> {
        self.progress.begin(&format!("{}: {what}", self.label));
        let plan = open_loop::Plan {
            address: self.load.address,
            request: self.load.request(),
            rate: self.plan.rate,
            connections: self.plan.connections,
            threads: self.plan.threads,
            warmup: self.plan.warmup,
            duration: self.plan.duration,
            drain: DRAIN,
        };
        let (warmup, interval) = (self.plan.warmup, self.plan.scrape_interval);
        let bystanders = self.bystanders()?;
        let is_over = AtomicBool::new(false);
        let (load, scrapes, ticks) = thread::scope(|scope| {
            let load = scope.spawn(|| {
                let load = open_loop::run(&plan);
                is_over.store(true, Ordering::Release);
                load
            });
            let scrapes = scrape.map(|scrape| {
                let is_over = &is_over;
                scope.spawn(move || {
                    wait(warmup, is_over);
                    Scraper::new(scrape).until(is_over, interval)
                })
            });
            let ticks = self.watch(&is_over);
            // A panic of theirs is ours.
            let load = load.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
            let scrapes = scrapes.map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|e| std::panic::resume_unwind(e))
            });
            (load, scrapes, ticks)
        });
        let (load, scrapes, ticks) = (load?, scrapes.transpose()?.unwrap_or_default(), ticks?);
        self.check(&scrapes)?;
        let other_cores = self.bystanders()?.cores_since(&bystanders);
        Ok(Loaded {
            load,
            scrapes,
            ticks,
            other_cores,
        })
    }

    /// Reads the server's figures until it is over.
    fn watch(&mut self, is_over: &AtomicBool) -> Result<Option<Vec<Tick>>, BenchError> {
        let started = Instant::now();
        let mut ticks = Vec::new();
        loop {
            let ended = is_over.load(Ordering::Acquire);
            if let Some(usage) = self.usage()? {
                ticks.push(Tick {
                    at: started.elapsed(),
                    usage,
                });
            }
            if ended {
                return Ok((!ticks.is_empty()).then_some(ticks));
            }
            if let Some(server) = &mut self.server {
                server.check()?;
            }
            wait(TICK, is_over);
        }
    }

    /// Fails when a page lacks series.
    fn check(&self, scrapes: &[Scrape]) -> Result<(), BenchError> {
        let fewest = scrapes.iter().map(|scrape| scrape.series).min();
        match fewest.filter(|fewest| *fewest < self.expected) {
            None => Ok(()),
            Some(fewest) => Err(BenchError::Answer {
                name: self.label.clone(),
                query: self
                    .scrape
                    .as_ref()
                    .map_or_else(String::new, |t| t.path.clone()),
                what: format!("with {fewest} samples instead of {}", self.expected),
            }),
        }
    }
}

/// Lets time pass, but not beyond the end.
fn wait(time: Duration, is_over: &AtomicBool) {
    const POLL: Duration = Duration::from_millis(20);
    let end = Instant::now() + time;
    while !is_over.load(Ordering::Acquire) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(POLL));
    }
}

/// Writes the newest sample of each series, and returns how many there are.
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
    };
    let mut client = Client::new(target.address, START_LIMIT);
    remote_write::send(&mut client, "/api/v1/write", config, label, |_| ())?;
    Ok(config.series as u64)
}
