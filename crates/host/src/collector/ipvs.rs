//! IP virtual server: totals, and connections per backend.
//!
//! Invariant: a backend is parsed into labels when first seen; a round compares its bytes and sums numbers. Backends
//! with equal chosen labels are one series, their sum.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::collector::{Collector, Ctx};
use crate::config::{HostConfig, IPVS_LABELS};
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::ordered_cache::OrderedCache;
use crate::scan::{each_line, hex, label_text, next_field, next_line, number};
use crate::sink::{Sink, Slot};
use crate::table::{self, Series};

/// In the order of the file's columns.
const BACKENDS: &str = include_str!("ipvs_backends.txt");
const COLUMNS: usize = 3;

pub(crate) struct Ipvs {
    stats: OpenFile,
    list: OpenFile,
    totals: Series,
    /// Whether each of `IPVS_LABELS` is exported.
    labels: [bool; IPVS_LABELS.len()],
    rows: OrderedCache<Box<[u8]>, usize>,
    groups: Vec<Group>,
    free: Vec<usize>,
    by_labels: HashMap<Labels, usize>,
}

/// Values of `IPVS_LABELS`; those that are not exported are empty.
type Labels = [String; IPVS_LABELS.len()];

/// Backends that share a series.
struct Group {
    labels: Labels,
    slots: Vec<Slot>,
    sums: [u64; COLUMNS],
    rows: usize,
}

impl Ipvs {
    pub(crate) fn new(config: &HostConfig) -> Result<Self, HostError> {
        Ok(Self {
            stats: OpenFile::new(config.procfs.join("net/ip_vs_stats")),
            list: OpenFile::new(config.procfs.join("net/ip_vs")),
            totals: Series::new(include_str!("ipvs.txt")),
            labels: chosen(&config.ipvs_labels)?,
            rows: OrderedCache::new(),
            groups: Vec::new(),
            free: Vec::new(),
            by_labels: HashMap::new(),
        })
    }

    fn collect_backends(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let Self {
            list,
            labels,
            rows,
            groups,
            free,
            by_labels,
            ..
        } = self;
        // A service is printed in one go with its backends, which may exceed a page.
        let text = list.read(ctx.buf, End::Empty)?;
        for group in groups.iter_mut() {
            group.sums = [0; COLUMNS];
        }
        rows.begin();
        let parsed = parse(text, |row| {
            let known = rows.find(|key, _| row.has_key(key)).copied();
            let at = match known {
                Some(at) => at,
                None => {
                    let full = row.labels().ok_or("an address and a port")?;
                    let labels = std::array::from_fn(|i| match labels[i] {
                        true => full[i].clone(),
                        false => String::new(),
                    });
                    let at = *by_labels
                        .entry(labels)
                        .or_insert_with_key(|labels| new_group(labels, groups, free, out));
                    groups[at].rows += 1;
                    *rows.insert(row.key(), at)
                }
            };
            for (sum, value) in groups[at].sums.iter_mut().zip(row.values) {
                *sum = sum.wrapping_add(value);
            }
            Ok(())
        });
        parsed.map_err(|source| list.malformed(source))?;
        rows.sweep(|_, at| {
            let group = &mut groups[at];
            group.rows -= 1;
            if group.rows == 0 {
                out.retire_all(group.slots.drain(..));
                by_labels.remove(&group.labels);
                free.push(at);
            }
        });
        for group in groups.iter().filter(|group| group.rows > 0) {
            out.set_all(&group.slots, group.sums.map(|sum| sum as f64));
        }
        Ok(())
    }
}

fn new_group(
    labels: &Labels,
    groups: &mut Vec<Group>,
    free: &mut Vec<usize>,
    out: &mut Sink,
) -> usize {
    let pairs: [(&str, &str); IPVS_LABELS.len()] =
        std::array::from_fn(|i| (IPVS_LABELS[i], labels[i].as_str()));
    let group = Group {
        labels: labels.clone(),
        slots: table::add(BACKENDS, &pairs, out),
        sums: [0; COLUMNS],
        rows: 0,
    };
    match free.pop() {
        Some(at) => {
            groups[at] = group;
            at
        }
        None => {
            groups.push(group);
            groups.len() - 1
        }
    }
}

/// Parses a list of label names.
fn chosen(list: &str) -> Result<[bool; IPVS_LABELS.len()], HostError> {
    let mut chosen = [false; IPVS_LABELS.len()];
    for name in list.split(',').filter(|name| !name.is_empty()) {
        let at = IPVS_LABELS.iter().position(|known| *known == name);
        let at = at.ok_or_else(|| HostError::Flag {
            flag: "collector.ipvs.backend-labels".into(),
            problem: format!("unknown IPVS backend label {name:?}"),
        })?;
        chosen[at] = true;
    }
    Ok(chosen)
}

impl Collector for Ipvs {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let text = self.stats.read(ctx.buf, End::Short);
        let totals = parse_totals(text.map_err(HostError::or_no_data)?)
            .ok_or_else(|| self.stats.expected(3, "five hexadecimal numbers"))?;
        self.totals.set(totals.map(|total| total as f64), out);
        self.collect_backends(ctx, out)
    }
}

/// Parses the third line.
pub(crate) fn parse_totals(mut text: &[u8]) -> Option<[u64; 5]> {
    next_line(&mut text)?;
    next_line(&mut text)?;
    let mut line = next_line(&mut text)?;
    let mut totals = [0; 5];
    for total in &mut totals {
        *total = next_field(&mut line).and_then(hex)?;
    }
    next_field(&mut line).is_none().then_some(totals)
}

/// A backend of a service, as printed.
pub(crate) struct Row<'a> {
    proto: &'a [u8],
    local: &'a [u8],
    remote: &'a [u8],
    values: [u64; COLUMNS],
}

