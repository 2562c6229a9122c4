//! Keys at the top level of the file and of its small sections.

use super::{
    Key, KeyKind, NOT_HERE, RELABEL, SCRAPE, Section, THERE, THERE_UNLESS_NULL, discovery, files,
    http, key, remote, section,
};

/// A whole file.
#[rustfmt::skip]
pub(crate) static FILE_ROOT: Section = section("configuration file", "The whole file.", &[&[
    key("global", KeyKind::Section(&GLOBAL), THERE, "Defaults for all jobs, and labels of this server."),
    key("runtime", KeyKind::Section(&RUNTIME), THERE, "Process settings."),
    key("alerting", KeyKind::Section(&ALERTING), "", "Where alerts are sent. An agent has none."),
    key("rule_files", KeyKind::Paths, "", "Rule files; the file name may contain a *. An agent has none."),
    key("scrape_config_files", KeyKind::Paths, "", "Files with additional scrape_configs; the file name may contain a *."),
    key("scrape_configs", KeyKind::Sections(&SCRAPE), "", "Scrape jobs."),
    key("files", KeyKind::Sections(&files::FILES), "", "Files of metrics to read; Prometheus does not have it."),
    key("host", KeyKind::Section(&HOST), "", "Metrics of this host; Prometheus does not have it."),
    key("segments", KeyKind::Section(&SEGMENTS), "", "Metrics that other processes keep in shared memory."),
    key("storage", KeyKind::Section(&STORAGE), THERE, "Storage settings.").always(),
    key("tracing", KeyKind::Any, "", "Where spans are sent.").refused(NOT_HERE),
    key("remote_write", KeyKind::Sections(&remote::REMOTE_WRITE), "", "Where samples are sent."),
    key("remote_read", KeyKind::Any, "", "Where additional samples are read from.").refused(NOT_HERE),
    key("otlp", KeyKind::Section(&remote::OTLP), THERE_UNLESS_NULL, "How OTLP metrics are translated into series.").no_effect("there is no OTLP receiver"),
]]);

/// A file named by `scrape_config_files`.
#[rustfmt::skip]
pub(crate) static SCRAPE_FILE: Section = section("scrape configuration file", "A file named by scrape_config_files.", &[&[key("scrape_configs", KeyKind::Sections(&SCRAPE), "", "Scrape jobs.")]]);

#[rustfmt::skip]
pub(crate) static GLOBAL: Section = section("global", "Defaults for all jobs, and labels of this server.", &[&[
    key("scrape_interval", KeyKind::Period, "1m", "Interval between scrapes of a target."),
    key("scrape_timeout", KeyKind::Period, "10s", "Timeout of a scrape; at most the interval."),
    key("scrape_protocols", KeyKind::Texts, "", "Formats to negotiate, in order of preference."),
    key("evaluation_interval", KeyKind::Period, "1m", "Interval between evaluations of a rule."),
    key("rule_query_offset", KeyKind::Period, "", "Offset into the past at which rules are evaluated."),
    key("query_log_file", KeyKind::Path, "", "File to which queries are logged, one JSON object per line; reopened on every reload. An agent has none."),
    key("query_max_series", KeyKind::Count, "", "Maximum number of series that a query reads, summed over its selectors, with --enable-feature=query-cost; 0 means no limit."),
    key("query_max_samples_read", KeyKind::Count, "", "Maximum number of samples that a query reads, with --enable-feature=query-cost; 0 means no limit."),
    key("query_max_duration", KeyKind::Period, "", "Timeout of queries, those of rules included, instead of --query.timeout, with --enable-feature=query-cost."),
    key("scrape_failure_log_file", KeyKind::Path, "", "File to which failed scrapes are logged, one JSON object per line; reopened on every reload."),
    key("external_labels", KeyKind::Labels, "", "Labels added to everything that leaves this server; ${NAME} is replaced from the environment."),
    key("body_size_limit", KeyKind::Size, "", "Maximum size of a page, uncompressed; 0 means no limit."),
    key("sample_limit", KeyKind::Count, "", "Maximum number of samples per page after relabelling; 0 means no limit."),
    key("target_limit", KeyKind::Count, "", "Maximum number of targets per job; 0 means no limit."),
    key("label_limit", KeyKind::Count, "", "Maximum number of labels per series; 0 means no limit."),
    key("label_name_length_limit", KeyKind::Count, "", "Maximum length of a label name in bytes; 0 means no limit."),
    key("label_value_length_limit", KeyKind::Count, "", "Maximum length of a label value in bytes; 0 means no limit."),
    key("keep_dropped_targets", KeyKind::Count, "", "Maximum number of dropped targets shown per job; 0 means no limit."),
    key("metric_name_validation_scheme", KeyKind::Text, "utf8", "Which names are valid: utf8 or legacy."),
    key("metric_name_escaping_scheme", KeyKind::Text, "", "How targets are asked to escape names: allow-utf-8, underscores, dots or values."),
    key("scrape_native_histograms", KeyKind::Bool, "false", "Whether to scrape native histograms.").always(),
    key("convert_classic_histograms_to_nhcb", KeyKind::Bool, "", "Whether to store classic histograms as native ones with custom buckets."),
    key("always_scrape_classic_histograms", KeyKind::Bool, "", "Whether to also scrape the classic form of histograms that are exposed as native ones."),
    key("extra_scrape_metrics", KeyKind::Bool, "false", "Whether to also store scrape_timeout_seconds, scrape_sample_limit and scrape_body_size_bytes.").always(),
]]);

