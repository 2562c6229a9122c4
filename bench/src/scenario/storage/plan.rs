//! A run plan built from flags.

use crate::{
    harness::{BenchError, Values, choices, usage},
    load::fleet::{Clock, FleetConfig, MAX_TARGETS, Shape},
};
use narthex_cli::{Value as _, flags};
use std::{path::PathBuf, time::Duration};

/// Maximum samples per second of the generator.
const MOST_SAMPLES: f64 = 5e6;

/// With fewer series, the native shape has no complete classic histogram.
const LEAST_NATIVE: usize = 100;

choices! {
    /// Whether servers are queried while they are measured.
    pub(super) enum WithQueries {
        With = "with",
        Without = "without",
        Both = "both",
    }
}

flags! {
    /// What `storage` takes.
    #[derive(Debug, Clone)]
    pub(super) struct Flags {
        /// What targets report: fleet (counters, buckets, gauges), service (whole histograms and summaries too), native
        /// (the same and native histograms, in protobuf), objects (one target, all labels its own, most values
        /// constant), stamped (a timestamp on every line), cadvisor (a timestamp for every sixty lines), shuffled (another order every time), tiny (5 series a
        /// target), flapping (a tenth absent every third round).
        shape: Shape = "shape", default("fleet"), value("SHAPE");
        /// Targets. Default: the shape's, 850 for the fleet.
        targets: Option<usize> = "targets", within(1, MAX_TARGETS as i64);
        /// Series of each target. Default: the shape's, 588 for the fleet.
        // With fewer, no family that queries use exists.
        series: Option<usize> = "series", within(4, 2_000_000);
        /// Time between scrapes of a target.
        interval: Duration = "interval", default("5s");
        /// Time before measuring starts.
        warmup: Duration = "warmup", default("30s");
        /// Time measured, for each server.
        duration: Duration = "duration", default("120s");
        /// Whether servers are queried while they are measured: with, without, or both, one after the other.
        queries: WithQueries = "queries", default("both");
        /// Instant queries of one service, a second.
        instant_rate: f64 = "instant-rate", default("5"), within(0, 10_000);
        /// Range queries of one family over all targets, a second.
        range_rate: f64 = "range-rate", default("2"), within(0, 10_000);
        /// Queries that read a large part of all series, a second.
        heavy_rate: f64 = "heavy-rate", default("0.2"), within(0, 10_000);
        /// Queries that read the last minute of all series, a second, one at a time.
        scan_rate: f64 = "scan-rate", default("0"), within(0, 10_000);
        /// How far back range queries go, in 60 steps.
        range: Duration = "range", default("5m");
        /// Part of the targets replaced by others each time, 0 to 1.
        churn_share: f64 = "churn-share", default("0"), within(0, 1);
        /// Time between replacements.
        churn_every: Duration = "churn-every", default("60s");
        /// Write timestamps that begin in the past and run N times as fast, for hours of data in minutes.
        compress_time: u32 = "compress-time", default("1"), within(1, 1_000);
        /// Measure all servers at once instead of one after another.
        parallel: bool = "parallel";
        /// Compress the bodies.
        gzip: bool = "gzip";
        /// Write cluster, namespace, service, pod and node into every line, instead of giving them as target labels.
        line_labels: bool = "line-labels";
    }
}

/// Parameters of a run.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) flags: Flags,
    pub(super) fleet: FleetConfig,
    /// For each variant, whether there are queries.
    pub(super) variants: &'static [bool],
    /// Number of targets replaced each time.
    pub(super) churned: usize,
    /// Directory for servers' data.
    pub(super) base: PathBuf,
}

impl Plan {
    /// Reads the flags.
    pub(super) fn from_values(values: &Values) -> Result<Self, BenchError> {
        let flags = values.read(Flags::from_values)?;
        let (targets, series) = flags.shape.size();
        let targets = flags.targets.unwrap_or(targets);
        let plan = Self {
            fleet: FleetConfig {
                targets,
                series: flags.series.unwrap_or(series),
                seed: values.get("seed")?,
                shape: flags.shape,
                gzip: flags.gzip,
                line_labels: flags.line_labels,
                clock: None,
            },
            variants: match flags.queries {
                WithQueries::Both => &[false, true],
                WithQueries::With => &[true],
                WithQueries::Without => &[false],
            },
            churned: (flags.churn_share * targets as f64).round() as usize,
            base: values.dir()?,
            flags,
        };
        plan.check(values)?;
        Ok(plan)
    }

