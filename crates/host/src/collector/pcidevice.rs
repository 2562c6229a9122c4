//! PCI devices: identification, links, power states, virtual functions.
//!
//! Invariant: a link that a device does not have is -1, a virtual function 0, as in node_exporter.

use std::fs;
use std::path::Path;

use crate::collector::pci_ids::PciIds;
use crate::config::HostConfig;
use crate::error::HostError;
use crate::scan::{float, hex, trim};
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan, SysfsCollector};
use crate::table;

const INFO: Desc<'static> = Desc::gauge(
    "node_pcidevice_info",
    "Identification of a PCI device; the value is 1.",
);
const NUMA_NODE: Desc<'static> = Desc::gauge(
    "node_pcidevice_numa_node",
    "NUMA node of the device, if it is known.",
);
const POWER_STATE: Desc<'static> = Desc::gauge(
    "node_pcidevice_power_state",
    "Whether the device is in this power state.",
);
const POWER_STATES: [&str; 7] = ["D0", "D1", "D2", "D3hot", "D3cold", "unknown", "error"];

/// Segment, bus, device and function, as labels show them.
type Location = [String; 4];

pub(crate) fn new(config: &HostConfig) -> SysfsCollector {
    let ids = config.pci_names.then(|| PciIds::load(&config.pci_ids));
    let directory = config.sysfs.join("bus/pci/devices");
    SysfsCollector::new(directory, move |directory, plan| {
        describe(directory, ids.as_ref(), plan)
    })
}

fn describe(directory: &Path, ids: Option<&PciIds>, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for name in sysdir::list(directory)? {
        let path = directory.join(&name);
        // The link leads through the device that this one is behind.
        let Some(location) = location(&name) else {
            continue;
        };
        let target = fs::read_link(&path).unwrap_or_default();
        let parent = target.parent().and_then(Path::file_name);
        let parent = parent
            .and_then(|name| name.to_str())
            .and_then(self::location);
        let parent = parent.unwrap_or_else(|| std::array::from_fn(|_| "*".to_owned()));
        describe_info(ids, &path, &location, &parent, plan);
        describe_values(&path, &labels(&location), plan);
    }
    Ok(())
}

fn describe_info(
    ids: Option<&PciIds>,
    path: &Path,
    location: &Location,
    parent: &Location,
    plan: &mut Plan<'_>,
) {
    let mut id = |file: &str, digits: usize| {
        let text = plan.text(&path.join(file)).unwrap_or_default();
        let number = hex(trim(text.as_bytes())).unwrap_or_default();
        format!("0x{number:0digits$x}")
    };
    let [class, vendor, device] =
        [("class", 6), ("vendor", 4), ("device", 4)].map(|(file, digits)| id(file, digits));
    let [of_vendor, of_device] = ["subsystem_vendor", "subsystem_device"].map(|file| id(file, 4));
    let revision = id("revision", 2);
    let mut all = labels(location).to_vec();
    let names = [
        "parent_segment",
        "parent_bus",
        "parent_device",
        "parent_function",
    ];
    all.extend(names.into_iter().zip(parent.iter().map(String::as_str)));
    all.extend([
        ("class_id", &*class),
        ("vendor_id", &vendor),
        ("device_id", &device),
        ("subsystem_vendor_id", &of_vendor),
        ("subsystem_device_id", &of_device),
        ("revision", &revision),
    ]);
    let named;
    if let Some(ids) = ids {
        named = [
            ("vendor_name", ids.vendor(&vendor)),
            ("device_name", ids.device(&vendor, &device)),
            ("subsystem_vendor_name", ids.vendor(&of_vendor)),
            (
                "subsystem_device_name",
                ids.subsystem(&vendor, &device, &of_vendor, &of_device),
            ),
            ("class_name", ids.class(&class)),
        ];
        all.extend(named.iter().map(|(name, value)| (*name, value.as_str())));
    }
    plan.fixed(&INFO, &all, 1.0);
}

fn describe_values(path: &Path, labels: &[(&str, &str); 4], plan: &mut Plan<'_>) {
    for ([file, kind], desc) in table::rows(include_str!("pcidevice.txt")) {
        let (decode, missing) = match kind {
            "speed" => (Decode::With(speed), -1.0),
            "width" => (Decode::With(width), -1.0),
            "switch" => (Decode::With(switch), 0.0),
            _ => (Decode::PLAIN, 0.0),
        };
        plan.file_or(&desc, labels, &path.join(file), decode, missing);
    }
    let node = path.join("numa_node");
    plan.file(&NUMA_NODE, labels, &node, Decode::With(numa_node));
    let power = path.join("power_state");
    for state in POWER_STATES {
        let [segment, bus, device, function] = *labels;
        let labels = [segment, bus, device, function, ("state", state)];
        plan.file(&POWER_STATE, &labels, &power, Decode::Is(state.into()));
    }
}

fn labels(location: &Location) -> [(&'static str, &str); 4] {
    let [segment, bus, device, function] = location;
    [
        ("segment", segment),
        ("bus", bus),
        ("device", device),
        ("function", function),
    ]
}

/// Parses `0000:45:00.0`.
fn location(name: &str) -> Option<Location> {
    let mut parts = name.split([':', '.']);
    let mut next = |digits: usize| {
        let number = hex(parts.next()?.as_bytes())?;
        Some(format!("{number:0digits$x}"))
    };
    let location = [next(4)?, next(2)?, next(2)?, next(1)?];
    parts.next().is_none().then_some(location)
}

/// Parses `8.0 GT/s PCIe` as transfers per second.
fn speed(text: &[u8]) -> Option<f64> {
    let number = text.strip_suffix(b"GT/s PCIe").map(trim);
    Some(number.and_then(float).map_or(-1.0, |speed| speed * 1e9))
}

fn width(text: &[u8]) -> Option<f64> {
    Some(float(text).unwrap_or(-1.0))
}

fn switch(text: &[u8]) -> Option<f64> {
    float(text).map(|value| f64::from(u8::from(value != 0.0)))
}

fn numa_node(text: &[u8]) -> Option<f64> {
    float(text).filter(|node| *node >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_and_speeds() {
        let found = location("0000:45:00.0").expect("a location");
        assert_eq!(found, ["0000", "45", "00", "0"]);
        assert_eq!(
            location("10000:1:2.7").expect("a location"),
            ["10000", "01", "02", "7"]
        );
        for name in ["pci0000:00", "0000:45:00", "0000:45:00.0.1", "x"] {
            assert_eq!(location(name), None, "{name}");
        }
        assert_eq!(speed(b"2.5 GT/s PCIe"), Some(2.5e9));
        assert_eq!(speed(b"Unknown"), Some(-1.0));
    }
}
