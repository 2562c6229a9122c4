//! Keys of a job.

use super::{Key, KeyKind, RELABEL, Section, discovery, http, key, section};

/// One entry of `scrape_configs`.
#[rustfmt::skip]
pub(crate) static SCRAPE: Section = section("scrape_config", "A scrape job. It also accepts the keys of HTTP clients and of service discovery.", &[
    HEAD,
    http::CLIENT,
    http::HTTP2,
    http::PROXY,
    http::HEADERS,
    RULES,
    discovery::MECHANISMS,
]);

#[rustfmt::skip]
static HEAD: &[Key] = &[
    key("job_name", KeyKind::Text, "", "Value of the job label; must be unique.").always(),
    key("honor_labels", KeyKind::Bool, "", "Whether scraped labels take precedence over the target's; otherwise conflicting ones are renamed to exported_<name>."),
    key("honor_timestamps", KeyKind::Bool, "true", "Whether to keep timestamps in scraped samples.").always(),
    key("track_timestamps_staleness", KeyKind::Bool, "false", "Whether series with explicit timestamps get staleness markers.").always(),
    key("params", KeyKind::Params, "", "URL parameters of the request."),
    key("scrape_interval", KeyKind::Period, "", "Interval between scrapes of a target; the global setting if absent."),
    key("scrape_timeout", KeyKind::Period, "", "Timeout of a scrape, at most the interval; the global setting if absent."),
    key("scrape_protocols", KeyKind::Texts, "", "Formats to negotiate, in order of preference; the global setting if absent."),
    key("fallback_scrape_protocol", KeyKind::Text, "", "Format assumed if a target's Content-Type is missing or unknown."),
    key("scrape_native_histograms", KeyKind::Bool, "", "Whether to scrape native histograms; the global setting if absent.").always(),
    key("always_scrape_classic_histograms", KeyKind::Bool, "", "Whether to also scrape the classic form of histograms that are exposed as native ones.").always(),
    key("convert_classic_histograms_to_nhcb", KeyKind::Bool, "", "Whether to store classic histograms as native ones with custom buckets.").always(),
    key("scrape_failure_log_file", KeyKind::Path, "", "File to which failed scrapes are logged, one JSON object per line; reopened on every reload."),
    key("metrics_path", KeyKind::Text, "/metrics", "Path that is scraped."),
    key("scheme", KeyKind::Text, "http", "http or https."),
    key("enable_compression", KeyKind::Bool, "true", "Whether to request compression.").always(),
    key("body_size_limit", KeyKind::Size, "", "Maximum size of a page, uncompressed; 0 means no limit."),
    key("sample_limit", KeyKind::Count, "", "Maximum number of samples per page after relabelling; 0 means no limit."),
    key("target_limit", KeyKind::Count, "", "Maximum number of targets of the job; 0 means no limit."),
    key("label_limit", KeyKind::Count, "", "Maximum number of labels per series; 0 means no limit."),
    key("label_name_length_limit", KeyKind::Count, "", "Maximum length of a label name in bytes; 0 means no limit."),
    key("label_value_length_limit", KeyKind::Count, "", "Maximum length of a label value in bytes; 0 means no limit."),
    key("native_histogram_bucket_limit", KeyKind::Count, "", "Maximum number of buckets per native histogram; above it, buckets are merged. 0 means no limit."),
    key("native_histogram_min_bucket_factor", KeyKind::Float, "", "Minimum growth factor between adjacent buckets; below it, buckets are merged."),
    key("keep_dropped_targets", KeyKind::Count, "", "Maximum number of dropped targets shown; 0 means no limit."),
    key("metric_name_validation_scheme", KeyKind::Text, "", "Which names are valid: utf8 or legacy."),
    key("metric_name_escaping_scheme", KeyKind::Text, "", "How targets are asked to escape names: allow-utf-8, underscores, dots or values."),
    key("extra_scrape_metrics", KeyKind::Bool, "", "Whether to also store scrape_timeout_seconds, scrape_sample_limit and scrape_body_size_bytes.").always(),
];

#[rustfmt::skip]
static RULES: &[Key] = &[
    key("relabel_configs", KeyKind::Sections(&RELABEL), "", "Relabelling rules for targets."),
    key("metric_relabel_configs", KeyKind::Sections(&RELABEL), "", "Relabelling rules for series."),
];
