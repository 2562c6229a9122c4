//! Energy counters of the processor's domains.
//!
//! Invariant: a domain's index is part of its name, or counts domains of the same name in directory order.

use std::collections::HashMap;
use std::path::Path;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan, SysfsCollector};

const JOULES: Desc<'static> =
    Desc::counter("node_rapl_joules_total", "Current RAPL value in joules");

pub(crate) fn new(config: &HostConfig) -> SysfsCollector {
    let has_zone_label = config.rapl_zone_label;
    let directory = config.sysfs.join("class/powercap");
    SysfsCollector::new(directory, move |directory, plan| {
        describe(directory, has_zone_label, plan)
    })
}

fn describe(root: &Path, has_zone_label: bool, plan: &mut Plan<'_>) -> Result<(), HostError> {
    let mut used: HashMap<String, u64> = HashMap::new();
    for directory in sysdir::list(root)? {
        let directory = root.join(directory);
        let Some(name) = plan.text(&directory.join("name")) else {
            continue;
        };
        let (index, zone) = index_and_zone(&name, &used);
        used.insert(zone.to_owned(), index + 1);
        let index = index.to_string();
        let shown = directory.to_string_lossy();
        let labels = [
            ("index", index.as_str()),
            ("path", &shown),
            ("rapl_zone", zone),
        ];
        let path = directory.join("energy_uj");
        let decode = Decode::Over(1e6);
        if has_zone_label {
            plan.file(&JOULES, &labels, &path, decode);
            continue;
        }
        let family = format!("node_rapl_{}_joules_total", sysdir::metric_name(zone));
        let help = format!("Current RAPL {zone} value in joules");
        plan.file(&Desc::counter(&family, &help), &labels[..2], &path, decode);
    }
    Ok(())
}

/// Splits `package-1`; a name without a number gets the next free one.
fn index_and_zone<'a>(name: &'a str, used: &HashMap<String, u64>) -> (u64, &'a str) {
    let mut parts = name.split('-');
    if let (Some(zone), Some(Ok(index)), None) =
        (parts.next(), parts.next().map(str::parse), parts.next())
    {
        return (index, zone);
    }
    (used.get(name).copied().unwrap_or(0), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let used = HashMap::from([("dram".to_string(), 2)]);
        let of = |name| index_and_zone(name, &used);
        assert_eq!(of("package-1"), (1, "package"));
        assert_eq!(of("dram"), (2, "dram"));
        assert_eq!(of("core"), (0, "core"));
        assert_eq!(of("package-0-die-1"), (0, "package-0-die-1"));
        assert_eq!(of("psys-x"), (0, "psys-x"));
    }
}
