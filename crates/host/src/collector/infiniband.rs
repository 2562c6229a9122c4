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
const STATE: Desc<'static> = Desc::gauge(
    "node_infiniband_state_id",
    "State of the InfiniBand port (0: no change, 1: down, 2: init, 3: armed, 4: active, 5: act defer)",
);
const PHYSICAL_STATE: Desc<'static> = Desc::gauge(
    "node_infiniband_physical_state_id",
    "Physical state of the InfiniBand port (0: no change, 1: sleep, 2: polling, 3: disable, 4: shift, 5: link up, \
     6: link error recover, 7: phytest)",
);
const RATE: Desc<'static> = Desc::gauge(
    "node_infiniband_rate_bytes_per_second",
    "Maximum signal transfer rate",
);
const LIFESPAN: Desc<'static> = Desc::gauge(
    "node_infiniband_lifespan_seconds",
    "The maximum period in ms which defines the aging of the counter reads. Two consecutive reads within this \
     period might return the same values.",
);

/// Files below a port and the factors of their numbers.
const COUNTERS: &str = include_str!("infiniband.txt");

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
    let mut file = |desc: &Desc<'_>, name: &str, decode| {
        plan.file(desc, &labels, &directory.join(name), decode);
    };
    file(&STATE, "state", Decode::With(state));
    file(&PHYSICAL_STATE, "phys_state", Decode::With(state));
    file(&RATE, "rate", Decode::With(rate));
    for ([name, factor], desc) in table::rows(COUNTERS) {
        file(&desc, name, Decode::Times(table::number(factor)));
    }
    // Whole seconds, as node_exporter divides.
    let seconds = |text: &[u8]| number(text).map(|milliseconds| (milliseconds / 1000) as f64);
    file(&LIFESPAN, "hw_counters/lifespan", Decode::With(seconds));
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
