//! What a job scrapes and how, as `scrape_configs` says it.
//!
//! **Invariant:** values here are checked: intervals are positive and a timeout is not longer than its interval.

use std::time::Duration;

/// One entry of `scrape_configs`.
#[derive(Clone, Debug, PartialEq)]
pub struct JobConfig {
    /// Value of the `job` label; unique.
    pub job_name: String,
    /// Time between two scrapes of a target.
    pub scrape_interval: Duration,
    /// Time a scrape may take; at most the interval.
    pub scrape_timeout: Duration,
    /// Path of the page.
    pub metrics_path: String,
    /// `http`.
    pub scheme: String,
    /// Query parameters, in order of their names.
    pub params: Vec<(String, Vec<String>)>,
    /// Whether labels of the body win over the target's; if not they become `exported_<name>`.
    pub honor_labels: bool,
    /// Whether samples keep timestamps of their own.
    pub honor_timestamps: bool,
    /// Whether series with timestamps of their own get staleness markers.
    pub track_timestamps_staleness: bool,
    /// Whether to ask for gzip.
    pub enable_compression: bool,
    /// Whether to store `scrape_timeout_seconds`, `scrape_sample_limit` and `scrape_body_size_bytes` too.
    pub extra_scrape_metrics: bool,
    /// What one body may hold.
    pub limits: Limits,
    /// The targets.
    pub static_configs: Vec<StaticGroup>,
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
            extra_scrape_metrics: false,
            limits: Limits::default(),
            static_configs: Vec::new(),
        }
    }
}

/// Targets that share labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StaticGroup {
    /// `host:port` each.
    pub targets: Vec<String>,
    /// Labels of all of them.
    pub labels: Vec<(String, String)>,
}

/// What one body may hold; a body beyond fails the whole scrape. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Decompressed size.
    pub body_size_bytes: usize,
    /// Samples.
    pub samples: usize,
    /// Labels of a series.
    pub labels: usize,
    /// Bytes of a label's name.
    pub label_name_bytes: usize,
    /// Bytes of a label's value.
    pub label_value_bytes: usize,
}
