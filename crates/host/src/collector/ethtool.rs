//! What drivers of network devices count themselves, and what their ports support.
//!
//! Invariant: names of a driver's statistics are asked for when their number changes and at refreshes; a round asks for
//! values. Two statistics whose names become the same family are both left out.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use regex::Regex;
use rustix::fd::OwnedFd;

use crate::collector::{Collector, Ctx};
use crate::config::{self, HostConfig};
use crate::error::HostError;
use crate::ethtool_ioctl::{self, Driver, Link};
use crate::filter::{self, Filter};
use crate::rows::Rows;
use crate::sink::{Desc, Sink};
use crate::{sysdir, table};

const INFO: Desc<'static> = Desc::gauge(
    "node_ethtool_info",
    "Driver of the device, its versions and its place on the bus; the value is 1.",
);
const PORT: Desc<'static> = Desc::gauge(
    "node_network_supported_port_info",
    "A kind of port that the device supports; the value is 1.",
);
/// Speed, autonegotiation, pause and asymmetric pause, which a device supports or offers.
const MODES: &str = include_str!("ethtool.txt");
const AUTONEGOTIATE: Desc<'static> = Desc::gauge(
    "node_network_autonegotiate",
    "Whether the device negotiates its speed.",
);

/// Statistics whose families are not made from their names.
const KNOWN: [(&str, &str); 7] = [
    ("rx_bytes", "received_bytes_total"),
    ("rx_dropped", "received_dropped_total"),
    ("rx_errors", "received_errors_total"),
    ("rx_packets", "received_packets_total"),
    ("tx_bytes", "transmitted_bytes_total"),
    ("tx_errors", "transmitted_errors_total"),
    ("tx_packets", "transmitted_packets_total"),
];

/// Bits of linux/ethtool.h's link modes, as far as 32 of them go.
const AUTONEGOTIATION_BIT: u32 = 6;
const PAUSE_BIT: u32 = 13;
const ASYMMETRIC_PAUSE_BIT: u32 = 14;
const PORTS: [(u32, &str); 6] = [
    (7, "TP"),
    (8, "AUI"),
    (9, "MII"),
    (10, "FIBRE"),
    (11, "BNC"),
    (16, "Backplane"),
];
/// Bit, megabits a second, whether both directions at once, medium.
const SPEEDS: [(u32, u32, bool, &str); 22] = [
    (0, 10, false, "T"),
    (1, 10, true, "T"),
    (2, 100, false, "T"),
    (3, 100, true, "T"),
    (4, 1_000, false, "T"),
    (5, 1_000, true, "T"),
    (12, 10_000, true, "T"),
    (17, 1_000, true, "KX"),
    (18, 10_000, true, "KX4"),
    (19, 10_000, true, "KR"),
    (20, 10_000, true, "R_FEC"),
    (21, 20_000, true, "MLD2"),
    (22, 20_000, true, "KR2"),
    (23, 40_000, true, "KR4"),
    (24, 40_000, true, "CR4"),
    (25, 40_000, true, "SR4"),
    (26, 40_000, true, "LR4"),
    (27, 56_000, true, "KR4"),
    (28, 56_000, true, "CR4"),
    (29, 56_000, true, "SR4"),
    (30, 56_000, true, "LR4"),
    (31, 25_000, true, "CR"),
];

pub(crate) struct Ethtool {
    directory: PathBuf,
    filter: Filter,
    metrics: regex::bytes::Regex,
    socket: Option<OwnedFd>,
    devices: HashMap<String, Statistics>,
    rows: Rows,
}

/// A device's statistics: the families of those that are exported, by their place.
#[derive(Default)]
struct Statistics {
    count: usize,
    families: Vec<Option<String>>,
}

/// What a driver says about a device; what it does not support is missing.
#[derive(Debug, Default)]
struct Answers<'a> {
    link: Option<Link>,
    driver: Option<Driver>,
    values: &'a [u64],
}

impl Ethtool {
    pub(crate) fn new(config: &HostConfig) -> Result<Self, HostError> {
        let flag = "collector.ethtool.metrics-include";
        Ok(Self {
            directory: config.sysfs.join("class/net"),
            filter: config.ethtool.compile(&config::ETHTOOL_DEVICE)?,
            metrics: filter::compile(flag, &config.ethtool_metrics)?,
            socket: None,
            devices: HashMap::new(),
            rows: Rows::new(),
        })
    }

    fn device(&mut self, name: &str, socket: &OwnedFd, refresh: bool, out: &mut Sink) {
        let driver = ethtool_ioctl::driver(socket, name).ok();
        let count = driver.as_ref().map_or(0, |driver| driver.statistics);
        let known = self.devices.entry(name.to_owned()).or_default();
        if count > 0 && (refresh || known.count != count) {
            let names = ethtool_ioctl::statistic_names(socket, name, count);
            *known = Statistics {
                count,
                families: families(&names.unwrap_or_default(), &self.metrics),
            };
        }
        let values = match count {
            0 => Vec::new(),
            count => ethtool_ioctl::statistics(socket, name, count).unwrap_or_default(),
        };
        let answers = Answers {
            link: ethtool_ioctl::link(socket, name).ok(),
            driver,
            values: &values,
        };
        answers.set(name, &known.families, &mut self.rows, out);
    }
}

