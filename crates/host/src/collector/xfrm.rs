//! Packets that IPsec dropped, by cause.
//!
//! Invariant: a cause that the kernel does not print counts 0.

use std::path::PathBuf;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::kind::CollectorKind;
use crate::sysfs_collector::{Decode, Describe, Plan, SysfsCollector};
use crate::table;

pub(crate) struct Xfrm {
    path: PathBuf,
}

impl Xfrm {
    pub(crate) fn new(config: &HostConfig) -> SysfsCollector<Self> {
        SysfsCollector::new(Self {
            path: config.procfs.join("net/xfrm_stat"),
        })
    }
}

impl Describe for Xfrm {
    const KIND: CollectorKind = CollectorKind::Xfrm;

    fn describe(&self, plan: &mut Plan<'_>) -> Result<(), HostError> {
        if !self.path.exists() {
            let path = self.path.clone();
            return Err(HostError::NoData { path });
        }
        for ([word], desc) in table::rows(include_str!("xfrm.txt")) {
            plan.file(&desc, &[], &self.path, Decode::Cell(word, 0));
        }
        Ok(())
    }
}
