//! One walk over one body of messages.
//!
//! **Invariant:** a walk changes only the look-up tables of the memory; a new order is built beside it, from the
//! first unexpected item on.

use super::{
    memory::{Index, MessageMemory, Order, Shape, Walked},
    message::{Message, Point, contradiction, read_exemplar, read_labels, reset_hint},
    wire::Reader,
};
use crate::{
    body_builder::BodyBuilder,
    buckets::{self, Classic, Refusal},
    cells::HIDDEN,
    error::{ParseError, ParseErrorKind},
    families::About,
    hash::hash,
    message_types::{is_histogram, type_of},
    number,
};
use narthex_model::{
    ColumnId, Histogram, LabelSet, LabelSetBuilder, METRIC_NAME, MetricType, cell,
};

/// Metrics of a family checked when the expected one is missing, as some may be absent.
const LOOK_AHEAD: usize = 4;

/// Walks a body from its first byte to its last.
///
/// # Errors
/// Fails with the offset of the first offending byte.
pub(crate) fn walk(
    memory: &mut MessageMemory,
    body: &[u8],
    builder: &mut BodyBuilder<'_>,
) -> Result<Walked, ParseError> {
    let first = memory.order.entries.is_empty();
    let mut pass = Pass {
        body,
        order: &memory.order,
        index: &mut memory.index,
        builder,
        building: first.then(Order::default),
        message: Message::default(),
        bounds: Vec::new(),
        targets: Vec::new(),
        next_family: 0,
        next_entry: 0,
        metrics: 0,
    };
    let mut reader = Reader::new(body);
    while !reader.is_empty() {
        let family = reader.message()?;
        pass.family(family)?;
    }
    Ok(Walked {
        order: pass.building,
        metrics: pass.metrics,
    })
}

struct Pass<'a, 'b, 'i> {
    body: &'b [u8],
    order: &'a Order,
    index: &'a mut Option<Index>,
    builder: &'a mut BodyBuilder<'i>,
    building: Option<Order>,
    message: Message,
    /// Bits of the message's quantiles or bucket bounds.
    bounds: Vec<u64>,
    /// Targets of the message's samples.
    targets: Vec<u32>,
    next_family: usize,
    next_entry: usize,
    metrics: usize,
}

/// The family whose metrics are being read.
struct Current {
    kind: MetricType,
    /// Hash of its name and type.
    key: u64,
    /// Entries that may come, in the known order.
    entries_end: usize,
}

impl<'b> Pass<'_, 'b, '_> {
    fn family(&mut self, reader: Reader<'b>) -> Result<(), ParseError> {
        let current = match self.known_family(reader) {
            Some(at) => {
                let family = &self.order.families[at];
                self.next_family = at + 1;
                self.next_entry = family.entries.start as usize;
                if let Some(building) = &mut self.building {
                    building.push_family(self.order.head(family), family.key, family.kind);
                }
                Current {
                    kind: family.kind,
                    key: family.key,
                    entries_end: family.entries.end as usize,
                }
            }
            None => self.new_family(reader)?,
        };
        let mut fields = reader;
        let mut unit = None;
        while let Some((number, value)) = fields.field()? {
            match number {
                4 => self.metric(value.message(), reader, &current)?,
                5 => unit = Some(value.message()),
                _ => {}
            }
        }
        // The unit follows the metrics and is compared with the known one.
        if let Some(unit) = unit {
            let name = name_of(reader)?;
            // Ignore a unit that is not text.
            self.builder.unit(name, unit.text().unwrap_or_default());
        }
        Ok(())
    }

    /// Returns the family whose head begins a message: the expected one, or one looked up.
    fn known_family(&mut self, reader: Reader<'b>) -> Option<usize> {
        let rest = reader.rest();
        let begins = |at: usize| {
            let family = self.order.families.get(at)?;
            let behind = rest.strip_prefix(self.order.head(family))?;
            matches!(behind.first(), None | Some(0x22)).then_some(at)
        };
        if let Some(at) = begins(self.next_family) {
            return Some(at);
        }
        if self.order.families.is_empty() {
            return None;
        }
        let head = head_of(reader)?;
        let index = self.index.get_or_insert_with(|| Index::new(self.order));
        let at = *index.families.get(&hash(head))? as usize;
        begins(at)?;
        self.build();
        Some(at)
    }

