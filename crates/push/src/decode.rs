//! Decodes bodies into families: what a group remembers of its last body, and how the next one uses it.
//!
//! A body with the same series as the one before is read along it, and only its values are parsed. Any other body is
//! parsed from scratch, without memory.
//!
//! **Invariant:** the meaning of a body never depends on the bodies before it.

use crate::{
    error::PushError,
    family::{Metric, Part, Shape, native_cell},
    grouping::{Grouping, quoted},
    heads,
};
use narthex_expfmt::{Format, ParseError, ParseOptions, Parser, Resolver};
use narthex_model::{
    ColumnId, Frame, Histogram, LabelHash, LabelSet, METRIC_NAME, MetricType, Schema,
    bits::BitSet,
    cell::Cell,
    labels::{is_legacy_metric_name, is_legacy_name},
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// A cell without a column.
const NO_COLUMN: u32 = u32::MAX;

/// One family of a body.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) shape: Arc<Shape>,
    pub(crate) cells: Vec<f64>,
    pub(crate) natives: Vec<Arc<Histogram>>,
}

/// Parser and layout of one group's bodies of one kind.
#[derive(Debug)]
pub(crate) struct Decoder {
    format: Format,
    parser: Parser,
    layout: Layout,
}

/// How the columns of the last body map to families.
#[derive(Debug)]
struct Layout {
    schema: Schema,
    present: BitSet,
    /// Number of `#` bytes, which shows that comment lines were added or removed.
    hashes: usize,
    natives: usize,
    families: Vec<Plan>,
}

#[derive(Debug)]
struct Plan {
    shape: Arc<Shape>,
    columns: Vec<u32>,
}

fn options() -> ParseOptions {
    let mut options = ParseOptions::default();
    options.native_histograms = true;
    options.classic_histograms = true;
    options
}

fn hashes(format: Format, body: &[u8]) -> usize {
    match format {
        Format::Protobuf => 0,
        _ => memchr::memchr_iter(b'#', body).count(),
    }
}

/// Decodes a body, using `memory` if it is like the body before; afterwards `memory` is of this body.
///
/// Families are ordered by name.
///
/// # Errors
/// Returns what is wrong with the body, and where.
pub(crate) fn decode(
    memory: &mut Option<Decoder>,
    format: Format,
    body: &[u8],
    grouping: &Grouping,
    utf8: bool,
) -> Result<Vec<Incoming>, PushError> {
    if let Some(decoder) = memory
        && let Some(families) = decoder.expected(format, body, grouping)
    {
        return Ok(families);
    }
    // Drops an old memory that the failed attempt has half updated.
    *memory = None;
    let (decoder, families) = Decoder::learn(format, body, grouping, utf8)?;
    *memory = Some(decoder);
    Ok(families)
}

impl Decoder {
    /// Decodes a body with the same lines as the one before; `None` if they differ.
    fn expected(
        &mut self,
        format: Format,
        body: &[u8],
        grouping: &Grouping,
    ) -> Option<Vec<Incoming>> {
        if self.format != format || format == Format::Text && !body.ends_with(b"\n") {
            return None;
        }
        let mut overwrite = Overwrite::new(grouping);
        let round = self.parser.parse(format, body, 0, &mut overwrite).ok()?;
        let (stats, frame) = (round.stats, &*round.frame);
        let layout = &self.layout;
        let is_like = stats.expected == stats.lines
            && stats.repeated == 0
            && frame.times_ms().is_empty()
            && frame.schema().same(&layout.schema)
            && frame.present() == &layout.present
            && frame.histograms().len() == layout.natives
            && hashes(format, body) == layout.hashes;
        is_like.then(|| {
            layout
                .families
                .iter()
                .map(|plan| plan.fill(frame))
                .collect()
        })
    }

