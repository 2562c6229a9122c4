//! Selected counters of the protocols: `net/netstat`, `net/snmp` and `net/snmp6`.
//!
//! Invariant: the pattern is matched once per counter name. A round compares a table's header line with the known one
//! and parses only the selected columns.

use std::path::Path;

use regex::bytes::Regex;

use crate::collector::{Collector, Ctx};
use crate::error::{HostError, ParseError};
use crate::filter;
use crate::open_file::{End, OpenFile};
use crate::ordered_cache::OrderedCache;
use crate::scan::{each_line, float, label_text, next_field, next_line};
use crate::sink::{Desc, Sink, Slot};

pub(crate) struct Netstat {
    fields: Regex,
    tables: [(OpenFile, Tables); 2],
    list: OpenFile,
    lines: OrderedCache<Box<[u8]>, Option<Slot>>,
}

/// A selected column of a table: its index among the fields, the protocol being 0.
pub(crate) struct Column {
    place: usize,
    slot: Slot,
}

/// Tables by their header line.
type Tables = OrderedCache<Box<[u8]>, Vec<Column>>;

impl Netstat {
    pub(crate) fn new(procfs: &Path, fields: &str) -> Result<Self, HostError> {
        let file = |name: &str| OpenFile::new(procfs.join(name));
        Ok(Self {
            fields: filter::compile("collector.netstat.fields", fields)?,
            tables: ["net/netstat", "net/snmp"].map(|name| (file(name), OrderedCache::new())),
            list: file("net/snmp6"),
            lines: OrderedCache::new(),
        })
    }
}

impl Collector for Netstat {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        for (file, tables) in &mut self.tables {
            let text = file.read(ctx.buf, End::Short)?;
            let read = read_tables(text, &self.fields, tables, out);
            read.map_err(|source| file.malformed(source))?;
        }
        // Missing without IPv6.
        let Some(text) = self.list.read_if_there(ctx.refresh, ctx.buf, End::Short)? else {
            return Ok(());
        };
        let read = read_list(text, &self.fields, &mut self.lines, out);
        read.map_err(|source| self.list.malformed(source))
    }
}

/// Parses pairs of lines: `Protocol: name name …` and `Protocol: number number …`.
pub(crate) fn read_tables(
    mut text: &[u8],
    fields: &Regex,
    tables: &mut Tables,
    out: &mut Sink,
) -> Result<(), ParseError> {
    tables.begin();
    let mut line_number = 0;
    while let Some(head) = next_line(&mut text) {
        line_number += 2;
        let error = |expected| ParseError {
            line: line_number,
            expected,
        };
        let values = next_line(&mut text).ok_or(error("a line of values"))?;
        let columns = tables.entry(head, || learn_columns(head, fields, out));
        if values.split(|b| *b == b' ').count() != head.split(|b| *b == b' ').count() {
            return Err(error("as many values as names"));
        }
        let mut rest = values.split(|b| *b == b' ');
        let mut at = 0;
        for Column { place, slot } in columns {
            let value = rest.nth(*place - at).and_then(float);
            at = *place + 1;
            out.set(*slot, value.ok_or(error("numbers"))?);
        }
    }
    tables.sweep(|_, columns| out.retire_all(columns.into_iter().map(|column| column.slot)));
    Ok(())
}

fn learn_columns(head: &[u8], fields: &Regex, out: &mut Sink) -> Vec<Column> {
    let mut names = head.split(|b| *b == b' ');
    let protocol = names.next().unwrap_or_default();
    let protocol = protocol.strip_suffix(b":").unwrap_or(protocol);
    let mut columns: Vec<(usize, &[u8])> = Vec::new();
    for (at, name) in names.enumerate() {
        let is_wanted = fields.is_match(&[protocol, b"_", name].concat());
        // The kernel names a column once; a corrupt line must not create a series twice.
        if is_wanted && columns.iter().all(|(_, other)| *other != name) {
            columns.push((at + 1, name));
        }
    }
    let columns = columns.into_iter().map(|(place, name)| Column {
        place,
        slot: new_slot(protocol, name, out),
    });
    columns.collect()
}

