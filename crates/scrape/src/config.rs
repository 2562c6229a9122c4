//! How a job scrapes: one entry of `scrape_configs`.
//!
//! **Invariant:** values here are checked: intervals are positive and no timeout is longer than its interval.

use narthex_discovery::{LabelMap, TargetGroup};
use narthex_expfmt::{Escaping, ScrapeProtocol};
use narthex_model::{labels::NameScheme, relabel::Rule};
use narthex_net::HttpClientConfig;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// One entry of `scrape_configs`.
#[derive(Clone, Debug, PartialEq)]
pub struct JobConfig {
    /// Value of the `job` label, and the name of the pool; unique.
    pub job_name: String,
    /// Time between two scrapes of a target.
    pub scrape_interval: Duration,
    /// Time a scrape may take; at most the interval.
    pub scrape_timeout: Duration,
    /// Path to scrape.
    pub metrics_path: String,
    /// `http` or `https`.
    pub scheme: String,
    /// Query parameters, sorted by name.
    pub params: Vec<(String, Vec<String>)>,
    /// Whether the body's labels win over the target's; otherwise they become `exported_<name>`.
    pub honor_labels: bool,
    /// Whether samples keep their own timestamps.
    pub honor_timestamps: bool,
    /// Whether series with their own timestamps get staleness markers.
    pub track_timestamps_staleness: bool,
    /// Whether targets may answer in zstd where they may answer in gzip.
    pub accept_zstd: bool,
    /// Whether to request gzip.
    pub enable_compression: bool,
    /// Formats to request, best first; `None` uses Prometheus' default.
    pub scrape_protocols: Option<Vec<ScrapeProtocol>>,
    /// Format of responses without a usable content type; `None` guesses from the body.
    pub fallback_scrape_protocol: Option<ScrapeProtocol>,
    /// Whether native histograms are read.
    pub scrape_native_histograms: bool,
    /// Whether classic histograms are kept beside native ones.
    pub always_scrape_classic_histograms: bool,
    /// Whether classic histograms become native ones with custom buckets.
    pub convert_classic_histograms_to_nhcb: bool,
    /// What becomes of start times.
    pub start_times: StartTimes,
    /// Whether series get labels with the type and unit of their family.
    pub type_and_unit_labels: bool,
    /// Whether to store `scrape_timeout_seconds`, `scrape_sample_limit` and `scrape_body_size_bytes` too.
    pub extra_scrape_metrics: bool,
    /// Names that metrics and labels may have.
    pub metric_name_validation_scheme: NameScheme,
    /// How targets should escape other names; `None` derives it from the validation scheme.
    pub metric_name_escaping_scheme: Option<Escaping>,
    /// Rules that turn discovered labels into targets, in the order they apply.
    pub relabel_configs: Vec<Rule>,
    /// Rules applied to each series before it is stored, in this order.
    pub metric_relabel_configs: Vec<Rule>,
    /// HTTP settings of requests to targets.
    pub http: HttpClientConfig,
    /// Limits on one body and on the number of targets.
    pub limits: Limits,
    /// Targets listed in the configuration.
    pub static_configs: Vec<StaticGroup>,
    /// File that failed scrapes are logged to, if any; see [`crate::Manager::open_failure_logs`].
    pub failure_log: Option<PathBuf>,
    /// The whole job as a configuration file would write it, without secrets; for display.
    pub shown: Arc<str>,
}

/// What becomes of the start times of counters; if anything does, `_created` series are dropped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StartTimes {
    /// Whether they are stored.
    pub are_stored: bool,
    /// Whether zeros are stored where counters began.
    pub become_zeros: bool,
}

impl StartTimes {
    /// Reports whether they are read.
    #[must_use]
    pub fn are_read(self) -> bool {
        self.are_stored || self.become_zeros
    }
}

