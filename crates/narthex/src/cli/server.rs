//! `narthex server`: Prometheus' flags.
//!
//! **Invariant:** every flag of Prometheus 3.16 is declared, in one of the three classes.

use super::{
    features::{
        self, AUTO_RELOAD, CONCURRENT_RULES, EXTRA_SCRAPE_METRICS, START_STORAGE, START_ZEROS,
        Support, TYPE_AND_UNIT_LABELS, UNQUOTED_UTF8_NAMES, ZSTD_SCRAPE,
    },
    pushgateway::{Aggregated, Periods, prefix},
};
use crate::config::Features;
use narthex_cli::{Bytes, List, UsageError, Values, flags};
use narthex_promql::ParseOptions;
use narthex_scrape::StartTimes;
use std::{path::PathBuf, time::Duration};

const GO: &str = "there is no Go runtime";
const LATER: &str = "this version does not have it";
const MESSAGES: &str = "prometheus.WriteRequest,io.prometheus.write.v2.Request";

/// Beginnings of the flags that an agent refuses, as Prometheus' does.
const SERVER_ONLY: [&str; 6] = [
    "storage.tsdb.",
    "storage.remote.read-",
    "web.search.",
    "rules.",
    "alertmanager.",
    "query.",
];

/// Beginnings of the flags that a server refuses.
const AGENT_ONLY: [&str; 3] = [
    "storage.agent.",
    "web.expose-sources",
    "web.disable-exporter-metrics",
];

