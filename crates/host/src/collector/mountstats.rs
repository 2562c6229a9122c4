//! NFS mounts: bytes, events, transports, operations.
//!
//! Invariant: mounts of one export over one protocol from one address are one series, the first mount's.

use std::path::PathBuf;

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::error::{HostError, ParseError};
use crate::mountinfo;
use crate::open_file::{End, OpenFile, ReadBuf};
use crate::rows::Rows;
use crate::scan::{label_text, next_field, next_line, number};
use crate::sink::{Desc, Sink};
use crate::table;

const MOUNT_POINT: Desc<'static> = Desc::gauge(
    "node_mountstats_nfs_mountpoint_info",
    "Where an NFS export is mounted; the value is 1.",
);
/// Families: of what, index of the number, and its divisor. Numbers with a divisor wrap at 2^53, as in node_exporter.
const NUMBERS: &str = include_str!("mountstats.txt");
const BYTES: usize = 8;
const EVENTS: usize = 27;
const TRANSPORT: usize = 13;
const OPERATION: usize = 8;

/// Families of one kind, and where their numbers are.
struct Family {
    descs: Vec<Desc<'static>>,
    places: Vec<(usize, Option<f64>)>,
}

pub(crate) struct Mountstats {
    stats: OpenFile,
    mounts: OpenFile,
    buf: ReadBuf,
    families: Families,
    rows: Rows,
    /// Value of the option `addr` of each mount, in the kernel's order.
    addresses: Vec<String>,
}

pub(crate) struct Families {
    mount: Family,
    transport: Family,
    operation: Family,
    values: Vec<f64>,
}

/// What the kernel says about one NFS mount.
#[derive(Default)]
struct Mount<'a> {
    age: u64,
    bytes: [u64; BYTES],
    events: [u64; EVENTS],
    transports: Vec<(&'a [u8], [u64; TRANSPORT])>,
    operations: Vec<(&'a [u8], [u64; OPERATION])>,
}

impl Mountstats {
    pub(crate) fn new(config: &HostConfig) -> Self {
        let own = |name: &str| -> PathBuf { config.procfs.join("self").join(name) };
        Self {
            stats: OpenFile::new(own("mountstats")),
            mounts: OpenFile::new(own("mountinfo")),
            buf: ReadBuf::small(),
            families: Families::new(),
            rows: Rows::new(),
            addresses: Vec::new(),
        }
    }
}

impl Families {
    pub(crate) fn new() -> Self {
        let family = |wanted: &str| {
            let (mut descs, mut places) = (Vec::new(), Vec::new());
            for ([place, divisor], desc) in table::rows_of(NUMBERS, wanted) {
                descs.push(desc);
                places.push((table::number(place), divisor.parse().ok()));
            }
            Family { descs, places }
        };
        Self {
            mount: family("mount"),
            transport: family("transport"),
            operation: family("operation"),
            values: Vec::new(),
        }
    }
}

impl Family {
    fn set(
        &self,
        (key, labels): (&[&[u8]], &[(&str, &str)]),
        numbers: &[u64],
        values: &mut Vec<f64>,
        rows: &mut Rows,
        out: &mut Sink,
    ) {
        const EXACT: u64 = 1 << 53;
        values.clear();
        values.extend(self.places.iter().map(|(place, divisor)| {
            let number = numbers.get(*place).copied().unwrap_or_default();
            match divisor {
                Some(divisor) => (number % EXACT) as f64 / divisor,
                None => number as f64,
            }
        }));
        rows.set_all(key, values, out, (&self.descs, labels));
    }
}

impl Collector for Mountstats {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        self.addresses.clear();
        let text = self.mounts.read(&mut self.buf, End::Empty)?;
        let parsed = mountinfo::parse(text, |line| {
            let mut options = line.super_options.split(|byte| *byte == b',');
            let address = options.find_map(|option| option.strip_prefix(b"addr="));
            self.addresses.push(label_text(address.unwrap_or_default()));
        });
        parsed.map_err(|source| self.mounts.malformed(source))?;
        let text = self.stats.read(ctx.buf, End::Empty)?;
        self.rows.begin();
        let parsed = self
            .families
            .parse(text, &self.addresses, &mut self.rows, out);
        parsed.map_err(|source| self.stats.malformed(source))?;
        self.rows.end(out);
        Ok(())
    }
}

