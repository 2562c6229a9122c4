//! The page in protobuf.

use super::{Entry, Page};
use crate::{
    decode::{self, Allowed},
    family::{Family, Part, View, type_word},
    gauges,
    grouping::Grouping,
    text::each_label,
};
use narthex_expfmt::{Escaping, Format};
use narthex_model::{Histogram, LabelSet, MetricType, histogram::Span, protobuf::Message};
use std::collections::HashMap;

impl Page {
    /// Renders the whole page as messages.
    pub(crate) fn messages(&self) -> Vec<u8> {
        let own = own_families(&self.own);
        let mut out = Vec::new();
        for entry in &self.entries {
            self.put_message(&mut out, entry, own.get(&*entry.name));
        }
        out
    }

    fn put_message(&self, out: &mut Vec<u8>, entry: &Entry, own: Option<&Family>) {
        let mut family = Message::default();
        family.text(1, &self.escaping.name(&entry.name));
        if let Some(gauge) = gauges::find(&entry.name) {
            family.text(2, gauge.help);
            family.integer(3, 1);
            let mut is_empty = true;
            for (group, value) in self.gauged(gauge) {
                is_empty = false;
                let mut metric = labels_message(&LabelSet::empty(), &group.grouping, self.escaping);
                metric.message(2, &value_message(value));
                family.message(4, &metric);
            }
            if !is_empty {
                family.delimited(out);
            }
            return;
        }
        let first = entry.pushed.first().map(|first| self.pushed(*first).1);
        let Some(first) = own.map(Family::view).or(first) else {
            return;
        };
        family.text(2, &first.shape.help);
        family.integer(3, type_number(first.shape.metric_type));
        if let Some(own) = own {
            for (metric, range) in own.shape.metrics() {
                let mut message = Message::default();
                for label in &metric.labels {
                    put_label(&mut message, label.name(), label.value());
                }
                put_metric(&mut message, own.view(), range);
                family.message(4, &message);
            }
        }
        for place in &entry.pushed {
            let (group, pushed) = self.pushed(*place);
            for (metric, range) in pushed.shape.metrics() {
                let mut message = labels_message(&metric.labels, &group.grouping, self.escaping);
                put_metric(&mut message, pushed, range);
                family.message(4, &message);
            }
        }
        family.delimited(out);
    }
}

/// Parses the gateway's own page as if it had been pushed to a group without labels.
fn own_families(own: &str) -> HashMap<String, Family> {
    let nobody = Grouping::new(Vec::new());
    let allowed = Allowed {
        utf8_names: true,
        timestamps: true,
    };
    let decoded = decode::decode_once(Format::Text, own.as_bytes(), &nobody, allowed);
    let families = decoded.unwrap_or_default().into_iter();
    families
        .map(|family| (family.shape.name.to_string(), family))
        .collect()
}

fn labels_message(local: &LabelSet, grouping: &Grouping, escaping: Escaping) -> Message {
    let mut message = Message::default();
    each_label(local, grouping, |name, value| {
        put_label(&mut message, &escaping.name(name), value);
    });
    message
}

fn put_label(message: &mut Message, name: &str, value: &str) {
    let mut pair = Message::default();
    pair.text(1, name);
    pair.text(2, value);
    message.message(1, &pair);
}

fn value_message(value: f64) -> Message {
    let mut message = Message::default();
    message.double(1, value);
    message
}

/// Adds the value of a metric to its message.
fn put_metric(message: &mut Message, family: View<'_>, range: std::ops::Range<usize>) {
    let shape = family.shape;
    let is_summary = shape.metric_type == MetricType::Summary;
    // A message has one time; where parts of a text have different ones, the last counts.
    if let Some(time_ms) = range
        .clone()
        .filter_map(|at| family.time_ms(at))
        .next_back()
    {
        message.integer(6, time_ms.cast_unsigned());
    }
    let parts = shape.parts[range.clone()].iter().zip(range);
    let mut inner = Message::default();
    for (part, at) in parts {
        let value = family.cells()[at];
        match part {
            Part::Value => {
                let field = match type_word(shape.metric_type) {
                    "gauge" => 2,
                    "counter" => 3,
                    _ => 5,
                };
                return message.message(field, &value_message(value));
            }
            Part::Count => inner.integer(1, value as u64),
            Part::Sum => inner.double(2, value),
            Part::Point(bound) => {
                let mut point = Message::default();
                if is_summary {
                    point.double(1, *bound);
                    point.double(2, value);
                } else {
                    point.integer(1, value as u64);
                    point.double(2, *bound);
                }
                inner.message(3, &point);
            }
            Part::Native => {
                if let Some(native) = family.native(at) {
                    put_native(&mut inner, native, family.cells().len() == 1);
                }
            }
        }
    }
    message.message(if is_summary { 4 } else { 7 }, &inner);
}

/// Adds the fields of a native histogram; count and sum only if there are no classic ones.
fn put_native(message: &mut Message, native: &Histogram, is_alone: bool) {
    if !native.integer_counts {
        message.double(4, native.count);
        message.double(8, native.zero_count);
    } else {
        if is_alone {
            message.integer(1, native.count as u64);
        }
        message.integer(7, native.zero_count as u64);
    }
    if is_alone {
        message.double(2, native.sum);
    }
    message.signed(5, i64::from(native.histogram_schema));
    message.double(6, native.zero_threshold);
    let sides = [
        (9, &native.negative_spans, &native.negative_buckets),
        (12, &native.positive_spans, &native.positive_buckets),
    ];
    for (field, spans, buckets) in sides {
        for Span { offset, length } in spans {
            let mut span = Message::default();
            span.signed(1, i64::from(*offset));
            span.integer(2, u64::from(*length));
            message.message(field, &span);
        }
        let mut before = 0;
        for count in buckets {
            if native.integer_counts {
                let count = *count as i64;
                message.signed(field + 1, count - before);
                before = count;
            } else {
                message.double(field + 2, *count);
            }
        }
    }
    // An empty span distinguishes a native histogram without observations from a classic one.
    if native.positive_spans.is_empty() && native.negative_spans.is_empty() {
        message.message(12, &Message::default());
    }
}

fn type_number(metric_type: MetricType) -> u64 {
    match type_word(metric_type) {
        "counter" => 0,
        "gauge" => 1,
        "summary" => 2,
        "histogram" if metric_type == MetricType::GaugeHistogram => 5,
        "histogram" => 4,
        _ => 3,
    }
}
