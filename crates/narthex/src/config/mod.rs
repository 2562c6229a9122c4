//! `prometheus.yml`.
//!
//! **Invariant:** a file is taken whole or refused whole, with the position of the first fault. A key Prometheus
//! knows and this version does not support is refused by name, never silently ignored.

mod error;
mod file;
mod size;
mod yaml;

pub(crate) use error::ConfigError;
pub(crate) use size::Bytes;

use file::{GlobalSection, ScrapeSection};
use narthex_model::{LabelSet, labels};
use narthex_scrape::{JobConfig, Limits, StaticGroup};
use std::{collections::BTreeSet, path::Path, time::Duration};

/// What a configuration file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config {
    /// Labels of this server, for what leaves it.
    pub(crate) external_labels: LabelSet,
    /// What to scrape.
    pub(crate) jobs: Vec<JobConfig>,
    /// How far behind its series' newest a sample may be; `None` for no bound.
    pub(crate) out_of_order_window: Option<Duration>,
    /// How long samples are kept.
    pub(crate) retention: Option<Duration>,
    /// How many bytes are kept.
    pub(crate) retention_bytes: Option<u64>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// Fails when the file cannot be read, is no YAML, or says something that cannot be done.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|error| error.in_file(path))
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// As `load`, without the path.
    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        let file: file::File = yaml::parse(text)?;
        file.refuse_unsupported()?;
        let global = file.global.unwrap_or_default();
        let global_interval = global
            .scrape_interval
            .map_or(Duration::from_mins(1), |period| period.0);
        let mut jobs = Vec::new();
        let mut names = BTreeSet::new();
        for section in file.scrape_configs {
            let job = job(&section, &global, global_interval)?;
            if !names.insert(job.job_name.clone()) {
                return Err(ConfigError::invalid(format!(
                    "found multiple scrape configs with job name {:?}",
                    job.job_name
                )));
            }
            jobs.push(job);
        }
        check_global_timeout(&global, global_interval)?;
        let tsdb = file
            .storage
            .and_then(|storage| storage.tsdb)
            .unwrap_or_default();
        let retention = tsdb.retention.unwrap_or_default();
        let external: Vec<(String, String)> = global.external_labels.into_iter().collect();
        check_labels(&external)?;
        Ok(Self {
            external_labels: LabelSet::new(
                external
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str())),
            ),
            jobs,
            out_of_order_window: tsdb.out_of_order_time_window.map(|period| period.0),
            retention: retention
                .time
                .map(|period| period.0)
                .filter(|time| !time.is_zero()),
            retention_bytes: retention.size.map(|size| size.0).filter(|bytes| *bytes > 0),
        })
    }
}

fn check_global_timeout(global: &GlobalSection, interval: Duration) -> Result<(), ConfigError> {
    match global.scrape_timeout {
        Some(timeout) if timeout.0 > interval => Err(ConfigError::invalid(
            "global scrape timeout greater than scrape interval",
        )),
        _ => Ok(()),
    }
}

fn job(
    section: &ScrapeSection,
    global: &GlobalSection,
    global_interval: Duration,
) -> Result<JobConfig, ConfigError> {
    let Some(name) = section.job_name.as_deref().filter(|name| !name.is_empty()) else {
        return Err(ConfigError::invalid("job_name is empty"));
    };
    section.refuse_unsupported(name)?;
    let mut job = JobConfig::new(name);
    job.scrape_interval = section
        .scrape_interval
        .map_or(global_interval, |period| period.0);
    // As in Prometheus: a global timeout longer than the job's interval shrinks to it, one of the job's own is refused.
    let global_timeout = global
        .scrape_timeout
        .map_or(Duration::from_secs(10), |period| period.0);
    job.scrape_timeout = section
        .scrape_timeout
        .map_or(global_timeout.min(job.scrape_interval), |period| period.0);
    if job.scrape_interval.is_zero() {
        return Err(ConfigError::invalid(format!(
            "scrape_interval of job {name:?} must be greater than 0"
        )));
    }
    if job.scrape_timeout > job.scrape_interval {
        return Err(ConfigError::invalid(format!(
            "scrape timeout greater than scrape interval for scrape config with job name {name:?}"
        )));
    }
    if let Some(path) = &section.metrics_path {
        job.metrics_path.clone_from(path);
    }
    if let Some(scheme) = &section.scheme {
        job.scheme.clone_from(scheme);
    }
    job.params = section
        .params
        .iter()
        .map(|(name, values)| (name.clone(), values.clone()))
        .collect();
    job.honor_labels = section.honor_labels;
    job.honor_timestamps = section.honor_timestamps.unwrap_or(true);
    job.track_timestamps_staleness = section.track_timestamps_staleness;
    job.enable_compression = section.enable_compression.unwrap_or(true);
    job.extra_scrape_metrics = section
        .extra_scrape_metrics
        .or(global.extra_scrape_metrics)
        .unwrap_or(false);
    job.limits = limits(section, global);
    job.static_configs = static_groups(section)?;
    Ok(job)
}

fn limits(section: &ScrapeSection, global: &GlobalSection) -> Limits {
    Limits {
        body_size_bytes: size_of_limit(section.body_size_limit.or(global.body_size_limit)),
        samples: section.sample_limit.or(global.sample_limit).unwrap_or(0),
        labels: section.label_limit.or(global.label_limit).unwrap_or(0),
        label_name_bytes: section
            .label_name_length_limit
            .or(global.label_name_length_limit)
            .unwrap_or(0),
        label_value_bytes: section
            .label_value_length_limit
            .or(global.label_value_length_limit)
            .unwrap_or(0),
    }
}

fn static_groups(section: &ScrapeSection) -> Result<Vec<StaticGroup>, ConfigError> {
    let mut groups = Vec::new();
    for group in &section.static_configs {
        let labels: Vec<(String, String)> = group
            .labels
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        check_labels(&labels)?;
        for target in &group.targets {
            if target.contains('/') {
                return Err(ConfigError::invalid(format!(
                    "{target:?} is not a valid hostname"
                )));
            }
        }
        groups.push(StaticGroup {
            targets: group.targets.clone(),
            labels,
        });
    }
    Ok(groups)
}

fn size_of_limit(size: Option<Bytes>) -> usize {
    size.map_or(0, |size| usize::try_from(size.0).unwrap_or(usize::MAX))
}

fn check_labels(pairs: &[(String, String)]) -> Result<(), ConfigError> {
    match pairs
        .iter()
        .find(|(name, _)| name.is_empty() || name == labels::METRIC_NAME)
    {
        Some((name, _)) => Err(ConfigError::invalid(format!(
            "{name:?} is not a valid label name"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
