//! The shape of the file.
//!
//! **Invariant:** every key of Prometheus 3.14's sections that are read here is listed: those that mean something
//! with their type, those accepted without effect and those not supported as `Anything`.

use super::{
    ConfigError,
    size::{Bytes, Period},
    yaml::Anything,
};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) global: Option<GlobalSection>,
    pub(super) scrape_configs: Vec<ScrapeSection>,
    pub(super) storage: Option<StorageSection>,
    /// Settings of Go's runtime: nothing here.
    runtime: Option<Anything>,
    alerting: Option<Anything>,
    rule_files: Option<Anything>,
    scrape_config_files: Option<Anything>,
    remote_write: Option<Anything>,
    remote_read: Option<Anything>,
    otlp: Option<Anything>,
    tracing: Option<Anything>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct GlobalSection {
    pub(super) scrape_interval: Option<Period>,
    pub(super) scrape_timeout: Option<Period>,
    pub(super) external_labels: BTreeMap<String, String>,
    pub(super) body_size_limit: Option<Bytes>,
    pub(super) sample_limit: Option<usize>,
    pub(super) label_limit: Option<usize>,
    pub(super) label_name_length_limit: Option<usize>,
    pub(super) label_value_length_limit: Option<usize>,
    pub(super) extra_scrape_metrics: Option<bool>,
    /// Rules are evaluated by it; there are none.
    evaluation_interval: Option<Period>,
    /// Relabelling would drop targets; there is none.
    keep_dropped_targets: Option<usize>,
    rule_query_offset: Option<Anything>,
    scrape_protocols: Option<Anything>,
    query_log_file: Option<Anything>,
    scrape_failure_log_file: Option<Anything>,
    target_limit: Option<Anything>,
    metric_name_validation_scheme: Option<Anything>,
    metric_name_escaping_scheme: Option<Anything>,
    scrape_native_histograms: Option<Anything>,
    convert_classic_histograms_to_nhcb: Option<Anything>,
    always_scrape_classic_histograms: Option<Anything>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScrapeSection {
    pub(super) job_name: Option<String>,
    pub(super) scrape_interval: Option<Period>,
    pub(super) scrape_timeout: Option<Period>,
    pub(super) metrics_path: Option<String>,
    pub(super) scheme: Option<String>,
    pub(super) params: BTreeMap<String, Vec<String>>,
    pub(super) honor_labels: bool,
    pub(super) honor_timestamps: Option<bool>,
    pub(super) track_timestamps_staleness: bool,
    pub(super) enable_compression: Option<bool>,
    pub(super) extra_scrape_metrics: Option<bool>,
    pub(super) body_size_limit: Option<Bytes>,
    pub(super) sample_limit: Option<usize>,
    pub(super) label_limit: Option<usize>,
    pub(super) label_name_length_limit: Option<usize>,
    pub(super) label_value_length_limit: Option<usize>,
    pub(super) static_configs: Vec<StaticSection>,
    keep_dropped_targets: Option<usize>,
    /// Everything else, which is either a key of Prometheus that is not supported, or unknown.
    #[serde(flatten)]
    others: BTreeMap<String, Anything>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StaticSection {
    pub(super) targets: Vec<String>,
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StorageSection {
    pub(super) tsdb: Option<TsdbSection>,
    exemplars: Option<Anything>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TsdbSection {
    pub(super) out_of_order_time_window: Option<Period>,
    pub(super) retention: Option<RetentionSection>,
    chunk_encoding: Option<Anything>,
    stale_series_compaction_threshold: Option<Anything>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RetentionSection {
    pub(super) time: Option<Period>,
    pub(super) size: Option<Bytes>,
    percentage: Option<Anything>,
}

/// Keys of a scrape configuration that are known and not supported; discovery is known by its ending.
const UNSUPPORTED_SCRAPE_KEYS: [&str; 27] = [
    "always_scrape_classic_histograms",
    "authorization",
    "basic_auth",
    "bearer_token",
    "bearer_token_file",
    "convert_classic_histograms_to_nhcb",
    "enable_http2",
    "fallback_scrape_protocol",
    "follow_redirects",
    "http_headers",
    "metric_name_escaping_scheme",
    "metric_name_validation_scheme",
    "metric_relabel_configs",
    "native_histogram_bucket_limit",
    "native_histogram_min_bucket_factor",
    "no_proxy",
    "oauth2",
    "proxy_connect_header",
    "proxy_from_environment",
    "proxy_url",
    "relabel_configs",
    "scrape_classic_histograms",
    "scrape_failure_log_file",
    "scrape_native_histograms",
    "scrape_protocols",
    "target_limit",
    "tls_config",
];

impl File {
    /// Refuses sections this version does not support.
    pub(super) fn refuse_unsupported(&self) -> Result<(), ConfigError> {
        let _ = &self.runtime;
        refuse(&[
            ("alerting", &self.alerting),
            ("rule_files", &self.rule_files),
            ("scrape_config_files", &self.scrape_config_files),
            ("remote_write", &self.remote_write),
            ("remote_read", &self.remote_read),
            ("otlp", &self.otlp),
            ("tracing", &self.tracing),
        ])?;
        if let Some(global) = &self.global {
            let _ = (global.evaluation_interval, global.keep_dropped_targets);
            refuse(&[
                ("global.rule_query_offset", &global.rule_query_offset),
                ("global.scrape_protocols", &global.scrape_protocols),
                ("global.query_log_file", &global.query_log_file),
                (
                    "global.scrape_failure_log_file",
                    &global.scrape_failure_log_file,
                ),
                ("global.target_limit", &global.target_limit),
                (
                    "global.metric_name_validation_scheme",
                    &global.metric_name_validation_scheme,
                ),
                (
                    "global.metric_name_escaping_scheme",
                    &global.metric_name_escaping_scheme,
                ),
                (
                    "global.scrape_native_histograms",
                    &global.scrape_native_histograms,
                ),
                (
                    "global.convert_classic_histograms_to_nhcb",
                    &global.convert_classic_histograms_to_nhcb,
                ),
                (
                    "global.always_scrape_classic_histograms",
                    &global.always_scrape_classic_histograms,
                ),
            ])?;
        }
        let Some(storage) = &self.storage else {
            return Ok(());
        };
        refuse(&[("storage.exemplars", &storage.exemplars)])?;
        let Some(tsdb) = &storage.tsdb else {
            return Ok(());
        };
        let percentage = tsdb
            .retention
            .as_ref()
            .and_then(|retention| retention.percentage.as_ref());
        refuse_one("storage.tsdb.retention.percentage", percentage)?;
        refuse(&[
            ("storage.tsdb.chunk_encoding", &tsdb.chunk_encoding),
            (
                "storage.tsdb.stale_series_compaction_threshold",
                &tsdb.stale_series_compaction_threshold,
            ),
        ])
    }
}

impl ScrapeSection {
    /// Refuses keys this version does not support, and unknown ones.
    pub(super) fn refuse_unsupported(&self, job: &str) -> Result<(), ConfigError> {
        let _ = self.keep_dropped_targets;
        let Some((key, value)) = self.others.first_key_value() else {
            return Ok(());
        };
        let known = UNSUPPORTED_SCRAPE_KEYS.contains(&key.as_str()) || key.ends_with("_sd_configs");
        if known {
            return refuse_one(&format!("{key} of job {job:?}"), Some(value));
        }
        let at = value.referenced;
        Err(ConfigError::Yaml {
            message: format!(
                "line {}, column {}: field {key} not found in scrape config of job {job:?}",
                at.line(),
                at.column()
            ),
        })
    }
}

fn refuse(keys: &[(&str, &Option<Anything>)]) -> Result<(), ConfigError> {
    keys.iter()
        .try_for_each(|(key, value)| refuse_one(key, value.as_ref()))
}

fn refuse_one(key: &str, value: Option<&Anything>) -> Result<(), ConfigError> {
    match value {
        None => Ok(()),
        Some(value) => {
            let (line, column) = (value.referenced.line(), value.referenced.column());
            Err(ConfigError::Unsupported {
                key: key.to_owned(),
                line,
                column,
            })
        }
    }
}
