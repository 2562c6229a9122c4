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

const INFO: Desc<'static> = Desc::gauge(
    "node_power_supply_info",
    "info of /sys/class/power_supply/<power_supply>.",
);

/// Families and files of plain numbers.
const PLAIN: [(&str, &str); 10] = [
    ("authentic", "authentic"),
    ("calibrate", "calibrate"),
    ("capacity", "capacity"),
    ("capacity_alert_max", "capacity_alert_max"),
    ("capacity_alert_min", "capacity_alert_min"),
    ("cyclecount", "cycle_count"),
    ("online", "online"),
    ("present", "present"),
    ("time_to_empty_seconds", "time_to_empty_now"),
    ("time_to_full_seconds", "time_to_full_now"),
];

/// In millionths.
const MICRO: [(&str, &str); 31] = [
    ("current_boot", "current_boot"),
    ("current_max", "current_max"),
    ("current_ampere", "current_now"),
    ("energy_empty", "energy_empty"),
    ("energy_empty_design", "energy_empty_design"),
    ("energy_full", "energy_full"),
    ("energy_full_design", "energy_full_design"),
    ("energy_watthour", "energy_now"),
    ("voltage_boot", "voltage_boot"),
    ("voltage_max", "voltage_max"),
    ("voltage_max_design", "voltage_max_design"),
    ("voltage_min", "voltage_min"),
    ("voltage_min_design", "voltage_min_design"),
    ("voltage_volt", "voltage_now"),
    ("voltage_ocv", "voltage_ocv"),
    ("charge_control_limit", "charge_control_limit"),
    ("charge_control_limit_max", "charge_control_limit_max"),
    ("charge_counter", "charge_counter"),
    ("charge_empty", "charge_empty"),
    ("charge_empty_design", "charge_empty_design"),
    ("charge_full", "charge_full"),
    ("charge_full_design", "charge_full_design"),
    ("charge_ampere", "charge_now"),
    ("charge_term_current", "charge_term_current"),
    ("constant_charge_current", "constant_charge_current"),
    ("constant_charge_current_max", "constant_charge_current_max"),
    ("constant_charge_voltage", "constant_charge_voltage"),
    ("constant_charge_voltage_max", "constant_charge_voltage_max"),
    ("precharge_current", "precharge_current"),
    ("input_current_limit", "input_current_limit"),
    ("power_watt", "power_now"),
];

/// In tenths of a degree.
const TENTHS: [(&str, &str); 8] = [
    ("temp_celsius", "temp"),
    ("temp_alert_max_celsius", "temp_alert_max"),
    ("temp_alert_min_celsius", "temp_alert_min"),
    ("temp_ambient_celsius", "temp_ambient"),
    ("temp_ambient_max_celsius", "temp_ambient_max"),
    ("temp_ambient_min_celsius", "temp_ambient_min"),
    ("temp_max_celsius", "temp_max"),
    ("temp_min_celsius", "temp_min"),
];

/// Files that become labels of the same name.
const LABELS: [&str; 11] = [
    "capacity_level",
    "charge_type",
    "health",
    "manufacturer",
    "model_name",
    "serial_number",
    "status",
    "technology",
    "type",
    "usb_type",
    "scope",
];

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
        for (families, divisor) in [(&PLAIN[..], 1.0), (&MICRO, 1e6), (&TENTHS, 10.0)] {
            for (family, file) in families.iter().filter(|(_, file)| is_there(file)) {
                let name = format!("node_power_supply_{family}");
                let help = format!("{family} value of /sys/class/power_supply/<power_supply>.");
                let desc = Desc::gauge(&name, &help);
                let decode = Decode::Over(divisor);
                plan.file(
                    &desc,
                    &[("power_supply", &supply)],
                    &directory.join(file),
                    decode,
                );
            }
        }
        let texts: Vec<(&str, String)> = LABELS
            .into_iter()
            .filter(|file| is_there(file))
            .filter_map(|file| Some((file, plan.label(&directory.join(file))?)))
            .collect();
        let mut labels = vec![("power_supply", supply.as_str())];
        labels.extend(texts.iter().map(|(name, text)| (*name, text.as_str())));
        plan.fixed(&INFO, &labels, 1.0);
    }
    Ok(())
}
