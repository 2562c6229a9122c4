//! Temperatures of zones, and states of cooling devices.
//!
//! Invariant: a zone that can't be read is omitted; it does not affect the others' values.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};

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

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for (directory, zone) in sysdir::numbered_if_there(directory, "thermal_zone")? {
        let kind = plan.text(&directory.join("type")).unwrap_or_default();
        let labels = [("zone", zone.as_str()), ("type", &kind)];
        let path = directory.join("temp");
        plan.file(&TEMPERATURE, &labels, &path, Decode::Over(1000.0));
    }
    for (directory, device) in sysdir::numbered_if_there(directory, "cooling_device")? {
        let kind = plan.text(&directory.join("type")).unwrap_or_default();
        let labels = [("name", device.as_str()), ("type", &kind)];
        for (desc, file) in [(&CURRENT_STATE, "cur_state"), (&MAX_STATE, "max_state")] {
            plan.file(desc, &labels, &directory.join(file), Decode::PLAIN);
        }
    }
    Ok(())
}
