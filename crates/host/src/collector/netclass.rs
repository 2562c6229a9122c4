//! Properties of network devices: one netlink dump when the kernel reports a change, or `class/net` below sysfs.
//!
//! sysfs opens, locks and formats thirty files per device. The routing socket returns nearly all of it at once, and
//! announces changes; the rest (speed, duplex and three constants) is read after such a change.
//!
//! Invariant: a device with unchanged properties costs a comparison at a change and nothing otherwise.

use std::path::{Path, PathBuf};

use regex::bytes::Regex;

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::HostError;
use crate::filter;
use crate::linkprops::Properties;
use crate::links::Links;
use crate::open_file::ReadBuf;
use crate::ordered_cache::OrderedCache;
use crate::scan::{hex, label_text, mac, number, trim};
use crate::sink::{Desc, Sink, Slot};
use crate::sysdir;
use crate::sysfs_collector::{Decode, Plan, SysfsFiles};
use crate::table;

pub(crate) struct Netclass {
    directory: PathBuf,
    ignored: Regex,
    ignore_invalid_speed: bool,
    /// Whether sysfs is a real one, so that the routing socket may know its devices.
    may_ask: bool,
    links: Option<Links>,
    /// Whether sysfs showed the same devices when they were last listed.
    is_shown: bool,
    devices: OrderedCache<Box<[u8]>, Option<Device>>,
    /// Used while sysfs shows other devices than the routing socket.
    files: Option<SysfsFiles>,
    /// Devices that `files` describes.
    names: Vec<String>,
}

struct Device {
    properties: Properties,
    rest: FromSysfs,
    values: Vec<(Slot, f64)>,
}

/// Properties that the routing socket does not return.
#[derive(Default, PartialEq)]
struct FromSysfs {
    address_assign_type: Option<i64>,
    device_id: Option<i64>,
    name_assign_type: Option<i64>,
    speed_megabits: Option<i64>,
    duplex: String,
}

const UP: Desc<'static> = Desc::gauge(
    "node_network_up",
    "Value is 1 if operstate is 'up', 0 otherwise.",
);
const INFO: Desc<'static> = Desc::gauge(
    "node_network_info",
    "Non-numeric data from /sys/class/net/<iface>, value is always 1.",
);

/// Files of properties that are numbers.
const NUMBERS: &str = include_str!("netclass.txt");
const SPEED: &str = "speed";

impl Netclass {
    pub(crate) fn new(config: &HostConfig) -> Result<Self, HostError> {
        /// `SYSFS_MAGIC` of linux/magic.h.
        const SYSFS_MAGIC: u64 = 0x6265_6572;
        let ignored = &config.netclass.ignored_devices;
        Ok(Self {
            directory: config.sysfs.join("class/net"),
            ignored: filter::compile("collector.netclass.ignored-devices", ignored)?,
            ignore_invalid_speed: config.netclass.ignore_invalid_speed,
            may_ask: rustix::fs::statfs(&config.sysfs)
                .is_ok_and(|answer| answer.f_type as u64 == SYSFS_MAGIC),
            links: None,
            is_shown: false,
            devices: OrderedCache::new(),
            files: None,
            names: Vec::new(),
        })
    }

    /// Updates the devices to the kernel's list. Reports whether sysfs shows the same devices.
    fn ask(&mut self, refresh: bool, buf: &mut ReadBuf, out: &mut Sink) -> Result<bool, HostError> {
        let mut links = self.links.take().map_or_else(Links::open, Ok)?;
        if links.changed() || refresh {
            let mut told = Vec::new();
            links.properties(|name, found| told.push((Box::<[u8]>::from(name), found)))?;
            self.is_shown = self.compare(&told, buf);
            self.devices.begin();
            // Drop the devices if sysfs does not show the same ones.
            let is_shown = self.is_shown;
            for (name, found) in told.into_iter().filter(|_| is_shown) {
                self.see(name, found, refresh, buf, out);
            }
            self.devices.sweep(|_, device| {
                device.into_iter().for_each(|device| device.retire(out));
            });
        }
        self.links = Some(links);
        Ok(self.is_shown)
    }

