//! Counters of InfiniBand ports.
//!
//! Invariant: data counters are exported in octets; the hardware counts units of four.

use std::path::Path;

use crate::config::{self, HostConfig};
use crate::error::HostError;
use crate::filter::Filter;
use crate::scan::{float, number};
use crate::sink::Desc;
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan, SysfsCollector};
use crate::table;

const INFO: Desc<'static> = Desc::gauge(
    "node_infiniband_info",
    "Non-numeric data from /sys/class/infiniband/<device>, value is always 1.",
);

/// Files below a port, and the factors of their numbers or what else to make of them.
const NUMBERS: &str = include_str!("infiniband.txt");

pub(crate) fn new(config: &HostConfig) -> Result<SysfsCollector, HostError> {
    let devices = config.infiniband.compile(&config::INFINIBAND_DEVICE)?;
    let directory = config.sysfs.join("class/infiniband");
    Ok(SysfsCollector::new(directory, move |directory, plan| {
        describe(directory, &devices, plan)
    }))
}

fn describe(directory: &Path, devices: &Filter, plan: &mut Plan<'_>) -> Result<(), HostError> {
    for device in sysdir::list(directory)? {
        if !devices.keeps(device.as_bytes()) {
            continue;
        }
        let directory = directory.join(&device);
        let mut label = |file: &str| plan.label(&directory.join(file)).unwrap_or_default();
        let labels = [
            ("device", device.as_str()),
            ("board_id", &label("board_id")),
            ("firmware_version", &label("fw_ver")),
            ("hca_type", &label("hca_type")),
        ];
        plan.fixed(&INFO, &labels, 1.0);
        let ports = directory.join("ports");
        for port in sysdir::list(&ports).unwrap_or_default() {
            describe_port(&device, &port, &ports.join(&port), plan);
        }
    }
    Ok(())
}

fn describe_port(device: &str, port: &str, directory: &Path, plan: &mut Plan<'_>) {
    let labels = [("device", device), ("port", port)];
    for ([file, reading], desc) in table::rows(NUMBERS) {
        let decode = match reading {
            "state" => Decode::With(state),
            "rate" => Decode::With(rate),
            "seconds" => Decode::With(seconds),
            factor => Decode::Times(table::number(factor)),
        };
        plan.file(&desc, &labels, &directory.join(file), decode);
    }
}

/// Converts milliseconds to whole seconds, as node_exporter divides.
fn seconds(text: &[u8]) -> Option<f64> {
    number(text).map(|milliseconds| (milliseconds / 1000) as f64)
}

/// Reads the number of `4: ACTIVE`.
pub(crate) fn state(text: &[u8]) -> Option<f64> {
    let at = memchr::memchr(b':', text)?;
    number(text[..at].trim_ascii()).map(|id| id as f64)
}

/// Parses `100 Gb/sec (4X EDR)` as bytes per second.
pub(crate) fn rate(text: &[u8]) -> Option<f64> {
    const BYTES_PER_GIGABIT: f64 = 125_000_000.0;
    let at = memchr::memchr(b' ', text)?;
    // node_exporter parses it as a 32-bit float and truncates it.
    let gigabits = float(&text[..at])? as f32;
    Some((f64::from(gigabits) * BYTES_PER_GIGABIT).trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_rates() {
        assert_eq!(state(b"4: ACTIVE"), Some(4.0));
        assert_eq!(rate(b"40 Gb/sec (4X QDR)"), Some(5e9));
        assert_eq!(rate(b"2.5 Gb/sec (1X SDR)"), Some(312_500_000.0));
        assert_eq!((state(b"ACTIVE"), rate(b"fast")), (None, None));
    }
}
