//! Aggregates repetitions: medians, spreads, and ratios to the first subject.
//!
//! **Invariant:** refused runs count nowhere. A ratio is computed within one repetition and then aggregated, so that
//! changes of the machine between repetitions affect both sides.

use super::{Better, Figure, Record, Run, Verdict};

/// Median, minimum and maximum of several values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) count: usize,
}

impl Spread {
    /// Aggregates values; `None` without values.
    pub(crate) fn new(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let middle = values.get(count / 2)?;
        let median = if count.is_multiple_of(2) {
            f64::midpoint(*middle, *values.get(count / 2 - 1)?)
        } else {
            *middle
        };
        Some(Self {
            median,
            least: *values.first()?,
            most: *values.last()?,
            count,
        })
    }

    /// Formats the median with its unit, and the least and the most if there was more than one value.
    pub(crate) fn shown(&self, unit: &str, number: fn(f64) -> String) -> String {
        let median = format!("{}{unit}", number(self.median));
        if self.count < 2 {
            return median;
        }
        format!("{median} ({}..{})", number(self.least), number(self.most))
    }
}

/// A figure of all subjects under one variant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    pub(crate) is_headline: bool,
    /// One per subject; `None` where it was not measured.
    pub(crate) values: Vec<Option<Spread>>,
    /// One per subject: its value divided by the first subject's, where meaningful.
    pub(crate) ratios: Vec<Option<Spread>>,
}

/// Returns each distinct text, in the order of first occurrence.
pub(crate) fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct = Vec::new();
    for text in texts {
        if !distinct.contains(&text) {
            distinct.push(text);
        }
    }
    distinct
}

/// Returns the variants, in the order of the runs.
pub(crate) fn variants(record: &Record) -> Vec<&str> {
    distinct(record.runs.iter().map(|run| run.variant.as_str()))
}

/// Returns the runs of one subject under one variant that count.
pub(crate) fn sound<'a>(
    record: &'a Record,
    subject: usize,
    variant: &'a str,
) -> impl Iterator<Item = &'a Run> {
    record.runs.iter().filter(move |run| {
        run.subject == subject && run.variant == variant && run.verdict() != Verdict::Refused
    })
}

/// Returns whether some subject has, under some variant, only refused runs.
pub(crate) fn is_refused(record: &Record) -> bool {
    record.runs.iter().any(|run| {
        let mut sound = sound(record, run.subject, &run.variant);
        sound.next().is_none()
    })
}

/// Returns the figures of all subjects under `variant`, in the order of first occurrence.
pub(crate) fn rows(record: &Record, variant: &str) -> Vec<Row> {
    let subjects = 0..record.subjects.len();
    let mut firsts: Vec<&Figure> = Vec::new();
    for figure in subjects
        .clone()
        .flat_map(|subject| sound(record, subject, variant))
        .flat_map(|run| &run.figures)
    {
        if !firsts.iter().any(|first| first.key == figure.key) {
            firsts.push(figure);
        }
    }
    let row = |first: &Figure| {
        let value = |run: &Run| run.figure(&first.key).map(|figure| figure.value);
        let values = |subject| Spread::new(sound(record, subject, variant).filter_map(&value));
        let ratios = |subject| {
            if subject == 0 || first.better == Better::Neither {
                return None;
            }
            let ratio = |run: &Run| {
                let mut peers = sound(record, 0, variant);
                let peer = peers.find(|peer| peer.repetition == run.repetition)?;
                let base = value(peer).filter(|base| *base > 0.0)?;
                Some(value(run)? / base)
            };
            Spread::new(sound(record, subject, variant).filter_map(ratio))
        };
        Row {
            key: first.key.clone(),
            unit: first.unit.clone(),
            better: first.better,
            is_headline: first.is_headline,
            values: subjects.clone().map(values).collect(),
            ratios: subjects.clone().map(ratios).collect(),
        }
    };
    firsts.into_iter().map(row).collect()
}