    /// Reports whether sysfs shows exactly these devices: it belongs to the network namespace of its mounter.
    fn compare(&mut self, told: &[(Box<[u8]>, Properties)], buf: &mut ReadBuf) -> bool {
        let Ok(names) = devices(&self.directory) else {
            return false;
        };
        let same_index = |name: &str, index: u32, buf: &mut ReadBuf| {
            read_integer(&self.directory.join(name), "ifindex", buf) == Some(i64::from(index))
        };
        names.len() == told.len()
            && told.iter().all(|(name, found)| {
                let known = self.devices.position(|other, device| {
                    *other == *name
                        && device
                            .as_ref()
                            .is_some_and(|device| device.properties.index == found.index)
                });
                let name = std::str::from_utf8(name).unwrap_or_default();
                names.binary_search_by(|other| (**other).cmp(name)).is_ok()
                    && (known.is_some() || same_index(name, found.index, buf))
            })
    }

    fn see(
        &mut self,
        name: Box<[u8]>,
        found: Properties,
        refresh: bool,
        buf: &mut ReadBuf,
        out: &mut Sink,
    ) {
        let known = self.devices.find(|other, _| *other == name);
        let is_known = known.is_some();
        if is_known && matches!(known, Some(None)) {
            return;
        }
        let known = known.and_then(Option::as_mut);
        if known
            .as_ref()
            .is_some_and(|known| known.properties == found)
            && !refresh
        {
            return;
        }
        if !is_known && self.ignored.is_match(&name) {
            self.devices.insert(name, None);
            return;
        }
        let label = label_text(&name);
        let rest = FromSysfs::read(&self.directory.join(&label), buf);
        match known {
            Some(known) if known.properties == found && known.rest == rest => {}
            // Unchanged series are added again before the old device releases them.
            Some(known) => {
                let device = Device::new(&label, found, rest, self.ignore_invalid_speed, out);
                std::mem::replace(known, device).retire(out);
            }
            None => {
                let device = Device::new(&label, found, rest, self.ignore_invalid_speed, out);
                self.devices.insert(name, Some(device));
            }
        }
    }

    fn collect_files(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let Self {
            directory,
            ignored,
            ignore_invalid_speed,
            files,
            names,
            ..
        } = self;
        let found = devices(directory)?;
        let mut ctx = Ctx {
            buf: &mut *ctx.buf,
            round: ctx.round,
            refresh: ctx.refresh || *names != found,
            udp_sockets: [None; 2],
        };
        *names = found;
        let files = files.get_or_insert_with(SysfsFiles::new);
        files.run(&mut ctx, out, |plan| {
            for name in names
                .iter()
                .filter(|name| !ignored.is_match(name.as_bytes()))
            {
                describe(name, &directory.join(name), *ignore_invalid_speed, plan);
            }
            Ok(())
        })
    }
}

impl Collector for Netclass {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        // A device added between the two reads makes them differ until the next notification or refresh.
        let is_told = self.may_ask && self.ask(ctx.refresh, ctx.buf, out)?;
        if !is_told {
            return self.collect_files(ctx, out);
        }
        if let Some(mut files) = self.files.take() {
            files.clear(out);
        }
        for (_, device) in self.devices.values_mut() {
            let values = device.iter().flat_map(|device| &device.values);
            values.for_each(|(slot, value)| out.set(*slot, *value));
        }
        Ok(())
    }
}

impl FromSysfs {
    fn read(directory: &Path, buf: &mut ReadBuf) -> Self {
        let mut number = |file| read_integer(directory, file, buf);
        Self {
            address_assign_type: number("addr_assign_type"),
            device_id: number("dev_id"),
            name_assign_type: number("name_assign_type"),
            speed_megabits: number("speed"),
            duplex: sysdir::text(&directory.join("duplex"), buf).unwrap_or_default(),
        }
    }
}

impl Device {
    fn new(
        name: &str,
        found: Properties,
        rest: FromSysfs,
        ignore_invalid_speed: bool,
        out: &mut Sink,
    ) -> Self {
        let oper_state = found.oper_state();
        let (address, broadcast) = (mac(&found.address), mac(&found.broadcast));
        let labels = [
            ("device", name),
            ("address", &address),
            ("broadcast", &broadcast),
            ("duplex", &rest.duplex),
            ("operstate", oper_state),
            ("adminstate", admin_state(found.is_up())),
            ("ifalias", &label_text(&found.alias)),
        ];
        let up = f64::from(u8::from(oper_state == "up"));
        let mut values = vec![
            (out.add(&UP, &[("device", name)]), up),
            (out.add(&INFO, &labels), 1.0),
        ];
        for (([file], desc), value) in table::rows(NUMBERS).zip(numbers(&found, &rest)) {
            let Some(value) = value else { continue };
            let value = match file {
                SPEED if value < 0 && ignore_invalid_speed => continue,
                SPEED => value * 1000 * 1000 / 8,
                _ => value,
            };
            values.push((out.add(&desc, &[("device", name)]), value as f64));
        }
        Self {
            properties: found,
            rest,
            values,
        }
    }

