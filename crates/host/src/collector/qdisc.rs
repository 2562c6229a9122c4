//! Queueing disciplines at the root of each device.
//!
//! Invariant: disciplines below others are not exported: their packets are counted at the root already.

use std::path::PathBuf;

use serde_json::Value;

use crate::collector::{Collector, Ctx};
use crate::config::{self, HostConfig};
use crate::error::HostError;
use crate::filter::Filter;
use crate::link_names::LinkNames;
use crate::netlink::{Dumper, RTM_GETQDISC, RTM_NEWQDISC, attributes, malformed, u32_at, u64_at};
use crate::open_file::{End, OpenFile};
use crate::rows::Rows;
use crate::scan::{label_text, until_nul};
use crate::sink::Sink;
use crate::table;

const COLUMNS: &str = include_str!("qdisc.txt");
const COLUMN_COUNT: usize = 7;

pub(crate) struct Qdisc {
    source: Source,
    filter: Filter,
    disciplines: Vec<Discipline>,
    rows: Rows,
}

enum Source {
    Kernel {
        names: LinkNames,
        dumper: Option<Dumper>,
    },
    /// node_exporter's fixtures.
    File(OpenFile),
}

/// A discipline at a root.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Discipline {
    device: Device,
    kind: String,
    /// By column.
    values: [f64; COLUMN_COUNT],
}

#[derive(Debug, Clone, PartialEq)]
enum Device {
    Index(u32),
    Name(String),
}

impl Qdisc {
    pub(crate) fn new(config: &HostConfig) -> Result<Self, HostError> {
        let fixtures: &PathBuf = &config.qdisc_fixtures;
        let source = match fixtures.as_os_str().is_empty() {
            true => Source::Kernel {
                names: LinkNames::default(),
                dumper: None,
            },
            false => Source::File(OpenFile::new(fixtures.join("results.json"))),
        };
        Ok(Self {
            source,
            filter: config.qdisc.compile(&config::QDISC_DEVICE)?,
            disciplines: Vec::new(),
            rows: Rows::new(),
        })
    }

    fn list(&mut self, ctx: &mut Ctx<'_>) -> Result<(), HostError> {
        const QDISC_BODY: [u8; 20] = [0; 20];
        self.disciplines.clear();
        match &mut self.source {
            Source::Kernel { names, dumper } => {
                names.update(ctx.refresh)?;
                let mut open = dumper.take().map_or_else(Dumper::open, Ok)?;
                open.dump(RTM_GETQDISC, &QDISC_BODY, RTM_NEWQDISC, |message| {
                    self.disciplines.extend(parse(message)?);
                    Ok(())
                })?;
                *dumper = Some(open);
            }
            Source::File(file) => {
                let text = file.read(ctx.buf, End::Empty)?;
                let parsed = parse_fixture(text);
                let error = || file.expected(1, "a list of queueing disciplines in JSON");
                self.disciplines = parsed.ok_or_else(error)?;
            }
        }
        Ok(())
    }
}

impl Collector for Qdisc {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        self.list(ctx)?;
        let Self {
            source,
            filter,
            disciplines,
            rows,
        } = self;
        rows.begin();
        for discipline in disciplines {
            let device = match (&discipline.device, &*source) {
                (Device::Name(name), _) => name,
                (Device::Index(index), Source::Kernel { names, .. }) => names.get(*index),
                (Device::Index(_), Source::File(_)) => "",
            };
            let kind = discipline.kind.as_str();
            rows.set(
                &[device.as_bytes(), kind.as_bytes()],
                &discipline.values,
                out,
                |out| {
                    let labels = [("device", device), ("kind", kind)];
                    match filter.keeps(device.as_bytes()) {
                        true => table::add(COLUMNS, &labels, out),
                        false => Vec::new(),
                    }
                },
            );
        }
        rows.end(out);
        Ok(())
    }
}

