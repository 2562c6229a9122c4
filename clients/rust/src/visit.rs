//! Reading of metrics: families and samples passed to a [`Visitor`].
//!
//! **Invariant:** the samples of a family directly follow its head, and a family without samples is not shown.

use std::fmt;

/// Type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricType {
    /// Only grows, except across a restart.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, sum and count.
    Histogram,
    /// Quantiles, sum and count.
    Summary,
    /// Unknown.
    Untyped,
}

impl MetricType {
    /// Returns the word of the text format's TYPE line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
            Self::Untyped => "untyped",
        }
    }
}

impl fmt::Display for MetricType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Receives every family and sample of a registry, families in order of their names.
pub trait Visitor {
    /// Begins a family; its samples follow.
    fn family(&mut self, name: &str, help: &str, kind: MetricType);

    /// Receives one sample of the family begun last.
    fn sample(&mut self, sample: &Sample<'_>);
}

/// One sample: `name suffix {labels} value`.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Name of the family.
    pub name: &'a str,
    /// Suffix to the family's name: empty, `_bucket`, `_sum` or `_count`.
    pub suffix: &'static str,
    /// The labels.
    pub labels: Labels<'a>,
    /// The value.
    pub value: f64,
}

/// A sample's labels: those of the series in the order they were declared, then `le` or `quantile`.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    pub(crate) names: &'a [&'static str],
    pub(crate) values: Values<'a>,
    pub(crate) extra: Option<Extra<'a>>,
    /// `{a="x",b="y"}` in the text format, without the extra label; empty if it has to be rendered.
    pub(crate) rendered: &'a [u8],
}

/// Storage of a series' label values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values<'a> {
    Slice(&'a [&'a str]),
    /// Value `i` ends at `ends[i]` of the text and begins where the one before ends.
    Packed {
        text: &'a str,
        ends: &'a [u32],
    },
}

/// The label a bucket or a quantile adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extra<'a> {
    pub(crate) name: &'static str,
    pub(crate) value: &'a str,
}

impl<'a> Labels<'a> {
    pub(crate) const NONE: Labels<'static> = Labels {
        names: &[],
        values: Values::Slice(&[]),
        extra: None,
        rendered: b"",
    };

    pub(crate) fn of_slice(names: &'a [&'static str], values: &'a [&'a str]) -> Self {
        Self {
            names,
            values: Values::Slice(values),
            ..Labels::NONE
        }
    }

    pub(crate) fn with_extra(self, extra: Option<Extra<'a>>) -> Self {
        Self { extra, ..self }
    }

    /// Returns the number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len() + usize::from(self.extra.is_some())
    }

    /// Returns whether there are no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let values = self.values;
        let own = self.names.iter().enumerate();
        let own = own.map(move |(i, name)| (*name, values.get(i)));
        own.chain(self.extra.map(|extra| (extra.name, extra.value)))
    }
}

impl<'a> Values<'a> {
    fn get(self, index: usize) -> &'a str {
        match self {
            Self::Slice(values) => values[index],
            Self::Packed { text, ends } => {
                let start = index.checked_sub(1).map_or(0, |before| ends[before]);
                &text[start as usize..ends[index] as usize]
            }
        }
    }
}
