//! Remote write 1.0: `prometheus.WriteRequest`. A series is one message for each of its samples, as Prometheus sends
//! it.

use super::{
    fields::{double, integer, message, short_message},
    histogram,
};
use crate::queue::{FamilyRef, Item, Symbols, Value};
use narthex_model::protobuf::put_bytes;

/// A request under construction.
#[derive(Debug, Default)]
pub(super) struct Request {
    out: Vec<u8>,
}

impl Request {
    /// Adds an item; `series` is an empty buffer.
    pub(super) fn push(&mut self, symbols: &Symbols, item: &Item<'_>, series: &mut Vec<u8>) {
        item.series.each_label(symbols, |_, name, value| {
            put_label(series, name, value);
        });
        match &item.value {
            Value::Float(value) => short_message(series, 2, |out| {
                double(out, 1, *value);
                integer(out, 2, item.time_ms.cast_unsigned());
            }),
            Value::Histogram(one) => {
                message(series, 4, |out| {
                    histogram::encode(out, one, item.time_ms, 0);
                });
            }
            Value::Nothing => {}
        }
        for exemplar in item.exemplars {
            message(series, 3, |out| {
                for number in symbols.set(exemplar.labels).unwrap_or_default() {
                    if let Some((name, value)) = symbols.label(*number) {
                        put_label(out, name, value);
                    }
                }
                double(out, 2, exemplar.value);
                integer(out, 3, exemplar.time_ms.cast_unsigned());
            });
        }
        put_bytes(&mut self.out, 1, series);
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.out);
    }
}

fn put_label(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let text_bytes = name.len() + value.len();
    if text_bytes < 0x70 && name.len() < 0x40 {
        short_message(out, 1, |out| {
            put_bytes(out, 1, name);
            put_bytes(out, 2, value);
        });
    } else {
        message(out, 1, |out| {
            put_bytes(out, 1, name);
            put_bytes(out, 2, value);
        });
    }
}

/// Returns a request that holds only metadata.
pub(crate) fn metadata<'a>(families: impl Iterator<Item = FamilyRef<'a>>) -> Vec<u8> {
    let mut out = Vec::new();
    for family in families {
        message(&mut out, 3, |out| {
            integer(out, 1, u64::from(family.metric_type));
            for (field, text) in [(2, family.name), (4, family.help), (5, family.unit)] {
                if !text.is_empty() {
                    put_bytes(out, field, text);
                }
            }
        });
    }
    out
}
