//! Graphics cards of AMD: load and memory.
//!
//! Invariant: cards of other drivers have no series; a file that a card lacks counts 0.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan};
use crate::table;

const INFO: Desc<'static> = Desc::gauge(
    "node_drm_card_info",
    "Memory vendor, power level and id of a graphics card; the value is 1.",
);

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    let names = sysdir::list_if_there(directory)?;
    // `card0-DP-1` is a connector.
    let is_card = |name: &&String| {
        let number = name.strip_prefix("card").map(str::as_bytes);
        matches!(number, Some([b'0'..=b'9']))
    };
    for card in names.iter().filter(is_card) {
        let device = directory.join(card).join("device");
        let uevent = plan.text(&device.join("uevent")).unwrap_or_default();
        if !uevent.contains("DRIVER=amdgpu") {
            continue;
        }
        let mut label = |file: &str| plan.label(&device.join(file)).unwrap_or_default();
        let labels = [
            ("card", &**card),
            ("memory_vendor", &label("mem_info_vram_vendor")),
            (
                "power_performance_level",
                &label("power_dpm_force_performance_level"),
            ),
            ("unique_id", &label("unique_id")),
            ("vendor", "amd"),
        ];
        plan.fixed(&INFO, &labels, 1.0);
        for ([file], desc) in table::rows(include_str!("drm.txt")) {
            let path = device.join(file);
            plan.file_or(&desc, &labels[..1], &path, Decode::PLAIN, 0.0);
        }
    }
    Ok(())
}
