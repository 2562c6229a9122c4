//! The machine's identification by its firmware.
//!
//! Invariant: read only at a refresh; nothing of it changes before the next boot.

use std::path::Path;

use crate::error::HostError;
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::Plan;

const INFO: Desc<'static> = Desc::gauge(
    "node_dmi_info",
    "A metric with a constant '1' value labeled by bios_date, bios_release, bios_vendor, bios_version, \
     board_asset_tag, board_name, board_serial, board_vendor, board_version, chassis_asset_tag, chassis_serial, \
     chassis_vendor, chassis_version, product_family, product_name, product_serial, product_sku, product_uuid, \
     product_version, system_vendor if provided by DMI.",
);

/// Files named like their labels; `sys_vendor` has another label name.
const FILES: &str = "\
    bios_date bios_release bios_vendor bios_version board_asset_tag board_name board_serial board_vendor \
    board_version chassis_asset_tag chassis_serial chassis_vendor chassis_version product_family product_name \
    product_serial product_sku product_uuid product_version";

pub(crate) fn describe(directory: &Path, plan: &mut Plan<'_>) -> Result<(), HostError> {
    let names = sysdir::list(directory)?;
    let files = FILES.split(' ').map(|name| (name, name));
    let values: Vec<(&str, String)> = files
        .chain([("system_vendor", "sys_vendor")])
        .filter(|(_, file)| names.iter().any(|name| name == file))
        // Only root may read serial numbers.
        .filter_map(|(label, file)| Some((label, plan.text(&directory.join(file))?)))
        .collect();
    if values.is_empty() {
        return Err(HostError::no_data(directory));
    }
    let labels: Vec<(&str, &str)> = values
        .iter()
        .map(|(label, text)| (*label, text.as_str()))
        .collect();
    plan.fixed(&INFO, &labels, 1.0);
    Ok(())
}