    fn check(&self, values: &Values) -> Result<(), BenchError> {
        let flags = &self.flags;
        let interval = flags.interval;
        if interval < Duration::from_millis(100) {
            return Err(values.wrong("interval", "at least 100ms"));
        }
        if flags.warmup < interval * 2 || flags.duration < interval {
            return Err(usage(
                "--warmup is at least two intervals and --duration one",
            ));
        }
        let oldest_ms = self
            .fleet
            .shape
            .oldest_stamp_ms(interval.as_millis() as i64);
        let settled = interval * 2 + Duration::from_millis(oldest_ms.unsigned_abs());
        if flags.warmup < settled {
            return Err(values.wrong(
                "warmup",
                "two intervals more than the age of the oldest line, 10s or for cadvisor 10s and an interval",
            ));
        }
        let rate = self.all_series() as f64 / interval.as_secs_f64();
        if rate > MOST_SAMPLES {
            return Err(usage(format!(
                "{rate:.0} samples a second are more than {MOST_SAMPLES:.0}: fewer --targets or --series, or a longer --interval"
            )));
        }
        if self.fleet.shape == Shape::Native && self.fleet.series < LEAST_NATIVE {
            let what = format!("at least {LEAST_NATIVE} for a series of every kind");
            return Err(values.wrong("series", what));
        }
        if self.churned > 0 && flags.churn_every < interval * 2 {
            return Err(values.wrong("churn-every", "at least two intervals"));
        }
        if self.churned > 0 && self.fleet.shape == Shape::Objects {
            return Err(values.wrong("churn-share", "there is one target of that shape"));
        }
        if flags.range < Duration::from_secs(60) {
            return Err(values.wrong("range", "at least 60s"));
        }
        Ok(())
    }

    /// Returns the fleet as one server meets it: its clock begins when it starts.
    pub(super) fn fleet(&self) -> FleetConfig {
        let clock = (self.flags.compress_time > 1)
            .then(|| Clock::new(self.flags.compress_time, self.each()));
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
        self.flags.warmup + self.flags.duration + self.flags.interval * 2 + Duration::from_secs(10)
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
            self.flags.interval
        );
        let mut add = |is_so: bool, text: String| {
            if is_so {
                title.push_str(&format!(", {text}"));
            }
        };
        add(
            self.fleet.shape != Shape::Fleet,
            format!("shape {}", Shape::OFFERS[self.fleet.shape as usize]),
        );
        add(gzip, "gzip".to_owned());
        add(line_labels, "target labels in every line".to_owned());
        let (churned, every) = (self.churned, self.flags.churn_every);
        add(
            churned > 0,
            format!("{churned} targets replaced every {every:?}"),
        );
        let factor = self.flags.compress_time;
        add(factor > 1, format!("time {factor} times as fast"));
        add(self.flags.parallel, "all servers at once".to_owned());
        format!(
            "{title}, {:?} after {:?} of warm-up",
            self.flags.duration, self.flags.warmup
        )
    }

    /// Returns notes for a reader of the record.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.flags.compress_time > 1 {
            notes.push(format!(
                "Lines have timestamps that begin in the past and run {} times as fast as the clock. What servers add \
                 themselves (up and its kin) has the real time, so that samples are out of order for servers with one \
                 time for all series; out-of-order samples are allowed.",
                self.flags.compress_time
            ));
        }
        let of_shape = match self.fleet.shape {
            Shape::Stamped => "Every line has its own timestamp, up to 10 s before the scrape.",
            Shape::Cadvisor => {
                "Every sixty lines have a timestamp of their own, up to 10 s before the scrape; a quarter of them and \
                 their values are those of the scrape before."
            }
            Shape::Native => {
                "Targets answer in protobuf, as no text has native histograms; a native histogram is one sample."
            }
            _ => return notes,
        };
        notes.push(of_shape.to_owned());
        notes
    }
}