    /// Decodes a body from scratch.
    fn learn(
        format: Format,
        body: &[u8],
        grouping: &Grouping,
        utf8: bool,
    ) -> Result<(Self, Vec<Incoming>), PushError> {
        let mut parser = Parser::new(grouping.common(), options());
        let mut overwrite = Overwrite::new(grouping);
        let parsed = parser.parse(format, body, 0, &mut overwrite);
        let round = parsed.map_err(|error| syntax(format, body, &error))?;
        if format == Format::Text {
            let text = str::from_utf8(body).map_err(|_| text_error(1, "invalid UTF-8"))?;
            heads::check(text).map_err(|(line, detail)| text_error(line, &detail))?;
        }
        let inconsistent = |detail| Err(PushError::Inconsistent { detail });
        let frame = &*round.frame;
        if !utf8 {
            check_names(format, body, frame)?;
        }
        if !frame.times_ms().is_empty() {
            return inconsistent("pushed metrics must not have timestamps".to_owned());
        }
        if let Some(detail) = overwrite.fault {
            return inconsistent(detail);
        }
        let families = plans(format, frame);
        let layout = Layout {
            schema: frame.schema().clone(),
            present: frame.present().clone(),
            hashes: hashes(format, body),
            natives: frame.histograms().len(),
            families,
        };
        let incoming = layout
            .families
            .iter()
            .map(|plan| plan.fill(frame))
            .collect();
        let decoder = Self {
            format,
            layout,
            parser,
        };
        Ok((decoder, incoming))
    }
}

impl Plan {
    fn fill(&self, frame: &Frame) -> Incoming {
        let values = frame.values();
        let mut natives = Vec::new();
        let cells = self.columns.iter().map(|column| {
            let value = values.get(*column as usize).copied().unwrap_or_default();
            match Cell::decode(value) {
                Cell::Histogram(at) => {
                    natives.push(Arc::clone(&frame.histograms()[at as usize]));
                    native_cell(natives.len() - 1)
                }
                _ => value,
            }
        });
        let cells = cells.collect();
        Incoming {
            shape: Arc::clone(&self.shape),
            cells,
            natives,
        }
    }
}

/// Makes the path's labels override those of the body.
struct Overwrite<'a> {
    names: Vec<&'a str>,
    seen: HashSet<u128>,
    fault: Option<String>,
}

impl<'a> Overwrite<'a> {
    fn new(grouping: &'a Grouping) -> Self {
        let names = grouping.labels().iter().map(|(name, _)| name.as_str());
        Self {
            names: names.collect(),
            seen: HashSet::new(),
            fault: None,
        }
    }
}

impl Resolver for Overwrite<'_> {
    fn resolve(
        &mut self,
        parsed: &LabelSet,
        common: &LabelSet,
    ) -> Result<Option<LabelSet>, String> {
        let overwritten = parsed
            .iter()
            .any(|label| self.names.contains(&label.name()));
        let local = if overwritten {
            parsed.without(&self.names)
        } else {
            parsed.clone()
        };
        if self.fault.is_none() {
            let reserved = |name: &str| name.starts_with("__") && name != METRIC_NAME;
            if let Some(label) = local.iter().find(|label| reserved(label.name())) {
                let metric = collected(&local, common);
                self.fault = Some(format!(
                    "{metric} has a label with an invalid name: {}",
                    label.name()
                ));
            } else if !self.seen.insert(local.hash().bits()) {
                let metric = collected(&local, common);
                self.fault = Some(format!(
                    "{metric} was collected before with the same name and label values"
                ));
            }
        }
        Ok(Some(local))
    }
}

/// Formats a metric as the Pushgateway does, without its value.
pub(crate) fn collected(local: &LabelSet, common: &LabelSet) -> String {
    let all = common.union(local);
    let mut pairs: Vec<(&str, &str)> = all
        .iter()
        .map(|label| (label.name(), label.value()))
        .collect();
    pairs.retain(|(name, _)| *name != METRIC_NAME);
    if all.get("instance").is_none() {
        pairs.push(("instance", ""));
    }
    pairs.sort_unstable();
    let each = pairs.into_iter().map(|(name, value)| {
        let (name, value) = (quoted(name), quoted(value));
        format!("label:{{name:{name} value:{value}}}")
    });
    let labels = each.collect::<Vec<_>>().join(" ");
    format!(
        "collected metric {} {{ {labels}}}",
        quoted(local.metric_name())
    )
}