/// Parses an `RTM_NEWQDISC` message; `None` if it is not about a root.
pub(crate) fn parse(message: &[u8]) -> Result<Option<Discipline>, HostError> {
    const HEADER: usize = 20;
    const TC_H_ROOT: u32 = u32::MAX;
    const TCA_KIND: u16 = 1;
    const TCA_STATS2: u16 = 7;
    let (Some(index), Some(parent), Some(rest)) = (
        u32_at(message, 4),
        u32_at(message, 12),
        message.get(HEADER..),
    ) else {
        return Err(malformed("a queueing discipline without its header"));
    };
    if parent != 0 && parent != TC_H_ROOT {
        return Ok(None);
    }
    let (mut kind, mut stats) = (String::new(), None);
    attributes(rest, |attribute, value| match attribute {
        TCA_KIND => {
            kind = label_text(until_nul(value));
        }
        TCA_STATS2 => stats = Some(value),
        _ => {}
    })?;
    Ok(Some(Discipline {
        device: Device::Index(index),
        kind,
        values: parse_stats(stats.unwrap_or_default())?,
    }))
}

fn parse_stats(stats: &[u8]) -> Result<[f64; COLUMN_COUNT], HostError> {
    const TCA_STATS_BASIC: u16 = 1;
    const TCA_STATS_QUEUE: u16 = 3;
    let mut values = [0.0; COLUMN_COUNT];
    let [bytes, packets, drops, requeues, overlimits, length, backlog] = &mut values;
    attributes(stats, |attribute, value| {
        let small = |at: usize| f64::from(u32_at(value, at).unwrap_or_default());
        match attribute {
            TCA_STATS_BASIC => {
                *bytes = u64_at(value, 0).unwrap_or_default() as f64;
                *packets = small(8);
            }
            TCA_STATS_QUEUE => {
                let fields = [length as &mut f64, backlog, drops, requeues, overlimits];
                for (at, field) in fields.into_iter().enumerate() {
                    *field = small(at * 4);
                }
            }
            _ => {}
        }
    })?;
    Ok(values)
}

/// Parses node_exporter's fixture: objects named as its library's fields.
pub(crate) fn parse_fixture(text: &[u8]) -> Option<Vec<Discipline>> {
    const FIELDS: [&str; COLUMN_COUNT] = [
        "Bytes",
        "Packets",
        "Drops",
        "Requeues",
        "Overlimits",
        "Qlen",
        "Backlog",
    ];
    let value: Value = serde_json::from_slice(text).ok()?;
    let discipline = |object: &Value| {
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        let values = FIELDS.map(|name| object[name].as_f64().unwrap_or_default());
        let is_root = object["Parent"].as_u64().unwrap_or_default() == 0;
        is_root.then(|| Discipline {
            device: Device::Name(text("IfaceName")),
            kind: text("Kind"),
            values,
        })
    };
    Some(value.as_array()?.iter().filter_map(discipline).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = u16::try_from(4 + value.len()).expect("small");
        let mut attribute = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        attribute.resize(attribute.len().next_multiple_of(4), 0);
        attribute
    }

    fn message(parent: u32) -> Vec<u8> {
        let numbers = |numbers: [u32; 5]| numbers.map(u32::to_ne_bytes).concat();
        let basic = [&7_u64.to_ne_bytes()[..], &8_u32.to_ne_bytes()].concat();
        let queue = numbers([1, 2, 3, 4, 5]);
        let stats = [attribute(1, &basic), attribute(3, &queue)].concat();
        let header = numbers([0, 6, 0, parent, 0]);
        [header, attribute(1, b"fq\0"), attribute(7, &stats)].concat()
    }

    #[test]
    fn roots_have_their_columns() {
        let expected = Discipline {
            device: Device::Index(6),
            kind: "fq".to_owned(),
            values: [7.0, 8.0, 3.0, 4.0, 5.0, 1.0, 2.0],
        };
        for parent in [0, u32::MAX] {
            let found = parse(&message(parent)).expect("well formed");
            assert_eq!(found, Some(expected.clone()));
        }
        assert_eq!(parse(&message(0x10001)).expect("well formed"), None);
        assert!(parse(&[0; 19]).is_err());
    }
}