flags! {
    /// What the server is asked to do.
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct ServerOptions {
        /// Configuration file. Without one, the server scrapes itself and this host every 5 s.
        config_file: Option<PathBuf> = "config.file";
        /// Reload the configuration whenever its files change.
        is_auto_reload: bool = "config.auto-reload";
        /// Interval at which --config.auto-reload checks the files.
        auto_reload_interval: Duration = "config.auto-reload-interval", default("30s");
        /// File with TLS settings, users and response headers.
        web_config_file: Option<PathBuf> = "web.config.file";
        /// Address to listen on; may be repeated. Defaults to 127.0.0.1:9090 without a configuration file.
        listen_addresses: Vec<String> = "web.listen-address", default("0.0.0.0:9090"), value("ADDRESS");
        /// Timeout of reading a request, and of idle connections.
        read_timeout: Duration = "web.read-timeout", default("5m");
        /// Maximum number of simultaneous connections.
        max_connections: usize = "web.max-connections", default("512");
        /// Listen on the sockets of a systemd socket unit instead of addresses.
        systemd_socket: bool = "web.systemd-socket";
        /// Minimum rate, in bytes per second, at which a client must send a request and read the response; 0B disables
        /// it.
        min_transfer_rate: Bytes = "web.min-transfer-rate", default("1KB");
        /// Time over which --web.min-transfer-rate is averaged; at least 1m for responses.
        transfer_rate_window: Duration = "web.transfer-rate-window", default("30s");
        /// Comma-separated host names accepted in the Host header, in addition to addresses and localhost; by default
        /// all are.
        allowed_hosts: List = "web.allowed-hosts";
        /// Allow reload and shutdown by POST or PUT to /-/reload and /-/quit.
        enable_lifecycle: bool = "web.enable-lifecycle";
        /// Anchored regular expression of origins whose pages may use the API; by default none may.
        cors_origin: String = "web.cors.origin";
        /// Accept remote write requests at /api/v1/write.
        remote_write_receiver: bool = "web.enable-remote-write-receiver";
        /// Accepted remote write messages, by protobuf name.
        remote_write_messages: List = "web.remote-write-receiver.accepted-protobuf-messages", default(MESSAGES);
        /// Maximum time a remote write request waits for memory.
        remote_write_wait: Duration = "web.remote-write-receiver.max-wait", default("10s");
        /// Accept pushes as a push gateway does, at /metrics/job/… and /api/v1/push.
        push_receiver: bool = "web.enable-push-receiver";
        /// How long a pushed group lives after its last push, or JOB=PERIOD for the groups of one job; may be repeated.
        /// Without it for ever.
        push_ttls: Periods = "push.ttl";
        /// Longest time between the pushes to a group, or JOB=PERIOD for the groups of one job; may be repeated. A group
        /// with one gets narthex_push_up, which is 0 once a push is late by half of it.
        push_intervals: Periods = "push.interval";
        /// Keep timestamps of pushed samples, instead of refusing pushes with them.
        push_timestamps: bool = "push.keep-timestamps";
        /// Job whose pushes are added up in their group, with =last, =sum, =min or =max behind it for what becomes of its
        /// gauges; may be repeated.
        push_aggregate: Aggregated = "push.aggregate", value("JOB");
        /// Data directory.
        storage_path: PathBuf = "storage.tsdb.path", default("data/"), directory();
        /// Run as an agent: scrape and send, store and query nothing. As `narthex agent`.
        is_agent: bool = "agent";
        /// Show the newest samples of all sources at an agent's /metrics: on in `narthex agent`; with --agent, only if it is
        /// given. The agent's own metrics alone are at /metrics/self then.
        exposes_sources: bool = "web.expose-sources", default("true");
        /// Leave the agent's own metrics out of the page with its sources.
        hides_own_metrics: bool = "web.disable-exporter-metrics";
        /// Data directory of an agent: what waits for remote ends.
        agent_path: PathBuf = "storage.agent.path", default("data-agent/"), directory();
        /// Retention period; 0 keeps samples forever.
        retention: Option<Duration> = "storage.tsdb.retention.time", default("15d");
        /// Maximum size of all data, logs included; 0 means no limit.
        retention_bytes: Option<Bytes> = "storage.tsdb.retention.size", default("0B");
        /// Deprecated name of --storage.tsdb.retention.time.
        older_retention: Option<Duration> = "storage.tsdb.retention";
        /// How far ahead of the clock samples may be; later ones are rejected and counted. 0 means no limit.
        future_limit: Duration = "storage.tsdb.too-far-in-future.time-window", default("10m");
        /// Interval at which the log is synced to disk; with 0, every write waits for the sync.
        fsync_interval: Duration = "storage.wal.fsync-interval", default("1s");
        /// Size at which the log goes on in another file, if that would not mostly name series again; at least 4KB.
        wal_file_size: Bytes = "storage.tsdb.wal-segment-size", default("128MB");
        /// Time that remote ends have at the end to take what waits for them, at most 30s; what is left is sent after
        /// the next start.
        flush_deadline: Duration = "storage.remote.flush-deadline", default("1m");
        /// Maximum number of alerts that wait for one Alertmanager; beyond it the oldest are dropped.
        notification_queue_capacity: usize = "alertmanager.notification-queue-capacity", default("10000");
        /// Maximum number of alerts per request to an Alertmanager.
        notification_batch_size: usize = "alertmanager.notification-batch-size", default("256");
        /// Send what waits for Alertmanagers at the end, for at most 10s, instead of dropping it.
        drain_notification_queue: bool = "alertmanager.drain-notification-queue-on-shutdown", default("true");
        /// Memory limit, as a size such as 2GB or a percentage; defaults to the limit of the control group, or all of the
        /// machine's memory.
        memory_limit: String = "memory.limit";
        /// How far back a query looks for the newest sample of a series.
        lookback_delta: Duration = "query.lookback-delta", default("5m");
        /// Timeout of a query.
        query_timeout: Duration = "query.timeout", default("2m");
        /// Maximum number of concurrent queries.
        max_concurrency: usize = "query.max-concurrency", default("20");
        /// Maximum number of samples a query may hold in memory.
        max_samples: u64 = "query.max-samples", default("50000000");
        /// Maximum number of concurrent requests for labels, series, metadata, status and federation.
        max_metadata_concurrency: usize = "query.max-metadata-concurrency", default("8");
        /// Maximum number of parameters per request.
        max_parameters: usize = "query.max-parameters", default("10000");
        /// Maximum memory for the regular expressions of a query.
        max_pattern_bytes: Bytes = "query.max-pattern-memory", default("128MB");
        /// Maximum length of a label that a query creates.
        max_label_bytes: Bytes = "query.max-label-size", default("1MB");
        /// Maximum number of subscribers of live notifications; further ones get an empty answer.
        max_notifications_subscribers: usize = "web.max-notifications-subscribers", default("16");
        /// URL under which this server is reached, for links in alerts; by default its machine's name and port.
        external_url: String = "web.external-url";
        /// Prefix of all paths; by default the path of --web.external-url.
        route_prefix: String = "web.route-prefix";
        /// Longest outage after which alerts go on with the state they had before.
        outage_tolerance: Duration = "rules.alert.for-outage-tolerance", default("1h");
        /// Least time between a restart and the firing of an alert that was pending before it. Alerts that wait for less
        /// begin anew.
        alert_grace_period: Duration = "rules.alert.for-grace-period", default("10m");
        /// Time after which an alert that goes on firing is sent again.
        alert_resend_delay: Duration = "rules.alert.resend-delay", default("1m");
        /// Maximum number of rules that are evaluated beside others of their groups, where these do not depend on each
        /// other, with --enable-feature=concurrent-rule-eval.
        max_concurrent_evals: usize = "rules.max-concurrent-evals", default("4");
        /// Maximum number of results of a search call; 0 means no limit. There are such calls with
        /// --enable-feature=search-api.
        max_search_limit: usize = "web.search.max-limit", default("10000");
        /// Comma-separated feature names, as Prometheus has them: auto-reload-config, concurrent-rule-eval,
        /// created-timestamp-zero-ingestion, extra-scrape-metrics, promql-delayed-name-removal, promql-per-step-stats, promql-unquoted-utf8-names,
        /// query-cost, search-api, st-storage, type-and-unit-labels, use-start-timestamps and zstd-scrape have an
        /// effect; the others cause a warning that says why not.
        features: List = "enable-feature";
        /// Minimum level of log lines: debug, info, warn or error.
        log_level: String = "log.level", default("info"), offers(&["debug", "info", "warn", "error"]);
        /// Format of log lines: logfmt or json.
        log_format: String = "log.format", default("logfmt"), offers(&["logfmt", "json"]);
        ..values
    }
    without effect {
        "blocks end at every two hours whatever it says" =>
            "storage.tsdb.min-block-duration": Duration, "storage.tsdb.max-block-duration": Duration;
        "the log holds encoded samples, there is nothing to gain" =>
            "storage.tsdb.wal-compression": bool, "storage.tsdb.wal-compression-type": String;
        "the directory is always locked; the lock needs no clean-up" =>
            "storage.tsdb.no-lockfile": bool;
        "overlapping blocks are always allowed" =>
            "storage.tsdb.allow-overlapping-blocks": bool;
        "the head writes no chunk files" =>
            "storage.tsdb.head-chunks-write-queue-size": u64;
        "chunks hold as many samples as pay off" =>
            "storage.tsdb.samples-per-chunk": u64;
        "blocks are known without reloading" =>
            "storage.tsdb.block-reload-interval": Duration;
        "blocks are made continuously" =>
            "storage.tsdb.delay-compact-file.path": String;
        GO =>
            "auto-gomaxprocs": bool, "auto-gomemlimit": bool, "auto-gomemlimit.ratio": String,
            "auto-gomemlimit.refresh-interval": Duration;
        "there are no console templates" =>
            "web.console.templates": String, "web.console.libraries": String;
        "the page has its own title" =>
            "web.page-title": String;
        "there is no remote read" =>
            "storage.remote.read-sample-limit": u64, "storage.remote.read-concurrent-limit": u64,
            "storage.remote.read-max-bytes-in-frame": u64;
        "timestamps are always adjusted within 2 ms" =>
            "scrape.adjust-timestamps": bool, "scrape.timestamp-tolerance": Duration;
        "targets are listed in the configuration" =>
            "scrape.discovery-reload-interval": Duration;
        "what waits for a remote end has a bound of its own, queue_config.max_disk_size, and is always locked" =>
            "storage.agent.checkpoint-from-in-memory-series": bool, "storage.agent.checkpoint-batch-size": u64,
            "storage.agent.no-lockfile": bool, "storage.agent.wal-compression": bool,
            "storage.agent.wal-compression-type": String, "storage.agent.wal-segment-size": Bytes,
            "storage.agent.wal-truncate-frequency": Duration, "storage.agent.retention.min-time": Duration,
            "storage.agent.retention.max-time": Duration;
    }
    refused {
        LATER =>
            "web.user-assets": String, "web.enable-admin-api": bool,
            "web.enable-otlp-receiver": bool, "enable-otlp-receiver": bool;
    }
}

