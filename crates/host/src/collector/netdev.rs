//! Network device counters: one netlink dump of 64-bit statistics per round, or `/proc/net/dev`.
//!
//! Invariant: names and filters are evaluated only when the kernel reports a changed link; other rounds read only the
//! counters, matched by interface index. A device that keeps its name keeps its series.

use rustix::fs::PROC_SUPER_MAGIC;

use crate::collector::{Collector, Ctx};
use crate::config::{self, HostConfig, NetdevConfig, NetdevSource};
use crate::error::{HostError, ParseError};
use crate::filter::Filter;
use crate::links::{Address, Link, Links};
use crate::open_file::{End, OpenFile};
use crate::ordered_cache::OrderedCache;
use crate::scan::{each_line_below, label_text, next_u64, trim};
use crate::sink::{Desc, Sink, Slot};
use crate::table;

/// Counters by the source and the style of their names: the middle of the name, and the places of the kernel's counters
/// that are summed, in its `struct rtnl_link_stats64` or in the columns of `/proc/net/dev`, which sums in the same way.
const OUTPUTS: &str = include_str!("netdev.txt");

/// One exported counter.
type Output = (&'static str, Vec<usize>);

fn outputs(wanted: &str) -> Vec<Output> {
    let lines = table::lines_of(OUTPUTS, wanted).filter_map(|line| {
        let (name, places) = line.split_once(' ')?;
        Some((name, places.split(',').map(table::number).collect()))
    });
    lines.collect()
}

pub(crate) struct Netdev {
    file: OpenFile,
    links: Option<Links>,
    filter: Filter,
    config: NetdevConfig,
    netlink: bool,
    outputs: Vec<Output>,
    devices: OrderedCache<Box<[u8]>, Option<Device>>,
    /// Indices of the exported devices, if they are so few that each is asked for.
    few: Option<Vec<u32>>,
    addresses: OrderedCache<Address, Slot>,
}

struct Device {
    index: u32,
    alias: Option<Box<[u8]>>,
    slots: Vec<Slot>,
}

impl Netdev {
    pub(crate) fn new(config: &HostConfig) -> Result<Self, HostError> {
        let netlink = match config.netdev.source {
            NetdevSource::Netlink => true,
            NetdevSource::ProcNetDev => false,
            NetdevSource::Auto => rustix::fs::statfs(&config.procfs)
                .is_ok_and(|answer| answer.f_type == PROC_SUPER_MAGIC),
        };
        Ok(Self {
            file: OpenFile::new(config.procfs.join("net/dev")),
            links: None,
            filter: config.netdev.device.compile(&config::NETDEV_DEVICE)?,
            config: config.netdev.clone(),
            netlink,
            outputs: match (netlink, config.netdev.detailed) {
                (true, false) => outputs("folded"),
                (true, true) => outputs("detailed"),
                (false, false) => outputs("proc_folded"),
                (false, true) => outputs("proc_detailed"),
            },
            devices: OrderedCache::new(),
            few: None,
            addresses: OrderedCache::new(),
        })
    }

    fn collect_netlink(&mut self, refresh: bool, out: &mut Sink) -> Result<(), HostError> {
        let mut links = self.links.take().map_or_else(Links::open, Ok)?;
        // The kernel does not announce a new alias of a device that is down.
        if links.changed() || refresh {
            self.read_links(&mut links, out)?;
        }
        let Self {
            devices, outputs, ..
        } = self;
        devices.begin();
        let set = |index: u32, counters: &[u64]| {
            let known = devices
                .find(|_, device| device.as_ref().is_some_and(|device| device.index == index));
            if let Some(Some(device)) = known {
                device.set(outputs, counters, out);
            }
        };
        match &self.few {
            Some(few) => links.counters_of(few, set)?,
            None => links.counters(set)?,
        }
        if self.config.address_info {
            self.read_addresses(&mut links, out)?;
        }
        // Only now: after an error the sockets are reopened.
        self.links = Some(links);
        Ok(())
    }

    /// Updates the devices to the kernel's list of links.
    fn read_links(&mut self, links: &mut Links, out: &mut Sink) -> Result<(), HostError> {
        self.devices.begin();
        links.list(|link| self.see(link, out))?;
        self.devices
            .sweep(|_, device| device.into_iter().for_each(|device| device.retire(out)));
        self.few = self.few();
        Ok(())
    }

    fn few(&mut self) -> Option<Vec<u32>> {
        /// A request of its own costs about as much as this many links of a dump.
        const LINKS_PER_REQUEST: usize = 8;
        let all = self.devices.values_mut().count();
        let exported = self
            .devices
            .values_mut()
            .filter_map(|(_, device)| device.as_ref());
        let few: Vec<u32> = exported.map(|device| device.index).collect();
        (few.len() * LINKS_PER_REQUEST < all).then_some(few)
    }

    fn see(&mut self, link: Link<'_>, out: &mut Sink) {
        let Self {
            devices,
            filter,
            config,
            outputs,
            ..
        } = self;
        let alias = config.label_ifalias.then_some(link.alias);
        if let Some(device) = devices.find(|name, _| **name == *link.name) {
            if let Some(device) = device {
                device.index = link.index;
                if device.alias.as_deref() != alias {
                    std::mem::replace(device, Device::new(&link, alias, outputs, out)).retire(out);
                }
            }
            return;
        }
        let device = filter
            .keeps(link.name)
            .then(|| Device::new(&link, alias, outputs, out));
        devices.insert(link.name.into(), device);
    }

    fn read_addresses(&mut self, links: &mut Links, out: &mut Sink) -> Result<(), HostError> {
        let Self {
            addresses, devices, ..
        } = self;
        addresses.begin();
        links.addresses(|address| {
            if let Some(slot) = addresses.find(|known, _| *known == address) {
                out.set(*slot, 1.0);
                return;
            }
            let named = devices.values_mut().find(|(_, device)| {
                device
                    .as_ref()
                    .is_some_and(|device| device.index == address.index)
            });
            if let Some((name, _)) = named {
                let slot = new_address(&label_text(name), &address, out);
                out.set(slot, 1.0);
                addresses.insert(address, slot);
            }
        })?;
        addresses.sweep(|_, slot| out.retire(slot));
        Ok(())
    }

    fn collect_proc(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let text = self.file.read(ctx.buf, End::Below(2048))?;
        let Self {
            devices,
            filter,
            outputs,
            ..
        } = self;
        devices.begin();
        let parsed = parse(text, |name, counters| {
            let device = devices.entry(name, || {
                let link = Link {
                    index: 0,
                    name,
                    alias: b"",
                };
                let is_kept = filter.keeps(name);
                is_kept.then(|| Device::new(&link, None, outputs, out))
            });
            if let Some(device) = device {
                device.set(outputs, counters, out);
            }
        });
        parsed.map_err(|source| self.file.malformed(source))?;
        self.devices
            .sweep(|_, device| device.into_iter().for_each(|device| device.retire(out)));
        Ok(())
    }
}

impl Collector for Netdev {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        if self.netlink {
            self.collect_netlink(ctx.refresh, out)
        } else {
            self.collect_proc(ctx, out)
        }
    }
}

