//! Watchdog timers.
//!
//! Invariant: an attribute that a driver lacks is an empty label or a missing series.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

const INFO: Desc<'static> = Desc::gauge(
    "node_watchdog_info",
    "Info of /sys/class/watchdog/<watchdog>",
);

/// Files that become labels of the same name.
const LABELS: [&str; 5] = [
    "options",
    "identity",
    "state",
    "status",
    "pretimeout_governor",
];

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for name in sysdir::list(directory)? {
        let directory = directory.join(&name);
        for ([file], desc) in table::rows(include_str!("watchdog.txt")) {
            let path = directory.join(file);
            plan.file(&desc, &[("name", &name)], &path, Decode::PLAIN);
        }
        let texts = LABELS.map(|file| plan.label(&directory.join(file)).unwrap_or_default());
        let mut labels = vec![("name", name.as_str())];
        labels.extend(LABELS.into_iter().zip(texts.iter().map(String::as_str)));
        plan.fixed(&INFO, &labels, 1.0);
    }
    Ok(())
}