impl ServerOptions {
    /// Returns how many rules may be evaluated beside others of their groups.
    pub(crate) fn rules_at_once(&self) -> usize {
        if self.has_feature(CONCURRENT_RULES) {
            self.max_concurrent_evals
        } else {
            0
        }
    }

    /// Returns the parts of the query language that queries and rules may use.
    pub(crate) fn query_language(&self) -> ParseOptions {
        ParseOptions {
            unquoted_utf8_names: self.has_feature(UNQUOTED_UTF8_NAMES),
            ..ParseOptions::default()
        }
    }

    /// Returns whether a feature is named.
    pub(crate) fn has_feature(&self, feature: &str) -> bool {
        self.features.0.iter().any(|name| name == feature)
    }

    /// Returns the features that change what a configuration means.
    pub(crate) fn config_features(&self) -> Features {
        Features {
            extra_scrape_metrics: self.has_feature(EXTRA_SCRAPE_METRICS),
            start_times: StartTimes {
                are_stored: self.has_feature(START_STORAGE),
                become_zeros: self.has_feature(START_ZEROS),
            },
            type_and_unit_labels: self.has_feature(TYPE_AND_UNIT_LABELS),
            zstd: self.has_feature(ZSTD_SCRAPE),
            ..Features::default()
        }
    }

