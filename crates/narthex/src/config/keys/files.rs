//! Keys of files of metrics, an extension of Prometheus' configuration.

use super::{KeyKind, Section, key, section};

/// One entry of `files`.
#[rustfmt::skip]
pub(super) static FILES: Section = section("files_config", "Files of metrics that processes write because they cannot be scraped. Prometheus does not have it.", &[&[
    key("job_name", KeyKind::Text, "", "Value of the label job; unique among these entries.").always(),
    key("paths", KeyKind::Paths, "", "Files, with *, ? and [a-z] in any part of the path."),
    key("kind", KeyKind::Text, "metrics", "metrics: each file is a page. textfile: directories of *.prom files, read as node_exporter reads them. python_multiprocess: directories of .db files of the Python client."),
    key("interval", KeyKind::Period, "", "Time between two looks; the global scrape_interval when absent."),
    key("labels", KeyKind::Labels, "", "Labels of all series."),
    key("path_labels", KeyKind::Text, "", "Pattern that a path has to match as a whole; its named groups become labels."),
    key("stale_after", KeyKind::Period, "", "Age of a file's last change from which its series end; never when absent."),
    key("format", KeyKind::Text, "", "text, openmetrics or protobuf; seen by the content when absent."),
    key("require_eof", KeyKind::Bool, "false", "Whether a file that does not end with # EOF is half-written."),
    key("honor_labels", KeyKind::Bool, "false", "Whether labels in a file win over those given here; if not they become exported_<name>."),
    key("honor_timestamps", KeyKind::Bool, "true", "Whether samples keep timestamps of their own."),
    key("file_size_limit", KeyKind::Size, "64MB", "Largest file."),
    key("sample_limit", KeyKind::Count, "", "Most samples of a file; 0 is no limit."),
    key("check_processes", KeyKind::Bool, "true", "Whether processes that wrote .db files are looked for, so that those that ended lose their live gauges."),
]]);
