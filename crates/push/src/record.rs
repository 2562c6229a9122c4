//! Journal records: changes of a group, as bytes. See docs/format/push-journal.md.
//!
//! **Invariant:** a record names its group by labels and its families by name, so that it means the same in any file.
//! Reading allocates no more than a small multiple of the bytes read.

use crate::{
    family::{Content, Metric, Part, Shape, native_cell},
    group::{State, Stored, Update},
    grouping::Grouping,
};
use narthex_model::{
    Histogram, LabelSet, MetricType,
    cell::{self, Cell},
    histogram::{ResetHint, Span},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

const PUSH: u8 = 1;
const STATE: u8 = 2;
const FAILURE: u8 = 3;
const DELETION: u8 = 4;

const SAME: u8 = 0;
const NUMBERS: u8 = 1;
const WHOLE: u8 = 2;

/// Encodes a push.
pub(crate) fn push(
    grouping: &Grouping,
    pushed_ns: i64,
    replace: bool,
    ttl_ms: Option<u64>,
    updates: &[Update],
) -> Vec<u8> {
    let cells: usize = updates
        .iter()
        .map(|update| update.content().cells.len())
        .sum();
    let mut out = Vec::with_capacity(64 + updates.len() * 40 + cells * 8);
    out.push(PUSH);
    put_grouping(&mut out, grouping);
    out.extend_from_slice(&pushed_ns.to_le_bytes());
    out.push(u8::from(replace));
    put_ttl(&mut out, ttl_ms);
    put(&mut out, updates.len() as u64);
    for update in updates {
        let content = update.content();
        put_text(&mut out, &content.shape.name);
        match update {
            Update::Same(_) => out.push(SAME),
            Update::Numbers(_) => {
                out.push(NUMBERS);
                put_cells(&mut out, content);
            }
            Update::Whole(_) => {
                out.push(WHOLE);
                put_shape(&mut out, &content.shape);
                put_cells(&mut out, content);
            }
        }
    }
    out
}

/// Encodes a whole group.
pub(crate) fn state(grouping: &Grouping, state: &State) -> Vec<u8> {
    let mut out = vec![STATE];
    put_grouping(&mut out, grouping);
    out.extend_from_slice(&state.pushed_ns.to_le_bytes());
    out.extend_from_slice(&state.failed_ns.to_le_bytes());
    put_ttl(&mut out, state.ttl_ms);
    put(&mut out, state.families.len() as u64);
    for Stored { content, pushed_ns } in &state.families {
        put_text(&mut out, &content.shape.name);
        out.extend_from_slice(&pushed_ns.to_le_bytes());
        put_shape(&mut out, &content.shape);
        put_cells(&mut out, content);
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

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put_double(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

fn put_ttl(out: &mut Vec<u8>, ttl_ms: Option<u64>) {
    put(out, ttl_ms.map_or(0, |ttl_ms| ttl_ms.saturating_add(1)));
}

fn put_grouping(out: &mut Vec<u8>, grouping: &Grouping) {
    put(out, grouping.labels().len() as u64);
    for (name, value) in grouping.labels() {
        put_text(out, name);
        put_text(out, value);
    }
}

fn put_shape(out: &mut Vec<u8>, shape: &Shape) {
    out.push(type_number(shape.metric_type));
    put_text(out, &shape.help);
    put(out, shape.metrics.len() as u64);
    for (metric, range) in shape.metrics() {
        put(out, metric.labels.len() as u64);
        for label in &metric.labels {
            put_text(out, label.name());
            put_text(out, label.value());
        }
        put(out, range.len() as u64);
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

fn put_cells(out: &mut Vec<u8>, content: &Content) {
    put(out, content.cells.len() as u64);
    for value in &content.cells {
        put_double(out, *value);
    }
    put(out, content.natives.len() as u64);
    for native in &content.natives {
        put_native(out, native);
    }
}

fn put_native(out: &mut Vec<u8>, native: &Histogram) {
    out.extend_from_slice(&native.histogram_schema.to_le_bytes());
    let hint = match native.reset_hint {
        ResetHint::Unknown => 0,
        ResetHint::Reset => 1,
        ResetHint::NotReset => 2,
        ResetHint::Gauge => 3,
    };
    out.push(hint | u8::from(native.integer_counts) << 7);
    for value in [
        native.zero_threshold,
        native.zero_count,
        native.count,
        native.sum,
    ] {
        put_double(out, value);
    }
    for spans in [&native.positive_spans, &native.negative_spans] {
        put(out, spans.len() as u64);
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
        put(out, values.len() as u64);
        for value in values {
            put_double(out, *value);
        }
    }
}

const TYPES: [MetricType; 8] = [
    MetricType::Unknown,
    MetricType::Counter,
    MetricType::Gauge,
    MetricType::Histogram,
    MetricType::GaugeHistogram,
    MetricType::Summary,
    MetricType::Info,
    MetricType::StateSet,
];

fn type_number(metric_type: MetricType) -> u8 {
    let at = TYPES.iter().position(|known| *known == metric_type);
    at.expect("every type is listed") as u8
}

/// A group restored from the journal.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    pub(crate) families: BTreeMap<String, (Numbers, Arc<Shape>, i64)>,
    pub(crate) pushed_ns: i64,
    pub(crate) failed_ns: i64,
    pub(crate) ttl_ms: Option<u64>,
}

/// The cells of a family, and the native histograms they refer to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Numbers {
    pub(crate) cells: Vec<f64>,
    pub(crate) natives: Vec<Arc<Histogram>>,
}

/// Groups by their labels.
pub(crate) type Groups = HashMap<Grouping, Restored>;

/// Applies a record.
///
/// # Errors
/// Returns what is wrong; a record that does not fit earlier ones also removes the family it is about.
pub(crate) fn apply(bytes: &[u8], groups: &mut Groups) -> Result<(), &'static str> {
    let mut reader = Reader(bytes);
    let kind = reader.byte()?;
    let grouping = reader.grouping()?;
    match kind {
        PUSH => {
            let pushed_ns = reader.time()?;
            let replace = reader.byte()? != 0;
            let ttl_ms = reader.ttl()?;
            let group = groups.entry(grouping).or_default();
            (group.pushed_ns, group.ttl_ms) = (pushed_ns, ttl_ms);
            reader.families(group, pushed_ns, replace)?;
        }
        STATE => {
            let mut group = Restored {
                pushed_ns: reader.time()?,
                failed_ns: reader.time()?,
                ttl_ms: reader.ttl()?,
                ..Restored::default()
            };
            for _ in 0..reader.number()? {
                let name = reader.text()?;
                let pushed_ns = reader.time()?;
                let shape = reader.shape(name)?;
                let numbers = reader.numbers(&shape)?;
                group
                    .families
                    .insert(name.to_owned(), (numbers, Arc::new(shape), pushed_ns));
            }
            groups.insert(grouping, group);
        }
        FAILURE => groups.entry(grouping).or_default().failed_ns = reader.time()?,
        DELETION => {
            groups.remove(&grouping);
        }
        _ => return Err("a record of an unknown kind"),
    }
    if reader.0.is_empty() {
        Ok(())
    } else {
        Err("bytes behind a record")
    }
}

/// The unread part of a record.
struct Reader<'a>(&'a [u8]);

const SHORT: &str = "a record ends too early";

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        self.array().map(|[byte]| byte)
    }

    fn time(&mut self) -> Result<i64, &'static str> {
        self.array().map(i64::from_le_bytes)
    }

    fn double(&mut self) -> Result<f64, &'static str> {
        self.array()
            .map(|bytes| f64::from_bits(u64::from_le_bytes(bytes)))
    }

    fn number(&mut self) -> Result<usize, &'static str> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return usize::try_from(value).map_err(|_| "a number is too large");
            }
        }
        Err("a number is too long")
    }

    /// Reads a count of items that take at least `least_bytes` each.
    fn len(&mut self, least_bytes: usize) -> Result<usize, &'static str> {
        let len = self.number()?;
        if len > self.0.len() / least_bytes.max(1) {
            return Err(SHORT);
        }
        Ok(len)
    }

    fn ttl(&mut self) -> Result<Option<u64>, &'static str> {
        Ok((self.number()? as u64).checked_sub(1))
    }

    fn text(&mut self) -> Result<&'a str, &'static str> {
        let len = self.number()?;
        str::from_utf8(self.take(len)?).map_err(|_| "a text is not UTF-8")
    }

    fn grouping(&mut self) -> Result<Grouping, &'static str> {
        let mut pairs = Vec::new();
        for _ in 0..self.len(2)? {
            pairs.push((self.text()?.to_owned(), self.text()?.to_owned()));
        }
        Ok(Grouping::new(pairs))
    }

    fn families(
        &mut self,
        group: &mut Restored,
        pushed_ns: i64,
        replace: bool,
    ) -> Result<(), &'static str> {
        let mut before = std::mem::take(&mut group.families);
        let mut misfit = Ok(());
        for _ in 0..self.len(2)? {
            let name = self.text()?;
            let known = before.remove(name);
            let (numbers, shape) = match (self.byte()?, known) {
                (SAME, Some((numbers, shape, _))) => (numbers, shape),
                (NUMBERS, Some((_, shape, _))) => (self.numbers(&shape)?, shape),
                (WHOLE, _) => {
                    let shape = self.shape(name)?;
                    (self.numbers(&shape)?, Arc::new(shape))
                }
                (SAME, None) => {
                    misfit = Err("a family that was not there before");
                    continue;
                }
                (NUMBERS, None) => {
                    self.skip_numbers()?;
                    misfit = Err("numbers of a family that was not there before");
                    continue;
                }
                _ => return Err("a family in an unknown form"),
            };
            group
                .families
                .insert(name.to_owned(), (numbers, shape, pushed_ns));
        }
        if !replace {
            before.append(&mut group.families);
            group.families = before;
        }
        misfit
    }

    fn shape(&mut self, name: &str) -> Result<Shape, &'static str> {
        let metric_type = *TYPES
            .get(usize::from(self.byte()?))
            .ok_or("an unknown type")?;
        let help = self.text()?.into();
        let (mut metrics, mut parts) = (Vec::new(), Vec::new());
        for _ in 0..self.len(2)? {
            let mut pairs = Vec::new();
            for _ in 0..self.len(2)? {
                pairs.push((self.text()?, self.text()?));
            }
            for _ in 0..self.len(1)? {
                parts.push(match self.byte()? {
                    0 => Part::Value,
                    1 => Part::Point(self.double()?),
                    2 => Part::Sum,
                    3 => Part::Count,
                    4 => Part::Native,
                    _ => return Err("a part of an unknown kind"),
                });
            }
            metrics.push(Metric {
                labels: LabelSet::new(pairs).intern(),
                parts_end: parts.len(),
            });
        }
        parts.shrink_to_fit();
        metrics.shrink_to_fit();
        Ok(Shape {
            name: name.into(),
            metric_type,
            help,
            metrics,
            parts,
        })
    }

    fn numbers(&mut self, shape: &Shape) -> Result<Numbers, &'static str> {
        let numbers = self.any_numbers()?;
        let natives = numbers.natives.len();
        let is_native = |value: &f64| match Cell::decode(*value) {
            Cell::Histogram(at) if (at as usize) < natives => Some(true),
            Cell::Float(_) => Some(false),
            _ => None,
        };
        let fits = numbers.cells.len() == shape.parts.len()
            && numbers
                .cells
                .iter()
                .zip(&shape.parts)
                .all(|(value, part)| is_native(value) == Some(*part == Part::Native));
        if fits {
            Ok(numbers)
        } else {
            Err("numbers that do not fit their family")
        }
    }

    fn skip_numbers(&mut self) -> Result<(), &'static str> {
        self.any_numbers().map(|_| ())
    }

    fn any_numbers(&mut self) -> Result<Numbers, &'static str> {
        let mut numbers = Numbers::default();
        for _ in 0..self.len(8)? {
            let value = self.double()?;
            numbers.cells.push(match Cell::decode(value) {
                Cell::Histogram(at) => native_cell(at as usize),
                _ => cell::canonical(value),
            });
        }
        for _ in 0..self.len(32)? {
            numbers.natives.push(Arc::new(self.native()?));
        }
        Ok(numbers)
    }

    fn native(&mut self) -> Result<Histogram, &'static str> {
        let histogram_schema = self.array().map(i32::from_le_bytes)?;
        let flags = self.byte()?;
        let reset_hint = match flags & 0x7f {
            0 => ResetHint::Unknown,
            1 => ResetHint::Reset,
            2 => ResetHint::NotReset,
            3 => ResetHint::Gauge,
            _ => return Err("an unknown reset hint"),
        };
        let integer_counts = flags & 0x80 != 0;
        let (zero_threshold, zero_count) = (self.double()?, self.double()?);
        let (count, sum) = (self.double()?, self.double()?);
        let (positive_spans, negative_spans) = (self.spans()?, self.spans()?);
        Ok(Histogram {
            histogram_schema,
            reset_hint,
            integer_counts,
            zero_threshold,
            zero_count,
            count,
            sum,
            positive_spans,
            negative_spans,
            positive_buckets: self.doubles()?,
            negative_buckets: self.doubles()?,
            custom_values: self.doubles()?,
        })
    }

    fn spans(&mut self) -> Result<Vec<Span>, &'static str> {
        let len = self.len(8)?;
        let mut spans = Vec::with_capacity(len);
        for _ in 0..len {
            spans.push(Span {
                offset: self.array().map(i32::from_le_bytes)?,
                length: self.array().map(u32::from_le_bytes)?,
            });
        }
        Ok(spans)
    }

    fn doubles(&mut self) -> Result<Vec<f64>, &'static str> {
        let len = self.len(8)?;
        (0..len).map(|_| self.double()).collect()
    }
}
