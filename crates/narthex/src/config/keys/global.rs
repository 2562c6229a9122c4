//! Keys at the top level of the file and of its small sections.

use super::{
    Key, KeyKind, NOT_HERE, RELABEL, SCRAPE, Section, THERE, THERE_UNLESS_NULL, discovery, http,
    key, remote,
};

/// A whole file.
#[rustfmt::skip]
pub(crate) static FILE_ROOT: Section = Section {
    name: "configuration file",
    about: "The whole file.",
    parts: &[&[
        key("global", KeyKind::Section(&GLOBAL), THERE, "Defaults of all jobs, and labels of this server."),
        key("runtime", KeyKind::Section(&RUNTIME), THERE, "Settings of the process."),
        key("alerting", KeyKind::Section(&ALERTING), "", "Where alerts go.").no_effect(NO_RULES),
        key("rule_files", KeyKind::Paths, "", "Files with rules; the last part may hold a *.").refused(NOT_HERE),
        key("scrape_config_files", KeyKind::Paths, "", "Files with more scrape_configs; the last part may hold a *."),
        key("scrape_configs", KeyKind::Sections(&SCRAPE), "", "What to scrape."),
        key("storage", KeyKind::Section(&STORAGE), THERE, "Settings of storage.").always(),
        key("tracing", KeyKind::Any, "", "Where spans go.").refused(NOT_HERE),
        key("remote_write", KeyKind::Any, "", "Where samples are sent.").refused(NOT_HERE),
        key("remote_read", KeyKind::Any, "", "Where more samples are read from.").refused(NOT_HERE),
        key("otlp", KeyKind::Section(&remote::OTLP), THERE_UNLESS_NULL, "How OTLP becomes series.").no_effect("there is no OTLP receiver"),
    ]],
};

/// A file named by `scrape_config_files`.
#[rustfmt::skip]
pub(crate) static SCRAPE_FILE: Section = Section {
    name: "scrape configuration file",
    about: "A file that scrape_config_files names.",
    parts: &[&[key("scrape_configs", KeyKind::Sections(&SCRAPE), "", "What to scrape.")]],
};

const QUERY_COST: &str = "it belongs to a feature that this version does not have";
const NO_RULES: &str = "there are no rules";

#[rustfmt::skip]
pub(crate) static GLOBAL: Section = Section {
    name: "global",
    about: "Defaults of all jobs, and labels of this server.",
    parts: &[&[
        key("scrape_interval", KeyKind::Period, "1m", "Time between two scrapes of a target."),
        key("scrape_timeout", KeyKind::Period, "10s", "Time a scrape may take; at most the interval."),
        key("scrape_protocols", KeyKind::Texts, "", "Formats to ask for, the most wanted first."),
        key("evaluation_interval", KeyKind::Period, "1m", "Time between two evaluations of a rule.").no_effect(NO_RULES),
        key("rule_query_offset", KeyKind::Period, "", "How far in the past rules are evaluated.").no_effect(NO_RULES),
        key("query_log_file", KeyKind::Path, "", "File to write queries to.").refused(NOT_HERE),
        key("query_max_series", KeyKind::Count, "", "Most series of a query.").no_effect(QUERY_COST),
        key("query_max_samples_read", KeyKind::Count, "", "Most samples a query reads.").no_effect(QUERY_COST),
        key("query_max_duration", KeyKind::Period, "", "Longest time of a query.").no_effect(QUERY_COST),
        key("scrape_failure_log_file", KeyKind::Path, "", "File to write failed scrapes to, a JSON object a line; opened again with every reload."),
        key("external_labels", KeyKind::Labels, "", "Labels of this server, for what leaves it; ${NAME} is replaced from the environment."),
        key("body_size_limit", KeyKind::Size, "", "Largest page, decompressed; 0 is no limit."),
        key("sample_limit", KeyKind::Count, "", "Most samples of a page after relabelling; 0 is no limit."),
        key("target_limit", KeyKind::Count, "", "Most targets of a job; 0 is no limit."),
        key("label_limit", KeyKind::Count, "", "Most labels of a series; 0 is no limit."),
        key("label_name_length_limit", KeyKind::Count, "", "Longest name of a label in bytes; 0 is no limit."),
        key("label_value_length_limit", KeyKind::Count, "", "Longest value of a label in bytes; 0 is no limit."),
        key("keep_dropped_targets", KeyKind::Count, "", "Most dropped targets of a job to show; 0 is no limit."),
        key("metric_name_validation_scheme", KeyKind::Text, "utf8", "Names that are valid: utf8 or legacy."),
        key("metric_name_escaping_scheme", KeyKind::Text, "", "How targets shall escape names: allow-utf-8, underscores, dots or values."),
        key("scrape_native_histograms", KeyKind::Bool, "false", "Whether to scrape native histograms.").always(),
        key("convert_classic_histograms_to_nhcb", KeyKind::Bool, "", "Whether to store classic histograms as native ones with custom buckets."),
        key("always_scrape_classic_histograms", KeyKind::Bool, "", "Whether to scrape classic histograms that are exposed as native ones too."),
        key("extra_scrape_metrics", KeyKind::Bool, "false", "Whether to store scrape_timeout_seconds, scrape_sample_limit and scrape_body_size_bytes too.").always(),
    ]],
};

