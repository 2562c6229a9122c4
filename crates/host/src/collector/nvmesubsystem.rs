//! NVMe subsystems and the controllers that lead to them.
//!
//! Invariant: a changed state of a path is seen in the round that reads it.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::Plan;

const INFO: Desc<'static> = Desc::gauge(
    "node_nvmesubsystem_info",
    "Names and policy of an NVMe subsystem; the value is 1.",
);
const NAMESPACE: Desc<'static> = Desc::gauge(
    "node_nvmesubsystem_namespace_info",
    "A block device of an NVMe subsystem; the value is 1.",
);
const PATHS: Desc<'static> = Desc::gauge(
    "node_nvmesubsystem_paths",
    "Controllers that lead to an NVMe subsystem.",
);
const LIVE: Desc<'static> = Desc::gauge(
    "node_nvmesubsystem_paths_live",
    "Controllers in the state live.",
);
const STATE: Desc<'static> = Desc::gauge(
    "node_nvmesubsystem_path_state",
    "Whether a controller is in this state.",
);
/// `deleting (no IO)` is exported as `deleting`, what is not here as `unknown`.
const STATES: &str = "connecting dead deleting live new resetting unknown";

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for name in sysdir::list(directory)? {
        if name.starts_with("nvme-subsys") {
            describe_subsystem(&name, &directory.join(&name), plan)?;
        }
    }
    Ok(())
}

fn describe_subsystem(name: &str, directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    let subsystem = ("subsystem", name);
    let mut label = |file: &str| plan.label(&directory.join(file)).unwrap_or_default();
    let labels = [
        subsystem,
        ("nqn", &*label("subsysnqn")),
        ("model", &label("model")),
        ("serial", &label("serial")),
        ("iopolicy", &label("iopolicy")),
    ];
    plan.fixed(&INFO, &labels, 1.0);
    let (mut paths, mut live) = (0, 0);
    for entry in sysdir::list(directory)? {
        match is_namespace(&entry) {
            Some(true) => plan.fixed(&NAMESPACE, &[subsystem, ("device", &entry)], 1.0),
            Some(false) => {
                paths += 1;
                live += u32::from(describe_path(subsystem, &entry, directory, plan) == "live");
            }
            None => {}
        }
    }
    plan.fixed(&PATHS, &[subsystem], f64::from(paths));
    plan.fixed(&LIVE, &[subsystem], f64::from(live));
    Ok(())
}

/// Describes a controller; returns its state.
fn describe_path(
    subsystem: (&str, &str),
    controller: &str,
    directory: &Path,
    plan: &mut Plan<'_>,
) -> &'static str {
    let directory = directory.join(controller);
    let transport = plan.label(&directory.join("transport")).unwrap_or_default();
    let text = plan.label(&directory.join("state")).unwrap_or_default();
    let text = text.strip_suffix(" (no IO)").unwrap_or(&text);
    let known = STATES.split(' ').find(|state| *state == text);
    let current = known.unwrap_or("unknown");
    for state in STATES.split(' ') {
        let labels = [
            subsystem,
            ("controller", controller),
            ("transport", &transport),
            ("state", state),
        ];
        plan.fixed(&STATE, &labels, f64::from(u8::from(state == current)));
    }
    current
}

/// Tells a namespace such as `nvme0n1` from a controller such as `nvme0`; `None` for anything else.
fn is_namespace(entry: &str) -> Option<bool> {
    let rest = entry.strip_prefix("nvme")?;
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    match rest.split_once('n') {
        Some((controller, number)) => (is_number(controller) && is_number(number)).then_some(true),
        None => is_number(rest).then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_and_controllers() {
        for (entry, expected) in [
            ("nvme0", Some(false)),
            ("nvme12n3", Some(true)),
            ("nvme0c1n2", None),
            ("nvme", None),
            ("power", None),
        ] {
            assert_eq!(is_namespace(entry), expected, "{entry}");
        }
    }
}
