//! Memory zones: pages by use, watermarks, allocations by node.
//!
//! Invariant: of a word that a zone has twice the last counts; numbers of a node are those of its first zone.

use std::path::Path;

use crate::error::ParseError;
use crate::ordered_cache::OrderedCache;
use crate::proc_table::{ProcTable, Table};
use crate::rows::Rows;
use crate::scan::{float, label_text, next_field, next_line};
use crate::sink::{Desc, Sink};
use crate::table;

/// Words of the file, and their families.
const WORDS: &str = include_str!("zoneinfo.txt");

pub(crate) struct Zoneinfo {
    descs: Vec<Desc<'static>>,
    /// Index of each word's family; words come in the same order in every zone.
    words: OrderedCache<Box<[u8]>, Option<usize>>,
    values: Vec<f64>,
    protection: Vec<f64>,
}

pub(crate) fn new(procfs: &Path) -> ProcTable<Zoneinfo> {
    let table = Zoneinfo {
        descs: table::rows::<1>(WORDS).map(|(_, desc)| desc).collect(),
        words: OrderedCache::new(),
        values: Vec::new(),
        protection: Vec::new(),
    };
    ProcTable::new(table, procfs)
}

impl Table for Zoneinfo {
    const FILE: &'static str = "zoneinfo";

    fn parse(
        &mut self,
        mut text: &[u8],
        rows: &mut Rows,
        out: &mut Sink,
    ) -> Result<(), ParseError> {
        let mut zone = None;
        self.end_zone(None, rows, out);
        while let Some(mut line) = next_line(&mut text) {
            if let Some(next) = head(line) {
                self.end_zone(zone.replace(next), rows, out);
                continue;
            }
            let Some(word) = next_field(&mut line) else {
                continue;
            };
            match word {
                b"protection:" => self.parse_protection(line),
                _ => {
                    let value = next_field(&mut line).and_then(float);
                    let place = self.family(word).and_then(|at| self.values.get_mut(at));
                    if let (Some(place), Some(value)) = (place, value) {
                        *place = value;
                    }
                }
            }
        }
        self.end_zone(zone, rows, out);
        Ok(())
    }
}

/// Returns node and zone of `Node 0, zone      DMA`.
fn head(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = line.strip_prefix(b"Node ")?;
    let node = next_field(&mut rest)?.strip_suffix(b",")?;
    next_field(&mut rest).filter(|word| *word == b"zone")?;
    Some((node, next_field(&mut rest)?))
}

impl Zoneinfo {
    fn family(&mut self, word: &[u8]) -> Option<usize> {
        *self.words.entry(word, || {
            let mut names = table::rows::<1>(WORDS);
            names.position(|([name], _)| name.as_bytes() == word)
        })
    }

    /// Parses `(0, 2039, 31932)`.
    fn parse_protection(&mut self, line: &[u8]) {
        let numbers = line.trim_ascii();
        let numbers = numbers
            .strip_prefix(b"(")
            .and_then(|n| n.strip_suffix(b")"));
        let numbers = numbers.unwrap_or_default().split(|byte| *byte == b',');
        self.protection.clear();
        self.protection
            .extend(numbers.map_while(|number| float(number.trim_ascii())));
    }

    /// Sets the values of a zone whose lines have all been read, and forgets them.
    fn end_zone(&mut self, zone: Option<(&[u8], &[u8])>, rows: &mut Rows, out: &mut Sink) {
        if let Some((node, zone)) = zone {
            let (node_label, zone_label) = (label_text(node), label_text(zone));
            let labels = [("node", &*node_label), ("zone", &*zone_label)];
            rows.set_all(&[node, zone], &self.values, out, (&self.descs, &labels));
            let protection = &self.protection;
            let count = protection.len().to_ne_bytes();
            rows.set(&[node, zone, &count], protection, out, |out| {
                let add = |at: usize| {
                    let name = format!("node_zoneinfo_protection_{at}");
                    let help = format!("Pages kept from allocations that could use zone {at}.");
                    out.add(&Desc::gauge(&name, &help), &labels)
                };
                (0..protection.len()).map(add).collect()
            });
        }
        self.values.clear();
        self.values.resize(self.descs.len(), f64::NAN);
        self.protection.clear();
        self.words.begin();
    }
}
