//! XFS counters, per device.
//!
//! Invariant: counters that wrap at 32 bits are exported as the kernel prints them.

use std::path::Path;

use crate::error::HostError;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

/// Lines of `stats` and indices of numbers in them.
const CELLS: &str = include_str!("xfs.txt");

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    // Having no such file system is not missing data.
    for device in sysdir::list_if_there(directory)? {
        let path = directory.join(&device).join("stats/stats");
        // The directory also contains the sum over all devices, one level higher.
        if !path.exists() {
            continue;
        }
        for ([line, place], desc) in table::rows(CELLS) {
            let decode = Decode::Cell(line, table::number(place));
            plan.file(&desc, &[("device", &device)], &path, decode);
        }
    }
    Ok(())
}