impl Collector for Ethtool {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let names = sysdir::list(&self.directory)?;
        let socket = self.socket.take().map_or_else(ethtool_ioctl::open, Ok)?;
        self.devices.retain(|known, _| names.contains(known));
        self.rows.begin();
        for name in &names {
            if self.filter.keeps(name.as_bytes()) {
                self.device(name, &socket, ctx.refresh, out);
            }
        }
        self.rows.end(out);
        self.socket = Some(socket);
        Ok(())
    }
}

impl Answers<'_> {
    fn set(&self, device: &str, families: &[Option<String>], rows: &mut Rows, out: &mut Sink) {
        let name = ("device", device);
        if let Some(link) = self.link {
            set_modes(device, link.supported, "supported", rows, out);
            for (_, port) in PORTS.iter().filter(|(bit, _)| has(link.supported, *bit)) {
                let labels = [name, ("type", *port)];
                let key = [b"port", device.as_bytes(), port.as_bytes()];
                rows.set_all(&key, &[1.0], out, (&[PORT], &labels));
            }
            set_modes(device, link.advertised, "advertised", rows, out);
            let value = f64::from(u8::from(link.negotiates));
            let key: [&[u8]; 2] = [b"autonegotiate", device.as_bytes()];
            rows.set_all(&key, &[value], out, (&[AUTONEGOTIATE], &[name]));
        }
        if let Some(driver) = &self.driver {
            let labels = [
                ("bus_info", driver.bus.as_str()),
                name,
                ("driver", driver.name.as_str()),
                ("expansion_rom_version", driver.expansion_rom.as_str()),
                ("firmware_version", driver.firmware.as_str()),
                ("version", driver.version.as_str()),
            ];
            let key = labels.map(|(_, value)| value.as_bytes());
            rows.set_all(&key, &[1.0], out, (&[INFO], &labels));
        }
        for (family, value) in families.iter().zip(self.values) {
            if let Some(family) = family {
                let key = [b"statistic", device.as_bytes(), family.as_bytes()];
                let help = format!(
                    "The driver's own count, {}.",
                    family.trim_start_matches("node_ethtool_")
                );
                let desc = Desc::unknown(family, &help);
                rows.set_all(&key, &[*value as f64], out, (&[desc], &[name]));
            }
        }
    }
}

fn set_modes(device: &str, modes: u32, of: &str, rows: &mut Rows, out: &mut Sink) {
    const BYTES_IN_MEGABIT: f64 = 125_000.0;
    let descs = || table::rows_of(MODES, of).map(|([], desc)| desc);
    for (bit, megabits, is_full, medium) in SPEEDS {
        if !has(modes, bit) {
            continue;
        }
        let mode = format!("{megabits}base{medium}");
        let duplex = if is_full { "full" } else { "half" };
        let labels = [
            ("device", device),
            ("duplex", duplex),
            ("mode", mode.as_str()),
        ];
        let [_, parts @ ..] = labels.map(|(_, value)| value.as_bytes());
        let key = [of.as_bytes(), device.as_bytes(), parts[0], parts[1]];
        let value = f64::from(megabits) * BYTES_IN_MEGABIT;
        let speeds = |out: &mut Sink| {
            descs()
                .take(1)
                .map(|desc| out.add(&desc, &labels))
                .collect()
        };
        rows.set(&key, &[value], out, speeds);
    }
    let values = [AUTONEGOTIATION_BIT, PAUSE_BIT, ASYMMETRIC_PAUSE_BIT];
    let values = values.map(|bit| f64::from(u8::from(has(modes, bit))));
    let key: [&[u8]; 3] = [b"modes", of.as_bytes(), device.as_bytes()];
    let labels = [("device", device)];
    let bits = |out: &mut Sink| {
        descs()
            .skip(1)
            .map(|desc| out.add(&desc, &labels))
            .collect()
    };
    rows.set(&key, &values, out, bits);
}

fn has(modes: u32, bit: u32) -> bool {
    modes >> bit & 1 != 0
}

/// Returns the family of each statistic that is exported.
fn families(names: &[String], included: &regex::bytes::Regex) -> Vec<Option<String>> {
    let sane: Vec<String> = names.iter().map(|name| sanitized(name)).collect();
    let made: Vec<Option<String>> = names
        .iter()
        .zip(&sane)
        .map(|(name, sane)| {
            let is_exported = !name.is_empty() && included.is_match(sane.as_bytes());
            is_exported.then(|| made_family(sane))
        })
        .collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for family in made.iter().flatten() {
        *counts.entry(family).or_default() += 1;
    }
    made.iter()
        .zip(&sane)
        .map(|(family, sane)| {
            let family = family.as_ref()?;
            let is_only = counts.get(family.as_str()) == Some(&1);
            let known = KNOWN.iter().find(|(name, _)| name == sane);
            let shown = known.map(|(_, name)| format!("node_ethtool_{name}"));
            is_only.then(|| shown.unwrap_or_else(|| family.clone()))
        })
        .collect()
}

/// Replaces what a metric's name may not have by single underscores.
fn sanitized(name: &str) -> String {
    static OTHERS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("_*[^0-9A-Za-z_]+_*").expect("a valid pattern"));
    OTHERS.replace_all(name, "_").into_owned()
}

fn made_family(sane: &str) -> String {
    static RECEIVED: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("(^|_)rx(_|$)").expect("a valid pattern"));
    static SENT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("(^|_)tx(_|$)").expect("a valid pattern"));
    let lower = sane.to_lowercase();
    let name = RECEIVED.replace_all(lower.trim_start_matches('_'), "${1}received${2}");
    let name = SENT.replace_all(&name, "${1}transmitted${2}");
    format!("node_ethtool_{name}")
}

#[cfg(test)]
mod tests;
