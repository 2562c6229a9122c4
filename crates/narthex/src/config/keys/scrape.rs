//! Keys of a job.

use super::{Key, KeyKind, RELABEL, Section, discovery, http, key};

/// One entry of `scrape_configs`.
#[rustfmt::skip]
pub(crate) static SCRAPE: Section = Section {
    name: "scrape_config",
    about: "What a job scrapes and how. Besides these keys it takes those of HTTP clients and of service discovery.",
    parts: &[
        HEAD,
        http::CLIENT,
        http::PROXY,
        http::HEADERS,
        RULES,
        discovery::MECHANISMS,
    ],
};

#[rustfmt::skip]
static HEAD: &[Key] = &[
    key("job_name", KeyKind::Text, "", "Value of the label job; unique.").always(),
    key("honor_labels", KeyKind::Bool, "", "Whether labels of a page win over those of its target; if not they become exported_<name>."),
    key("honor_timestamps", KeyKind::Bool, "true", "Whether samples keep timestamps of their own.").always(),
    key("track_timestamps_staleness", KeyKind::Bool, "false", "Whether series with timestamps of their own get staleness markers.").always(),
    key("params", KeyKind::Params, "", "Parameters of the request."),
    key("scrape_interval", KeyKind::Period, "", "Time between two scrapes of a target; the global one when absent."),
    key("scrape_timeout", KeyKind::Period, "", "Time a scrape may take, at most the interval; the global one when absent."),
    key("scrape_protocols", KeyKind::Texts, "", "Formats to ask for, the most wanted first; the global ones when absent."),
    key("fallback_scrape_protocol", KeyKind::Text, "", "Format to assume when a target names none that is known."),
    key("scrape_native_histograms", KeyKind::Bool, "", "Whether to scrape native histograms; the global setting when absent.").always(),
    key("always_scrape_classic_histograms", KeyKind::Bool, "", "Whether to scrape classic histograms that are exposed as native ones too.").always(),
    key("convert_classic_histograms_to_nhcb", KeyKind::Bool, "", "Whether to store classic histograms as native ones with custom buckets.").always(),
    key("scrape_failure_log_file", KeyKind::Path, "", "File to write failed scrapes to, a JSON object a line; opened again with every reload."),
    key("metrics_path", KeyKind::Text, "/metrics", "Path of the page."),
    key("scheme", KeyKind::Text, "http", "http or https."),
    key("enable_compression", KeyKind::Bool, "true", "Whether to ask for gzip.").always(),
    key("body_size_limit", KeyKind::Size, "", "Largest page, decompressed; 0 is no limit."),
    key("sample_limit", KeyKind::Count, "", "Most samples of a page after relabelling; 0 is no limit."),
    key("target_limit", KeyKind::Count, "", "Most targets of the job; 0 is no limit."),
    key("label_limit", KeyKind::Count, "", "Most labels of a series; 0 is no limit."),
    key("label_name_length_limit", KeyKind::Count, "", "Longest name of a label in bytes; 0 is no limit."),
    key("label_value_length_limit", KeyKind::Count, "", "Longest value of a label in bytes; 0 is no limit."),
    key("native_histogram_bucket_limit", KeyKind::Count, "", "Most buckets of a native histogram; beyond, buckets are merged. 0 is no limit."),
    key("native_histogram_min_bucket_factor", KeyKind::Float, "", "Least growth from one bucket to the next; below, buckets are merged."),
    key("keep_dropped_targets", KeyKind::Count, "", "Most dropped targets to show; 0 is no limit."),
    key("metric_name_validation_scheme", KeyKind::Text, "", "Names that are valid: utf8 or legacy."),
    key("metric_name_escaping_scheme", KeyKind::Text, "", "How targets shall escape names: allow-utf-8, underscores, dots or values."),
    key("extra_scrape_metrics", KeyKind::Bool, "", "Whether to store scrape_timeout_seconds, scrape_sample_limit and scrape_body_size_bytes too.").always(),
];

#[rustfmt::skip]
static RULES: &[Key] = &[
    key("relabel_configs", KeyKind::Sections(&RELABEL), "", "Rules for targets."),
    key("metric_relabel_configs", KeyKind::Sections(&RELABEL), "", "Rules for series."),
];
