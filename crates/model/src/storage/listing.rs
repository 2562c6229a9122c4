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
    /// Distinct `name=value` in all.
    pub pairs: u64,
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

/// Counts series by their labels. A set that many series have in common is added once for all of them.
#[derive(Debug, Default)]
pub struct CardinalityCount {
    series: u64,
    by_pair: HashMap<Label, u64, foldhash::fast::RandomState>,
}

impl CardinalityCount {
    /// Counts the labels of `set` for so many series.
    pub fn add(&mut self, set: &LabelSet, series: u64) {
        for label in set {
            match self.by_pair.get_mut(label) {
                Some(count) => *count += series,
                None => {
                    self.by_pair.insert(label.clone(), series);
                }
            }
        }
    }

    /// Counts so many series, whose sets are added apart.
    pub fn add_series(&mut self, series: u64) {
        self.series += series;
    }

    /// Returns what was counted, keeping the `limit` largest of each list.
    #[must_use]
    pub fn finish(&self, limit: usize) -> Cardinality {
        let mut names: HashMap<&str, (u64, u64)> = HashMap::new();
        for label in self.by_pair.keys() {
            let (values, bytes) = names.entry(label.name()).or_default();
            *values += 1;
            *bytes += label.value().len() as u64;
        }
        let metrics = self.by_pair.iter();
        let metrics = metrics.filter(|(label, _)| label.name() == METRIC_NAME);
        Cardinality {
            series: self.series,
            pairs: self.by_pair.len() as u64,
            by_metric: largest(
                metrics.map(|(label, count)| (Named("", label.value()), *count)),
                limit,
            ),
            values_by_label: largest(
                names.iter().map(|(name, of)| (Named("", name), of.0)),
                limit,
            ),
            bytes_by_label: largest(
                names.iter().map(|(name, of)| (Named("", name), of.1)),
                limit,
            ),
            by_pair: largest(
                self.by_pair
                    .iter()
                    .map(|(label, count)| (Named(label.name(), label.value()), *count)),
                limit,
            ),
        }
    }
}

impl Cardinality {
    /// Counts `series`, each distinct, keeping the `limit` largest of each list.
    #[must_use]
    pub fn count<'a>(series: impl IntoIterator<Item = &'a LabelSet>, limit: usize) -> Self {
        let mut count = CardinalityCount::default();
        for labels in series {
            count.add_series(1);
            count.add(labels, 1);
        }
        count.finish(limit)
    }
}

/// What an entry of a list is called: a name, or `name=value` where both are there.
struct Named<'a>(&'a str, &'a str);

impl Named<'_> {
    fn bytes(&self) -> impl Iterator<Item = u8> {
        let sign = if self.0.is_empty() { "" } else { "=" };
        let parts = [self.0, sign, self.1];
        parts.into_iter().flat_map(str::bytes)
    }

    fn text(&self) -> String {
        match self.0 {
            "" => self.1.to_owned(),
            name => format!("{name}={}", self.1),
        }
    }
}

/// Returns the `limit` largest, ties in name order.
fn largest<'a>(counts: impl Iterator<Item = (Named<'a>, u64)>, limit: usize) -> Vec<(String, u64)> {
    let order = |a: &(Named<'_>, u64), b: &(Named<'_>, u64)| {
        b.1.cmp(&a.1).then_with(|| a.0.bytes().cmp(b.0.bytes()))
    };
    let mut counts: Vec<(Named<'a>, u64)> = counts.collect();
    if limit < counts.len() {
        counts.select_nth_unstable_by(limit, order);
        counts.truncate(limit);
    }
    counts.sort_unstable_by(order);
    counts
        .into_iter()
        .map(|(name, count)| (name.text(), count))
        .collect()
}