impl JobConfig {
    /// Returns a job with Prometheus' defaults and no targets.
    #[must_use]
    pub fn new(job_name: &str) -> Self {
        Self {
            job_name: job_name.to_owned(),
            scrape_interval: Duration::from_mins(1),
            scrape_timeout: Duration::from_secs(10),
            metrics_path: "/metrics".to_owned(),
            scheme: "http".to_owned(),
            params: Vec::new(),
            honor_labels: false,
            honor_timestamps: true,
            track_timestamps_staleness: false,
            enable_compression: true,
            scrape_protocols: None,
            fallback_scrape_protocol: None,
            scrape_native_histograms: false,
            always_scrape_classic_histograms: false,
            convert_classic_histograms_to_nhcb: false,
            start_times: StartTimes::default(),
            type_and_unit_labels: false,
            accept_zstd: false,
            extra_scrape_metrics: false,
            metric_name_validation_scheme: NameScheme::Utf8,
            metric_name_escaping_scheme: None,
            relabel_configs: Vec::new(),
            metric_relabel_configs: Vec::new(),
            http: HttpClientConfig::default(),
            limits: Limits::default(),
            static_configs: Vec::new(),
            failure_log: None,
            shown: "".into(),
        }
    }

    /// Returns the static targets as groups.
    #[must_use]
    pub fn static_groups(&self) -> Vec<TargetGroup> {
        let group = |(at, group): (usize, &StaticGroup)| {
            let labels: LabelMap = group.labels.iter().cloned().collect();
            TargetGroup::of_addresses(at.to_string(), group.targets.iter().cloned(), labels)
        };
        self.static_configs.iter().enumerate().map(group).collect()
    }

    /// Returns the escaping to request.
    pub(crate) fn escaping(&self) -> Escaping {
        let default = match self.metric_name_validation_scheme {
            NameScheme::Utf8 => Escaping::AllowUtf8,
            NameScheme::Legacy => Escaping::Underscores,
        };
        self.metric_name_escaping_scheme.unwrap_or(default)
    }
}

/// Targets that share labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StaticGroup {
    /// Addresses, each `host:port`.
    pub targets: Vec<String>,
    /// Labels of all these targets.
    pub labels: Vec<(String, String)>,
}

/// Limits on one body; exceeding one fails the whole scrape. 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Decompressed size, exclusive: a body of exactly this size is too large.
    pub body_size_bytes: usize,
    /// Samples after relabelling.
    pub samples: usize,
    /// Labels of a series.
    pub labels: usize,
    /// Bytes of a label's name.
    pub label_name_bytes: usize,
    /// Bytes of a label's value.
    pub label_value_bytes: usize,
    /// Targets of the job; if there are more, every scrape fails.
    pub targets: usize,
    /// Dropped targets to remember.
    pub keep_dropped_targets: usize,
    /// Buckets of a native histogram; its resolution is reduced to stay within this.
    pub native_histogram_buckets: usize,
    /// Smallest growth factor between adjacent buckets of a native histogram; its resolution is reduced to reach it.
    pub native_histogram_min_bucket_factor: f64,
}

impl Limits {
    /// Returns the highest resolution whose buckets grow by at least the configured factor.
    #[must_use]
    pub fn max_histogram_schema(&self) -> i32 {
        let factor = self.native_histogram_min_bucket_factor;
        if factor <= 1.0 {
            return 8;
        }
        let floor = (-factor.log2().log2()).floor();
        #[expect(clippy::cast_possible_truncation, reason = "clamped to a small range")]
        let schema = floor.clamp(-4.0, 8.0) as i32;
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_factors_are_resolutions() {
        let schema = |factor| {
            let limits = Limits {
                native_histogram_min_bucket_factor: factor,
                ..Limits::default()
            };
            limits.max_histogram_schema()
        };
        // Values of Prometheus' TestPickSchema.
        for (factor, expected) in [
            (65536.0, -4),
            (256.0, -3),
            (16.0, -2),
            (4.0, -1),
            (2.0, 0),
            (1.4, 1),
            (1.1, 2),
            (1.09, 3),
            (1.04, 4),
            (1.02, 5),
            (1.01, 6),
            (1.005, 7),
            (1.002, 8),
            (0.0, 8),
            (1e9, -4),
        ] {
            assert_eq!(schema(factor), expected, "{factor}");
        }
    }
}
