//! A run plan built from flags.
//!
//! **Invariant:** all values are checked: a plan can be carried out.

use super::{presets, target::Target};
use crate::harness::{
    cli::{Values, usage},
    error::BenchError,
    server::ServerSpec,
};
use std::{path::PathBuf, time::Duration};

/// Default number of series.
const SERIES: u64 = 10_000;
/// Most series of one server.
const MOST_SERIES: u64 = 10_000_000;

/// The subjects: servers started for the run, or the URL of a running one.
#[derive(Debug)]
pub(super) enum Subjects {
    Servers(Vec<ServerSpec>),
    Url {
        load: Target,
        scrape: Option<Target>,
    },
}

/// Measurements of each subject.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) subjects: Subjects,
    /// The directory of the Lua kind's library.
    pub(super) library: Option<PathBuf>,
    pub(super) series: Vec<u64>,
    pub(super) path: String,
    pub(super) scrape_path: String,
    pub(super) rate: f64,
    pub(super) connections: usize,
    pub(super) threads: usize,
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
    pub(super) scrape_interval: Duration,
    pub(super) idle_scrapes: u64,
    pub(super) max_late: Duration,
    pub(super) repetitions: usize,
    pub(super) base: PathBuf,
    pub(super) seed: u64,
    pub(super) notes: Vec<String>,
}

impl Plan {
    /// Reads the flags.
    pub(super) fn from_values(values: &Values) -> Result<Self, BenchError> {
        let mut notes = Vec::new();
        let (subjects, library) = subjects(values, &mut notes)?;
        let series = match &subjects {
            Subjects::Servers(_) => series(values)?,
            Subjects::Url { .. } => vec![0],
        };
        let plan = Self {
            subjects,
            library,
            series,
            path: values.text("path").to_owned(),
            scrape_path: values.text("scrape-path").to_owned(),
            rate: values.real("rate", 1.0..=1e6)?,
            connections: values.number("connections", 1..=10_000)? as usize,
            threads: values.number("threads", 1..=64)? as usize,
            warmup: values.time("warmup")?,
            duration: values.time("duration")?,
            scrape_interval: values.time("scrape-interval")?,
            idle_scrapes: values.number("idle-scrapes", 0..=100_000)?,
            max_late: values.time("max-late")?,
            repetitions: values.repetitions()?,
            base: values.dir()?,
            seed: values.seed()?,
            notes,
        };
        if plan.duration < Duration::from_secs(1)
            || plan.scrape_interval < Duration::from_millis(10)
        {
            return Err(usage(
                "--duration is at least 1s and --scrape-interval at least 10ms",
            ));
        }
        Ok(plan)
    }

    /// Describes the plan in one sentence.
    pub(super) fn title(&self) -> String {
        format!(
            "{} requests a second on {} connections for {:?}, with and without a scrape every {:?}",
            self.rate, self.connections, self.duration, self.scrape_interval
        )
    }

    /// Returns the approximate duration for one subject with one number of series.
    pub(super) fn each(&self) -> Duration {
        (self.warmup + self.duration) * 2 + Duration::from_secs(10)
    }
}

fn series(values: &Values) -> Result<Vec<u64>, BenchError> {
    let read = |text: &str| {
        let digits = text.replace('_', "");
        let number = digits
            .parse()
            .ok()
            .filter(|n| (1..=MOST_SERIES).contains(n));
        let what = || format!("{text:?} is not a number from 1 to {MOST_SERIES}");
        number.ok_or_else(|| values.wrong("series", what()))
    };
    let mut series: Vec<u64> = values.all("series").map(read).collect::<Result<_, _>>()?;
    if series.is_empty() {
        series.push(SERIES);
    }
    series.dedup();
    Ok(series)
}

fn subjects(
    values: &Values,
    notes: &mut Vec<String>,
) -> Result<(Subjects, Option<PathBuf>), BenchError> {
    let (url, scrape) = (values.text("url"), values.text("scrape-url"));
    if url.is_empty() {
        if !scrape.is_empty() {
            return Err(values.wrong("scrape-url", "goes with --url"));
        }
        let (servers, library) = presets::chosen(values, notes)?;
        return Ok((Subjects::Servers(servers), library));
    }
    if values.all("server").next().is_some() {
        return Err(values.wrong("url", "goes without --server"));
    }
    let is_remote_allowed = values.switch("allow-remote")?;
    let target = |name, text| {
        Target::parse(text, is_remote_allowed).map_err(|what| values.wrong(name, what))
    };
    let load = target("url", url)?;
    let scrape = match scrape {
        "" => None,
        scrape => Some(target("scrape-url", scrape)?),
    };
    if scrape.is_none() {
        notes.push("Nothing is scraped: --scrape-url names no page.".to_owned());
    }
    Ok((Subjects::Url { load, scrape }, None))
}
