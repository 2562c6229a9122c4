//! Wireless devices, their network and its stations, from the kernel's nl80211 family.
//!
//! Invariant: a device without a network has its frequency alone; a device that vanishes between two questions loses
//! its series, and fails nothing.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::io::Errno;
use serde_json::Value;

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::netlink::{Dumper, attributes, malformed, u16_at, u32_at, u64_at};
use crate::open_file::{ReadBuf, read_once};
use crate::rows::Rows;
use crate::scan::{label_text, mac, until_nul};
use crate::sink::{Desc, Sink};
use crate::table;

const FREQUENCY: Desc<'static> = Desc::gauge(
    "node_wifi_interface_frequency_hertz",
    "Frequency that the device works at, in hertz.",
);
const INFO: Desc<'static> = Desc::gauge(
    "node_wifi_station_info",
    "The network that the device is in; the value is 1.",
);
const STATION: &str = include_str!("wifi.txt");

pub(crate) struct Wifi {
    source: Source,
    rows: Rows,
}

enum Source {
    Kernel(Option<Nl80211>),
    /// node_exporter's fixtures.
    Files(PathBuf),
}

/// A socket, and the family's number in this boot.
struct Nl80211 {
    dumper: Dumper,
    family: u16,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Device {
    index: u32,
    name: String,
    address: Vec<u8>,
    frequency_mhz: f64,
    network: Option<Network>,
    stations: Vec<Station>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Network {
    bssid: Vec<u8>,
    ssid: String,
    mode: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Station {
    address: Vec<u8>,
    /// By `STATION`.
    values: [f64; 12],
}

impl Wifi {
    pub(crate) fn new(config: &HostConfig) -> Self {
        let fixtures = &config.wifi_fixtures;
        Self {
            source: match fixtures.as_os_str().is_empty() {
                true => Source::Kernel(None),
                false => Source::Files(fixtures.clone()),
            },
            rows: Rows::new(),
        }
    }
}

impl Collector for Wifi {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let devices = match &mut self.source {
            Source::Files(directory) => from_files(directory, ctx.buf)?,
            Source::Kernel(kept) => {
                let mut kernel = kept.take().map_or_else(Nl80211::open, Ok)?;
                let devices = kernel.devices()?;
                *kept = Some(kernel);
                devices
            }
        };
        self.rows.begin();
        // Some virtual devices have no name.
        for device in devices.iter().filter(|device| !device.name.is_empty()) {
            device.set(&mut self.rows, out);
        }
        self.rows.end(out);
        Ok(())
    }
}

impl Device {
    fn set(&self, rows: &mut Rows, out: &mut Sink) {
        let name = self.name.as_str();
        let device = ("device", name);
        let key: [&[u8]; 2] = [b"device", name.as_bytes()];
        rows.set_all(
            &key,
            &[self.frequency_mhz * 1e6],
            out,
            (&[FREQUENCY], &[device]),
        );
        if let Some(network) = &self.network {
            let bssid = mac(&network.bssid);
            let labels = [
                device,
                ("bssid", bssid.as_str()),
                ("ssid", network.ssid.as_str()),
                ("mode", network.mode),
            ];
            let key = labels.map(|(_, value)| value.as_bytes());
            rows.set_all(&key, &[1.0], out, (&[INFO], &labels));
        }
        for station in &self.stations {
            let address = mac(&station.address);
            let labels = [device, ("mac_address", address.as_str())];
            let key: [&[u8]; 3] = [b"station", name.as_bytes(), address.as_bytes()];
            let add = |out: &mut Sink| table::add(STATION, &labels, out);
            rows.set(&key, &station.values, out, add);
        }
    }
}

/// Attributes and commands of linux/nl80211.h.
const ATTR_IFINDEX: u16 = 3;
const ATTR_IFNAME: u16 = 4;
const ATTR_MAC: u16 = 6;
const ATTR_STA_INFO: u16 = 21;
const ATTR_WIPHY_FREQ: u16 = 38;
const ATTR_BSS: u16 = 47;
const GET_INTERFACE: u8 = 5;
const GET_STATION: u8 = 17;
const GET_SCAN: u8 = 32;
/// A generic message's own header: command, version, two unused bytes.
const GENERIC_HEADER: usize = 4;

impl Nl80211 {
    fn open() -> Result<Self, HostError> {
        const CONTROL: u16 = 16;
        const GET_FAMILY: u8 = 3;
        let mut dumper = Dumper::open_generic()?;
        let mut family = None;
        dumper.dump(CONTROL, &[GET_FAMILY, 1, 0, 0], CONTROL, |message| {
            family = family.or(family_number(message, b"nl80211")?);
            Ok(())
        })?;
        let path = "nl80211".into();
        let family = family.ok_or(HostError::NoData { path })?;
        Ok(Self { dumper, family })
    }

    fn devices(&mut self) -> Result<Vec<Device>, HostError> {
        let mut devices = Vec::new();
        let family = self.family;
        let header = [GET_INTERFACE, 0, 0, 0];
        self.dumper.dump(family, &header, family, |message| {
            devices.push(parse_device(message)?);
            Ok(())
        })?;
        for device in devices.iter_mut().filter(|device| !device.name.is_empty()) {
            self.dump(GET_SCAN, device.index, &device.address, |message| {
                device.network = device.network.take().or(parse_network(message)?);
                Ok(())
            })?;
            self.dump(GET_STATION, device.index, &device.address, |message| {
                device.stations.push(parse_station(message)?);
                Ok(())
            })?;
        }
        Ok(devices)
    }

    /// Asks about one device. One that does not support the question, or is gone, has no answers.
    fn dump(
        &mut self,
        command: u8,
        index: u32,
        address: &[u8],
        each: impl FnMut(&[u8]) -> Result<(), HostError>,
    ) -> Result<(), HostError> {
        let mut body = vec![command, 0, 0, 0];
        add_attribute(&mut body, ATTR_IFINDEX, &index.to_ne_bytes());
        if !address.is_empty() {
            add_attribute(&mut body, ATTR_MAC, address);
        }
        match self.dumper.dump(self.family, &body, self.family, each) {
            Err(HostError::Netlink {
                source: Errno::OPNOTSUPP | Errno::NODEV | Errno::NOENT | Errno::NETDOWN,
                ..
            }) => Ok(()),
            other => other,
        }
    }
}

fn add_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    body.extend(len.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn generic(message: &[u8]) -> Result<&[u8], HostError> {
    message
        .get(GENERIC_HEADER..)
        .ok_or(malformed("a generic message without its header"))
}

/// Returns the number of the family that `message` describes, if it has this name.
fn family_number(message: &[u8], wanted: &[u8]) -> Result<Option<u16>, HostError> {
    const FAMILY_ID: u16 = 1;
    const FAMILY_NAME: u16 = 2;
    let (mut number, mut is_wanted) = (None, false);
    attributes(generic(message)?, |kind, value| match kind {
        FAMILY_ID => number = u16_at(value, 0),
        FAMILY_NAME => is_wanted = until_nul(value) == wanted,
        _ => {}
    })?;
    Ok(number.filter(|_| is_wanted))
}

pub(crate) fn parse_device(message: &[u8]) -> Result<Device, HostError> {
    let mut device = Device::default();
    attributes(generic(message)?, |kind, value| match kind {
        ATTR_IFINDEX => device.index = u32_at(value, 0).unwrap_or(0),
        ATTR_IFNAME => device.name = label_text(until_nul(value)),
        ATTR_MAC => device.address = value.to_vec(),
        ATTR_WIPHY_FREQ => device.frequency_mhz = u32_at(value, 0).unwrap_or(0).into(),
        _ => {}
    })?;
    Ok(device)
}

/// Returns the network of a scan's result that the device is in; `None` for others.
pub(crate) fn parse_network(message: &[u8]) -> Result<Option<Network>, HostError> {
    const BSSID: u16 = 1;
    const ELEMENTS: u16 = 6;
    const STATUS: u16 = 9;
    let mut nested: &[u8] = &[];
    attributes(generic(message)?, |kind, value| {
        if kind == ATTR_BSS {
            nested = value;
        }
    })?;
    let mut network = Network::default();
    let mut status = None;
    attributes(nested, |kind, value| match kind {
        BSSID => network.bssid = value.to_vec(),
        ELEMENTS => network.ssid = ssid(value).map(label_text).unwrap_or_default(),
        STATUS => status = u32_at(value, 0),
        _ => {}
    })?;
    network.mode = mode(status.map(u64::from));
    Ok(status.map(|_| network))
}

/// Returns node_exporter's name of a status, which takes the kernel's "joined" for "not associated".
fn mode(status: Option<u64>) -> &'static str {
    match status {
        Some(0 | 1) => "client",
        Some(3) => "ad-hoc",
        _ => "unknown",
    }
}

/// Returns the name among a beacon's elements: each a number, a length and so many bytes.
fn ssid(mut elements: &[u8]) -> Option<&[u8]> {
    const SSID: u8 = 0;
    while let [number, len, rest @ ..] = elements {
        let (value, rest) = rest.split_at_checked(usize::from(*len))?;
        if *number == SSID {
            return Some(value);
        }
        elements = rest;
    }
    None
}

pub(crate) fn parse_station(message: &[u8]) -> Result<Station, HostError> {
    let mut station = Station::default();
    let mut nested: &[u8] = &[];
    attributes(generic(message)?, |kind, value| match kind {
        ATTR_MAC => station.address = value.to_vec(),
        ATTR_STA_INFO => nested = value,
        _ => {}
    })?;
    let [
        connected,
        inactive,
        receive_rate,
        transmit_rate,
        received,
        sent,
        signal,
        retries,
        failed,
        beacon_loss,
        packets_sent,
        packets_received,
    ] = &mut station.values;
    let mut result = Ok(());
    attributes(nested, |kind, value| {
        let word = || f64::from(u32_at(value, 0).unwrap_or(0));
        match kind {
            1 => *inactive = word() / 1e3,
            // The 64-bit counters, if there, follow.
            2 => *received = word(),
            3 => *sent = word(),
            23 => *received = u64_at(value, 0).unwrap_or(0) as f64,
            24 => *sent = u64_at(value, 0).unwrap_or(0) as f64,
            7 => *signal = value.first().map_or(0.0, |byte| byte.cast_signed().into()),
            8 => result = bit_rate(value).map(|rate| *transmit_rate = rate),
            14 => result = bit_rate(value).map(|rate| *receive_rate = rate),
            9 => *packets_received = word(),
            10 => *packets_sent = word(),
            11 => *retries = word(),
            12 => *failed = word(),
            16 => *connected = word(),
            18 => *beacon_loss = word(),
            _ => {}
        }
    })?;
    result.map(|()| station)
}

/// Returns bits per second.
fn bit_rate(nested: &[u8]) -> Result<f64, HostError> {
    const UNIT: f64 = 1e5;
    let mut rate = 0.0;
    attributes(nested, |kind, value| match kind {
        1 if rate == 0.0 => rate = f64::from(u16_at(value, 0).unwrap_or(0)),
        5 => rate = f64::from(u32_at(value, 0).unwrap_or(0)),
        _ => {}
    })?;
    Ok(rate * UNIT)
}

/// Reads node_exporter's fixtures.
fn from_files(directory: &Path, buf: &mut ReadBuf) -> Result<Vec<Device>, HostError> {
    let list = read_json(&directory.join("interfaces.json"), buf);
    let list = list.ok_or_else(|| HostError::NoData {
        path: directory.to_path_buf(),
    })?;
    let devices = list.as_array().into_iter().flatten().map(|entry| {
        let name = text_of(entry, "name");
        let network = read_json(&directory.join(&name).join("bss.json"), buf);
        let stations = read_json(&directory.join(&name).join("stationinfo.json"), buf);
        let stations = stations.as_ref().and_then(Value::as_array);
        Device {
            frequency_mhz: number_of(entry, "frequency"),
            network: network.as_ref().map(|network| Network {
                bssid: bytes_of(network, "bssid"),
                ssid: text_of(network, "ssid"),
                mode: mode(network.get("status").and_then(Value::as_u64)),
            }),
            stations: stations.into_iter().flatten().map(station_of).collect(),
            name,
            ..Device::default()
        }
    });
    Ok(devices.collect())
}

fn station_of(entry: &Value) -> Station {
    let number = |name| number_of(entry, name);
    Station {
        address: bytes_of(entry, "hardwareaddr"),
        values: [
            number("connected") / 1e9,
            number("inactive") / 1e9,
            number("receivebitrate"),
            number("transmitbitrate"),
            number("receivedbytes"),
            number("transmittedbytes"),
            number("signal"),
            number("transmitretries"),
            number("transmitfailed"),
            number("beaconloss"),
            number("transmittedpackets"),
            number("receivedpackets"),
        ],
    }
}

fn read_json(path: &Path, buf: &mut ReadBuf) -> Option<Value> {
    serde_json::from_slice(read_once(path, buf)?).ok()
}

fn text_of(entry: &Value, name: &str) -> String {
    let text = entry.get(name).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

fn number_of(entry: &Value, name: &str) -> f64 {
    entry.get(name).and_then(Value::as_f64).unwrap_or(0.0)
}

fn bytes_of(entry: &Value, name: &str) -> Vec<u8> {
    BASE64_STANDARD
        .decode(text_of(entry, name))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut message = vec![0; GENERIC_HEADER];
        for (kind, value) in attributes {
            add_attribute(&mut message, *kind, value);
        }
        message
    }

    fn nested(attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
        message(attributes).split_off(GENERIC_HEADER)
    }

    fn word(number: u32) -> Vec<u8> {
        number.to_ne_bytes().to_vec()
    }

    #[test]
    fn a_device_its_network_and_a_station() {
        let device = message(&[
            (ATTR_IFINDEX, word(3)),
            (ATTR_IFNAME, b"wlan0\0".to_vec()),
            (ATTR_MAC, vec![2, 0, 0, 0, 0, 1]),
            (ATTR_WIPHY_FREQ, word(2412)),
        ]);
        let device = parse_device(&device).expect("whole");
        assert_eq!((device.index, device.name.as_str()), (3, "wlan0"));
        assert_eq!(device.frequency_mhz, 2412.0);

        let elements = [&[1, 1, 9, 0, 4][..], b"Home"].concat();
        let bss = nested(&[(1, vec![0xaa, 1]), (6, elements), (9, word(1))]);
        let network = parse_network(&message(&[(ATTR_BSS, bss)])).expect("whole");
        let network = network.expect("in use");
        assert_eq!(mac(&network.bssid), "aa:01");
        assert_eq!((network.ssid.as_str(), network.mode), ("Home", "client"));
        let other = nested(&[(1, vec![0xaa, 2])]);
        let other = parse_network(&message(&[(ATTR_BSS, other)]));
        assert_eq!(other.expect("whole"), None);

        let info = nested(&[
            (1, word(250)),
            (2, word(7)),
            (23, 5_000_000_000_u64.to_ne_bytes().to_vec()),
            (3, word(8)),
            (7, vec![0xd0]),
            (8, nested(&[(1, vec![0xff, 0xff]), (5, word(1_000_000))])),
            (14, nested(&[(1, 540_u16.to_ne_bytes().to_vec())])),
            (16, word(60)),
            (18, word(2)),
        ]);
        let station = message(&[(ATTR_MAC, vec![1, 2]), (ATTR_STA_INFO, info)]);
        let station = parse_station(&station).expect("whole");
        assert_eq!(
            station.values,
            [
                60.0, 0.25, 5.4e7, 1e11, 5e9, 8.0, -48.0, 0.0, 0.0, 2.0, 0.0, 0.0
            ]
        );
    }

    #[test]
    fn the_family_is_found_by_its_name() {
        let family = |name: &[u8]| message(&[(1, vec![28, 0]), (2, name.to_vec())]);
        let found = family_number(&family(b"nl80211\0"), b"nl80211");
        assert_eq!(found.expect("whole"), Some(28));
        let other = family_number(&family(b"nlctrl\0"), b"nl80211");
        assert_eq!(other.expect("whole"), None);
    }

    #[test]
    fn short_messages_are_errors_or_less() {
        let whole = message(&[(ATTR_BSS, nested(&[(6, vec![0, 9, 65]), (9, word(0))]))]);
        let network = parse_network(&whole).expect("whole").expect("in use");
        assert_eq!(network.ssid, "");
        for len in 0..whole.len() {
            let short = whole.get(..len).unwrap_or_default();
            // Ends between attributes are indistinguishable from whole messages.
            assert!(matches!(parse_network(short), Err(_) | Ok(None)), "{len}");
        }
    }
}
