//! Sockets in use by protocol: `net/sockstat` and `net/sockstat6`.
//!
//! Invariant: fields are those that node_exporter knows; others of newer kernels are skipped.

use std::path::Path;

use crate::collector::{Collector, Ctx};
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::ordered_cache::OrderedCache;
use crate::scan::{each_line, float, label_text, next_field};
use crate::sink::{Desc, Sink, Slot};

const FIELDS: [&str; 6] = ["inuse", "orphan", "tw", "alloc", "mem", "memory"];
/// Field counted in pages, which is exported in bytes as well.
const PAGES: &[u8] = b"mem";

pub(crate) struct Sockstat {
    files: [OpenFile; 2],
    fields: OrderedCache<Box<[u8]>, Option<Field>>,
    page_bytes: f64,
}

/// A field of a protocol, and its value in bytes.
#[derive(Clone, Copy)]
struct Field {
    slot: Slot,
    bytes: Option<Slot>,
}

impl Sockstat {
    pub(crate) fn new(procfs: &Path) -> Self {
        Self {
            files: ["net/sockstat", "net/sockstat6"].map(|name| OpenFile::new(procfs.join(name))),
            fields: OrderedCache::new(),
            page_bytes: rustix::param::page_size() as f64,
        }
    }
}

impl Collector for Sockstat {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        self.fields.begin();
        let Self {
            files,
            fields,
            page_bytes,
        } = self;
        for file in files {
            // Missing without the protocol.
            let Some(text) = file.read_if_there(ctx.refresh, ctx.buf, End::Short)? else {
                continue;
            };
            let parsed = parse(text, |protocol, field, value| {
                match (protocol, field) {
                    (b"UDP", b"inuse") => ctx.udp_sockets[0] = Some(value),
                    (b"UDP6", b"inuse") => ctx.udp_sockets[1] = Some(value),
                    _ => {}
                }
                let is_this = |known: &[u8]| {
                    known
                        .strip_prefix(protocol)
                        .is_some_and(|rest| rest.strip_prefix(b" ") == Some(field))
                };
                let known = match fields.find(|known, _| is_this(known)) {
                    Some(known) => *known,
                    None => {
                        let key = [protocol, b" ", field].concat();
                        *fields.insert(key.into(), Field::new(protocol, field, out))
                    }
                };
                let Some(known) = known else { return };
                out.set(known.slot, value);
                if let Some(bytes) = known.bytes {
                    out.set(bytes, value * *page_bytes);
                }
            });
            parsed.map_err(|source| file.malformed(source))?;
        }
        self.fields.sweep(|_, field| {
            if let Some(field) = field {
                out.retire(field.slot);
                field.bytes.into_iter().for_each(|slot| out.retire(slot));
            }
        });
        Ok(())
    }
}

impl Field {
    fn new(protocol: &[u8], field: &[u8], out: &mut Sink) -> Option<Self> {
        if protocol == b"sockets" {
            let help = "Number of IPv4 sockets in use.";
            let slot = (field == b"used")
                .then(|| out.add(&Desc::gauge("node_sockstat_sockets_used", help), &[]))?;
            return Some(Self { slot, bytes: None });
        }
        FIELDS.iter().find(|name| name.as_bytes() == field)?;
        let (protocol, field_name) = (label_text(protocol), label_text(field));
        let mut add = |state: &str| {
            let name = format!("node_sockstat_{protocol}_{state}");
            let help = format!("Number of {protocol} sockets in state {state}.");
            out.add(&Desc::gauge(&name, &help), &[])
        };
        Some(Self {
            slot: add(&field_name),
            bytes: (field == PAGES).then(|| add("mem_bytes")),
        })
    }
}

/// Calls `each` with every protocol, field and value.
pub(crate) fn parse(
    text: &[u8],
    mut each: impl FnMut(&[u8], &[u8], f64),
) -> Result<(), ParseError> {
    each_line(text, |mut line| {
        let protocol = next_field(&mut line).ok_or("a protocol")?;
        let protocol = protocol.strip_suffix(b":").unwrap_or(protocol);
        let mut fields = 0;
        while let Some(field) = next_field(&mut line) {
            let value = next_field(&mut line).and_then(float);
            each(protocol, field, value.ok_or("a number after each name")?);
            fields += 1;
        }
        if fields == 0 {
            return Err("names and numbers after the protocol");
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_names_and_numbers() {
        let mut seen = Vec::new();
        let text = b"sockets: used 229\nTCP: inuse 4 orphan -1\n";
        parse(text, |protocol, field, value| {
            seen.push((protocol.to_vec(), field.to_vec(), value));
        })
        .expect("well formed");
        let of = |protocol: &[u8], field: &[u8], value| (protocol.to_vec(), field.to_vec(), value);
        assert_eq!(
            seen,
            [
                of(b"sockets", b"used", 229.0),
                of(b"TCP", b"inuse", 4.0),
                of(b"TCP", b"orphan", -1.0)
            ]
        );
        for bad in [&b"TCP:"[..], b"\n", b"TCP: inuse", b"TCP: inuse x"] {
            assert!(parse(bad, |_, _, _| {}).is_err(), "{bad:?}");
        }
    }
}
