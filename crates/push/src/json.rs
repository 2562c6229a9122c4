//! `/api/v1/metrics` and `/api/v1/status`, in the Pushgateway's JSON.

use crate::{
    family::{Part, View},
    gauges::{FAILED, GROUP_GAUGES},
    group::Group,
    registry::type_name,
    state::State,
    store::Store,
    text::each_label,
};
use narthex_client::write_number;
use narthex_model::{Histogram, LabelSet, MetricType, date};
use std::ops::Range;

/// Contents of `/api/v1/status`.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Flags and their values, ordered by name.
    pub flags: Vec<(String, String)>,
    /// Start time of the process, as RFC 3339.
    pub started: String,
    /// Names and values about the build.
    pub build: Vec<(&'static str, String)>,
}

/// Renders the status.
pub(crate) fn status(status: &Status) -> Vec<u8> {
    let mut out = br#"{"status":"success","data":{"build_information":{"#.to_vec();
    put_pairs(&mut out, &status.build);
    out.extend_from_slice(br#"},"flags":{"#);
    put_pairs(&mut out, &status.flags);
    out.extend_from_slice(br#"},"start_time":"#);
    put_text(&mut out, &status.started);
    out.extend_from_slice(b"}}");
    out
}

/// Renders all groups.
pub(crate) fn metrics(store: &Store) -> Vec<u8> {
    let mut out = br#"{"status":"success""#.to_vec();
    out.extend_from_slice(br#","data":["#);
    put_list(&mut out, store.groups(), |out, group| {
        put_group(out, &group, &group.state(), store.now_ns());
    });
    out.extend_from_slice(b"]}");
    out
}

fn put_group(out: &mut Vec<u8>, group: &Group, state: &State, now_ns: i64) {
    out.extend_from_slice(br#"{"labels":{"#);
    put_pairs(out, group.grouping.labels());
    out.extend_from_slice(br#"},"last_push_successful":"#);
    out.extend_from_slice(state.is_last_push_stored().to_string().as_bytes());
    for gauge in &GROUP_GAUGES {
        let Some(value) = (gauge.value)(state, now_ns) else {
            continue;
        };
        // A time of zero is replaced by the other one.
        let own_ns = if gauge.name == FAILED {
            state.failed_ns
        } else {
            state.pushed_ns
        };
        let ns = if own_ns == 0 {
            state.pushed_ns.max(state.failed_ns)
        } else {
            own_ns
        };
        put_head(out, gauge.name, ns, MetricType::Gauge, gauge.help);
        out.extend_from_slice(br#"{"labels":"#);
        put_labels(out, &LabelSet::empty(), group);
        out.extend_from_slice(br#","value":"#);
        put_number(out, value);
        out.extend_from_slice(b"}]}");
    }
    for (at, family) in state.contents.families().enumerate() {
        let shape = family.shape;
        // The Pushgateway lets such a family overwrite these members, which hides the group's labels; it is left out
        // instead.
        if matches!(&*shape.name, "labels" | "last_push_successful") {
            continue;
        }
        put_head(
            out,
            &shape.name,
            state.family_ns(at),
            shape.metric_type,
            &shape.help,
        );
        put_list(out, shape.metrics(), |out, (metric, range)| {
            out.extend_from_slice(br#"{"labels":"#);
            put_labels(out, &metric.labels, group);
            put_values(out, family, range);
            out.push(b'}');
        });
        out.extend_from_slice(b"]}");
    }
    out.push(b'}');
}

fn put_head(out: &mut Vec<u8>, name: &str, ns: i64, metric_type: MetricType, help: &str) {
    out.push(b',');
    put_text(out, name);
    out.extend_from_slice(br#":{"time_stamp":"#);
    put_text(out, &time(ns));
    out.extend_from_slice(br#","type":"#);
    put_text(out, type_name(metric_type));
    if !help.is_empty() {
        out.extend_from_slice(br#","help":"#);
        put_text(out, help);
    }
    out.extend_from_slice(br#","metrics":["#);
}

fn put_labels(out: &mut Vec<u8>, local: &LabelSet, group: &Group) {
    let mut before = b'{';
    each_label(local, &group.grouping, |name, value| {
        out.push(before);
        before = b',';
        put_text(out, name);
        out.push(b':');
        put_text(out, value);
    });
    out.push(b'}');
}

fn put_values(out: &mut Vec<u8>, family: View<'_>, range: Range<usize>) {
    let parts = &family.shape.parts[range.clone()];
    let is_summary = family.shape.metric_type == MetricType::Summary;
    let native = parts.iter().position(|part| *part == Part::Native);
    if let Some(time_ms) = range.clone().find_map(|at| family.time_ms(at)) {
        out.extend_from_slice(br#","timestamp_ms":""#);
        out.extend_from_slice(time_ms.to_string().as_bytes());
        out.push(b'"');
    }
    if let Some(native) = native.and_then(|at| family.native(range.start + at)) {
        return put_native(out, native);
    }
    let mut points = Vec::new();
    for (part, at) in parts.iter().zip(range) {
        let value = family.cells()[at];
        let name = match part {
            Part::Value => "value",
            Part::Sum => "sum",
            Part::Count => "count",
            Part::Point(bound) => {
                points.push((*bound, value));
                continue;
            }
            Part::Native => continue,
        };
        out.push(b',');
        put_text(out, name);
        out.push(b':');
        put_number(out, value);
        if *part == Part::Value {
            return;
        }
    }
    out.extend_from_slice(if is_summary {
        br#","quantiles":{"#
    } else {
        &br#","buckets":{"#[..]
    });
    put_list(out, points, |out, (bound, value)| {
        put_number(out, bound);
        out.push(b':');
        put_number(out, value);
    });
    out.push(b'}');
}

/// Writes a native histogram; buckets are as in the query API: boundary rule, bounds, count.
fn put_native(out: &mut Vec<u8>, native: &Histogram) {
    out.extend_from_slice(br#","count":"#);
    put_number(out, native.count);
    out.extend_from_slice(br#","sum":"#);
    put_number(out, native.sum);
    out.extend_from_slice(br#","buckets":["#);
    put_list(out, native.buckets(), |out, bucket| {
        let rule = match (bucket.lower_inclusive, bucket.upper_inclusive) {
            (false, true) => 0,
            (true, false) => 1,
            (false, false) => 2,
            (true, true) => 3,
        };
        out.extend_from_slice(format!("[{rule},").as_bytes());
        for (number, end) in [
            (bucket.lower, b','),
            (bucket.upper, b','),
            (bucket.count, b']'),
        ] {
            put_number(out, number);
            out.push(end);
        }
    });
    out.push(b']');
}

fn put_pairs<N: AsRef<str>, V: AsRef<str>>(out: &mut Vec<u8>, pairs: &[(N, V)]) {
    put_list(out, pairs, |out, (name, value)| {
        put_text(out, name.as_ref());
        out.push(b':');
        put_text(out, value.as_ref());
    });
}

/// Writes items with commas between them.
fn put_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put(out, item);
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    // Text is always valid JSON, and writing to a vector cannot fail.
    let _ = serde_json::to_writer(out, text);
}

fn put_number(out: &mut Vec<u8>, number: f64) {
    out.push(b'"');
    write_number(out, number);
    out.push(b'"');
}

/// Formats a time as RFC 3339 with nanoseconds.
pub(crate) fn time(ns: i64) -> String {
    let whole = date::rfc3339(ns.div_euclid(1_000_000_000) * 1000);
    let whole = whole.trim_end_matches(".000Z");
    let fraction = ns.rem_euclid(1_000_000_000);
    let fraction = format!("{fraction:09}");
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        format!("{whole}Z")
    } else {
        format!("{whole}.{fraction}Z")
    }
}