/// Parses lines `<protocol>6<name> number`.
pub(crate) fn read_list(
    text: &[u8],
    fields: &Regex,
    lines: &mut OrderedCache<Box<[u8]>, Option<Slot>>,
    out: &mut Sink,
) -> Result<(), ParseError> {
    lines.begin();
    each_line(text, |mut line| {
        let (Some(key), Some(value)) = (next_field(&mut line), next_field(&mut line)) else {
            return Ok(());
        };
        if let Some(slot) = *lines.entry(key, || learn_line(key, fields, out)) {
            out.set(slot, float(value).ok_or("a number")?);
        }
        Ok(())
    })?;
    lines.sweep(|_, slot| out.retire_all(slot));
    Ok(())
}

fn learn_line(key: &[u8], fields: &Regex, out: &mut Sink) -> Option<Slot> {
    let at = memchr::memchr(b'6', key)? + 1;
    let (protocol, name) = key.split_at_checked(at)?;
    let is_wanted = fields.is_match(&[protocol, b"_", name].concat());
    is_wanted.then(|| new_slot(protocol, name, out))
}

fn new_slot(protocol: &[u8], name: &[u8], out: &mut Sink) -> Slot {
    let (protocol, name) = (label_text(protocol), label_text(name));
    let full = format!("node_netstat_{protocol}_{name}");
    out.add(
        &Desc::unknown(&full, &format!("Statistic {protocol}{name}.")),
        &[],
    )
}

/// Learns from one text and parses another, for fuzzing.
pub(crate) fn learn_and_read(text: &[u8]) {
    let fields = Regex::new("Listen|Errors").expect("a constant");
    let mut out = Sink::new(narthex_model::LabelSet::empty());
    let (mut tables, mut lines) = (OrderedCache::new(), OrderedCache::new());
    let (first, second) = text.split_at(text.len() / 2);
    for text in [first, second, text, text] {
        out.begin();
        let _ = read_tables(text, &fields, &mut tables, &mut out);
        let _ = read_list(text, &fields, &mut lines, &mut out);
        out.finish(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_again_when_the_kernel_prints_others() {
        let fields = Regex::new("^(A_(x|z)|B_y)$").expect("a constant");
        let mut out = Sink::new(narthex_model::LabelSet::empty());
        let mut tables = OrderedCache::new();
        let mut read = |text: &str| {
            out.begin();
            let read = read_tables(text.as_bytes(), &fields, &mut tables, &mut out);
            let frame = out.finish(0);
            let values = frame.present().iter().map(|at| frame.values()[at]);
            read.map(|()| values.collect::<Vec<f64>>())
        };
        assert_eq!(
            read("A: x y z\nA: 1 2 -3\nB: y\nB: 4\n"),
            Ok(vec![1.0, -3.0, 4.0])
        );
        assert_eq!(read("A: y z\nA: 2 5\n"), Ok(vec![5.0]));
        for (text, line) in [
            ("A: y z\nA: 2\n", 2),
            ("A: y z\nA: 2 x\n", 2),
            ("A: z\n", 2),
        ] {
            assert_eq!(read(text).map_err(|e| e.line), Err(line), "{text:?}");
        }
    }

    #[test]
    fn protocols_of_the_list_end_at_their_six() {
        let fields = Regex::new("^(Ip6_InOctets|Udp6_InErrors)$").expect("a constant");
        let mut out = Sink::new(narthex_model::LabelSet::empty());
        let mut lines = OrderedCache::new();
        out.begin();
        let text = b"Ip6InOctets \t 7\nUdp6InErrors 8\nNoSix 9\nIp6Other x\n\n";
        read_list(text, &fields, &mut lines, &mut out).expect("well formed");
        assert_eq!(out.finish(0).values(), [7.0, 8.0]);
    }
}
