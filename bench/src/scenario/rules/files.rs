//! The rule files: groups as teams write them, one about each service and family.
//!
//! A group has rates and sums by label, quantiles over classic histograms, means, extremes of gauges, rules that read
//! the rules before them, and alerts with `for` and templates on top of those.
//!
//! **Invariant:** names are unique, every rule has a result or is an alert whose condition is known: the alerts of
//! the first fifty groups fire for errors, the saturation's come and go, the others stay inactive.

use super::plan::Plan;
use crate::{
    harness::{cleanup::WorkDir, error::BenchError},
    load::fleet::config::FleetConfig,
};
use std::{fs, path::Path};

/// A group, with names in capitals where groups differ.
const GROUP: &str = include_str!("../../../scenarios/rules-group.yml");
/// Groups of a file.
const FILE_GROUPS: usize = 25;
/// Services of the fleet.
const SERVICES: usize = 50;

/// Writes the files; returns the pattern that names them.
pub(super) fn write(plan: &Plan, dir: &WorkDir) -> Result<String, BenchError> {
    let groups: Vec<String> = (0..plan.groups()).map(|at| group(plan, at)).collect();
    for (at, groups) in groups.chunks(FILE_GROUPS).enumerate() {
        let path = dir.path().join(format!("rules-{at:04}.yml"));
        write_file(&path, groups)?;
    }
    Ok(dir.path().join("rules-*.yml").display().to_string())
}

fn write_file(path: &Path, groups: &[String]) -> Result<(), BenchError> {
    let text = format!("groups:\n{}", groups.concat());
    fs::write(path, text).map_err(BenchError::io("write rule files"))
}

/// Returns one group: the groups of a service differ in the families they are about.
fn group(plan: &Plan, at: usize) -> String {
    let (service, variant) = (at % SERVICES, at / SERVICES);
    let families = Families::in_target(&plan.fleet);
    let (name, counter) = (format!("group_{at:05}"), variant % families.counters);
    let (gauge, histogram) = (variant % families.gauges, variant % families.histograms);
    // Errors are three routes of fourteen.
    let budget = if variant == 0 { "0.05" } else { "0.95" };
    let interval_ms = plan.flags.interval.as_millis();
    [
        ("SERVICE", format!("svc-{service:02}")),
        ("TEAM", format!("team-{:02}", service % 12)),
        ("GROUP", name),
        (
            "COUNTER",
            format!("http_server_requests_{counter:02}_total"),
        ),
        ("GAUGE", format!("worker_pool_saturation_{gauge:02}_ratio")),
        ("HISTOGRAM", format!("rpc_duration_seconds_{histogram:02}")),
        ("BUDGET", budget.to_owned()),
        ("INTERVAL", format!("{interval_ms}ms")),
        ("WAIT2", format!("{}ms", 2 * interval_ms)),
        ("WAIT4", format!("{}ms", 4 * interval_ms)),
    ]
    .iter()
    .fold(GROUP.to_owned(), |text, (place, value)| {
        text.replace(place, value)
    })
}

/// How many whole families of each kind a target has.
struct Families {
    counters: usize,
    gauges: usize,
    histograms: usize,
}

impl Families {
    fn in_target(fleet: &FleetConfig) -> Self {
        Self {
            counters: fleet.series * 2 / 5 / 14,
            gauges: fleet.series / 5 / 10,
            histograms: fleet.series / 4 / 14 / 3,
        }
    }
}

#[cfg(test)]
mod tests;
