//! Files of metrics: their checks, and their parsed form.

use super::{ConfigError, access::Access as _};
use crate::sources::Textfiles;
use narthex_expfmt::Format;
use narthex_files::{FileKind, FilesConfig, PathLabels};
use narthex_model::NameScheme;
use narthex_yaml::Node;

/// Reads the entries of `files`, whose interval is the global one when they have none.
///
/// # Errors
/// Fails on an unusable setting.
pub(super) fn read(root: &Node, scheme: NameScheme) -> Result<Vec<FilesConfig>, ConfigError> {
    let mut entries: Vec<FilesConfig> = Vec::new();
    for node in root.items("files") {
        let mut entry = entry(node, scheme)?;
        entry.interval = node.own_or_scrape_interval(root);
        if entries.iter().any(|other| other.job_name == entry.job_name) {
            let name = &entry.job_name;
            return Err(node.error(format!(
                "found multiple files configs with job name {name:?}"
            )));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn entry(node: &Node, scheme: NameScheme) -> Result<FilesConfig, ConfigError> {
    let name = node.text_of("job_name");
    if node.is_null() || name.is_empty() {
        return Err(node.error("job_name is empty in files config"));
    }
    let mut entry = FilesConfig::new(name);
    entry.paths = node.texts("paths");
    if entry.paths.is_empty() {
        return Err(node.error(format!("no paths in files config {name:?}")));
    }
    for item in node.items("paths") {
        narthex_net::glob::matches("", item.as_text())
            .map_err(|reason| item.error(format!("{:?}: {reason}", item.as_text())))?;
    }
    entry.kind = match node.text_of("kind") {
        "metrics" => FileKind::Metrics,
        "textfile" => FileKind::Textfile,
        "python_multiprocess" => FileKind::PythonMultiprocess,
        other => {
            let message = format!("unknown kind of files {other:?}");
            return Err(error_at(node, "kind", message));
        }
    };
    entry.format = match node.text_of("format") {
        "" => None,
        "text" => Some(Format::Text),
        "openmetrics" => Some(Format::OpenMetrics),
        "protobuf" => Some(Format::Protobuf),
        other => {
            let message = format!("unknown format {other:?}");
            return Err(error_at(node, "format", message));
        }
    };
    entry.labels = node.labels("labels");
    let pattern = node.text_of("path_labels");
    if !pattern.is_empty() {
        let labels = PathLabels::new(pattern);
        let labels = labels.map_err(|error| error_at(node, "path_labels", error.to_string()))?;
        entry.path_labels = Some(labels);
    }
    check_labels(node, &entry, scheme)?;
    entry.stale_after = node.period("stale_after");
    entry.require_eof = node.flag("require_eof");
    entry.honor_labels = node.flag("honor_labels");
    entry.honor_timestamps = node.flag("honor_timestamps");
    entry.file_size_limit = node.bytes_of("file_size_limit");
    entry.sample_limit = node.limit("sample_limit");
    entry.check_processes = node.flag("check_processes");
    if entry.kind != FileKind::Metrics {
        refuse_page_settings(node)?;
    }
    if entry.kind == FileKind::Textfile {
        Textfiles::new(&entry).map_err(|error| node.error(error.to_string()))?;
    }
    Ok(entry)
}

/// Refuses names that are no labels, and those that the entry sets itself.
fn check_labels(node: &Node, entry: &FilesConfig, scheme: NameScheme) -> Result<(), ConfigError> {
    let own = entry
        .labels
        .iter()
        .map(|(name, _)| ("labels", name.as_str()));
    let of_path = entry.path_labels.iter().flat_map(PathLabels::names);
    for (key, name) in own.chain(of_path.map(|name| ("path_labels", name))) {
        if !scheme.allows_label(name) || name.starts_with("__") {
            let message = format!("{name:?} is not a valid label name");
            return Err(error_at(node, key, message));
        }
        if matches!(name, "job" | "file") {
            let message = format!("the label {name:?} is set by the entry itself");
            return Err(error_at(node, key, message));
        }
    }
    Ok(())
}

/// Refuses settings of pages for what is not read as pages.
fn refuse_page_settings(node: &Node) -> Result<(), ConfigError> {
    for key in ["stale_after", "format", "require_eof", "sample_limit"] {
        // A default has no position.
        if node.is_written(key) {
            let kind = node.text_of("kind");
            let message = format!("{key} is for files of kind metrics, not {kind}");
            return Err(error_at(node, key, message));
        }
    }
    Ok(())
}

fn error_at(node: &Node, key: &str, message: impl Into<String>) -> ConfigError {
    node.get(key).unwrap_or(node).error(message)
}