/// Rejects names that are not legacy names, if only those are allowed.
fn check_names(format: Format, body: &[u8], frame: &Frame) -> Result<(), PushError> {
    let is_text = format != Format::Protobuf;
    let line_of = |name: &str| {
        let at = memchr::memmem::find(body, quoted(name).as_bytes()).unwrap_or_default();
        memchr::memchr_iter(b'\n', &body[..at]).count() + 1
    };
    for (_, column) in frame.schema().columns() {
        let metric = column.set.metric_name();
        if is_text && !is_legacy_metric_name(metric) {
            let detail = format!("invalid metric name {}", quoted(metric));
            return Err(text_error(line_of(metric), &detail));
        }
        let mut names = column.set.iter().map(|label| label.name());
        let Some(name) = names.find(|name| !is_legacy_name(name)) else {
            continue;
        };
        if is_text {
            let detail = format!("invalid label name {}", quoted(name));
            return Err(text_error(line_of(name), &detail));
        }
        let metric = collected(&column.set, frame.schema().common());
        let detail = format!("{metric} has a label with an invalid name: {name}");
        return Err(PushError::Inconsistent { detail });
    }
    Ok(())
}

fn text_error(line: usize, detail: &str) -> PushError {
    PushError::Body {
        detail: format!("text format parsing error in line {line}: {detail}"),
    }
}

fn syntax(format: Format, body: &[u8], error: &ParseError) -> PushError {
    if format == Format::Protobuf {
        return PushError::Body {
            detail: error.to_string(),
        };
    }
    let line = body.split(|byte| *byte == b'\n').nth(error.line - 1);
    let line = line.and_then(|line| str::from_utf8(line).ok());
    let hint = line.and_then(heads::hint);
    let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
    let detail = format!("column {}: {}{hint}", error.column, error.kind);
    text_error(error.line, &detail)
}

/// A family under construction.
struct Builder {
    shape: Shape,
    /// Metrics by the hash of their labels.
    places: HashMap<LabelHash, usize>,
    /// Parts of each metric, with their columns.
    parts: Vec<Vec<(Part, u32)>>,
    last: (LabelHash, usize),
}

/// Groups the columns of a body into families, ordered by name.
fn plans(format: Format, frame: &Frame) -> Vec<Plan> {
    let schema = frame.schema();
    let declared: HashMap<&str, (MetricType, &Arc<str>)> = schema
        .families()
        .iter()
        .map(|family| (&*family.name, (family.metric_type, &family.help)))
        .collect();
    let mut builders: Vec<Builder> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (id, column) in schema.columns() {
        if !frame.present().contains(id.index()) {
            continue;
        }
        let metric = column.set.metric_name();
        let family = match format {
            Format::Text => family_of(metric, &declared),
            _ => &*schema.family(id).name,
        };
        // The gateway writes these itself, whatever is pushed.
        if matches!(family, "push_time_seconds" | "push_failure_time_seconds") {
            continue;
        }
        let at = *places.entry(family).or_insert_with(|| {
            builders.push(Builder::new(family, declared.get(family)));
            builders.len() - 1
        });
        builders[at].add(id, &column.set, frame);
    }
    builders.sort_by(|a, b| a.shape.name.cmp(&b.shape.name));
    builders.into_iter().map(Builder::finish).collect()
}

/// Returns the family of a sample in the text format: the one with its own name, or one it is a part of.
fn family_of<'a>(metric: &'a str, declared: &HashMap<&str, (MetricType, &Arc<str>)>) -> &'a str {
    if declared.contains_key(metric) {
        return metric;
    }
    for (suffix, types) in [
        ("_count", &[MetricType::Summary, MetricType::Histogram][..]),
        ("_sum", &[MetricType::Summary, MetricType::Histogram]),
        ("_bucket", &[MetricType::Histogram]),
    ] {
        if let Some(base) = metric.strip_suffix(suffix)
            && declared
                .get(base)
                .is_some_and(|(found, _)| types.contains(found))
        {
            return base;
        }
    }
    metric
}

impl Builder {
    fn new(name: &str, declared: Option<&(MetricType, &Arc<str>)>) -> Self {
        let (metric_type, help) = match declared {
            Some((metric_type, help)) => (*metric_type, Arc::clone(help)),
            None => (MetricType::Unknown, "".into()),
        };
        Self {
            shape: Shape {
                name: name.into(),
                metric_type,
                help,
                metrics: Vec::new(),
                parts: Vec::new(),
            },
            places: HashMap::new(),
            parts: Vec::new(),
            last: (LabelHash::EMPTY, usize::MAX),
        }
    }