#[rustfmt::skip]
static RUNTIME: Section = Section {
    name: "runtime",
    about: "Settings of the process.",
    parts: &[&[
        key("gogc", KeyKind::Number, "75", "When Go's garbage collector runs.").no_effect("there is no garbage collector"),
        key("log_level", KeyKind::Text, "info", "Least level of lines that are logged.").no_effect("--log.level says it"),
    ]],
};

#[rustfmt::skip]
static STORAGE: Section = Section {
    name: "storage",
    about: "Settings of storage.",
    parts: &[&[
        key("tsdb", KeyKind::Section(&TSDB), THERE, "Settings of the database.").always(),
        key("exemplars", KeyKind::Section(&EXEMPLARS), "", "Settings of exemplars."),
    ]],
};

#[rustfmt::skip]
static TSDB: Section = Section {
    name: "tsdb",
    about: "Settings of the database.",
    parts: &[&[
        key("out_of_order_time_window", KeyKind::Period, "", "How far behind its series' newest a sample may be; any age when absent."),
        key("stale_series_compaction_threshold", KeyKind::Float, "", "When stale series leave memory.").no_effect("stale series leave memory within minutes"),
        key("chunk_encoding", KeyKind::Section(&CHUNK_ENCODING), "", "How samples are encoded.").no_effect("columns choose the encoding that is smallest"),
        key("retention", KeyKind::Section(&RETENTION), THERE, "How long and how much is kept.").always(),
    ]],
};

#[rustfmt::skip]
static CHUNK_ENCODING: Section = Section {
    name: "chunk_encoding",
    about: "How samples are encoded.",
    parts: &[&[key("floats", KeyKind::Text, "", "xor or xor2.")]],
};

#[rustfmt::skip]
static RETENTION: Section = Section {
    name: "retention",
    about: "How long and how much is kept.",
    parts: &[&[
        key("time", KeyKind::Period, "", "How long samples are kept; 15d when absent."),
        key("size", KeyKind::Size, "", "Most bytes kept, logs included; 0 is no bound."),
        key("percentage", KeyKind::Float, "", "Most of the disk that may be used, in percent.").refused(NOT_HERE),
    ]],
};

#[rustfmt::skip]
static EXEMPLARS: Section = Section {
    name: "exemplars",
    about: "Settings of exemplars.",
    parts: &[&[key("max_exemplars", KeyKind::Number, "", "Most exemplars held in memory, 100000 when absent; blocks keep what they have.")]],
};

#[rustfmt::skip]
static ALERTING: Section = Section {
    name: "alerting",
    about: "Where alerts go. A section without any target is accepted.",
    parts: &[&[
        key("alert_relabel_configs", KeyKind::Sections(&RELABEL), "", "Rules for alerts."),
        key("alertmanagers", KeyKind::Sections(&ALERTMANAGER), "", "Alertmanagers."),
    ]],
};

#[rustfmt::skip]
static ALERTMANAGER: Section = Section {
    name: "alertmanager_config",
    about: "Alertmanagers of a kind.",
    parts: &[
        http::CLIENT,
        http::PROXY,
        http::HEADERS,
        ALERTMANAGER_OWN,
        discovery::MECHANISMS,
    ],
};

#[rustfmt::skip]
static ALERTMANAGER_OWN: &[Key] = &[
    key("sigv4", KeyKind::Section(&remote::SIGV4), "", "Signing for AWS."),
    key("scheme", KeyKind::Text, "http", "http or https."),
    key("path_prefix", KeyKind::Text, "", "What stands before the path."),
    key("timeout", KeyKind::Period, "10s", "Longest time to send."),
    key("api_version", KeyKind::Text, "v2", "v2.").always(),
    key("relabel_configs", KeyKind::Sections(&RELABEL), "", "Rules for Alertmanagers."),
    key("alert_relabel_configs", KeyKind::Sections(&RELABEL), "", "Rules for alerts that go there."),
];
