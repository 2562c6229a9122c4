//! Properties in udev's database of a block device that become labels.
//!
//! Invariant: a missing property is the empty string, which means no label.

use std::collections::BTreeMap;

use crate::scan::{label_text, next_line};

/// The properties that are kept.
const NAMES: &str = "\
    DM_LV_LAYER DM_LV_NAME DM_NAME DM_UUID DM_VG_NAME ID_ATA ID_ATA_ROTATION_RATE_RPM ID_ATA_WRITE_CACHE \
    ID_ATA_WRITE_CACHE_ENABLED ID_FS_TYPE ID_FS_USAGE ID_FS_UUID ID_FS_VERSION ID_MODEL ID_PATH ID_REVISION \
    ID_SERIAL ID_SERIAL_SHORT ID_WWN SCSI_IDENT_SERIAL";

/// A device's properties by name.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct UdevInfo(BTreeMap<&'static str, String>);

impl UdevInfo {
    /// Parses the `E:NAME=value` lines of a file in `/run/udev/data`.
    pub(crate) fn parse(mut text: &[u8]) -> Self {
        let mut info = Self::default();
        while let Some(line) = next_line(&mut text) {
            let property = line.strip_prefix(b"E:").and_then(|line| {
                let at = memchr::memchr(b'=', line)?;
                let mut names = NAMES.split(' ');
                let name = names.find(|name| name.as_bytes() == &line[..at])?;
                Some((name, label_text(&line[at + 1..])))
            });
            info.0.extend(property);
        }
        info
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Returns the number printed on the disk, else the bus's, else virtio's.
    pub(crate) fn serial(&self) -> &str {
        let known =
            ["SCSI_IDENT_SERIAL", "ID_SERIAL_SHORT", "ID_SERIAL"].map(|name| self.get(name));
        known
            .into_iter()
            .find(|serial| !serial.is_empty())
            .unwrap_or_default()
    }

    /// Returns a number that counts if the device is marked as ATA.
    pub(crate) fn ata(&self, name: &str) -> Option<f64> {
        let value = self.get(name).parse().ok();
        value.filter(|_| !self.get("ID_ATA").is_empty())
    }
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
            (info.serial(), info.ata("ID_ATA_WRITE_CACHE")),
            ("short", None)
        );
        let info = UdevInfo::parse(
            b"E:SCSI_IDENT_SERIAL=printed\nE:ID_SERIAL_SHORT=s\nE:ID_ATA=1\nE:ID_ATA_WRITE_CACHE=1",
        );
        assert_eq!(
            (info.serial(), info.ata("ID_ATA_WRITE_CACHE")),
            ("printed", Some(1.0))
        );
        assert_eq!(UdevInfo::parse(b"E:ID_SERIAL=a=b\n").serial(), "a=b");
    }
}
