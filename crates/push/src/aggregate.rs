//! Adds pushes up, for short-lived processes that share a group: counters, histograms and summaries are summed, gauges
//! combined as the sender says.
//!
//! **Invariant:** a push is added whole or not at all, and what is not in it stays as it is.

use crate::{
    decode::collected,
    error::PushError,
    family::{Family, Metric, Numbers, Part, Shape, View},
    layout::Contents,
    registry::type_name,
};
use narthex_client::write_number;
use narthex_model::{Histogram, LabelSet, METRIC_NAME, MetricType};
use std::{collections::HashMap, ops::Range, sync::Arc};

/// How the gauges of several pushes become one value.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum GaugeMode {
    /// The last push counts.
    #[default]
    Last,
    /// All pushes are added.
    Sum,
    /// The least of all pushes.
    Min,
    /// The greatest of all pushes.
    Max,
}

impl GaugeMode {
    /// Returns the mode with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "last" => Some(Self::Last),
            "sum" => Some(Self::Sum),
            "min" => Some(Self::Min),
            "max" => Some(Self::Max),
            _ => None,
        }
    }

    /// Returns how the values of a type are combined.
    fn for_type(self, metric_type: MetricType) -> Self {
        match metric_type {
            MetricType::Counter | MetricType::Histogram | MetricType::Summary => Self::Sum,
            MetricType::Info => Self::Last,
            // The least of two distributions is none of them.
            MetricType::GaugeHistogram if self != Self::Sum => Self::Last,
            _ => self,
        }
    }

    fn combine(self, stored: f64, pushed: f64) -> f64 {
        match self {
            Self::Last => pushed,
            Self::Sum => stored + pushed,
            Self::Min => stored.min(pushed),
            Self::Max => stored.max(pushed),
        }
    }
}

/// Adds the families of a push to those of a group; returns the sums.
///
/// # Errors
/// Fails when a family has another type or other buckets than the group's, or a number that cannot be added.
pub(crate) fn add(
    stored: &Contents,
    pushed: &Contents,
    common: &LabelSet,
    mode: GaugeMode,
) -> Result<Vec<Family>, PushError> {
    let sums = pushed.families().map(|family| {
        let family = without_quantiles(family);
        check_counts(&family, common)?;
        match stored.find(&family.shape.name) {
            Some(stored) => sum(stored, family, common, mode),
            None => Ok(family),
        }
    });
    sums.collect::<Result<_, String>>()
        .map_err(|detail| PushError::Inconsistent { detail })
}

/// Removes the quantiles of a summary: those of several processes do not make one.
fn without_quantiles(family: View<'_>) -> Family {
    let shape = family.shape;
    if shape.metric_type != MetricType::Summary {
        return Family {
            shape: Arc::clone(shape),
            numbers: family.own_numbers(),
        };
    }
    family.filtered(|_, part| !matches!(part, Part::Point(_)))
}

