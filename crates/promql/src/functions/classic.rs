//! `histogram_quantile`, `histogram_quantiles` and `histogram_fraction`.
//!
//! **Invariant:** classic buckets belong together if all labels but `le` are equal; if a native histogram has those
//! labels too, neither gives a result.

use super::{
    FunctionId,
    buckets::{self, Bucket},
    native,
};
use crate::{
    error::QueryError,
    eval::{Block, META_LABELS, Memory, Meter, Sample, Scalars, Series, Value},
    notes::Note,
    plan::{Call, Node, NodeKind, Steps},
    span::Span,
};
use narthex_model::{
    LabelHash, LabelSet, cell,
    storage::{Pace, Stop},
};
use std::collections::{HashMap, hash_map::Entry};

/// The arguments of a call by role.
pub(crate) struct Request<'a> {
    pub(crate) vector: &'a Node,
    pub(crate) scalars: Vec<&'a Node>,
    /// The label for the quantile.
    pub(crate) label: Option<&'a str>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(call: &'a Call) -> Self {
        let at = if call.function == FunctionId::HistogramQuantiles {
            0
        } else {
            call.args.len() - 1
        };
        let label = call.args.iter().find_map(|node| match &node.kind {
            NodeKind::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let is_scalar =
            |(i, node): &(usize, &Node)| *i != at && !matches!(node.kind, NodeKind::Text(_));
        let scalars = call.args.iter().enumerate().filter(is_scalar);
        Self {
            vector: &call.args[at],
            scalars: scalars.map(|(_, node)| node).collect(),
            label,
        }
    }
}

/// A set of classic buckets, and the row of a native histogram.
struct Group {
    series: Series,
    /// The metric's name for use in notes.
    name: String,
    /// Rows of classic buckets with their upper bounds.
    rows: Vec<(usize, f64)>,
    /// The row that may hold native histograms.
    native: Option<usize>,
}

/// A call of one of the three functions.
pub(crate) struct Classic<'a> {
    pub(crate) function: FunctionId,
    pub(crate) label: Option<&'a str>,
    /// The scalar arguments at all steps, with their positions.
    pub(crate) scalars: &'a [(Scalars, Span)],
    /// Position of the vector.
    pub(crate) span: Span,
    /// Whether names are dropped only at the end of the query.
    pub(crate) delayed: bool,
    pub(crate) memory: &'a Memory,
    pub(crate) stop: &'a Stop,
}

/// Memory of assigning a row to its group.
const GROUP_BYTES: usize = 256;

/// Work of computing a bucket's quantile, in samples read.
const BUCKET_WORK: usize = 8;

/// Rows with an invalid `le`, and its text.
type BadBounds = Vec<(usize, String)>;

/// Consumer of notes and their times.
type TimedNotes<'n> = dyn FnMut(Note, i64) + 'n;

