//! Remote write 2.0: `io.prometheus.write.v2.Request`. Texts are symbols of the request; the first is empty.

use super::{
    family_of,
    fields::{double, integer, message, packed, short_message},
    histogram,
};
use crate::queue::{Item, Symbols, Value};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use narthex_model::{protobuf::put_bytes, varint::put_varint};
use std::{collections::HashMap, hash::BuildHasher as _, ops::Range};

/// A request under construction.
#[derive(Debug, Default)]
pub(super) struct Request {
    /// The series' messages, with their tags.
    series: Vec<u8>,
    table: Table,
    /// Symbols of the labels that the request has, by their numbers in the file.
    labels: HashMap<u32, (u32, u32), RandomState>,
    refs: Vec<u32>,
}

/// The symbols of a request.
#[derive(Debug, Default)]
struct Table {
    texts: Vec<u8>,
    ranges: Vec<Range<u32>>,
    known: HashTable<u32>,
    hasher: RandomState,
}

impl Table {
    /// Returns the number of a text.
    fn symbol(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() {
            return 0;
        }
        if self.ranges.is_empty() {
            // The first symbol of every request.
            self.ranges.push(0..0);
        }
        let Self {
            texts,
            ranges,
            known,
            hasher,
        } = self;
        let of = |texts: &[u8], ranges: &[Range<u32>], at: u32| {
            let range = &ranges[at as usize];
            hasher.hash_one(&texts[range.start as usize..range.end as usize])
        };
        let hash = hasher.hash_one(text);
        let same = |at: &u32| {
            let range = &ranges[*at as usize];
            texts[range.start as usize..range.end as usize] == *text
        };
        if let Some(at) = known.find(hash, same) {
            return *at;
        }
        let at = ranges.len() as u32;
        let start = texts.len() as u32;
        texts.extend_from_slice(text);
        ranges.push(start..texts.len() as u32);
        known.insert_unique(hash, at, |at| of(texts, ranges, *at));
        at
    }
}

impl Request {
    /// Adds an item; `series` is an empty buffer.
    pub(super) fn push(&mut self, symbols: &Symbols, item: &Item<'_>, series: &mut Vec<u8>) {
        let Self {
            table,
            labels,
            refs,
            series: out,
        } = self;
        refs.clear();
        item.series.each_label(symbols, |number, name, value| {
            let (name, value) = *labels
                .entry(number)
                .or_insert_with(|| (table.symbol(name), table.symbol(value)));
            refs.extend([name, value]);
        });
        packed(series, 1, refs.iter().map(|at| u64::from(*at)));
        match &item.value {
            Value::Float(value) => short_message(series, 2, |out| {
                double(out, 1, *value);
                integer(out, 2, item.time_ms.cast_unsigned());
                integer(out, 3, item.start_ms.cast_unsigned());
            }),
            Value::Histogram(one) => message(series, 3, |out| {
                histogram::encode(out, one, item.time_ms, item.start_ms);
            }),
            Value::Nothing => {}
        }
        for exemplar in item.exemplars {
            let numbers = symbols.set(exemplar.labels).unwrap_or_default();
            let texts = numbers.iter().filter_map(|number| symbols.label(*number));
            let refs: Vec<u64> = texts
                .flat_map(|(name, value)| [name, value].map(|text| u64::from(table.symbol(text))))
                .collect();
            message(series, 4, |out| {
                packed(out, 1, refs.into_iter());
                double(out, 2, exemplar.value);
                integer(out, 3, exemplar.time_ms.cast_unsigned());
            });
        }
        if let Some(family) = family_of(symbols, item) {
            let (help, unit) = (table.symbol(family.help), table.symbol(family.unit));
            short_message(series, 5, |out| {
                integer(out, 1, u64::from(family.metric_type));
                integer(out, 3, u64::from(help));
                integer(out, 4, u64::from(unit));
            });
        }
        put_bytes(out, 5, series);
    }

    pub(super) fn begin_file(&mut self) {
        self.labels.clear();
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        put_bytes(out, 4, &[]);
        let table = &mut self.table;
        for range in table.ranges.iter().skip(1) {
            put_varint(out, 4 << 3 | 2);
            put_varint(out, u64::from(range.end - range.start));
            out.extend_from_slice(&table.texts[range.start as usize..range.end as usize]);
        }
        table.texts.clear();
        table.ranges.clear();
        table.known.clear();
        self.labels.clear();
        out.append(&mut self.series);
    }
}