/// Fails on counts that would spoil the sums for good: negative ones, infinities and NaN.
fn check_counts(family: &Family, common: &LabelSet) -> Result<(), String> {
    let Family { shape, numbers } = family;
    let is_counter = shape.metric_type == MetricType::Counter;
    let adds = matches!(
        shape.metric_type,
        MetricType::Counter | MetricType::Histogram | MetricType::Summary
    );
    if !adds {
        return Ok(());
    }
    for (metric, range) in shape.metrics() {
        for at in range {
            let count = match shape.parts[at] {
                Part::Value if is_counter => numbers.cells[at],
                Part::Point(_) | Part::Count => numbers.cells[at],
                Part::Native => numbers.native(at).map_or(0.0, |native| native.count),
                Part::Value | Part::Sum => continue,
            };
            if !(count.is_finite() && count >= 0.0) {
                let metric = shown(shape, metric, common);
                let count = number(count);
                return Err(format!(
                    "{metric} has a count of {count}, which cannot be added"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the sum of a group's family and a pushed one.
fn sum(
    stored: View<'_>,
    pushed: Family,
    common: &LabelSet,
    mode: GaugeMode,
) -> Result<Family, String> {
    let (held, shape) = (stored.shape, &pushed.shape);
    if held.metric_type != shape.metric_type {
        let words = [held.metric_type, shape.metric_type].map(type_name);
        let [was, is] = words;
        let name = &shape.name;
        return Err(format!(
            "family \"{name}\" is a {was} in the group, not a {is}"
        ));
    }
    let mut total = Total {
        mode: mode.for_type(shape.metric_type),
        numbers: Numbers {
            times_ms: Vec::new(),
            ..stored.own_numbers()
        },
        new: None,
    };
    if **held == **shape {
        let everything = 0..shape.parts.len();
        total.add(shape, everything.clone(), &pushed.numbers, everything)?;
        return Ok(total.finish(held));
    }
    let places: HashMap<u128, Range<usize>> = held
        .metrics()
        .map(|(metric, range)| (metric.labels.hash().bits(), range))
        .collect();
    for (metric, range) in shape.metrics() {
        let Some(place) = places.get(&metric.labels.hash().bits()) else {
            total.append(held, metric, range, pushed.view());
            continue;
        };
        if held.parts[place.clone()] != shape.parts[range.clone()] {
            let metric = shown(shape, metric, common);
            let bounds = shown_bounds(&held.parts[place.clone()]);
            return Err(format!(
                "{metric} has other buckets than the group, whose are {bounds}"
            ));
        }
        let added = total.add(shape, place.clone(), &pushed.numbers, range);
        added.map_err(|reason| format!("{}: {reason}", shown(shape, metric, common)))?;
    }
    Ok(total.finish(held))
}

/// A sum under construction.
struct Total {
    mode: GaugeMode,
    numbers: Numbers,
    /// The group's shape with the metrics that are new in it.
    new: Option<Shape>,
}

impl Total {
    /// Adds the cells `from` of a push to the cells `to`, which have the same parts.
    fn add(
        &mut self,
        shape: &Shape,
        to: Range<usize>,
        pushed: &Numbers,
        from: Range<usize>,
    ) -> Result<(), String> {
        for (to, from) in to.zip(from) {
            if shape.parts[from] == Part::Native {
                self.add_native(to, pushed.native(from))?;
            } else {
                let cell = &mut self.numbers.cells[to];
                *cell = self.mode.combine(*cell, pushed.cells[from]);
            }
        }
        Ok(())
    }

    fn add_native(&mut self, to: usize, pushed: Option<&Arc<Histogram>>) -> Result<(), String> {
        let held = self.numbers.native(to).cloned();
        let (Some(held), Some(pushed)) = (held, pushed) else {
            return Ok(());
        };
        let sum = if self.mode == GaugeMode::Sum {
            let mut sum = Histogram::clone(&held);
            let notes = sum.add(pushed).map_err(|error| error.to_string())?;
            if notes.bounds_reconciled {
                return Err("it has other custom buckets than the group's".to_owned());
            }
            Arc::new(sum)
        } else {
            Arc::clone(pushed)
        };
        // Every native cell has a histogram of its own.
        if let Some(slot) = self
            .numbers
            .natives
            .iter_mut()
            .find(|one| Arc::ptr_eq(one, &held))
        {
            *slot = sum;
        }
        Ok(())
    }

    /// Adds a metric that the group does not have.
    fn append(&mut self, held: &Shape, metric: &Metric, range: Range<usize>, pushed: View<'_>) {
        let new = self.new.get_or_insert_with(|| held.clone());
        for at in range {
            new.parts.push(pushed.shape.parts[at]);
            self.numbers.push(pushed, at);
        }
        new.end_metric(metric.labels.clone());
    }

    fn finish(self, held: &Arc<Shape>) -> Family {
        Family {
            shape: self.new.map_or_else(|| Arc::clone(held), Arc::new),
            numbers: self.numbers,
        }
    }
}

fn shown(shape: &Shape, metric: &Metric, common: &LabelSet) -> String {
    collected(&metric.labels.with(METRIC_NAME, &shape.name), common)
}

fn number(value: f64) -> String {
    let mut text = Vec::new();
    write_number(&mut text, value);
    String::from_utf8_lossy(&text).into_owned()
}

fn shown_bounds(parts: &[Part]) -> String {
    let bounds = parts.iter().filter_map(|part| match part {
        Part::Point(bound) => Some(number(*bound)),
        _ => None,
    });
    bounds.collect::<Vec<_>>().join(", ")
}