    /// Lists the named features that have no effect, with what is known about them.
    pub(crate) fn idle_features(&self) -> impl Iterator<Item = (&str, Option<Support>)> {
        let names = self.features.0.iter().map(String::as_str);
        let known = names.map(|name| (name, features::support(name)));
        known.filter(|(_, support)| *support != Some(Support::Honoured))
    }

    /// Reads the values of `agent`.
    ///
    /// # Errors
    /// As `read`.
    pub(crate) fn read_agent(values: Values) -> Result<Self, UsageError> {
        Self::checked(Self {
            is_agent: true,
            ..Self::from_values(values)?
        })
    }

    /// Reads the values of `server`.
    ///
    /// # Errors
    /// Fails on the first invalid value, and on the first flag that belongs to the other mode.
    pub(crate) fn read(values: Values) -> Result<Self, UsageError> {
        let mut options = Self::from_values(values)?;
        // Who replaces Prometheus' agent expects its page.
        options.exposes_sources &= options.values.is_given("web.expose-sources");
        Self::checked(options)
    }

    fn checked(mut options: Self) -> Result<Self, UsageError> {
        options.check_mode()?;
        options.route_prefix = prefix(&options.route_prefix, &options.external_url);
        if options.is_agent {
            options.storage_path.clone_from(&options.agent_path);
        }
        // Without a configuration nobody has decided who has access, so listen on this machine only.
        if options.config_file.is_none() && !options.values.is_given("web.listen-address") {
            options.listen_addresses = vec!["127.0.0.1:9090".to_owned()];
        }
        options.retention = options.retention.or(options.older_retention);
        options.retention_bytes = options.retention_bytes.filter(|size| size.0 > 0);
        Ok(options)
    }

    /// Fails on a flag that has no meaning for an agent, or only for one.
    fn check_mode(&self) -> Result<(), UsageError> {
        let (of_others, reason): (&[&str], _) = if self.is_agent {
            (&SERVER_ONLY, "it can not be used in agent mode")
        } else {
            (&AGENT_ONLY, "it can only be used in agent mode")
        };
        let is_other = |flag: &str| of_others.iter().any(|begin| flag.starts_with(begin));
        let without_effect = self.values.without_effect.iter().map(|(flag, _)| *flag);
        let mut given = self
            .values
            .given()
            .map(|(flag, _)| flag)
            .chain(without_effect);
        match given.find(|flag| is_other(flag)) {
            Some(flag) => Err(UsageError::Refused { flag, reason }),
            None => Ok(()),
        }
    }

    /// Returns how often to check the configuration for changes; `None` for never.
    pub(crate) fn auto_reload(&self) -> Option<Duration> {
        let is_on = self.is_auto_reload || self.has_feature(AUTO_RELOAD);
        let interval = is_on.then_some(self.auto_reload_interval)?;
        (!interval.is_zero()).then_some(interval)
    }
}
