//! Properties in udev's database of a block device that become labels.
//!
//! Invariant: a missing property is the empty string, which means no label.

use crate::scan::{label_text, next_line};

#[derive(Debug, Default, PartialEq)]
pub(crate) struct UdevInfo {
    pub(crate) path: String,
    pub(crate) wwn: String,
    pub(crate) model: String,
    pub(crate) serial: String,
    pub(crate) revision: String,
    pub(crate) fs_type: String,
    pub(crate) fs_usage: String,
    pub(crate) fs_uuid: String,
    pub(crate) fs_version: String,
    pub(crate) dm_name: String,
    pub(crate) dm_uuid: String,
    pub(crate) dm_vg_name: String,
    pub(crate) dm_lv_name: String,
    pub(crate) dm_lv_layer: String,
    pub(crate) ata_write_cache: Option<f64>,
    pub(crate) ata_write_cache_enabled: Option<f64>,
    pub(crate) ata_rotation_rate_rpm: Option<f64>,
}

impl UdevInfo {
    /// Parses the `E:NAME=value` lines of a file in `/run/udev/data`.
    pub(crate) fn parse(mut text: &[u8]) -> Self {
        let mut info = Self::default();
        let (mut is_ata, mut short_serial, mut long_serial) = (false, String::new(), String::new());
        while let Some(line) = next_line(&mut text) {
            let Some((name, value)) = line.strip_prefix(b"E:").and_then(|line| {
                let at = memchr::memchr(b'=', line)?;
                Some((&line[..at], &line[at + 1..]))
            }) else {
                continue;
            };
            let target = match name {
                b"ID_PATH" => &mut info.path,
                b"ID_WWN" => &mut info.wwn,
                b"ID_MODEL" => &mut info.model,
                b"SCSI_IDENT_SERIAL" => &mut info.serial,
                b"ID_SERIAL_SHORT" => &mut short_serial,
                b"ID_SERIAL" => &mut long_serial,
                b"ID_REVISION" => &mut info.revision,
                b"ID_FS_TYPE" => &mut info.fs_type,
                b"ID_FS_USAGE" => &mut info.fs_usage,
                b"ID_FS_UUID" => &mut info.fs_uuid,
                b"ID_FS_VERSION" => &mut info.fs_version,
                b"DM_NAME" => &mut info.dm_name,
                b"DM_UUID" => &mut info.dm_uuid,
                b"DM_VG_NAME" => &mut info.dm_vg_name,
                b"DM_LV_NAME" => &mut info.dm_lv_name,
                b"DM_LV_LAYER" => &mut info.dm_lv_layer,
                b"ID_ATA" => {
                    is_ata = !value.is_empty();
                    continue;
                }
                b"ID_ATA_WRITE_CACHE" => {
                    info.ata_write_cache = float(value);
                    continue;
                }
                b"ID_ATA_WRITE_CACHE_ENABLED" => {
                    info.ata_write_cache_enabled = float(value);
                    continue;
                }
                b"ID_ATA_ROTATION_RATE_RPM" => {
                    info.ata_rotation_rate_rpm = float(value);
                    continue;
                }
                _ => continue,
            };
            *target = label_text(value);
        }
        // The number printed on the disk, else the bus's, else virtio's.
        for fallback in [short_serial, long_serial] {
            if info.serial.is_empty() {
                info.serial = fallback;
            }
        }
        if !is_ata {
            (
                info.ata_write_cache,
                info.ata_write_cache_enabled,
                info.ata_rotation_rate_rpm,
            ) = (None, None, None);
        }
        info
    }
}

fn float(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_fall_back_and_ata_needs_the_mark() {
        let info = UdevInfo::parse(
            b"S:disk/x\nE:ID_SERIAL=long\nE:ID_SERIAL_SHORT=short\nE:ID_ATA_WRITE_CACHE=1\nE:x",
        );
        assert_eq!(
            (info.serial.as_str(), info.ata_write_cache),
            ("short", None)
        );
        let info = UdevInfo::parse(
            b"E:SCSI_IDENT_SERIAL=printed\nE:ID_SERIAL_SHORT=s\nE:ID_ATA=1\nE:ID_ATA_WRITE_CACHE=1",
        );
        assert_eq!(
            (info.serial.as_str(), info.ata_write_cache),
            ("printed", Some(1.0))
        );
        assert_eq!(UdevInfo::parse(b"E:ID_SERIAL=a=b\n").serial, "a=b");
    }
}
