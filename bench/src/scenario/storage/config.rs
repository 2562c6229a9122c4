//! The configuration by which servers scrape the fleet.
//!
//! **Invariant:** all kinds get the same targets with the same labels, in the configuration or, if targets are
//! replaced, in a file that servers watch.

use super::plan::Plan;
use crate::{
    harness::{BenchError, PROMETHEUS, ServerSpec, VICTORIA_METRICS, Values, WorkDir},
    load::fleet::{FleetConfig, Shape, static_configs},
};
use std::{fs, net::SocketAddrV4, path::PathBuf};

/// The targets of one fleet, with their generations.
#[derive(Debug)]
pub(super) struct Targets {
    addresses: Vec<SocketAddrV4>,
    generations: Vec<usize>,
    /// The file that lists them; `None` if the configuration does.
    file: Option<PathBuf>,
    /// The directory of `file`.
    _dir: Option<WorkDir>,
}

impl Targets {
    /// Lists targets of the first generation.
    pub(super) fn new(
        plan: &Plan,
        label: &str,
        addresses: &[SocketAddrV4],
    ) -> Result<Self, BenchError> {
        // With labels in the lines, another pod is another page of the same target.
        let has_file = plan.churned > 0 && !plan.fleet.line_labels;
        let dir = has_file.then(|| WorkDir::new(&plan.base, &format!("{label}-targets")));
        let dir = dir.transpose()?;
        let targets = Self {
            addresses: addresses.to_vec(),
            generations: vec![0; addresses.len()],
            file: dir.as_ref().map(|dir| dir.path().join("targets.json")),
            _dir: dir,
        };
        targets.write(&plan.fleet)?;
        Ok(targets)
    }

    /// Records that targets have another generation, and updates the servers' file.
    pub(super) fn replace(
        &mut self,
        fleet: &FleetConfig,
        places: impl Iterator<Item = usize>,
        generation: usize,
    ) -> Result<(), BenchError> {
        for place in places {
            self.generations[place] = generation;
        }
        self.write(fleet)
    }

    /// Rewrites the file atomically.
    fn write(&self, fleet: &FleetConfig) -> Result<(), BenchError> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let groups = self.groups(fleet).map(|(address, labels)| {
            let labels = labels.into_iter().map(|(name, value)| (name, value.into()));
            let labels: serde_json::Map<String, serde_json::Value> = labels.collect();
            serde_json::json!({ "targets": [address.to_string()], "labels": labels })
        });
        let text = serde_json::Value::from(groups.collect::<Vec<_>>()).to_string();
        let next = file.with_extension("next");
        fs::write(&next, text)
            .and_then(|()| fs::rename(&next, file))
            .map_err(BenchError::io("write the targets' file"))
    }

    fn groups(
        &self,
        fleet: &FleetConfig,
    ) -> impl Iterator<Item = (SocketAddrV4, Vec<(String, String)>)> {
        let all = self.addresses.iter().zip(&self.generations).enumerate();
        all.map(|(at, (address, generation))| (*address, fleet.labels_of(at, *generation)))
    }

    /// Returns the configuration by which every server scrapes them.
    pub(super) fn scrape_config(&self, plan: &Plan, version: &str) -> String {
        let interval = plan.flags.interval.as_millis();
        let mut text = format!(
            "global:\n  scrape_interval: {interval}ms\n  scrape_timeout: {interval}ms\n\
             scrape_configs:\n  - job_name: fleet\n"
        );
        if plan.flags.compress_time > 1 && is_since(version, (2, 48)) {
            text.push_str("    track_timestamps_staleness: true\n");
        }
        if plan.fleet.shape == Shape::Native && is_since(version, (3, 8)) {
            text.push_str("    scrape_native_histograms: true\n");
        }
        if let Some(file) = &self.file {
            let file = file.display();
            text.push_str(&format!(
                "    file_sd_configs:\n      - files: [\"{file}\"]\n"
            ));
            return text;
        }
        text.push_str(&static_configs(self.groups(&plan.fleet)));
        text
    }
}

/// Returns the part of the configuration that allows samples from the past, if there are any.
pub(super) fn storage_config(plan: &Plan) -> String {
    if plan.flags.compress_time == 1 {
        return String::new();
    }
    let past = plan.each() * plan.flags.compress_time;
    let minutes = past.as_secs() / 60 + 60;
    format!("storage:\n  tsdb:\n    out_of_order_time_window: {minutes}m\n")
}

/// Makes servers scrape native histograms if the fleet has them, and leaves out the one that cannot.
pub(super) fn fit_servers(
    plan: &Plan,
    values: &Values,
    servers: &mut Vec<ServerSpec>,
    notes: &mut Vec<String>,
) -> Result<(), BenchError> {
    const TEXT_ONLY: &str = VICTORIA_METRICS;
    if plan.fleet.shape != Shape::Native {
        return Ok(());
    }
    let is_named = values.is_given("server");
    let before = servers.len();
    servers.retain(|server| server.kind.name != TEXT_ONLY);
    if servers.len() < before {
        let why =
            format!("{TEXT_ONLY} scrapes text only, and native histograms exist in protobuf only");
        if is_named {
            return Err(values.wrong("server", why));
        }
        notes.push(why);
    }
    for server in servers {
        if server.kind.name == PROMETHEUS {
            // Enabled by a flag before 3.8, which later versions accept and ignore; since then by the configuration.
            let flag = "--enable-feature=native-histograms".to_owned();
            server.kind.arguments.push(flag);
        }
    }
    Ok(())
}

/// Reports whether a server of that version has a feature that Prometheus has since `release`; ours does.
fn is_since(version: &str, release: (u32, u32)) -> bool {
    if version.starts_with("narthex") {
        return true;
    }
    let number = version
        .strip_prefix("prometheus, version ")
        .unwrap_or_default();
    let mut parts = number.split('.').map_while(|part| part.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (parts.next(), parts.next()) else {
        return false;
    };
    (major, minor) >= release
}

#[cfg(test)]
mod tests;