    fn add(&mut self, id: ColumnId, set: &LabelSet, frame: &Frame) {
        let bounded = match self.shape.metric_type {
            MetricType::Histogram | MetricType::GaugeHistogram => Some("le"),
            MetricType::Summary => Some("quantile"),
            _ => None,
        };
        let Some(bounded) = bounded else {
            let labels = set.without(&[METRIC_NAME]);
            self.push_metric(labels, vec![(Part::Value, id.0)]);
            return;
        };
        let bound = set.label(bounded);
        let name = set
            .label(METRIC_NAME)
            .map_or(LabelHash::EMPTY, |label| label.hash());
        let hash = set.hash() - name - bound.map_or(LabelHash::EMPTY, |label| label.hash());
        let suffix = set.metric_name().strip_prefix(&*self.shape.name);
        let is_native = matches!(Cell::decode(frame.values()[id.index()]), Cell::Histogram(_));
        let bound = bound.and_then(|label| label.value().parse().ok());
        let part = match (suffix, bound) {
            _ if is_native => Part::Native,
            (Some("_sum"), _) => Part::Sum,
            (Some("_count"), _) => Part::Count,
            (Some("_bucket"), Some(bound)) if bounded == "le" => Part::Point(bound),
            (Some(""), Some(bound)) if bounded == "quantile" => Part::Point(bound),
            // Go's parser accepts such a line and ignores its value.
            _ => return,
        };
        let at = match self.last {
            (last, at) if last == hash && at != usize::MAX => at,
            _ => match self.places.get(&hash) {
                Some(at) => *at,
                None => {
                    let labels = set.without(&[METRIC_NAME, bounded]);
                    self.push_metric(labels, Vec::new());
                    self.places.insert(hash, self.parts.len() - 1);
                    self.parts.len() - 1
                }
            },
        };
        self.last = (hash, at);
        self.parts[at].push((part, id.0));
    }

    fn push_metric(&mut self, labels: LabelSet, parts: Vec<(Part, u32)>) {
        self.shape.metrics.push(Metric {
            labels: labels.intern(),
            parts_end: 0,
        });
        self.parts.push(parts);
    }

    /// Orders the parts of every metric for output, and adds the mandatory ones.
    fn finish(mut self) -> Plan {
        let mut columns = Vec::new();
        let is_summary = self.shape.metric_type == MetricType::Summary;
        for (metric, mut parts) in self.shape.metrics.iter_mut().zip(self.parts) {
            if parts.first().is_some_and(|(part, _)| *part != Part::Value) {
                complete(&mut parts, is_summary);
            }
            self.shape.parts.extend(parts.iter().map(|(part, _)| *part));
            columns.extend(parts.iter().map(|(_, column)| *column));
            metric.parts_end = columns.len();
        }
        self.shape.parts.shrink_to_fit();
        self.shape.metrics.shrink_to_fit();
        columns.shrink_to_fit();
        Plan {
            shape: Arc::new(self.shape),
            columns,
        }
    }
}

/// Sorts the parts of a summary or histogram and adds missing sum, count and last bucket.
fn complete(parts: &mut Vec<(Part, u32)>, is_summary: bool) {
    let column = |parts: &[(Part, u32)], wanted: Part| {
        let found = parts.iter().find(|(part, _)| *part == wanted);
        found.map(|(_, column)| *column)
    };
    let only_native = parts.iter().all(|(part, _)| *part == Part::Native);
    if only_native {
        return;
    }
    let count = column(parts, Part::Count);
    for part in [Part::Sum, Part::Count] {
        if column(parts, part).is_none() {
            parts.push((part, NO_COLUMN));
        }
    }
    let open = Part::Point(f64::INFINITY);
    if !is_summary && column(parts, open).is_none() {
        parts.push((open, count.unwrap_or(NO_COLUMN)));
    }
    let rank = |part: &Part| match part {
        Part::Native => (0, 0.0),
        Part::Value => (1, 0.0),
        Part::Point(bound) => (2, *bound),
        Part::Sum => (3, 0.0),
        Part::Count => (4, 0.0),
    };
    parts.sort_by(|(a, _), (b, _)| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
}
