//! `/proc/diskstats` and udev's properties of each device.
//!
//! Invariant: a device is filtered, and its udev file read, when it appears; the file is read again at a refresh or
//! when the device's number changes. A device that keeps its name keeps its counters' series.

use std::path::PathBuf;

use crate::collector::{Collector, Ctx};
use crate::config::{self, HostConfig};
use crate::error::{HostError, ParseError};
use crate::filter::Filter;
use crate::open_file::{End, OpenFile, ReadBuf, read_once};
use crate::ordered_cache::OrderedCache;
use crate::scan::{each_line, label_text, next_field, next_u64, number, trim};
use crate::sink::{Desc, Sink, Slot};
use crate::table;
use crate::udev::UdevInfo;

/// The columns' factors: a product, not a quotient, matches node_exporter's last bit. Sectors have 512 bytes, whatever the
/// device's own are.
const COLUMNS: &str = include_str!("diskstats.txt");
const COLUMN_COUNT: usize = 17;
/// Lines of partitions on kernels before 2.6.25 have fewer and are skipped, as node_exporter does.
const MIN_COLUMNS: usize = 11;

const INFO: Desc<'static> = Desc::gauge("node_disk_info", "Info of /sys/block/<block_device>.");
const FILESYSTEM_INFO: Desc<'static> =
    Desc::gauge("node_disk_filesystem_info", "Info about disk filesystem.");
const MAPPER_INFO: Desc<'static> = Desc::gauge(
    "node_disk_device_mapper_info",
    "Info about disk device mapper.",
);
/// Properties that are numbers.
const ATA: &str = include_str!("diskstats_ata.txt");

pub(crate) struct Diskstats {
    file: OpenFile,
    sys_block: PathBuf,
    udev_data: PathBuf,
    filter: Filter,
    columns: Vec<(f64, Desc<'static>)>,
    devices: OrderedCache<Box<[u8]>, Option<Device>>,
}

struct Device {
    name: String,
    number: (u32, u32),
    /// Whether the properties of this number still have to be read.
    unread: bool,
    counters: Vec<Slot>,
    info: Option<(Slot, Properties)>,
    /// Series with constant values: 1, or udev's measurements.
    facts: Vec<(Slot, f64)>,
}

/// Labels of a device.
#[derive(PartialEq)]
struct Properties {
    number: (u32, u32),
    udev: UdevInfo,
    rotational: bool,
}

/// The beginning of a line; its counters are parsed on demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskLine<'a> {
    pub(crate) number: (u32, u32),
    pub(crate) name: &'a [u8],
    rest: &'a [u8],
}

/// The counters of a line; their number depends on the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskCounters {
    values: [u64; COLUMN_COUNT],
    columns: usize,
}

impl DiskLine<'_> {
    /// Returns `None` for a line with too few counters.
    pub(crate) fn counters(&self) -> Result<Option<DiskCounters>, &'static str> {
        let mut rest = self.rest;
        let mut counters = DiskCounters {
            values: [0; COLUMN_COUNT],
            columns: 0,
        };
        for value in &mut counters.values {
            match next_u64(&mut rest).map_err(|_| "counters as numbers")? {
                Some(parsed) => *value = parsed,
                None => break,
            }
            counters.columns += 1;
        }
        Ok((counters.columns >= MIN_COLUMNS).then_some(counters))
    }
}

impl DiskCounters {
    pub(crate) fn values(&self) -> &[u64] {
        &self.values[..self.columns]
    }
}

impl Diskstats {
    pub(crate) fn new(config: &HostConfig) -> Result<Self, HostError> {
        Ok(Self {
            file: OpenFile::new(config.procfs.join("diskstats")),
            sys_block: config.sysfs.join("block"),
            udev_data: config.udev_data.clone(),
            filter: config.diskstats.compile(&config::DISKSTATS_DEVICE)?,
            columns: table::rows(COLUMNS)
                .map(|([factor], desc)| (table::number(factor), desc))
                .collect(),
            devices: OrderedCache::new(),
        })
    }
}

impl Collector for Diskstats {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let text = self.file.read(ctx.buf, End::Below(2048))?;
        let Self {
            devices,
            filter,
            columns,
            ..
        } = self;
        devices.begin();
        let parsed = parse(text, |line| {
            let new = || filter.keeps(line.name).then(|| Device::new(line));
            let device = devices.entry(line.name, new);
            let Some(device) = device else { return Ok(()) };
            let Some(counters) = line.counters()? else {
                return Ok(());
            };
            if device.number != line.number {
                device.number = line.number;
                device.unread = true;
            }
            device.set_counters(columns, counters.values(), out);
            Ok(())
        });
        parsed.map_err(|source| self.file.malformed(source))?;
        self.devices
            .sweep(|_, device| device.into_iter().for_each(|device| device.retire(out)));
        for (_, device) in self.devices.values_mut() {
            let Some(device) = device else { continue };
            if device.unread || ctx.refresh {
                let properties =
                    Properties::read(device, &self.sys_block, &self.udev_data, ctx.buf);
                device.set_properties(properties, out);
                device.unread = false;
            }
            device.set_facts(out);
        }
        Ok(())
    }
}

impl Device {
    fn new(line: &DiskLine<'_>) -> Self {
        Self {
            name: label_text(line.name),
            number: line.number,
            unread: true,
            counters: Vec::new(),
            info: None,
            facts: Vec::new(),
        }
    }

