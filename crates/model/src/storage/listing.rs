//! Questions about series rather than samples.

use super::TimeRange;
use crate::{
    frame::Exemplar,
    labels::{Label, LabelSet, METRIC_NAME},
    matcher::Matcher,
};
use std::collections::HashMap;

/// Which series a listing is about.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesQuery {
    /// Alternatives: a series counts when all matchers of any one match; an empty list selects every series.
    pub any_of: Vec<Vec<Matcher>>,
    /// Series without a sample inside may be left out; how exactly is the store's choice.
    pub range: TimeRange,
    /// At most this many answers; `None` for all.
    pub limit: Option<usize>,
}

impl SeriesQuery {
    /// Returns the query for every series.
    #[must_use]
    pub fn all(range: TimeRange) -> Self {
        Self {
            any_of: Vec::new(),
            range,
            limit: None,
        }
    }

    /// Reports whether a series with these labels counts.
    #[must_use]
    pub fn matches(&self, labels: &LabelSet) -> bool {
        let matches_all = |matchers: &Vec<Matcher>| {
            matchers
                .iter()
                .all(|matcher| matcher.matches(labels.get(&matcher.name).unwrap_or_default()))
        };
        self.any_of.is_empty() || self.any_of.iter().any(matches_all)
    }
}

/// A possibly shortened answer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listing<T> {
    /// The answers.
    pub items: Vec<T>,
    /// Whether the limit cut some off.
    pub truncated: bool,
    /// What the caller should be told though the answer stands.
    pub warnings: Vec<String>,
}

impl<T: Ord> Listing<T> {
    /// Sorts, removes duplicates and applies the limit.
    #[must_use]
    pub fn from_unsorted(mut items: Vec<T>, limit: Option<usize>) -> Self {
        items.sort_unstable();
        items.dedup();
        let truncated = limit.is_some_and(|limit| items.len() > limit);
        if let Some(limit) = limit {
            items.truncate(limit);
        }
        Self {
            items,
            truncated,
            warnings: Vec::new(),
        }
    }
}

/// Where a store's series come from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cardinality {
    /// Series in all.
    pub series: u64,
    /// Series by metric name, largest first.
    pub by_metric: Vec<(String, u64)>,
    /// Distinct values by label name, largest first.
    pub values_by_label: Vec<(String, u64)>,
    /// Bytes of values by label name, largest first.
    pub bytes_by_label: Vec<(String, u64)>,
    /// Series by `name=value`, largest first.
    pub by_pair: Vec<(String, u64)>,
}

/// The exemplars of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct ExemplarSeries {
    /// The series.
    pub labels: LabelSet,
    /// Its exemplars with the time of each, ascending.
    pub exemplars: Vec<(i64, Exemplar)>,
}

impl Cardinality {
    /// Counts `series`, each distinct, keeping the `limit` largest of each list.
    #[must_use]
    pub fn count<'a>(series: impl IntoIterator<Item = &'a LabelSet>, limit: usize) -> Self {
        let mut total = 0;
        let mut by_pair: HashMap<Label, u64> = HashMap::new();
        for labels in series {
            total += 1;
            for label in labels {
                *by_pair.entry(label.clone()).or_default() += 1;
            }
        }
        let (mut by_metric, mut values, mut bytes) =
            (HashMap::new(), HashMap::new(), HashMap::new());
        for (label, count) in &by_pair {
            if label.name() == METRIC_NAME {
                by_metric.insert(label.value().to_owned(), *count);
            }
            *values.entry(label.name().to_owned()).or_default() += 1;
            *bytes.entry(label.name().to_owned()).or_default() += label.value().len() as u64;
        }
        let pairs = by_pair
            .into_iter()
            .map(|(label, count)| (format!("{}={}", label.name(), label.value()), count));
        Self {
            series: total,
            by_metric: largest(by_metric.into_iter(), limit),
            values_by_label: largest(values.into_iter(), limit),
            bytes_by_label: largest(bytes.into_iter(), limit),
            by_pair: largest(pairs, limit),
        }
    }
}

/// Returns the `limit` largest, ties in name order.
fn largest(counts: impl Iterator<Item = (String, u64)>, limit: usize) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> = counts.collect();
    counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts.truncate(limit);
    counts
}
