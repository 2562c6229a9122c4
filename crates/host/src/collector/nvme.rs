//! NVMe devices and their namespaces.
//!
//! Invariant: sizes are blocks times the block's size, as integers, before they become a float.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

const INFO: Desc<'static> = Desc::gauge(
    "node_nvme_info",
    "Non-numeric data from /sys/class/nvme/<device>, value is always 1.",
);
const NAMESPACE_INFO: Desc<'static> = Desc::gauge(
    "node_nvme_namespace_info",
    "Information about NVMe namespaces. Value is always 1",
);

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for device in sysdir::list(directory)? {
        let directory = directory.join(&device);
        let mut label = |file: &str| plan.label(&directory.join(file)).unwrap_or_default();
        let labels = [
            ("device", device.as_str()),
            ("firmware_revision", &label("firmware_rev")),
            ("model", &label("model")),
            ("serial", &label("serial")),
            ("state", &label("state")),
            ("cntlid", &label("cntlid")),
        ];
        plan.fixed(&INFO, &labels, 1.0);
        for name in sysdir::list(&directory)? {
            if let Some(nsid) = namespace(&name) {
                describe_namespace(&device, nsid, &directory.join(&name), plan);
            }
        }
    }
    Ok(())
}

fn describe_namespace(device: &str, nsid: &str, directory: &Path, plan: &mut Plan<'_>) {
    let state = plan.label(&directory.join("ana_state"));
    let labels = [
        ("device", device),
        ("nsid", nsid),
        ("ana_state", state.as_deref().unwrap_or("unknown")),
    ];
    plan.fixed(&NAMESPACE_INFO, &labels, 1.0);
    let block_bytes = directory.join("queue/logical_block_size");
    let bytes = plan.number(&block_bytes).unwrap_or(0.0);
    for ([file, unit], desc) in table::rows(include_str!("nvme.txt")) {
        let factor = if unit == "blocks" { bytes } else { 1.0 };
        let decode = Decode::Times(factor);
        plan.file(&desc, &labels[..2], &directory.join(file), decode);
    }
}

/// Returns the number of `nvme0n1`.
fn namespace(name: &str) -> Option<&str> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = name.strip_prefix("nvme")?;
    let controller = digits(rest);
    let nsid = rest.get(controller..)?.strip_prefix('n')?;
    if controller == 0 {
        return None;
    }
    (!nsid.is_empty() && digits(nsid) == nsid.len()).then_some(nsid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_by_their_names() {
        let cases = [
            ("nvme0n1", Some("1")),
            ("nvme10n12", Some("12")),
            ("nvme0c0n1", None),
            ("nvme0", None),
            ("nvme0n1p1", None),
            ("nvmen1", None),
            ("power", None),
            ("nvme0n", None),
        ];
        for (name, expected) in cases {
            assert_eq!(namespace(name), expected, "{name}");
        }
    }
}