impl Families {
    pub(crate) fn parse(
        &mut self,
        text: &[u8],
        addresses: &[String],
        rows: &mut Rows,
        out: &mut Sink,
    ) -> Result<(), ParseError> {
        let mut seen: Vec<(&[u8], &[u8], &str)> = Vec::new();
        let mut lines = Lines { text, number: 0 };
        let mut at = 0;
        while let Some(mut line) = lines.next() {
            // `device SERVER:/PATH mounted on /PATH with fstype nfs4 statvers=1.1`
            if next_field(&mut line) != Some(b"device") {
                continue;
            }
            let mut word = || next_field(&mut line);
            let (device, _, _, point) = (word(), word(), word(), word());
            let (_, _, kind) = (word(), word(), word());
            let address = addresses.get(at).map_or("", String::as_str);
            at += 1;
            let (Some(device), Some(point), Some(b"nfs" | b"nfs4")) = (device, point, kind) else {
                continue;
            };
            let mount = Mount::parse(&mut lines)?;
            for (protocol, _) in &mount.transports {
                let (export, proto) = (label_text(device), label_text(protocol));
                let labels = [
                    ("export", &*export),
                    ("protocol", &proto),
                    ("mountaddr", address),
                ];
                let key = [device, *protocol, address.as_bytes()];
                let point_label = label_text(point);
                let info = [
                    labels[0],
                    labels[1],
                    labels[2],
                    ("mountpoint", &point_label),
                ];
                let info_key = [key[0], key[1], key[2], b"point", point];
                rows.set_all(&info_key, &[1.0], out, (&[MOUNT_POINT], &info));
                if seen.contains(&(device, *protocol, address)) {
                    break;
                }
                seen.push((device, *protocol, address));
                self.set(&mount, (key, labels), rows, out);
            }
        }
        Ok(())
    }

    fn set(
        &mut self,
        mount: &Mount<'_>,
        (key, labels): ([&[u8]; 3], [(&str, &str); 3]),
        rows: &mut Rows,
        out: &mut Sink,
    ) {
        let Self {
            mount: of_mount,
            transport,
            operation,
            values,
        } = self;
        let numbers = [&[mount.age][..], &mount.bytes, &mount.events].concat();
        of_mount.set((&key, &labels), &numbers, values, rows, out);
        let [export, protocol, address] = labels;
        for (at, (_, numbers)) in mount.transports.iter().enumerate() {
            let at = at.to_string();
            let key = [key[0], key[1], key[2], b"transport", at.as_bytes()];
            let labels = [export, protocol, address, ("transport", &*at)];
            transport.set((&key, &labels), numbers, values, rows, out);
        }
        for (name, numbers) in &mount.operations {
            let key = [key[0], key[1], key[2], b"operation", name];
            let name = label_text(name);
            let labels = [export, protocol, address, ("operation", &*name)];
            operation.set((&key, &labels), numbers, values, rows, out);
        }
    }
}

struct Lines<'a> {
    text: &'a [u8],
    number: u32,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        self.number += 1;
        next_line(&mut self.text)
    }

    fn error(&self, expected: &'static str) -> ParseError {
        ParseError {
            line: self.number,
            expected,
        }
    }

    /// Parses all fields of a line as numbers, at least `least` of them; those beyond `N` are skipped.
    fn numbers<const N: usize>(
        &self,
        mut line: &[u8],
        least: usize,
    ) -> Result<[u64; N], ParseError> {
        let mut numbers = [0; N];
        let mut count = 0;
        while let Some(field) = next_field(&mut line) {
            let value = number(field).ok_or_else(|| self.error("numbers"))?;
            if let Some(place) = numbers.get_mut(count) {
                *place = value;
            }
            count += 1;
        }
        match count >= least {
            true => Ok(numbers),
            false => Err(self.error("more numbers")),
        }
    }
}

impl<'a> Mount<'a> {
    /// Parses the lines after a device's, to the blank line after its operations.
    fn parse(lines: &mut Lines<'a>) -> Result<Self, ParseError> {
        let mut mount = Self::default();
        let mut in_operations = false;
        while let Some(mut line) = lines.next() {
            let Some(word) = next_field(&mut line) else {
                break;
            };
            match word {
                b"per-op" => in_operations = true,
                _ if in_operations => {
                    let name = word.strip_suffix(b":").unwrap_or(word);
                    let numbers = lines.numbers(line, OPERATION)?;
                    mount.operations.push((name, numbers));
                }
                b"age:" => [mount.age] = lines.numbers(line, 1)?,
                b"bytes:" => mount.bytes = lines.numbers(line, BYTES)?,
                b"events:" => mount.events = lines.numbers(line, EVENTS)?,
                b"xprt:" => {
                    let protocol =
                        next_field(&mut line).ok_or_else(|| lines.error("a protocol"))?;
                    mount
                        .transports
                        .push((protocol, transport(protocol, line, lines)?));
                }
                _ => {}
            }
        }
        Ok(mount)
    }
}

/// Parses a transport's numbers; UDP has no connections and no idle time.
fn transport(
    protocol: &[u8],
    line: &[u8],
    lines: &Lines<'_>,
) -> Result<[u64; TRANSPORT], ParseError> {
    if protocol != b"udp" {
        return lines.numbers(line, 10);
    }
    let found: [u64; TRANSPORT] = lines.numbers(line, 7)?;
    let mut numbers = [0; TRANSPORT];
    let (head, tail) = (&found[..2], &found[2..TRANSPORT - 3]);
    numbers[..2].copy_from_slice(head);
    numbers[5..].copy_from_slice(tail);
    Ok(numbers)
}
