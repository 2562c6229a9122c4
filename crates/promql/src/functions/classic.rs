//! `histogram_quantile`, `histogram_quantiles` and `histogram_fraction`.
//!
//! **Invariant:** classic buckets belong together when all labels but `le` are equal; where a native histogram has
//! those same labels too, neither gives a result.

use super::{
    FunctionId,
    buckets::{self, Bucket},
    native,
};
use crate::{
    error::QueryError,
    eval::{Block, META_LABELS, Sample, Series, Value},
    notes::Note,
    plan::{Call, Kind, Node, Steps},
    span::Span,
};
use narthex_model::{LabelHash, LabelSet, cell};
use std::collections::HashMap;

/// The arguments of a call by their role.
pub(crate) struct Request<'a> {
    pub(crate) vector: &'a Node,
    pub(crate) scalars: Vec<&'a Node>,
    /// The label that names the quantile.
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
            Kind::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let is_scalar =
            |(i, node): &(usize, &Node)| *i != at && !matches!(node.kind, Kind::Text(_));
        let scalars = call
            .args
            .iter()
            .enumerate()
            .filter(is_scalar)
            .map(|(_, node)| node)
            .collect();
        Self {
            vector: &call.args[at],
            scalars,
            label,
        }
    }
}

/// One set of classic buckets, or the place of a native histogram.
struct Group {
    series: Series,
    /// The metric's name as far as notes give it.
    name: String,
    /// Rows of classic buckets with their upper bounds.
    rows: Vec<(usize, f64)>,
    /// The row that may hold native histograms.
    native: Option<usize>,
}

/// Evaluates the function for all steps.
#[expect(
    clippy::too_many_arguments,
    reason = "the call's parts and the usual surroundings"
)]
pub(crate) fn evaluate(
    id: FunctionId,
    label: Option<&str>,
    scalars: &[(Vec<f64>, Span)],
    input: &Block,
    span: Span,
    steps: Steps,
    delayed: bool,
    note: &mut dyn FnMut(Note, i64),
) -> Result<Block, QueryError> {
    let (groups, bad_labels) = groups(input, delayed);
    let mut result = Block::new(steps.count);
    let mut rows: HashMap<(usize, u64), usize> = HashMap::new();
    let mut list: Vec<Bucket> = Vec::new();
    let mut clash = false;
    for step in 0..steps.count {
        let time_ms = steps.time_ms(step);
        let values: Vec<f64> = scalars.iter().map(|(values, _)| values[step]).collect();
        if id != FunctionId::HistogramFraction {
            for (q, (_, span)) in values.iter().zip(scalars) {
                if !(0.0..=1.0).contains(q) {
                    note(Note::invalid_quantile(*q, *span), time_ms);
                }
            }
        }
        for (row, text) in &bad_labels {
            if matches!(input.sample(*row, step), Sample::Float(_)) {
                let name = if delayed {
                    input.series[*row].metric_name()
                } else {
                    String::new()
                };
                note(Note::bad_bucket_label(&name, text, span), time_ms);
            }
        }
        for (at, group) in groups.iter().enumerate() {
            list.clear();
            list.extend(group.rows.iter().filter_map(
                |(row, upper)| match input.sample(*row, step) {
                    Sample::Float(count) => Some(Bucket {
                        upper: *upper,
                        count,
                    }),
                    _ => None,
                },
            ));
            let native = group.native.and_then(|row| match input.sample(row, step) {
                Sample::Histogram(h) => Some(h),
                _ => None,
            });
            if native.is_some() && !list.is_empty() {
                note(
                    Note::mixed_classic_native(if delayed { &group.name } else { "" }, span),
                    time_ms,
                );
                continue;
            }
            let mut emit = |q: f64, value: f64| {
                let row = *rows.entry((at, q.to_bits())).or_insert_with(|| {
                    let mut series = group.series.clone();
                    if let (FunctionId::HistogramQuantiles, Some(label)) = (id, label) {
                        series = Series::new(series.labels().with(label, &open_metrics_float(q)));
                    }
                    series.forget_name(delayed);
                    result.add_row(series)
                });
                // The same quantile asked for twice.
                clash |= !cell::is_absent(result.row(row)[step]);
                result.set(row, step, Value::Float(value));
            };
            let note_name = group.name.as_str();
            let mut note = |n: Note| note(n, time_ms);
            match (id, values.as_slice()) {
                (FunctionId::HistogramFraction, [lower, upper, ..]) => {
                    if let Some(h) = native {
                        emit(
                            0.0,
                            native::fraction(*lower, *upper, h, note_name, span, &mut note),
                        );
                    } else if !list.is_empty() {
                        emit(0.0, buckets::fraction(*lower, *upper, &mut list));
                    }
                }
                (FunctionId::HistogramFraction, _) => {}
                (_, quantiles) => {
                    for q in quantiles {
                        if let Some(h) = native {
                            emit(
                                if quantiles.len() > 1 || label.is_some() {
                                    *q
                                } else {
                                    0.0
                                },
                                native::quantile(*q, h, note_name, span, &mut note),
                            );
                        } else if !list.is_empty() {
                            let mut list = list.clone();
                            let (value, bent) = buckets::quantile(*q, &mut list);
                            if let Some(bent) = bent {
                                let name = if delayed { note_name } else { "" };
                                note(Note::forced_monotonicity(name, bent, span));
                            }
                            emit(
                                if quantiles.len() > 1 || label.is_some() {
                                    *q
                                } else {
                                    0.0
                                },
                                value,
                            );
                        }
                    }
                }
            }
        }
    }
    if clash {
        return Err(crate::eval::same_labels());
    }
    crate::eval::merge_equal(result)
}

/// Sorts rows into groups; rows whose `le` is no number come back with its text.
fn groups(input: &Block, delayed: bool) -> (Vec<Group>, Vec<(usize, String)>) {
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
            match buckets::parse_bound(text) {
                Some(upper) => {
                    let group = group_of(&mut groups, labels.without(&["le"]), series.drop_name);
                    groups[group].rows.push((row, upper));
                }
                None => bad_labels.push((row, text.to_owned())),
            }
        }
    }
    (groups, bad_labels)
}

/// Writes a float the way OpenMetrics writes it in labels: always recognisable as a float.
fn open_metrics_float(x: f64) -> String {
    let text = crate::fmt::float_g(x);
    if text.contains(['e', '.', 'N', 'I']) {
        text
    } else {
        text + ".0"
    }
}