    /// Parses a family that is not known, or not with this head.
    fn new_family(&mut self, reader: Reader<'b>) -> Result<Current, ParseError> {
        let (mut name, mut help, mut unit) = ("", "", "");
        let (mut kind, mut metrics) = (MetricType::Counter, 0);
        let mut fields = reader;
        while let Some((number, value)) = fields.field()? {
            match number {
                1 if name.is_empty() => name = value.message().text()?,
                2 => help = value.message().text()?,
                3 => {
                    kind = type_of(value.integer())
                        .ok_or_else(|| reader.error("an unknown metric type"))?;
                }
                4 => metrics += 1,
                // Ignore a unit that is not text.
                5 => unit = value.message().text().unwrap_or_default(),
                _ => {}
            }
        }
        // With the type: metrics of another have other series.
        let key = hash(name.as_bytes()).wrapping_add(kind as u64);
        let nothing = Current {
            kind,
            key,
            entries_end: 0,
        };
        if metrics == 0 {
            return Ok(nothing);
        }
        if name.is_empty() {
            return Err(reader.error("a metric family without a name"));
        }
        self.builder.about(name, About::Type(kind));
        self.builder.about(name, About::Help(help.to_owned()));
        // Before the metrics, which may have it as a label.
        self.builder.about(name, About::Unit(unit.to_owned()));
        self.build();
        if let (Some(building), Some(head)) = (&mut self.building, head_of(reader)) {
            building.push_family(head, key, kind);
        }
        Ok(nothing)
    }

    /// Starts building this body's order: everything so far was expected.
    fn build(&mut self) {
        if self.building.is_none() {
            self.building = Some(self.order.prefix(self.next_family, self.next_entry));
        }
    }

    fn metric(
        &mut self,
        reader: Reader<'b>,
        family: Reader<'b>,
        current: &Current,
    ) -> Result<(), ParseError> {
        self.metrics += 1;
        let kind = current.kind;
        self.message.read(reader, kind)?;
        let native = is_histogram(kind)
            && self.builder.options.native_histograms
            && self.message.is_native();
        self.bounds.clear();
        let bounds = self
            .message
            .points
            .iter()
            .map(|point| point.bound.to_bits());
        self.bounds.extend(bounds);
        let shape = Shape {
            labels: &self.body[self.message.labels.clone()],
            native,
            bounds: &self.bounds,
        };
        let expected = (self.next_entry..current.entries_end)
            .take(LOOK_AHEAD)
            .find(|at| self.order.fits(&self.order.entries[*at], shape));
        let mut known = expected.filter(|_| !self.message.scattered);
        let mut found = false;
        if known.is_none() && !self.order.entries.is_empty() && !self.message.scattered {
            let index = self.index.get_or_insert_with(|| Index::new(self.order));
            known = index
                .metric(current.key, shape.labels)
                .filter(|at| self.order.fits(&self.order.entries[*at], shape));
            found = known.is_some();
        }
        match known {
            Some(at) => {
                if found {
                    self.build();
                }
                self.targets.clear();
                let entry = &self.order.entries[at];
                self.targets.extend_from_slice(self.order.targets(entry));
                if !found || at >= self.next_entry && at < current.entries_end {
                    self.next_entry = at + 1;
                }
            }
            None => {
                self.build();
                self.resolve(reader, family, kind, native)?;
            }
        }
        if let (Some(building), false) = (&mut self.building, self.message.scattered) {
            let shape = Shape {
                labels: &self.body[self.message.labels.clone()],
                native,
                bounds: &self.bounds,
            };
            building.push_entry(shape, &self.targets);
        }
        let lines = self.store_metric(reader, family, kind, native)?;
        match (known, found) {
            (Some(_), false) => self.builder.stats.expected += lines,
            (Some(_), true) => self.builder.stats.found += lines,
            _ => {}
        }
        Ok(())
    }