impl Row<'_> {
    fn key(&self) -> Box<[u8]> {
        [self.proto, self.local, self.remote].join(&b' ').into()
    }

    fn has_key(&self, key: &[u8]) -> bool {
        // Compare from the end: neighbours in the list share a service.
        let rest = key
            .strip_suffix(self.remote)
            .and_then(|rest| rest.strip_suffix(b" "));
        let rest = rest.and_then(|rest| rest.strip_suffix(self.local));
        rest.and_then(|rest| rest.strip_suffix(b" ")) == Some(self.proto)
    }

    /// Returns the values of `IPVS_LABELS`; `None` when an address is malformed.
    pub(crate) fn labels(&self) -> Option<Labels> {
        let (remote_address, remote_port) = address_and_port(self.remote)?;
        let is_mark = self.proto == b"FWM";
        let (local_address, local_port) = match is_mark {
            true => (String::new(), 0),
            false => address_and_port(self.local)?,
        };
        Some([
            local_address,
            local_port.to_string(),
            remote_address,
            remote_port.to_string(),
            label_text(self.proto),
            match is_mark {
                true => label_text(self.local),
                false => String::new(),
            },
        ])
    }
}

/// Calls `each` with every backend.
pub(crate) fn parse(
    text: &[u8],
    mut each: impl FnMut(Row<'_>) -> Result<(), &'static str>,
) -> Result<(), ParseError> {
    let mut service = None;
    each_line(text, |mut line| {
        let (Some(first), Some(second)) = (next_field(&mut line), next_field(&mut line)) else {
            return Ok(());
        };
        match first {
            b"TCP" | b"UDP" | b"FWM" => service = Some((first, second)),
            b"->" if second != b"RemoteAddress:Port" => {
                let Some((proto, local)) = service else {
                    return Ok(());
                };
                // The forwarding method.
                let Some(_) = next_field(&mut line) else {
                    return Ok(());
                };
                let mut values = [0; COLUMNS];
                for value in &mut values {
                    let field = next_field(&mut line).and_then(number);
                    *value = field.ok_or("weight and connections")?;
                }
                each(Row {
                    proto,
                    local,
                    remote: second,
                    values,
                })?;
            }
            // The header, and protocols without ports.
            _ => service = None,
        }
        Ok(())
    })
}

/// Parses `C0A80016:0CEA` or `[2620:…:0001]:0050`.
fn address_and_port(text: &[u8]) -> Option<(String, u16)> {
    const PORT_DIGITS: usize = 4;
    let at = text.len().checked_sub(PORT_DIGITS + 1)?;
    let (address, port) = text.split_at_checked(at)?;
    let port = port.strip_prefix(b":").and_then(hex)?;
    let address = match address.strip_prefix(b"[") {
        None if address.len() == 8 => {
            Ipv4Addr::from(u32::try_from(hex(address)?).ok()?).to_string()
        }
        None => return None,
        Some(rest) => {
            let text = std::str::from_utf8(rest.strip_suffix(b"]")?).ok()?;
            let address: Ipv6Addr = text.parse().ok()?;
            match address.to_ipv4_mapped() {
                Some(mapped) => mapped.to_string(),
                None => address.to_string(),
            }
        }
    };
    Some((address, u16::try_from(port).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families() {
        let cases = [
            ("C0A80016:0CEA", Some(("192.168.0.22", 3306))),
            (
                "[2620:0000:0000:0000:0000:0000:0000:0001]:0050",
                Some(("2620::1", 80)),
            ),
            (
                "[0000:0000:0000:0000:0000:FFFF:0102:0304]:0050",
                Some(("1.2.3.4", 80)),
            ),
            ("C0A8:0016:0CEA", None),
            ("0CEA", None),
            ("C0A800160CEA", None),
            ("C0A80016:x", None),
        ];
        for (text, expected) in cases {
            let parsed = address_and_port(text.as_bytes());
            let expected = expected.map(|(address, port): (&str, u16)| (address.to_string(), port));
            assert_eq!(parsed, expected, "{text}");
        }
    }

    #[test]
    fn backends_belong_to_the_service_above_them() {
        let text = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  \
                    -> RemoteAddress:Port Forward Weight ActiveConn InActConn\nTCP  C0A80016:0CEA wlc\n  \
                    -> C0A85216:0CEA Tunnel 100 248 2\nFWM  10001000 wlc\n  -> C0A85216:0000 Route 1 2 3\n\
                    SCTP C0A80016:0CEA rr\n  -> C0A85216:0CEA Masq 9 9 9\n";
        let mut seen = Vec::new();
        parse(text.as_bytes(), |row| {
            seen.push((row.labels().expect("whole"), row.values));
            let key = row.key();
            assert!(row.has_key(&key) && !row.has_key(&key[1..]));
            Ok(())
        })
        .expect("well formed");
        let of = |labels: [&str; 6], values| (labels.map(str::to_string), values);
        assert_eq!(
            seen,
            [
                of(
                    ["192.168.0.22", "3306", "192.168.82.22", "3306", "TCP", ""],
                    [100, 248, 2]
                ),
                of(
                    ["", "0", "192.168.82.22", "0", "FWM", "10001000"],
                    [1, 2, 3]
                )
            ]
        );
        assert!(parse(b"TCP a b\n-> x y 1 2\n", |_| Ok(())).is_err());
    }

    #[test]
    fn unknown_labels_are_refused() {
        assert!(chosen("").is_ok_and(|chosen| chosen == [false; 6]));
        assert!(chosen("proto,local_port").is_ok_and(|chosen| chosen[1] && chosen[4]));
        let error = chosen("proto,nope").expect_err("unknown");
        assert!(error.to_string().contains("nope"), "{error}");
    }
}