    fn set_counters(&mut self, columns: &[(f64, Desc<'_>)], values: &[u64], out: &mut Sink) {
        for (at, (value, (factor, desc))) in values.iter().zip(columns).enumerate() {
            if self.counters.len() == at {
                self.counters.push(out.add(desc, &[("device", &self.name)]));
            }
            out.set(self.counters[at], *value as f64 * factor);
        }
    }

    fn set_properties(&mut self, properties: Properties, out: &mut Sink) {
        if self
            .info
            .as_ref()
            .is_some_and(|(_, known)| *known == properties)
        {
            return;
        }
        self.retire_facts(out);
        let info = self.new_info(&properties, out);
        let udev = &properties.udev;
        let device = ("device", self.name.as_str());
        if !udev.get("ID_FS_TYPE").is_empty() {
            let labels = [
                device,
                ("type", udev.get("ID_FS_TYPE")),
                ("usage", udev.get("ID_FS_USAGE")),
                ("uuid", udev.get("ID_FS_UUID")),
                ("version", udev.get("ID_FS_VERSION")),
            ];
            self.facts.push((out.add(&FILESYSTEM_INFO, &labels), 1.0));
        }
        if !udev.get("DM_NAME").is_empty() {
            let labels = [
                device,
                ("name", udev.get("DM_NAME")),
                ("uuid", udev.get("DM_UUID")),
                ("vg_name", udev.get("DM_VG_NAME")),
                ("lv_name", udev.get("DM_LV_NAME")),
                ("lv_layer", udev.get("DM_LV_LAYER")),
            ];
            self.facts.push((out.add(&MAPPER_INFO, &labels), 1.0));
        }
        for ([property], desc) in table::rows(ATA) {
            if let Some(value) = udev.ata(property) {
                self.facts.push((out.add(&desc, &[device]), value));
            }
        }
        self.info = Some((info, properties));
    }

    fn new_info(&self, properties: &Properties, out: &mut Sink) -> Slot {
        let (major, minor) = (
            properties.number.0.to_string(),
            properties.number.1.to_string(),
        );
        let udev = &properties.udev;
        let labels = [
            ("device", self.name.as_str()),
            ("major", &major),
            ("minor", &minor),
            ("path", udev.get("ID_PATH")),
            ("wwn", udev.get("ID_WWN")),
            ("model", udev.get("ID_MODEL")),
            ("serial", udev.serial()),
            ("revision", udev.get("ID_REVISION")),
            ("rotational", if properties.rotational { "1" } else { "0" }),
        ];
        out.add(&INFO, &labels)
    }

    fn set_facts(&self, out: &mut Sink) {
        if let Some((slot, _)) = &self.info {
            out.set(*slot, 1.0);
        }
        for (slot, value) in &self.facts {
            out.set(*slot, *value);
        }
    }

    fn retire_facts(&mut self, out: &mut Sink) {
        out.retire_all(self.info.take().map(|(slot, _)| slot));
        out.retire_all(self.facts.drain(..).map(|(slot, _)| slot));
    }

    fn retire(mut self, out: &mut Sink) {
        self.retire_facts(out);
        out.retire_all(self.counters);
    }
}

impl Properties {
    fn read(
        device: &Device,
        sys_block: &std::path::Path,
        udev_data: &std::path::Path,
        buf: &mut ReadBuf,
    ) -> Self {
        let (major, minor) = device.number;
        let udev =
            read_once(&udev_data.join(format!("b{major}:{minor}")), buf).map(UdevInfo::parse);
        // Slashes of a name are exclamation marks in sysfs; partitions have no queue and count as not rotational.
        let queue = sys_block
            .join(device.name.replace('/', "!"))
            .join("queue/rotational");
        let rotational = read_once(&queue, buf).is_some_and(|text| trim(text) == b"1");
        Self {
            number: device.number,
            udev: udev.unwrap_or_default(),
            rotational,
        }
    }
}

/// Calls `each` with every line that names a device.
pub(crate) fn parse(
    text: &[u8],
    mut each: impl FnMut(&DiskLine<'_>) -> Result<(), &'static str>,
) -> Result<(), ParseError> {
    each_line(text, |line| match parse_line(line)? {
        Some(line) => each(&line),
        None => Ok(()),
    })
}

fn parse_line(mut rest: &[u8]) -> Result<Option<DiskLine<'_>>, &'static str> {
    let mut short = |what| match next_field(&mut rest) {
        Some(field) => number(field)
            .and_then(|n| u32::try_from(n).ok())
            .map(Some)
            .ok_or(what),
        None => Ok(None),
    };
    let (Some(major), Some(minor)) = (short("a major number")?, short("a minor number")?) else {
        return Ok(None);
    };
    Ok(next_field(&mut rest).map(|name| DiskLine {
        number: (major, minor),
        name,
        rest,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_11_to_17_columns() {
        let text = b" 3 1 hda1 1 2 3 4\n 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n\n\
            8 16 sdb 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18\n";
        let mut seen = Vec::new();
        let parsed = parse(text, |line| {
            if let Some(counters) = line.counters()? {
                seen.push((line.name.to_vec(), line.number, counters.values().len()));
            }
            Ok(())
        });
        assert_eq!(parsed, Ok(()));
        assert_eq!(
            seen,
            [
                (b"sda".to_vec(), (8, 0), 11),
                (b"sdb".to_vec(), (8, 16), 17)
            ]
        );
    }

    #[test]
    fn malformed_lines_are_errors() {
        for bad in [
            &b"x 0 sda 1"[..],
            b"8 -1 sda",
            b"8 0 sda 1 2 -3 4 5 6 7 8 9 10 11",
        ] {
            assert!(
                parse(bad, |line| line.counters().map(drop)).is_err(),
                "{bad:?}"
            );
        }
    }
}
