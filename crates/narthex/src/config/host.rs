//! Metrics of this host: their settings, with node_exporter's flags.

use super::{ConfigError, access::Access as _};
use crate::host;
use narthex_cli::{Surroundings, UsageError, Values};
use narthex_host::{CollectorKind, HostConfig, HostSource};
use narthex_model::{LabelSet, NameScheme};
use narthex_scrape::Target;
use narthex_yaml::Node;
use std::{ffi::OsString, io, time::Duration};

/// Metrics of this host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Host {
    pub(crate) job_name: String,
    pub(crate) interval: Duration,
    /// Labels of all series, beside job and instance.
    pub(crate) labels: LabelSet,
    /// Flags of node_exporter that say what is read.
    flags: Vec<String>,
}

impl Host {
    /// Returns the target under which the series are stored.
    pub(crate) fn target(&self, instance: &str) -> Target {
        Target::local(&self.job_name, instance).with_labels(&self.labels)
    }

    /// Returns the settings of the collectors.
    ///
    /// # Errors
    /// Fails on the first flag or value that cannot be used.
    pub(crate) fn settings(&self) -> Result<HostConfig, UsageError> {
        settings_of(&self.flags)
    }
}

/// Reads the section `host`, whose interval is the global one when it has none.
///
/// # Errors
/// Fails on an unusable setting.
pub(super) fn read(root: &Node, scheme: NameScheme) -> Result<Option<Host>, ConfigError> {
    let Some(node) = root.given("host") else {
        return Ok(None);
    };
    let labels = node.labels("labels");
    let host = Host {
        job_name: node.text_of("job_name").to_owned(),
        interval: node.own_or_scrape_interval(root),
        labels: LabelSet::new(labels.iter().map(|(name, value)| (&**name, &**value))),
        flags: node.texts("flags"),
    };
    for (name, _) in &labels {
        if !scheme.allows_label(name) || name.starts_with("__") {
            let place = node.get("labels").unwrap_or(node);
            return Err(place.error(format!("{name:?} is not a valid label name")));
        }
    }
    // One after another, so that the first wrong one is named with its place.
    let mut settings = host::defaults();
    for (at, item) in node.items("flags").iter().enumerate() {
        settings =
            settings_of(&host.flags[..=at]).map_err(|error| item.error(error.to_string()))?;
    }
    settings.common = host.target("").labels;
    HostSource::new(settings).map_err(|error| node.error(error.to_string()))?;
    Ok(Some(host))
}

/// Reads `flags` as a command line that has no files.
fn settings_of(flags: &[String]) -> Result<HostConfig, UsageError> {
    let around = Surroundings {
        read: &|_| Err(io::ErrorKind::Unsupported.into()),
    };
    let arguments: Vec<OsString> = flags.iter().map(OsString::from).collect();
    let tables = [narthex_host::FLAGS, CollectorKind::FLAGS];
    let mut settings = host::defaults();
    settings
        .set_flags(&Values::parse(&tables, &arguments, around)?)
        .map_err(host::usage)?;
    Ok(settings)
}