impl Device {
    fn new(link: &Link<'_>, alias: Option<&[u8]>, outputs: &[Output], out: &mut Sink) -> Self {
        let name = label_text(link.name);
        let alias_text = alias.map(label_text);
        let mut labels = vec![("device", name.as_str())];
        labels.extend(alias_text.as_deref().map(|text| ("ifalias", text)));
        let slots = outputs
            .iter()
            .map(|(key, _)| {
                let help = format!("Network device statistic {key}.");
                let name = format!("node_network_{key}_total");
                out.add(&Desc::counter(&name, &help), &labels)
            })
            .collect();
        Self {
            index: link.index,
            alias: alias.map(Into::into),
            slots,
        }
    }

    fn set(&self, outputs: &[Output], counters: &[u64], out: &mut Sink) {
        for (slot, (_, parts)) in self.slots.iter().zip(outputs) {
            let sum = parts.iter().fold(0_u64, |sum, part| {
                // Older kernels have fewer counters.
                sum.wrapping_add(counters.get(*part).copied().unwrap_or(0))
            });
            out.set(*slot, sum as f64);
        }
    }

    fn retire(self, out: &mut Sink) {
        out.retire_all(self.slots);
    }
}

fn new_address(device: &str, address: &Address, out: &mut Sink) -> Slot {
    let help = "node network address by device";
    let desc = Desc::gauge("node_network_address_info", help);
    let (ip, netmask) = (address.ip.to_string(), address.prefix_bits.to_string());
    let labels = [
        ("device", device),
        ("address", ip.as_str()),
        ("netmask", netmask.as_str()),
        ("scope", address.scope()),
    ];
    out.add(&desc, &labels)
}

/// Calls `each` with every device's name and its 16 counters.
pub(crate) fn parse(text: &[u8], mut each: impl FnMut(&[u8], &[u64])) -> Result<(), ParseError> {
    const HEADER_LINES: u32 = 2;
    each_line_below(HEADER_LINES, text, |line| {
        // A name may contain a colon itself: an alias such as eth0:1.
        let at = memchr::memrchr(b':', line).ok_or("a colon after the device")?;
        let name = trim(&line[..at]);
        if name.is_empty() {
            return Err("a device");
        }
        let mut rest = &line[at + 1..];
        let mut counters = [0; 16];
        for counter in &mut counters {
            *counter = next_u64(&mut rest)
                .ok()
                .flatten()
                .ok_or("sixteen counters")?;
        }
        each(name, &counters);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_colons_and_stick_to_their_numbers() {
        let text = b"Inter-|\n face |\n  eth0:1:12 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        let mut seen = 0;
        let parsed = parse(text, |name, counters| {
            seen += 1;
            assert_eq!((name, counters[0], counters[15]), (&b"eth0:1"[..], 12, 16));
        });
        assert_eq!((parsed, seen), (Ok(()), 1));
    }

    #[test]
    fn malformed_lines_are_errors() {
        for bad in ["eth0 1", ": 1 2", "eth0: 1 2 3", "eth0: a"] {
            let text = format!("h\nh\n{bad}\n");
            assert_eq!(
                parse(text.as_bytes(), |_, _| {}).map_err(|e| e.line),
                Err(3),
                "{bad}"
            );
        }
    }

    #[test]
    fn every_counter_is_folded_at_most_once_and_named_once() {
        for (wanted, count) in [
            ("folded", 17),
            ("detailed", 24),
            ("proc_folded", 16),
            ("proc_detailed", 16),
        ] {
            let outputs = outputs(wanted);
            assert_eq!(outputs.len(), count);
            let mut parts: Vec<usize> = outputs
                .iter()
                .flat_map(|(_, parts)| parts.iter().copied())
                .collect();
            let mut names: Vec<&str> = outputs.iter().map(|(name, _)| *name).collect();
            let counts = (parts.len(), names.len());
            parts.sort_unstable();
            parts.dedup();
            names.sort_unstable();
            names.dedup();
            assert_eq!((parts.len(), names.len()), counts);
        }
    }
}
