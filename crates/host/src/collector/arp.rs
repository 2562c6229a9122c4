//! IPv4 neighbours per device: one dump of the kernel's table per round, or `net/arp`.
//!
//! Invariant: entries of devices that need no address resolution are not counted; `net/arp` does not list them.

use std::path::Path;

use crate::collector::{Collector, Ctx};
use crate::config::{self, HostConfig};
use crate::error::{HostError, ParseError};
use crate::filter::Filter;
use crate::links::Links;
use crate::open_file::{End, OpenFile};
use crate::ordered_cache::OrderedCache;
use crate::scan::{each_line, label_text, next_field};
use crate::sink::{Desc, Sink, Slot};

const ENTRIES: Desc<'static> = Desc::gauge("node_arp_entries", "ARP entries by device");

pub(crate) struct Arp {
    /// `None`: query the routing socket.
    file: Option<OpenFile>,
    links: Option<Links>,
    filter: Filter,
    /// By index.
    names: OrderedCache<u32, Box<[u8]>>,
    counts: Vec<(u32, u32)>,
    devices: OrderedCache<Box<[u8]>, Option<Device>>,
}

struct Device {
    slot: Slot,
    entries: u32,
}

impl Arp {
    pub(crate) fn new(config: &HostConfig) -> Result<Self, HostError> {
        let from_file = config.arp.proc_net_arp;
        Ok(Self {
            file: from_file.then(|| OpenFile::new(config.procfs.join(Path::new("net/arp")))),
            links: None,
            filter: config.arp.device.compile(&config::ARP_DEVICE)?,
            names: OrderedCache::new(),
            counts: Vec::new(),
            devices: OrderedCache::new(),
        })
    }

    fn count_dump(&mut self, refresh: bool, out: &mut Sink) -> Result<(), HostError> {
        let mut links = self.links.take().map_or_else(Links::open, Ok)?;
        if links.changed() || refresh {
            let names = &mut self.names;
            names.begin();
            links.list(|link| match names.find(|index, _| *index == link.index) {
                Some(name) if **name == *link.name => {}
                Some(name) => *name = link.name.into(),
                None => drop(names.insert(link.index, link.name.into())),
            })?;
            names.sweep(|_, _| {});
        }
        // The kernel lists by hash, not by device.
        let counts = &mut self.counts;
        counts.clear();
        links.neighbours(
            |index| match counts.iter_mut().find(|known| known.0 == index) {
                Some((_, count)) => *count += 1,
                None => counts.push((index, 1)),
            },
        )?;
        self.links = Some(links);
        let Self {
            names,
            counts,
            devices,
            filter,
            ..
        } = self;
        names.begin();
        for (index, count) in counts.drain(..) {
            if let Some(name) = names.find(|known, _| *known == index) {
                see(devices, filter, name, count, out);
            }
        }
        Ok(())
    }

    fn count_file(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let Self {
            file: Some(file),
            devices,
            filter,
            ..
        } = self
        else {
            return Ok(());
        };
        let text = file.read(ctx.buf, End::Below(2048))?;
        let parsed = parse(text, |device| see(devices, filter, device, 1, out));
        parsed.map_err(|source| file.malformed(source))
    }
}

/// Counts `entries` of a device.
fn see(
    devices: &mut OrderedCache<Box<[u8]>, Option<Device>>,
    filter: &Filter,
    name: &[u8],
    entries: u32,
    out: &mut Sink,
) {
    let device = devices.entry(name, || {
        filter.keeps(name).then(|| Device {
            slot: out.add(&ENTRIES, &[("device", &label_text(name))]),
            entries: 0,
        })
    });
    if let Some(device) = device {
        device.entries += entries;
    }
}

impl Collector for Arp {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        for (_, device) in self.devices.values_mut() {
            device.iter_mut().for_each(|device| device.entries = 0);
        }
        self.devices.begin();
        match self.file {
            Some(_) => self.count_file(ctx, out)?,
            None => self.count_dump(ctx.refresh, out)?,
        }
        self.devices
            .sweep(|_, device| out.retire_all(device.map(|device| device.slot)));
        for (_, device) in self.devices.values_mut() {
            if let Some(device) = device {
                out.set(device.slot, f64::from(device.entries));
            }
        }
        Ok(())
    }
}

/// Calls `each` with the device of every entry.
pub(crate) fn parse(text: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), ParseError> {
    const DEVICE: usize = 5;
    const HEADER_FIELDS: usize = 9;
    each_line(text, |mut line| {
        let mut device = None;
        let mut count = 0;
        while let Some(field) = next_field(&mut line) {
            if count == DEVICE {
                device = Some(field);
            }
            count += 1;
        }
        match (count, device) {
            (0 | HEADER_FIELDS, _) => {}
            (6, Some(device)) => each(device),
            _ => return Err("six fields"),
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_name_their_device_last() {
        let head = "IP address       HW type     Flags       HW address            Mask     Device";
        let text =
            format!("{head}\n10.0.0.1 0x1 0x2 00:11 * eth0\n10.0.0.2 0x1 0x0 00:00 * eth1\n");
        let mut seen = Vec::new();
        parse(text.as_bytes(), |device| seen.push(device.to_vec())).expect("well formed");
        assert_eq!(seen, [b"eth0", b"eth1"]);
        assert!(parse(b"10.0.0.1 0x1 0x2", |_| {}).is_err());
    }
}