    /// Finds the targets of a metric that is not known with this shape.
    fn resolve(
        &mut self,
        reader: Reader<'b>,
        family: Reader<'b>,
        kind: MetricType,
        native: bool,
    ) -> Result<(), ParseError> {
        let name = name_of(family)?;
        let labels = read_labels(reader)?;
        let blank = labels.iter().filter(|label| label.value().is_empty());
        self.builder.blank = blank.cloned().collect();
        let own = self.builder.own_labels(labels.iter()).ok_or_else(|| {
            ParseError::at(self.body, reader.at, ParseErrorKind::LacksCommonLabel)
        })?;
        let base = own.to_builder();
        let named = |suffix: &str, bound: Option<(&str, f64)>| -> LabelSet {
            let mut labels: LabelSetBuilder = base.clone();
            if let Some((label, bound)) = bound {
                labels.set(label, &number::openmetrics(bound));
            }
            labels.set(METRIC_NAME, &format!("{name}{suffix}"));
            labels.finish()
        };
        let mut series = Vec::new();
        let options = self.builder.options;
        let converted = is_histogram(kind) && !native && options.custom_buckets;
        if !is_histogram(kind) && kind != MetricType::Summary || native || converted {
            series.push(named("", None));
        }
        let classic = is_histogram(kind)
            && (!(native || converted)
                || options.classic_histograms && (converted || !self.message.points.is_empty()));
        if kind == MetricType::Summary || classic {
            series.push(named("_count", None));
            series.push(named("_sum", None));
        }
        let bounds = self.message.points.iter().map(|point| point.bound);
        if kind == MetricType::Summary {
            series.extend(bounds.map(|bound| named("", Some(("quantile", bound)))));
        } else if classic {
            let open = self.message.lacks_infinity();
            let bounds = bounds.chain(open.then_some(f64::INFINITY));
            series.extend(bounds.map(|bound| named("_bucket", Some(("le", bound)))));
        }
        self.targets.clear();
        for labels in series {
            let target = self.builder.column(&labels).map_err(|reason| {
                self.builder.stats.lines += self.targets.len() + 1;
                ParseError::at(self.body, reader.at, ParseErrorKind::Refused { reason })
            })?;
            self.targets.push(target);
        }
        Ok(())
    }

    /// Stores a metric's samples; returns their number.
    fn store_metric(
        &mut self,
        reader: Reader<'b>,
        family: Reader<'b>,
        kind: MetricType,
        native: bool,
    ) -> Result<usize, ParseError> {
        let targets = std::mem::take(&mut self.targets);
        self.builder.stats.lines += targets.len();
        let time_ms = (self.message.time_ms != 0).then_some(self.message.time_ms);
        let converted = is_histogram(kind) && !native && self.builder.options.custom_buckets;
        match targets.split_first() {
            Some((target, classic)) if native || converted => {
                self.put_native(*target, reader, family, kind, native)?;
                self.put_points(classic, kind, time_ms)?;
            }
            Some((target, [])) if !is_histogram(kind) && kind != MetricType::Summary => {
                put_value(self.builder, *target, self.message.value, time_ms);
                if let Some(span) = self.message.exemplar.clone() {
                    exemplar(self.builder, self.body, *target, span)?;
                }
            }
            _ => self.put_points(&targets, kind, time_ms)?,
        }
        if let (Some(start_ms), true) = (self.message.start_ms, self.builder.options.start_times) {
            for target in targets.iter().filter(|target| **target < HIDDEN) {
                if self.builder.cells.get(*target).is_some() {
                    self.builder
                        .collected
                        .starts
                        .push((ColumnId(*target), start_ms));
                }
            }
        }
        let lines = targets.len();
        self.targets = targets;
        Ok(lines)
    }

    /// Stores a native histogram, or a classic one converted to native.
    fn put_native(
        &mut self,
        target: u32,
        reader: Reader<'b>,
        family: Reader<'b>,
        kind: MetricType,
        native: bool,
    ) -> Result<(), ParseError> {
        let made = if native {
            self.message.native(kind)
        } else {
            self.message.converted(kind)
        };
        let options = &self.builder.options;
        let limits = (options.bucket_limit, options.max_histogram_schema);
        match made.map(|made| buckets::checked(made, limits.0, limits.1)) {
            Ok(Ok(histogram)) => {
                let time_ms = (self.message.time_ms != 0).then_some(self.message.time_ms);
                put_histogram(self.builder, target, histogram, time_ms);
            }
            Ok(Err(Refusal::TooManyBuckets)) => self.builder.collected.too_many_buckets = true,
            Ok(Err(Refusal::Inconsistent(what))) | Err(what) => {
                return Err(contradiction(self.body, reader.at, name_of(family)?, what));
            }
        }
        self.exemplars_of_histogram(target)
    }

