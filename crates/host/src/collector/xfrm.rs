//! Packets that IPsec dropped, by cause.
//!
//! Invariant: a cause that the kernel does not print counts 0.

use std::path::Path;

use crate::error::HostError;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

pub(crate) fn describe(path: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    if !path.exists() {
        return Err(HostError::no_data(path));
    }
    for ([word], desc) in table::rows(include_str!("xfrm.txt")) {
        plan.file(&desc, &[], path, Decode::Cell(word, 0));
    }
    Ok(())
}
