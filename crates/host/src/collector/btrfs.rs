//! Btrfs: allocation of space, duration of commits, devices.
//!
//! Invariant: everything comes from sysfs, which needs no mount point and no privilege.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

const INFO: Desc<'static> = Desc::gauge("node_btrfs_info", "Filesystem information");
const RATIO: Desc<'static> = Desc::gauge(
    "node_btrfs_allocation_ratio",
    "Data allocation ratio for a layout/data type",
);
const DEVICE_SIZE: Desc<'static> = Desc::gauge(
    "node_btrfs_device_size_bytes",
    "Size of a device that is part of the filesystem.",
);

/// Lines of `commit_stats`, in milliseconds but for the first, and files of `allocation`.
const NUMBERS: &str = include_str!("btrfs.txt");

const SECTOR_BYTES: f64 = 512.0;

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for name in sysdir::list_if_there(directory)? {
        // The directory of a file system is its UUID; `features` is not a file system.
        if name.contains('-') {
            describe_filesystem(&name, &directory.join(&name), plan);
        }
    }
    Ok(())
}

fn describe_filesystem(name: &str, directory: &Path, plan: &mut Plan<'_>) {
    let uuid = plan.text(&directory.join("metadata_uuid"));
    let uuid = uuid.filter(|uuid| !uuid.is_empty());
    let uuid = ("uuid", uuid.as_deref().unwrap_or(name));
    let label = plan.label(&directory.join("label")).unwrap_or_default();
    plan.fixed(&INFO, &[uuid, ("label", &label)], 1.0);
    let devices = sysdir::list(&directory.join("devices")).unwrap_or_default();
    for device in &devices {
        let path = directory.join("devices").join(device).join("size");
        let decode = Decode::Times(SECTOR_BYTES);
        plan.file(&DEVICE_SIZE, &[uuid, ("device", device)], &path, decode);
    }
    for ([line, divisor], desc) in table::rows_of(NUMBERS, "commits") {
        let path = directory.join("commit_stats");
        match path.exists() {
            true => {
                let decode = Decode::CellOver(line, table::number(divisor));
                plan.file(&desc, &[uuid], &path, decode);
            }
            // Linux before 6.0.
            false => plan.fixed(&desc, &[uuid], 0.0),
        }
    }
    let allocation = directory.join("allocation");
    describe_files("allocation", &allocation, &[uuid], plan);
    for kind in ["data", "metadata", "system"] {
        let directory = allocation.join(kind);
        let of_kind = [uuid, ("block_group_type", kind)];
        describe_files("kind", &directory, &of_kind, plan);
        for mode in sysdir::list(&directory).unwrap_or_default() {
            let directory = directory.join(&mode);
            if !sysdir::is_dir(&directory) {
                continue;
            }
            let labels = [of_kind[0], of_kind[1], ("mode", &mode)];
            describe_files("mode", &directory, &labels, plan);
            plan.fixed(&RATIO, &labels, ratio(&mode, devices.len() as f64));
        }
    }
}

fn describe_files(of: &str, directory: &Path, labels: &[(&str, &str)], plan: &mut Plan<'_>) {
    for ([file], desc) in table::rows_of(NUMBERS, of) {
        plan.file(&desc, labels, &directory.join(file), Decode::PLAIN);
    }
}

/// Returns how many bytes on disk a byte of data takes.
fn ratio(mode: &str, devices: f64) -> f64 {
    match mode {
        "single" | "raid0" => 1.0,
        "dup" | "raid1" | "raid10" => 2.0,
        "raid1c3" => 3.0,
        "raid1c4" => 4.0,
        "raid5" => devices / (devices - 1.0),
        "raid6" => devices / (devices - 2.0),
        _ => 0.0,
    }
}
