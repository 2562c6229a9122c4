//! The rule files: the fleet's groups, some in each file.

use super::plan::Plan;
use crate::harness::{cleanup::WorkDir, error::BenchError};
use narthex_testkit::fleet::rule_group;
use std::{fs, path::Path};

/// Groups of a file.
const FILE_GROUPS: usize = 25;

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

/// Returns one group.
fn group(plan: &Plan, at: usize) -> String {
    let interval_ms = plan.flags.interval.as_millis() as u64;
    rule_group(at, plan.fleet.series, interval_ms)
}

#[cfg(test)]
mod tests;
