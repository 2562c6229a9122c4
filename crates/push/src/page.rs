//! The scraped page: the gateway's own metrics and those of all groups.
//!
//! **Invariant:** a scrape copies lines that pushes have rendered; it takes no lock that a push holds while it works.
//! Only a family whose type differs from that in other groups is left out.

use crate::{
    decode::{self, Allowed},
    family::{self, Content, Part, Shape, each_label, type_word, write_labels},
    gauges::{self, GROUP_GAUGES, GroupGauge},
    group::Group,
    grouping::Grouping,
    metrics,
    state::{State, Stored},
};
use narthex_client::{Registry, write_number};
use narthex_expfmt::{Escaping, Format, Negotiated};
use narthex_model::{Histogram, LabelSet, MetricType, histogram::Span, protobuf::Message};
use std::{collections::HashMap, sync::Arc};

/// A group and its state when the scrape began.
type Seen = (Arc<Group>, Arc<State>);

/// The contents of one page, by family.
struct Page<'a> {
    families: Vec<Entry<'a>>,
    groups: &'a [Seen],
    now_ns: i64,
    escaping: Escaping,
}

struct Entry<'a> {
    name: &'a str,
    /// The gateway's own samples, with their comment lines.
    own: Option<&'a str>,
    pushed: Vec<(&'a Group, &'a Stored)>,
}

/// Returns the format for an `Accept` header; OpenMetrics is not offered.
pub(crate) fn negotiate(accept: &str) -> Negotiated {
    let clauses = accept
        .split(',')
        .filter(|clause| !clause.contains("openmetrics"));
    Negotiated::from_accept(&clauses.collect::<Vec<_>>().join(","))
}

/// Renders the page of `groups` at `now_ns`; `own` holds the gateway's own metrics.
pub(crate) fn render(
    groups: Vec<Arc<Group>>,
    now_ns: i64,
    own: &Registry,
    style: Negotiated,
    room: usize,
) -> Vec<u8> {
    let mut text = Vec::new();
    own.encode_text(&mut text);
    let own = String::from_utf8(text).unwrap_or_default();
    let seen: Vec<Seen> = groups
        .into_iter()
        .map(|group| {
            let state = group.state();
            (group, state)
        })
        .collect();
    let page = Page::new(&own, &seen, now_ns, style.escaping);
    let mut out = Vec::with_capacity(room);
    if style.format == Format::Protobuf {
        let contents = own_contents(&own);
        for entry in &page.families {
            page.put_message(&mut out, entry, contents.get(entry.name));
        }
    } else {
        for entry in &page.families {
            page.put_text(&mut out, entry);
        }
    }
    out
}

/// Lists the families of a registry with their types.
#[must_use]
pub fn own_families(own: &Registry) -> Vec<(String, MetricType)> {
    let mut text = Vec::new();
    own.encode_text(&mut text);
    let text = String::from_utf8(text).unwrap_or_default();
    let typed = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut all: Vec<(String, MetricType)> = typed
        .map(|(name, word)| {
            (
                name.to_owned(),
                MetricType::from_name(word).unwrap_or_default(),
            )
        })
        .collect();
    let gauges = GROUP_GAUGES.iter();
    all.extend(gauges.map(|gauge| (gauge.name.to_owned(), MetricType::Gauge)));
    all
}

impl<'a> Page<'a> {
    fn new(own: &'a str, groups: &'a [Seen], now_ns: i64, escaping: Escaping) -> Self {
        let mut page = Self {
            families: Vec::new(),
            groups,
            now_ns,
            escaping,
        };
        let mut places: HashMap<&str, usize> = HashMap::new();
        for block in blocks(own) {
            let name = block.split(' ').nth(2).unwrap_or_default();
            places.insert(name, page.families.len());
            page.families.push(Entry {
                name,
                own: Some(block),
                pushed: Vec::new(),
            });
        }
        for gauge in &GROUP_GAUGES {
            page.families.push(Entry {
                name: gauge.name,
                own: None,
                pushed: Vec::new(),
            });
        }
        for (group, state) in groups {
            for stored in &state.families {
                let name = &*stored.content.shape.name;
                let at = *places.entry(name).or_insert_with(|| {
                    page.families.push(Entry {
                        name,
                        own: None,
                        pushed: Vec::new(),
                    });
                    page.families.len() - 1
                });
                page.families[at].add(group, stored);
            }
        }
        page.families.sort_unstable_by_key(|entry| entry.name);
        page
    }

    /// Returns the groups that have a gauge, with its value.
    fn gauged(&self, gauge: &'static GroupGauge) -> impl Iterator<Item = (&'a Group, f64)> {
        let now_ns = self.now_ns;
        let value = move |state: &State| (gauge.value)(state, now_ns);
        let groups = self.groups.iter();
        groups.filter_map(move |(group, state)| Some((&**group, value(state)?)))
    }

