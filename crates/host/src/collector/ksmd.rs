//! Merging of equal pages (KSM).
//!
//! Invariant: a file that the kernel lacks has no series.

use std::path::Path;

use crate::error::HostError;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for ([file, divisor], desc) in table::rows(include_str!("ksmd.txt")) {
        let decode = Decode::Over(table::number(divisor));
        plan.file(&desc, &[], &directory.join(file), decode);
    }
    Ok(())
}
