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

/// Defines a section whose unsupported keys are listed by name alone.
macro_rules! section {
    (
        $(#[$meta:meta])* struct $name:ident { $($(#[$doc:meta])* $vis:vis $field:ident: $kind:ty,)* }
        unsupported { $($key:ident,)* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct $name {
            $($(#[$doc])* $vis $field: $kind,)*
            $($key: Option<Anything>,)*
        }

        impl $name {
            /// Lists the keys this version does not support, with what the file says for them.
            fn unsupported(&self) -> impl Iterator<Item = (&'static str, Option<&Anything>)> {
                [$((stringify!($key), self.$key.as_ref()),)*].into_iter()
            }
        }
    };
}

section! {
    struct ScrapeSection {
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
        /// Relabelling would drop targets; there is none.
        keep_dropped_targets: Option<usize>,
    }
    unsupported {
        always_scrape_classic_histograms,
        authorization,
        basic_auth,
        bearer_token,
        bearer_token_file,
        convert_classic_histograms_to_nhcb,
        enable_http2,
        fallback_scrape_protocol,
        follow_redirects,
        http_headers,
        metric_name_escaping_scheme,
        metric_name_validation_scheme,
        metric_relabel_configs,
        native_histogram_bucket_limit,
        native_histogram_min_bucket_factor,
        no_proxy,
        oauth2,
        proxy_connect_header,
        proxy_from_environment,
        proxy_url,
        relabel_configs,
        scrape_classic_histograms,
        scrape_failure_log_file,
        scrape_native_histograms,
        scrape_protocols,
        target_limit,
        tls_config,
        aws_sd_configs,
        azure_sd_configs,
        consul_sd_configs,
        digitalocean_sd_configs,
        dns_sd_configs,
        docker_sd_configs,
        dockerswarm_sd_configs,
        ec2_sd_configs,
        eureka_sd_configs,
        file_sd_configs,
        gce_sd_configs,
        hetzner_sd_configs,
        http_sd_configs,
        ionos_sd_configs,
        kubernetes_sd_configs,
        kuma_sd_configs,
        lightsail_sd_configs,
        linode_sd_configs,
        marathon_sd_configs,
        nerve_sd_configs,
        nomad_sd_configs,
        oci_sd_configs,
        openstack_sd_configs,
        outscale_sd_configs,
        ovhcloud_sd_configs,
        puppetdb_sd_configs,
        scaleway_sd_configs,
        serverset_sd_configs,
        stackit_sd_configs,
        triton_sd_configs,
        uyuni_sd_configs,
        vultr_sd_configs,
    }
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
    /// Refuses keys this version does not support.
    pub(super) fn refuse_unsupported(&self, job: &str) -> Result<(), ConfigError> {
        let _ = self.keep_dropped_targets;
        self.unsupported()
            .try_for_each(|(key, value)| refuse_one(&format!("{key} of job {job:?}"), value))
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