    fn retire(self, out: &mut Sink) {
        out.retire_all(self.values.into_iter().map(|(slot, _)| slot));
    }
}

/// Returns the values of `NUMBERS`.
fn numbers(found: &Properties, rest: &FromSysfs) -> [Option<i64>; 17] {
    [
        rest.address_assign_type,
        found.carrier().map(i64::from),
        found.carrier_changes.map(i64::from),
        found.carrier_up.map(i64::from),
        found.carrier_down.map(i64::from),
        rest.device_id,
        found.dormant().map(i64::from),
        Some(i64::from(found.sysfs_flags())),
        Some(i64::from(found.index)),
        Some(i64::from(found.link.unwrap_or(found.index))),
        found.link_mode.map(i64::from),
        found.mtu_bytes.map(i64::from),
        rest.name_assign_type,
        found.group.map(i64::from),
        rest.speed_megabits,
        found.queue_length.map(i64::from),
        Some(i64::from(found.protocol_type)),
    ]
}

/// Describes a device of sysfs.
fn describe(name: &str, directory: &Path, ignore_invalid_speed: bool, plan: &mut Plan<'_>) {
    let device = [("device", name)];
    let mut label = |file: &str| plan.label(&directory.join(file)).unwrap_or_default();
    let texts = ["address", "broadcast", "duplex", "operstate", "ifalias"].map(&mut label);
    let flags = integer(label("flags").as_bytes());
    let [address, broadcast, duplex, oper_state, alias] = &texts;
    let labels = [
        device[0],
        ("address", address),
        ("broadcast", broadcast),
        ("duplex", duplex),
        ("operstate", oper_state),
        (
            "adminstate",
            flags.map_or("unknown", |flags| admin_state(flags & 1 == 1)),
        ),
        ("ifalias", alias),
    ];
    plan.fixed(&INFO, &labels, 1.0);
    plan.fixed(&UP, &device, f64::from(u8::from(oper_state == "up")));
    for ([file], desc) in table::rows(NUMBERS) {
        let decode: fn(&[u8]) -> Option<f64> = match (file, ignore_invalid_speed) {
            (SPEED, true) => |text| speed(text).filter(|speed| *speed >= 0.0),
            (SPEED, false) => speed,
            _ => |text| integer(text).map(|value| value as f64),
        };
        plan.file(&desc, &device, &directory.join(file), Decode::With(decode));
    }
}

/// Converts a speed in megabits to bytes per second.
fn speed(text: &[u8]) -> Option<f64> {
    let speed = integer(text)?.checked_mul(1000 * 1000)?;
    Some((speed / 8) as f64)
}

fn admin_state(is_up: bool) -> &'static str {
    match is_up {
        true => "up",
        false => "down",
    }
}

/// Lists the devices of a directory that also contains files.
fn devices(directory: &Path) -> Result<Vec<String>, HostError> {
    let mut names = sysdir::list(directory)?;
    // The only file there; anything else is a link to a device.
    names.retain(|name| name != "bonding_masters");
    Ok(names)
}

fn read_integer(directory: &Path, file: &str, buf: &mut ReadBuf) -> Option<i64> {
    integer(trim(crate::open_file::read_once(
        &directory.join(file),
        buf,
    )?))
}

/// Parses a number in base 10, or in base 16 after `0x`.
fn integer(text: &[u8]) -> Option<i64> {
    let (digits, sign) = match text.strip_prefix(b"-") {
        Some(digits) => (digits, -1),
        None => (text, 1),
    };
    let value = match digits.strip_prefix(b"0x") {
        Some(digits) => hex(digits),
        None => number(digits),
    };
    i64::try_from(value?).ok().map(|value| value * sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_sysfs_have_signs_and_bases() {
        let cases = [
            ("0x1003", Some(0x1003)),
            ("-1", Some(-1)),
            ("1500", Some(1500)),
            ("", None),
            ("full", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in cases {
            assert_eq!(integer(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(speed(b"-1"), Some(-125_000.0));
        assert_eq!(speed(b"10000"), Some(1.25e9));
        assert_eq!(mac(&[0, 0x1b, 255]), "00:1b:ff");
    }
}
