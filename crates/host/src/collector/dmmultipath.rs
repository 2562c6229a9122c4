//! Multipath block devices and their paths.
//!
//! Invariant: the device-mapper UUID decides whether a device is multipath; paths are active if their disk's state says
//! so.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

const INFO: Desc<'static> = Desc::gauge(
    "node_dmmultipath_device_info",
    "Non-numeric information about a DM-multipath device.",
);
const ACTIVE: Desc<'static> = Desc::gauge(
    "node_dmmultipath_device_active",
    "Whether the multipath device-mapper device is active (1) or suspended (0).",
);
const SIZE: Desc<'static> = Desc::gauge(
    "node_dmmultipath_device_size_bytes",
    "Size of the multipath device in bytes, read from /sys/block/<dm>/size.",
);
/// Paths, active ones, failed ones.
const PATHS: &str = include_str!("dmmultipath.txt");
const PATH_STATE: Desc<'static> = Desc::gauge(
    "node_dmmultipath_path_state",
    "Reports the underlying device state for a multipath path, as read from /sys/block/<dev>/device/state.",
);

const SECTOR_BYTES: f64 = 512.0;

pub(crate) fn describe(blocks: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    let names = sysdir::list(blocks)?;
    for name in names.iter().filter(|name| name.starts_with("dm-")) {
        let directory = blocks.join(name);
        let Some(uuid) = plan.text(&directory.join("dm/uuid")) else {
            continue;
        };
        if !uuid.starts_with("mpath-") {
            continue;
        }
        let device = plan.label(&directory.join("dm/name")).unwrap_or_default();
        let labels = [
            ("device", device.as_str()),
            ("sysfs_name", name),
            ("uuid", &uuid),
        ];
        plan.fixed(&INFO, &labels, 1.0);
        let labels = &labels[..2];
        let suspended = directory.join("dm/suspended");
        let is_active = |text: &[u8]| Some(f64::from(u8::from(text != b"1")));
        plan.file(&ACTIVE, labels, &suspended, Decode::With(is_active));
        let size = directory.join("size");
        plan.file(&SIZE, labels, &size, Decode::Times(SECTOR_BYTES));
        describe_paths(blocks, &device, labels, &directory.join("slaves"), plan);
    }
    Ok(())
}

fn describe_paths(
    blocks: &Path,
    device: &str,
    labels: &[(&str, &str)],
    directory: &Path,
    plan: &mut Plan<'_>,
) {
    let paths = sysdir::list(directory).unwrap_or_default();
    let mut active = 0;
    for path in &paths {
        let state = blocks.join(path).join("device/state");
        let state = plan.label(&state).unwrap_or_default();
        active += usize::from(matches!(state.as_str(), "running" | "live"));
        let labels = [("device", device), ("path", path), ("state", &state)];
        plan.fixed(&PATH_STATE, &labels, 1.0);
    }
    let counts = [paths.len(), active, paths.len() - active];
    for (desc, count) in table::families(PATHS).zip(counts) {
        plan.fixed(&desc, labels, count as f64);
    }
}