    fn put_text(&self, out: &mut Vec<u8>, entry: &Entry<'_>) {
        if let Some(gauge) = gauges::find(entry.name) {
            return self.put_gauge(out, gauge);
        }
        match (entry.own, entry.pushed.first()) {
            (Some(block), _) => out.extend_from_slice(block.as_bytes()),
            (None, Some((_, first))) => {
                family::write_head(out, &first.content.shape, self.escaping);
            }
            (None, None) => {}
        }
        for (group, stored) in &entry.pushed {
            if self.escaping == Escaping::Underscores {
                out.extend_from_slice(stored.content.lines());
            } else {
                let lines = stored.content.lines_as(&group.grouping, self.escaping);
                out.extend_from_slice(&lines);
            }
        }
    }

    fn put_gauge(&self, out: &mut Vec<u8>, gauge: &'static GroupGauge) {
        let (name, help) = (gauge.name, gauge.help);
        for (at, (group, value)) in self.gauged(gauge).enumerate() {
            if at == 0 {
                let head = format!("# HELP {name} {help}\n# TYPE {name} gauge\n");
                out.extend_from_slice(head.as_bytes());
            }
            out.extend_from_slice(name.as_bytes());
            if self.escaping == Escaping::Underscores {
                out.extend_from_slice(&group.labels);
            } else {
                write_labels(out, &LabelSet::empty(), &group.grouping, self.escaping);
            }
            out.push(b' ');
            write_number(out, value);
            out.push(b'\n');
        }
    }

    fn put_message(&self, out: &mut Vec<u8>, entry: &Entry<'_>, own: Option<&Content>) {
        let mut family = Message::default();
        family.text(1, &self.escaping.name(entry.name));
        if let Some(gauge) = gauges::find(entry.name) {
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
        let first = entry.pushed.first().map(|(_, first)| &*first.content);
        let Some(shape) = own.or(first).map(|content| &content.shape) else {
            return;
        };
        family.text(2, &shape.help);
        family.integer(3, type_number(shape.metric_type));
        if let Some(own) = own {
            for (metric, range) in own.shape.metrics() {
                let mut message = Message::default();
                for label in &metric.labels {
                    put_label(&mut message, label.name(), label.value());
                }
                put_metric(&mut message, own, range);
                family.message(4, &message);
            }
        }
        for (group, stored) in &entry.pushed {
            let content = &stored.content;
            for (metric, range) in content.shape.metrics() {
                let mut message = labels_message(&metric.labels, &group.grouping, self.escaping);
                put_metric(&mut message, content, range);
                family.message(4, &message);
            }
        }
        family.delimited(out);
    }
}

/// Splits the registry's page into families, each of which begins with a HELP line.
fn blocks(own: &str) -> impl Iterator<Item = &str> {
    let starts = own.match_indices("# HELP ").map(|(at, _)| at);
    let mut starts: Vec<usize> = starts
        .filter(|at| *at == 0 || own[..*at].ends_with('\n'))
        .collect();
    starts.push(own.len());
    (1..starts.len()).map(move |at| &own[starts[at - 1]..starts[at]])
}

impl<'a> Entry<'a> {
    fn add(&mut self, group: &'a Group, stored: &'a Stored) {
        let word = type_word(stored.content.shape.metric_type);
        let fits = match (self.own, self.pushed.first()) {
            (Some(block), _) => block.contains(&format!("# TYPE {} {word}\n", self.name)),
            (None, Some((_, first))) => type_word(first.content.shape.metric_type) == word,
            (None, None) => true,
        };
        if fits {
            self.pushed.push((group, stored));
        } else {
            metrics::HIDDEN.inc();
        }
    }
}

/// Parses the gateway's own page as if it had been pushed to a group without labels.
fn own_contents(own: &str) -> HashMap<String, Content> {
    let nobody = Grouping::new(Vec::new());
    let allowed = Allowed {
        utf8_names: true,
        timestamps: true,
    };
    let decoded = decode::decode(&mut None, Format::Text, own.as_bytes(), &nobody, allowed);
    let families = decoded.unwrap_or_default().into_iter().map(|family| {
        let name = family.shape.name.to_string();
        (name, Content::new(family.shape, family.numbers, &nobody))
    });
    families.collect()
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
fn put_metric(message: &mut Message, content: &Content, range: std::ops::Range<usize>) {
    let shape: &Shape = &content.shape;
    let is_summary = shape.metric_type == MetricType::Summary;
    let numbers = &content.numbers;
    // A message has one time; where parts of a text have different ones, the last counts.
    if let Some(time_ms) = range
        .clone()
        .filter_map(|at| numbers.time_ms(at))
        .next_back()
    {
        message.integer(6, time_ms.cast_unsigned());
    }
    let parts = shape.parts[range.clone()].iter().zip(range);
    let mut inner = Message::default();
    for (part, at) in parts {
        let value = numbers.cells[at];
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
                if let Some(native) = numbers.native(at) {
                    put_native(&mut inner, native, numbers.cells.len() == 1);
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
