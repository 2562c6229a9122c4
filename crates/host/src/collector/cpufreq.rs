//! Clock rates, their limits and governors, from `devices/system/cpu/cpu*/cpufreq`.
//!
//! Invariant: only files that become a series are read: some of the others make the kernel wait for the CPU.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

/// Files in kilohertz.
const FREQUENCIES: &str = include_str!("cpufreq.txt");
const GOVERNOR: Desc<'static> = Desc::gauge(
    "node_cpu_scaling_governor",
    "Current enabled CPU frequency governor.",
);

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for (name, cpu) in sysdir::numbered(directory, "cpu")? {
        let directory = directory.join(name).join("cpufreq");
        if !sysdir::is_dir(&directory) {
            continue;
        }
        let cpu = cpu.to_string();
        for ([file], desc) in table::rows(FREQUENCIES) {
            let path = directory.join(file);
            plan.file(&desc, &[("cpu", &cpu)], &path, Decode::Times(1000.0));
        }
        let available = plan.text(&directory.join("scaling_available_governors"));
        let path = directory.join("scaling_governor");
        for governor in available.unwrap_or_default().split_ascii_whitespace() {
            let labels = [("cpu", cpu.as_str()), ("governor", governor)];
            plan.file(&GOVERNOR, &labels, &path, Decode::Is(governor.into()));
        }
    }
    Ok(())
}
