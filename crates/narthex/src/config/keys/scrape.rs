//! Keys of a job.

use super::{Key, Kind, RELABEL, Section, discovery, http, key};

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
    key("job_name", Kind::Text, "", "Value of the label job; unique.").always(),
    key("honor_labels", Kind::Bool, "", "Whether labels of a page win over those of its target; if not they become exported_<name>."),
    key("honor_timestamps", Kind::Bool, "true", "Whether samples keep timestamps of their own.").always(),
    key("track_timestamps_staleness", Kind::Bool, "false", "Whether series with timestamps of their own get staleness markers.").always(),
    key("params", Kind::Params, "", "Parameters of the request."),
    key("scrape_interval", Kind::Period, "", "Time between two scrapes of a target; the global one when absent."),
    key("scrape_timeout", Kind::Period, "", "Time a scrape may take, at most the interval; the global one when absent."),
    key("scrape_protocols", Kind::Texts, "", "Formats to ask for, the most wanted first; the global ones when absent."),
    key("fallback_scrape_protocol", Kind::Text, "", "Format to assume when a target names none that is known."),
    key("scrape_native_histograms", Kind::Bool, "", "Whether to scrape native histograms; the global setting when absent.").always(),
    key("always_scrape_classic_histograms", Kind::Bool, "", "Whether to scrape classic histograms that are exposed as native ones too.").always(),
    key("convert_classic_histograms_to_nhcb", Kind::Bool, "", "Whether to store classic histograms as native ones with custom buckets.").always(),
    key("scrape_failure_log_file", Kind::Path, "", "File to write failed scrapes to, a JSON object a line; opened again with every reload."),
    key("metrics_path", Kind::Text, "/metrics", "Path of the page."),
    key("scheme", Kind::Text, "http", "http or https."),
    key("enable_compression", Kind::Bool, "true", "Whether to ask for gzip.").always(),
    key("body_size_limit", Kind::Size, "", "Largest page, decompressed; 0 is no limit."),
    key("sample_limit", Kind::Count, "", "Most samples of a page after relabelling; 0 is no limit."),
    key("target_limit", Kind::Count, "", "Most targets of the job; 0 is no limit."),
    key("label_limit", Kind::Count, "", "Most labels of a series; 0 is no limit."),
    key("label_name_length_limit", Kind::Count, "", "Longest name of a label in bytes; 0 is no limit."),
    key("label_value_length_limit", Kind::Count, "", "Longest value of a label in bytes; 0 is no limit."),
    key("native_histogram_bucket_limit", Kind::Count, "", "Most buckets of a native histogram; beyond, buckets are merged. 0 is no limit."),
    key("native_histogram_min_bucket_factor", Kind::Float, "", "Least growth from one bucket to the next; below, buckets are merged."),
    key("keep_dropped_targets", Kind::Count, "", "Most dropped targets to show; 0 is no limit."),
    key("metric_name_validation_scheme", Kind::Text, "", "Names that are valid: utf8 or legacy."),
    key("metric_name_escaping_scheme", Kind::Text, "", "How targets shall escape names: allow-utf-8, underscores, dots or values."),
    key("extra_scrape_metrics", Kind::Bool, "", "Whether to store scrape_timeout_seconds, scrape_sample_limit and scrape_body_size_bytes too.").always(),
];

#[rustfmt::skip]
static RULES: &[Key] = &[
    key("relabel_configs", Kind::Sections(&RELABEL), "", "Rules for targets."),
    key("metric_relabel_configs", Kind::Sections(&RELABEL), "", "Rules for series."),
];
