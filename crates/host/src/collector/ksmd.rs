//! Merging of equal pages (KSM).
//!
//! Invariant: a file that the kernel lacks has no series.

use std::path::PathBuf;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::kind::CollectorKind;
use crate::sysfs_collector::{Decode, Describe, Plan, SysfsCollector};
use crate::table;

pub(crate) struct Ksmd {
    directory: PathBuf,
}

impl Ksmd {
    pub(crate) fn new(config: &HostConfig) -> SysfsCollector<Self> {
        SysfsCollector::new(Self {
            directory: config.sysfs.join("kernel/mm/ksm"),
        })
    }
}

impl Describe for Ksmd {
    const KIND: CollectorKind = CollectorKind::Ksmd;

    fn describe(&self, plan: &mut Plan<'_>) -> Result<(), HostError> {
        for ([file, divisor], desc) in table::rows(include_str!("ksmd.txt")) {
            let decode = Decode::Over(table::number(divisor));
            plan.file(&desc, &[], &self.directory.join(file), decode);
        }
        Ok(())
    }
}
