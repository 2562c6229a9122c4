//! Temperatures of zones, and states of cooling devices.
//!
//! Invariant: a zone that can't be read is omitted; it does not affect the others' values.

use std::path::PathBuf;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::kind::CollectorKind;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Describe, Plan, SysfsCollector};

const TEMPERATURE: Desc<'static> =
    Desc::gauge("node_thermal_zone_temp", "Zone temperature in Celsius");
const CURRENT_STATE: Desc<'static> = Desc::gauge(
    "node_cooling_device_cur_state",
    "Current throttle state of the cooling device",
);
const MAX_STATE: Desc<'static> = Desc::gauge(
    "node_cooling_device_max_state",
    "Maximum throttle state of the cooling device",
);

pub(crate) struct ThermalZone {
    directory: PathBuf,
}

impl ThermalZone {
    pub(crate) fn new(config: &HostConfig) -> SysfsCollector<Self> {
        SysfsCollector::new(Self {
            directory: config.sysfs.join("class/thermal"),
        })
    }
}

impl Describe for ThermalZone {
    const KIND: CollectorKind = CollectorKind::ThermalZone;

    fn describe(&self, plan: &mut Plan<'_>) -> Result<(), HostError> {
        for (directory, zone) in sysdir::numbered_if_there(&self.directory, "thermal_zone")? {
            let kind = plan.text(&directory.join("type")).unwrap_or_default();
            let labels = [("zone", zone.as_str()), ("type", &kind)];
            let path = directory.join("temp");
            plan.file(&TEMPERATURE, &labels, &path, Decode::Over(1000.0));
        }
        for (directory, device) in sysdir::numbered_if_there(&self.directory, "cooling_device")? {
            let kind = plan.text(&directory.join("type")).unwrap_or_default();
            let labels = [("name", device.as_str()), ("type", &kind)];
            for (desc, file) in [(&CURRENT_STATE, "cur_state"), (&MAX_STATE, "max_state")] {
                plan.file(desc, &labels, &directory.join(file), Decode::PLAIN);
            }
        }
        Ok(())
    }
}
