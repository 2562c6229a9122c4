//! Batteries and mains supplies.
//!
//! Invariant: the kernel's micro-units and tenths of a degree are exported in base units.

use std::path::Path;

use regex::bytes::Regex;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::filter;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan, SysfsCollector};
use crate::table;

const INFO: Desc<'static> = Desc::gauge(
    "node_power_supply_info",
    "info of /sys/class/power_supply/<power_supply>.",
);

/// Divisors of numbers, and their files.
const NUMBERS: &str = include_str!("powersupplyclass.txt");

/// Files that become labels of the same name.
const LABELS: &str = "\
    capacity_level charge_type health manufacturer model_name serial_number status technology type usb_type scope";

pub(crate) fn new(config: &HostConfig) -> Result<SysfsCollector, HostError> {
    let flag = "collector.powersupply.ignored-supplies";
    let ignored = filter::compile(flag, &config.powersupply_ignored)?;
    let directory = config.sysfs.join("class/power_supply");
    Ok(SysfsCollector::new(directory, move |directory, plan| {
        describe(directory, &ignored, plan)
    }))
}

fn describe(directory: &Path, ignored: &Regex, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for supply in sysdir::list(directory)? {
        if ignored.is_match(supply.as_bytes()) {
            continue;
        }
        let directory = directory.join(&supply);
        let files = sysdir::list(&directory)?;
        let is_there = |file: &str| files.iter().any(|name| name == file);
        let numbers = table::rows(NUMBERS).filter(|([_, file], _)| is_there(file));
        for ([divisor, file], desc) in numbers {
            let decode = Decode::Over(table::number(divisor));
            let labels = [("power_supply", supply.as_str())];
            plan.file(&desc, &labels, &directory.join(file), decode);
        }
        let texts: Vec<(&str, String)> = LABELS
            .split(' ')
            .filter(|file| is_there(file))
            .filter_map(|file| Some((file, plan.label(&directory.join(file))?)))
            .collect();
        let mut labels = vec![("power_supply", supply.as_str())];
        labels.extend(texts.iter().map(|(name, text)| (*name, text.as_str())));
        plan.fixed(&INFO, &labels, 1.0);
    }
    Ok(())
}