    /// Stores count, sum and points of a summary or a classic histogram.
    fn put_points(
        &mut self,
        targets: &[u32],
        kind: MetricType,
        time_ms: Option<i64>,
    ) -> Result<(), ParseError> {
        let [count, sum, points @ ..] = targets else {
            return Ok(());
        };
        let message = &self.message;
        put_value(self.builder, *count, message.count, time_ms);
        put_value(self.builder, *sum, message.sum, time_ms);
        for (target, point) in points.iter().zip(&message.points) {
            put_value(self.builder, *target, point.value, time_ms);
            if let (Some(span), true) = (point.exemplar.clone(), is_histogram(kind)) {
                exemplar(self.builder, self.body, *target, span)?;
            }
        }
        if let Some(target) = points.get(message.points.len()) {
            put_value(self.builder, *target, message.count, time_ms);
        }
        Ok(())
    }

    /// Attaches a native histogram's exemplars: its own, or else those of its classic buckets.
    fn exemplars_of_histogram(&mut self, target: u32) -> Result<(), ParseError> {
        let own = &self.message.exemplars;
        let of_buckets = self
            .message
            .points
            .iter()
            .filter_map(|point| point.exemplar.as_ref());
        let spans: Vec<_> = if own.is_empty() {
            of_buckets.cloned().collect()
        } else {
            own.clone()
        };
        for (slot, span) in (0u16..).zip(spans) {
            let bytes = &self.body[span.clone()];
            let read = || read_exemplar(self.body, span.clone());
            self.builder.timed_exemplar(target, slot, bytes, read)?;
        }
        Ok(())
    }
}

fn put_value(builder: &mut BodyBuilder<'_>, target: u32, value: f64, time_ms: Option<i64>) {
    // A staleness marker on the wire is not a sample: the series ends by its absence.
    if !cell::is_stale(value) {
        let value = if value.is_nan() { cell::NAN } else { value };
        builder.put_at(target, value, time_ms);
    }
}

fn put_histogram(
    builder: &mut BodyBuilder<'_>,
    target: u32,
    histogram: Histogram,
    time_ms: Option<i64>,
) {
    let is_first = builder.histogram(target, histogram);
    if is_first {
        builder.at(target, 0.0, true, time_ms);
    }
}

fn exemplar(
    builder: &mut BodyBuilder<'_>,
    body: &[u8],
    target: u32,
    span: std::ops::Range<usize>,
) -> Result<(), ParseError> {
    let bytes = &body[span.clone()];
    builder.exemplar(target, bytes, || read_exemplar(body, span.clone()))
}

impl Message {
    /// Reports whether the `+Inf` bucket is missing.
    fn lacks_infinity(&self) -> bool {
        let last = self.points.last();
        last.is_none_or(|point| point.bound != f64::INFINITY)
    }

    /// Returns the classic buckets as a native histogram with custom buckets.
    fn converted(&self, kind: MetricType) -> Result<Histogram, String> {
        let classic = Classic {
            count: Some(self.count),
            sum: self.sum,
            buckets: self
                .points
                .iter()
                .map(|Point { bound, value, .. }| (*bound, *value))
                .collect(),
        };
        let mut histogram = classic.convert()?;
        histogram.reset_hint = reset_hint(kind);
        Ok(histogram)
    }
}

/// Returns the part of a family before its first metric.
fn head_of<'b>(family: Reader<'b>) -> Option<&'b [u8]> {
    let mut fields = family;
    loop {
        let len = fields.at - family.at;
        match fields.field() {
            Ok(Some((4, _))) | Ok(None) => return family.rest().get(..len),
            Ok(Some(_)) => {}
            Err(_) => return None,
        }
    }
}

fn name_of<'b>(family: Reader<'b>) -> Result<&'b str, ParseError> {
    let mut fields = family;
    while let Some((number, value)) = fields.field()? {
        if number == 1 {
            return value.message().text();
        }
    }
    Ok("")
}
