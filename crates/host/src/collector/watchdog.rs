//! Watchdog timers.
//!
//! Invariant: an attribute that a driver lacks is an empty label or a missing series.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};

const INFO: Desc<'static> = Desc::gauge(
    "node_watchdog_info",
    "Info of /sys/class/watchdog/<watchdog>",
);

/// Families and files.
const NUMBERS: [(&str, &str); 7] = [
    ("bootstatus", "bootstatus"),
    ("fw_version", "fw_version"),
    ("nowayout", "nowayout"),
    ("timeleft_seconds", "timeleft"),
    ("timeout_seconds", "timeout"),
    ("pretimeout_seconds", "pretimeout"),
    ("access_cs0", "access_cs0"),
];

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
        for (family, file) in NUMBERS {
            let family = format!("node_watchdog_{family}");
            let help = format!("Value of /sys/class/watchdog/<watchdog>/{file}");
            let desc = Desc::gauge(&family, &help);
            plan.file(
                &desc,
                &[("name", &name)],
                &directory.join(file),
                Decode::PLAIN,
            );
        }
        let texts = LABELS.map(|file| plan.label(&directory.join(file)).unwrap_or_default());
        let mut labels = vec![("name", name.as_str())];
        labels.extend(LABELS.into_iter().zip(texts.iter().map(String::as_str)));
        plan.fixed(&INFO, &labels, 1.0);
    }
    Ok(())
}
