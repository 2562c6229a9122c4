//! Counters of tape drives.
//!
//! Invariant: a drive is its plain node `st<n>`; its rewinding and compressing variants count the same.

use std::path::Path;

use regex::bytes::Regex;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::filter;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan, SysfsCollector};
use crate::table;

/// Files of a drive's statistics and the factors of their numbers, as node_exporter multiplies.
const NUMBERS: &str = include_str!("tapestats.txt");

pub(crate) fn new(config: &HostConfig) -> Result<SysfsCollector, HostError> {
    let flag = "collector.tapestats.ignored-devices";
    let ignored = filter::compile(flag, &config.tapestats_ignored)?;
    let directory = config.sysfs.join("class/scsi_tape");
    Ok(SysfsCollector::new(directory, move |directory, plan| {
        describe(directory, &ignored, plan)
    }))
}

fn describe(directory: &Path, ignored: &Regex, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for (name, _) in sysdir::numbered(directory, "st")? {
        if ignored.is_match(name.as_bytes()) {
            continue;
        }
        let directory = directory.join(&name).join("stats");
        for ([file, factor], desc) in table::rows(NUMBERS) {
            let decode = Decode::Times(table::number(factor));
            plan.file(&desc, &[("device", &name)], &directory.join(file), decode);
        }
    }
    Ok(())
}