#[rustfmt::skip]
static RUNTIME: Section = section("runtime", "Process settings.", &[&[
    key("gogc", KeyKind::Number, "75", "Go's garbage collection target.").no_effect("there is no garbage collector"),
    key("log_level", KeyKind::Text, "info", "Minimum level of log lines.").no_effect("--log.level says it"),
]]);

#[rustfmt::skip]
static HOST: Section = section("host", "Metrics of this host, as node_exporter has them.", &[&[
    key("job_name", KeyKind::Text, "node", "Value of the label job."),
    key("interval", KeyKind::Period, "", "Interval between rounds; the scrape interval if absent."),
    key("labels", KeyKind::Labels, "", "Labels of all series, beside job and instance."),
    key("flags", KeyKind::Texts, "", "Flags of narthex node-exporter that choose collectors, filters and paths."),
]]);

#[rustfmt::skip]
static SEGMENTS: Section = section("segments", "Metrics that other processes keep in shared memory.", &[&[
    key("dir", KeyKind::Path, "/dev/shm/narthex", "Directory of the segments, on a memory file system."),
    key("interval", KeyKind::Period, "", "Interval between rounds; the scrape interval if absent."),
    key("merge", KeyKind::Bool, "true", "Whether to add up the workers of an application, instead of giving each its label.").always(),
    key("job_name", KeyKind::Text, "segments", "Value of the label job."),
    key("max_bytes", KeyKind::Size, "256MB", "Most bytes in use of all segments together; those beyond are not read."),
    key("max_bytes_per_user", KeyKind::Size, "", "Most bytes in use of the segments that one user owns; those beyond are not read. No limit if absent."),
]]);

#[rustfmt::skip]
static STORAGE: Section = section("storage", "Storage settings.", &[&[
    key("tsdb", KeyKind::Section(&TSDB), THERE, "Database settings.").always(),
    key("exemplars", KeyKind::Section(&EXEMPLARS), "", "Exemplar settings."),
]]);

#[rustfmt::skip]
static TSDB: Section = section("tsdb", "Database settings.", &[&[
    key("out_of_order_time_window", KeyKind::Period, "", "Maximum age of a sample relative to the newest one of its series; unlimited if absent."),
    key("stale_series_compaction_threshold", KeyKind::Float, "", "Threshold at which stale series are removed from memory.").no_effect("stale series leave memory within minutes"),
    key("chunk_encoding", KeyKind::Section(&CHUNK_ENCODING), "", "Encoding of samples.").no_effect("columns choose the encoding that is smallest"),
    key("retention", KeyKind::Section(&RETENTION), THERE, "Retention by time and size.").always(),
]]);

#[rustfmt::skip]
static CHUNK_ENCODING: Section = section("chunk_encoding", "Encoding of samples.", &[&[key("floats", KeyKind::Text, "", "xor or xor2.")]]);

#[rustfmt::skip]
static RETENTION: Section = section("retention", "Retention by time and size.", &[&[
    key("time", KeyKind::Period, "", "Retention period; 15d if absent."),
    key("size", KeyKind::Size, "", "Maximum size of all data, logs included; 0 means no limit."),
    key("percentage", KeyKind::Float, "", "Maximum share of the disk, in percent.").refused(NOT_HERE),
]]);

#[rustfmt::skip]
static EXEMPLARS: Section = section("exemplars", "Exemplar settings.", &[&[key("max_exemplars", KeyKind::Number, "", "Maximum number of exemplars in memory, 100000 if absent; those in blocks stay.")]]);

#[rustfmt::skip]
static ALERTING: Section = section("alerting", "Where alerts are sent. An agent has none.", &[&[
    key("alert_relabel_configs", KeyKind::Sections(&RELABEL), "", "Relabelling rules for alerts."),
    key("alertmanagers", KeyKind::Sections(&ALERTMANAGER), "", "Alertmanagers."),
]]);

#[rustfmt::skip]
static ALERTMANAGER: Section = section("alertmanager_config", "A group of Alertmanagers.", &[
    http::CLIENT,
    http::HTTP2,
    http::PROXY,
    http::HEADERS,
    ALERTMANAGER_OWN,
    discovery::MECHANISMS,
]);

#[rustfmt::skip]
static ALERTMANAGER_OWN: &[Key] = &[
    key("sigv4", KeyKind::Section(&remote::SIGV4), "", "Signing for AWS."),
    key("scheme", KeyKind::Text, "http", "http or https."),
    key("path_prefix", KeyKind::Text, "", "Prefix of the path."),
    key("timeout", KeyKind::Period, "10s", "Timeout of sending."),
    key("api_version", KeyKind::Text, "v2", "v2.").always(),
    key("relabel_configs", KeyKind::Sections(&RELABEL), "", "Relabelling rules for Alertmanagers."),
    key("alert_relabel_configs", KeyKind::Sections(&RELABEL), "", "Relabelling rules for alerts sent there."),
];