impl Classic<'_> {
    /// Evaluates the function for all steps.
    pub(crate) fn evaluate(
        &self,
        input: &Block,
        steps: Steps,
        note: &mut TimedNotes<'_>,
    ) -> Result<Block, QueryError> {
        let mut meter = Meter::new(self.memory);
        let mut pace = self.stop.pace();
        let (groups, bad_labels) = groups(input, self.delayed, &mut meter, &mut pace)?;
        let mut result = Block::new(steps.count);
        let mut rows: HashMap<(usize, u64), usize> = HashMap::new();
        let mut found: Vec<(f64, f64)> = Vec::new();
        for step in 0..steps.count {
            let time_ms = steps.time_ms(step);
            let mut note = |n: Note| note(n, time_ms);
            let args: Vec<f64> = self
                .scalars
                .iter()
                .map(|(values, _)| values[step])
                .collect();
            self.note_quantiles(&args, &mut note);
            for (row, text) in &bad_labels {
                if matches!(input.sample(*row, step), Sample::Float(_)) {
                    let name = input.series[*row].metric_name();
                    note(Note::bad_bucket_label(self.told(&name), text, self.span));
                }
            }
            for (at, group) in groups.iter().enumerate() {
                pace.spend((group.rows.len() + 2) * (args.len() + 1) * BUCKET_WORK)?;
                found.clear();
                self.values(group, input, step, &args, &mut note, &mut found);
                for (key, value) in &found {
                    let row = match rows.entry((at, key.to_bits())) {
                        Entry::Occupied(known) => *known.get(),
                        Entry::Vacant(vacant) => {
                            let series = self.series(group, *key);
                            let cells = 2 * steps.count * size_of::<f64>();
                            meter.add(cells + GROUP_BYTES + series.heap_bytes())?;
                            *vacant.insert(result.add_row(series))
                        }
                    };
                    if !cell::is_absent(result.row(row)[step]) {
                        // The same quantile was requested twice.
                        return Err(crate::eval::same_labels());
                    }
                    result.set(row, step, Value::Float(*value));
                }
            }
        }
        result.hold = meter.finish();
        crate::eval::merge_equal(result)
    }

    /// Returns the name for notes, empty if names have already been dropped.
    fn told<'n>(&self, name: &'n str) -> &'n str {
        if self.delayed { name } else { "" }
    }

    fn note_quantiles(&self, args: &[f64], note: &mut dyn FnMut(Note)) {
        if self.function == FunctionId::HistogramFraction {
            return;
        }
        for (q, (_, span)) in args.iter().zip(self.scalars) {
            if !(0.0..=1.0).contains(q) {
                note(Note::invalid_quantile(*q, *span));
            }
        }
    }

    /// Returns the series of a group's result; `q` is the quantile for the label, if any.
    fn series(&self, group: &Group, q: f64) -> Series {
        let mut series = group.series.clone();
        if let (FunctionId::HistogramQuantiles, Some(label)) = (self.function, self.label) {
            series = Series::new(series.labels().with(label, &open_metrics_float(q)));
        }
        series.forget_name(self.delayed);
        series
    }

    /// Appends a group's results at a step, each with its quantile.
    fn values(
        &self,
        group: &Group,
        input: &Block,
        step: usize,
        args: &[f64],
        note: &mut dyn FnMut(Note),
        out: &mut Vec<(f64, f64)>,
    ) {
        let bucket = |(row, upper): &(usize, f64)| match input.sample(*row, step) {
            Sample::Float(count) => Some(Bucket {
                upper: *upper,
                count,
            }),
            _ => None,
        };
        let mut list: Vec<Bucket> = group.rows.iter().filter_map(bucket).collect();
        let native = group.native.and_then(|row| match input.sample(row, step) {
            Sample::Histogram(h) => Some(h),
            _ => None,
        });
        let name = group.name.as_str();
        if native.is_some() && !list.is_empty() {
            note(Note::mixed_classic_native(self.told(name), self.span));
            return;
        }
        if native.is_none() && list.is_empty() {
            return;
        }
        if self.function == FunctionId::HistogramFraction {
            let [lower, upper, ..] = args else { return };
            let value = match native {
                Some(h) => native::fraction(*lower, *upper, h, name, self.span, note),
                None => buckets::fraction(*lower, *upper, &mut list),
            };
            out.push((0.0, value));
            return;
        }
        for q in args {
            let value = match native {
                Some(h) => native::quantile(*q, h, name, self.span, note),
                None => {
                    let (value, bent) = buckets::quantile(*q, &mut list.clone());
                    if let Some(bent) = bent {
                        note(Note::forced_monotonicity(self.told(name), bent, self.span));
                    }
                    value
                }
            };
            let key = if self.label.is_some() { *q } else { 0.0 };
            out.push((key, value));
        }
    }
}

/// Assigns rows to groups; also returns rows with an invalid `le`, and its text.
fn groups(
    input: &Block,
    delayed: bool,
    meter: &mut Meter,
    pace: &mut Pace<'_>,
) -> Result<(Vec<Group>, BadBounds), QueryError> {
    let mut groups: Vec<Group> = Vec::new();
    let mut by_labels: HashMap<LabelHash, usize> = HashMap::new();
    let mut bad_labels = Vec::new();
    let mut group_of = |groups: &mut Vec<Group>, labels: LabelSet, drop_name: bool| {
        *by_labels.entry(labels.hash()).or_insert_with(|| {
            let name = labels.metric_name().to_owned();
            let labels = if delayed {
                labels
            } else {
                labels.without(&META_LABELS)
            };
            let mut series = Series::new(labels);
            series.drop_name = drop_name;
            groups.push(Group {
                series,
                name,
                rows: Vec::new(),
                native: None,
            });
            groups.len() - 1
        })
    };
    for (row, series) in input.series.iter().enumerate() {
        let labels = series.labels();
        pace.spend(input.steps + BUCKET_WORK)?;
        meter.add(GROUP_BYTES + 2 * labels.heap_bytes())?;
        let (mut floats, mut histograms) = (false, false);
        for step in 0..input.steps {
            match input.sample(row, step) {
                Sample::Absent => {}
                Sample::Float(_) => floats = true,
                Sample::Histogram(_) => histograms = true,
            }
        }
        if histograms {
            let group = group_of(&mut groups, labels.clone(), series.drop_name);
            groups[group].native = Some(row);
        }
        if floats {
            let text = labels.get("le").unwrap_or_default();
            match buckets::parse_bound(text).filter(|bound| !bound.is_nan()) {
                Some(upper) => {
                    let group = group_of(&mut groups, labels.without(&["le"]), series.drop_name);
                    groups[group].rows.push((row, upper));
                }
                None => {
                    meter.add(text.len())?;
                    bad_labels.push((row, text.to_owned()));
                }
            }
        }
    }
    Ok((groups, bad_labels))
}

/// Formats a float as an OpenMetrics label value: always recognisable as a float.
fn open_metrics_float(x: f64) -> String {
    let text = crate::fmt::float_g(x);
    if text.contains(['e', '.', 'N', 'I']) {
        text
    } else {
        text + ".0"
    }
}
