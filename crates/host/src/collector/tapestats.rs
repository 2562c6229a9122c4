//! Counters of tape drives.
//!
//! Invariant: a drive is its plain node `st<n>`; its rewinding and compressing variants count the same.

use std::path::PathBuf;

use regex::bytes::Regex;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::filter;
use crate::kind::CollectorKind;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Describe, Plan, SysfsCollector};
use crate::table;

/// Files of a drive's statistics and the factors of their numbers, as node_exporter multiplies.
const NUMBERS: &str = include_str!("tapestats.txt");

pub(crate) struct Tapestats {
    directory: PathBuf,
    ignored: Regex,
}

impl Tapestats {
    pub(crate) fn new(config: &HostConfig) -> Result<SysfsCollector<Self>, HostError> {
        let ignored = &config.tapestats_ignored;
        Ok(SysfsCollector::new(Self {
            directory: config.sysfs.join("class/scsi_tape"),
            ignored: filter::compile("collector.tapestats.ignored-devices", ignored)?,
        }))
    }
}

impl Describe for Tapestats {
    const KIND: CollectorKind = CollectorKind::Tapestats;

    fn describe(&self, plan: &mut Plan<'_>) -> Result<(), HostError> {
        for (name, _) in sysdir::numbered(&self.directory, "st")? {
            if self.ignored.is_match(name.as_bytes()) {
                continue;
            }
            let directory = self.directory.join(&name).join("stats");
            for ([file, factor], desc) in table::rows(NUMBERS) {
                let decode = Decode::Times(table::number(factor));
                plan.file(&desc, &[("device", &name)], &directory.join(file), decode);
            }
        }
        Ok(())
    }
}
