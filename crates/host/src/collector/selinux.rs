//! Whether SELinux is enabled, and in which mode.
//!
//! Invariant: without a mounted selinuxfs SELinux counts as disabled, which is a value and not missing data.

use std::path::Path;

use crate::error::HostError;
use crate::scan::next_line;
use crate::sink::Desc;
use crate::sysfs_collector::{Decode, Plan};

const ENABLED: Desc<'static> = Desc::gauge(
    "node_selinux_enabled",
    "SELinux is enabled, 1 is true, 0 is false",
);
const CONFIG_MODE: Desc<'static> = Desc::gauge(
    "node_selinux_config_mode",
    "Configured SELinux enforcement mode",
);
const CURRENT_MODE: Desc<'static> = Desc::gauge(
    "node_selinux_current_mode",
    "Current SELinux enforcement mode",
);

/// node_exporter's library asks the machine it runs on, whatever paths are configured.
pub(crate) const DIRECTORY: &str = "/sys/fs/selinux";
const CONTEXT: &str = "/proc/self/attr/current";
const CONFIG: &str = "/etc/selinux/config";

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    let enforce = directory.join("enforce");
    // Before a policy is loaded, everything has the type `kernel`.
    let is_loaded = plan
        .text(Path::new(CONTEXT))
        .is_some_and(|context| context.trim_end_matches('\0') != "kernel");
    if !enforce.exists() || !is_loaded {
        plan.fixed(&ENABLED, &[], 0.0);
        return Ok(());
    }
    plan.fixed(&ENABLED, &[], 1.0);
    let mode = plan.bytes(Path::new(CONFIG)).map_or(-1.0, configured_mode);
    plan.fixed(&CONFIG_MODE, &[], mode);
    plan.file(&CURRENT_MODE, &[], &enforce, Decode::PLAIN);
    Ok(())
}

/// Returns the configured mode: 1 enforcing, 0 permissive, −1 anything else.
pub(crate) fn configured_mode(mut text: &[u8]) -> f64 {
    let mut mode = -1.0;
    while let Some(line) = next_line(&mut text) {
        let line = line.trim_ascii();
        if let Some(value) = line.strip_prefix(b"SELINUX=") {
            mode = match value.trim_ascii() {
                b"enforcing" => 1.0,
                b"permissive" => 0.0,
                _ => -1.0,
            };
        }
    }
    mode
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_the_configuration() {
        assert_eq!(
            configured_mode(b"# SELINUX=x\nSELINUX=enforcing\nSELINUXTYPE=a\n"),
            1.0
        );
        assert_eq!(configured_mode(b"SELINUX=permissive"), 0.0);
        assert_eq!(configured_mode(b"SELINUX=disabled"), -1.0);
        assert_eq!(configured_mode(b""), -1.0);
    }
}
