//! A run plan built from flags.

use crate::{
    harness::{
        cli::{Values, usage},
        error::BenchError,
    },
    load::fleet::{
        clock::Clock,
        config::FleetConfig,
        server::MAX_TARGETS,
        shape::{OLDEST_STAMP_MS, SHAPES, Shape},
    },
};
use std::{path::PathBuf, time::Duration};

/// Maximum samples per second of the generator.
const MOST_SAMPLES: f64 = 5e6;

/// With fewer series, the native shape has no complete classic histogram.
const LEAST_NATIVE: usize = 100;

/// Parameters of a run.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) fleet: FleetConfig,
    shape: &'static str,
    pub(super) interval: Duration,
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
    pub(super) repetitions: usize,
    /// For each variant, whether there are queries.
    pub(super) variants: &'static [bool],
    pub(super) rates: Rates,
    pub(super) range: Duration,
    /// Number of targets replaced each time.
    pub(super) churned: usize,
    pub(super) churn_every: Duration,
    pub(super) compression: u32,
    pub(super) is_parallel: bool,
    /// Directory for servers' data.
    pub(super) base: PathBuf,
}

/// Queries of each class per second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) instant: f64,
    pub(super) range: f64,
    pub(super) heavy: f64,
}

impl Plan {
    /// Reads the flags.
    pub(super) fn from_values(values: &Values) -> Result<Self, BenchError> {
        let shape = values.choice("shape", SHAPES)?;
        let (targets, series) = shape.size();
        let number = |name, default: usize, range| match values.text(name) {
            "" => Ok(default),
            _ => values.number(name, range).map(|number| number as usize),
        };
        let targets = number("targets", targets, 1..=MAX_TARGETS as u64)?;
        let churn_share = values.real("churn-share", 0.0..=1.0)?;
        let rate = |name| values.real(name, 0.0..=10_000.0);
        let plan = Self {
            fleet: FleetConfig {
                targets,
                // With fewer, no family that queries use exists.
                series: number("series", series, 4..=2_000_000)?,
                seed: values.seed()?,
                shape,
                gzip: values.switch("gzip")?,
                line_labels: values.switch("line-labels")?,
                clock: None,
            },
            shape: SHAPES
                .iter()
                .find(|(_, other)| *other == shape)
                .map_or("", |(name, _)| name),
            interval: values.time("interval")?,
            warmup: values.time("warmup")?,
            duration: values.time("duration")?,
            repetitions: values.repetitions()?,
            variants: values.choice(
                "queries",
                &[
                    ("both", &[false, true][..]),
                    ("with", &[true][..]),
                    ("without", &[false][..]),
                ],
            )?,
            rates: Rates {
                instant: rate("instant-rate")?,
                range: rate("range-rate")?,
                heavy: rate("heavy-rate")?,
            },
            range: values.time("range")?,
            churned: (churn_share * targets as f64).round() as usize,
            churn_every: values.time("churn-every")?,
            compression: values.number("compress-time", 1..=1000)? as u32,
            is_parallel: values.switch("parallel")?,
            base: values.dir()?,
        };
        plan.check(values)?;
        Ok(plan)
    }

    fn check(&self, values: &Values) -> Result<(), BenchError> {
        if self.interval < Duration::from_millis(100) {
            return Err(values.wrong("interval", "at least 100ms"));
        }
        if self.warmup < self.interval * 2 || self.duration < self.interval {
            return Err(usage(
                "--warmup is at least two intervals and --duration one",
            ));
        }
        let settled = self.interval * 2 + Duration::from_millis(OLDEST_STAMP_MS);
        if self.fleet.shape == Shape::Stamped && self.warmup < settled {
            return Err(values.wrong(
                "warmup",
                "at least 10s and two intervals for lines that are 10 s old",
            ));
        }
        let rate = self.all_series() as f64 / self.interval.as_secs_f64();
        if rate > MOST_SAMPLES {
            return Err(usage(format!(
                "{rate:.0} samples a second are more than {MOST_SAMPLES:.0}: fewer --targets or --series, or a longer --interval"
            )));
        }
        if self.fleet.shape == Shape::Native && self.fleet.series < LEAST_NATIVE {
            let what = format!("at least {LEAST_NATIVE} for a series of every kind");
            return Err(values.wrong("series", what));
        }
        if self.churned > 0 && self.churn_every < self.interval * 2 {
            return Err(values.wrong("churn-every", "at least two intervals"));
        }
        if self.churned > 0 && self.fleet.shape == Shape::Objects {
            return Err(values.wrong("churn-share", "there is one target of that shape"));
        }
        if self.range < Duration::from_secs(60) {
            return Err(values.wrong("range", "at least 60s"));
        }
        Ok(())
    }

    /// Returns the fleet as one server meets it: its clock begins when it starts.
    pub(super) fn fleet(&self) -> FleetConfig {
        let clock = (self.compression > 1).then(|| Clock::new(self.compression, self.each()));
        FleetConfig {
            clock,
            ..self.fleet
        }
    }

    /// Returns the number of series of the whole fleet at one time.
    pub(super) fn all_series(&self) -> u64 {
        self.fleet.targets as u64 * self.fleet.series as u64
    }

    /// Returns the approximate time for one server: starting, queries and restart take two intervals and some seconds.
    pub(super) fn each(&self) -> Duration {
        self.warmup + self.duration + self.interval * 2 + Duration::from_secs(10)
    }

    /// Returns the name of a variant.
    pub(super) fn variant_name(&self, variant: usize) -> &'static str {
        match self.variants.get(variant) {
            Some(true) => "with queries",
            _ => "without queries",
        }
    }

    /// Describes the plan in one sentence.
    pub(super) fn title(&self) -> String {
        let FleetConfig {
            targets,
            series,
            gzip,
            line_labels,
            ..
        } = self.fleet;
        let mut title = format!(
            "{targets} targets x {series} series every {:?}",
            self.interval
        );
        let mut add = |is_so: bool, text: String| {
            if is_so {
                title.push_str(&format!(", {text}"));
            }
        };
        add(
            self.fleet.shape != Shape::Fleet,
            format!("shape {}", self.shape),
        );
        add(gzip, "gzip".to_owned());
        add(line_labels, "target labels in every line".to_owned());
        let (churned, every) = (self.churned, self.churn_every);
        add(
            churned > 0,
            format!("{churned} targets replaced every {every:?}"),
        );
        let factor = self.compression;
        add(factor > 1, format!("time {factor} times as fast"));
        add(self.is_parallel, "all servers at once".to_owned());
        format!(
            "{title}, {:?} after {:?} of warm-up",
            self.duration, self.warmup
        )
    }

    /// Returns notes for a reader of the record.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.compression > 1 {
            notes.push(format!(
                "Lines have timestamps that begin in the past and run {} times as fast as the clock. What servers add \
                 themselves (up and its kin) has the real time, so that samples are out of order for servers with one \
                 time for all series; out-of-order samples are allowed.",
                self.compression
            ));
        }
        if self.fleet.shape == Shape::Stamped {
            notes
                .push("Every line has its own timestamp, up to 10 s before the scrape.".to_owned());
        }
        if self.fleet.shape == Shape::Native {
            notes.push(
                "Targets answer in protobuf, as no text has native histograms; a native histogram is one sample."
                    .to_owned(),
            );
        }
        notes
    }
}
