//! Writes records, in the form of version 2.

use super::{DELETION, FAILURE, NUMBERS, PUSH, SAME, STATE, WHOLE};
use crate::{
    family::{Numbers, Part, Shape, View},
    grouping::Grouping,
    layout::{Contents, each_pair},
    state::{PushIds, Settings, State},
};
use narthex_model::{Histogram, varint::put_varint};
use std::sync::Arc;

/// Encodes a push.
pub(crate) fn push(
    grouping: &Grouping,
    pushed_ns: i64,
    replace: bool,
    (settings, id): (Settings, Option<&str>),
    (before, pushed): (&Contents, &Contents),
) -> Vec<u8> {
    let families = pushed.layout.families.len();
    let mut out = Vec::with_capacity(64 + families * 40 + pushed.layout.len() * 8);
    out.push(PUSH);
    put_grouping(&mut out, grouping);
    out.extend_from_slice(&pushed_ns.to_le_bytes());
    out.push(u8::from(replace));
    put_settings(&mut out, settings);
    put_ids(&mut out, id.into_iter());
    put_varint(&mut out, families as u64);
    each_pair(&before.layout, &pushed.layout, |old, new| {
        let Some(family) = new.map(|at| pushed.family(at)) else {
            return;
        };
        put_text(&mut out, &family.shape.name);
        let old = old.map(|at| before.family(at));
        match old.filter(|old| Arc::ptr_eq(old.shape, family.shape)) {
            Some(old) if old.has_numbers_of(family) => out.push(SAME),
            Some(_) => {
                out.push(NUMBERS);
                put_numbers(&mut out, family);
            }
            None => {
                out.push(WHOLE);
                put_shape(&mut out, family.shape);
                put_numbers(&mut out, family);
            }
        }
    });
    out
}

/// Encodes a whole group.
pub(crate) fn state(grouping: &Grouping, state: &State, ids: &PushIds) -> Vec<u8> {
    let mut out = vec![STATE];
    put_grouping(&mut out, grouping);
    out.extend_from_slice(&state.pushed_ns.to_le_bytes());
    out.extend_from_slice(&state.failed_ns.to_le_bytes());
    put_settings(&mut out, state.settings);
    put_ids(&mut out, ids.iter().map(String::as_str));
    put_varint(&mut out, state.contents.layout.families.len() as u64);
    for (at, family) in state.contents.families().enumerate() {
        put_text(&mut out, &family.shape.name);
        out.extend_from_slice(&state.family_ns(at).to_le_bytes());
        put_shape(&mut out, family.shape);
        put_numbers(&mut out, family);
    }
    out
}

/// Encodes a refused push.
pub(crate) fn failure(grouping: &Grouping, failed_ns: i64) -> Vec<u8> {
    let mut out = vec![FAILURE];
    put_grouping(&mut out, grouping);
    out.extend_from_slice(&failed_ns.to_le_bytes());
    out
}

/// Encodes the end of a group.
pub(crate) fn deletion(grouping: &Grouping) -> Vec<u8> {
    let mut out = vec![DELETION];
    put_grouping(&mut out, grouping);
    out
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put_double(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

fn put_settings(out: &mut Vec<u8>, settings: Settings) {
    for period_ms in [settings.ttl_ms, settings.interval_ms] {
        put_varint(
            out,
            period_ms.map_or(0, |period_ms| period_ms.saturating_add(1)),
        );
    }
}

fn put_ids<'a>(out: &mut Vec<u8>, ids: impl ExactSizeIterator<Item = &'a str>) {
    put_varint(out, ids.len() as u64);
    for id in ids {
        put_text(out, id);
    }
}

fn put_grouping(out: &mut Vec<u8>, grouping: &Grouping) {
    put_varint(out, grouping.labels().len() as u64);
    for (name, value) in grouping.labels() {
        put_text(out, name);
        put_text(out, value);
    }
}

fn put_shape(out: &mut Vec<u8>, shape: &Shape) {
    out.push(shape.metric_type.number());
    put_text(out, &shape.help);
    put_varint(out, shape.metrics.len() as u64);
    for (metric, range) in shape.metrics() {
        put_varint(out, metric.labels.len() as u64);
        for label in &metric.labels {
            put_text(out, label.name());
            put_text(out, label.value());
        }
        put_varint(out, range.len() as u64);
        for part in &shape.parts[range] {
            match part {
                Part::Value => out.push(0),
                Part::Point(bound) => {
                    out.push(1);
                    put_double(out, *bound);
                }
                Part::Sum => out.push(2),
                Part::Count => out.push(3),
                Part::Native => out.push(4),
            }
        }
    }
}

fn put_numbers(out: &mut Vec<u8>, family: View<'_>) {
    if !family.numbers.is_plain() {
        let numbers = family.own_numbers();
        return put_all_numbers(out, &numbers);
    }
    put_doubles(out, family.cells());
    // Neither times nor native histograms.
    out.extend_from_slice(&[0, 0]);
}

fn put_all_numbers(out: &mut Vec<u8>, numbers: &Numbers) {
    put_doubles(out, &numbers.cells);
    put_varint(out, numbers.times_ms.len() as u64);
    for time_ms in &numbers.times_ms {
        out.extend_from_slice(&time_ms.to_le_bytes());
    }
    put_varint(out, numbers.natives.len() as u64);
    for native in &numbers.natives {
        put_native(out, native);
    }
}

fn put_doubles(out: &mut Vec<u8>, values: &[f64]) {
    put_varint(out, values.len() as u64);
    for value in values {
        put_double(out, *value);
    }
}

fn put_native(out: &mut Vec<u8>, native: &Histogram) {
    out.extend_from_slice(&native.histogram_schema.to_le_bytes());
    out.push(native.reset_hint.number() | u8::from(native.integer_counts) << 7);
    for value in [
        native.zero_threshold,
        native.zero_count,
        native.count,
        native.sum,
    ] {
        put_double(out, value);
    }
    for spans in [&native.positive_spans, &native.negative_spans] {
        put_varint(out, spans.len() as u64);
        for span in spans {
            out.extend_from_slice(&span.offset.to_le_bytes());
            out.extend_from_slice(&span.length.to_le_bytes());
        }
    }
    for values in [
        &native.positive_buckets,
        &native.negative_buckets,
        &native.custom_values,
    ] {
        put_doubles(out, values);
    }
}
