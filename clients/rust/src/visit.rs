//! Reading of metrics: families and samples passed to a [`Visitor`].
//!
//! **Invariant:** the samples of a family directly follow its head, and a family without samples is not shown.

use std::fmt;
use std::str;

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
    pub labels: SampleLabels<'a>,
    /// The value.
    pub value: f64,
}

/// A sample's labels: those of the series in the order they were declared, then `le` or `quantile`.
#[derive(Clone, Copy, Debug)]
pub struct SampleLabels<'a> {
    pub(crate) names: &'a [&'static str],
    pub(crate) values: Values<'a>,
    /// The label that a bucket or a quantile adds.
    pub(crate) extra: Option<(&'static str, &'a str)>,
    /// `{a="x",b="y"}` in the text format, without the extra label; empty if it has to be rendered.
    pub(crate) rendered: &'a [u8],
    /// The labels as protobuf fields, without the extra label; empty if they have to be encoded.
    pub(crate) encoded: &'a [u8],
}

/// Storage of a series' label values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values<'a> {
    Slice(&'a [&'a str]),
    /// The ends of all values in the text that follows them, as numbers of four bytes.
    Packed(&'a [u8]),
}

impl<'a> SampleLabels<'a> {
    pub(crate) const NONE: SampleLabels<'static> = SampleLabels {
        names: &[],
        values: Values::Slice(&[]),
        extra: None,
        rendered: b"",
        encoded: b"",
    };

    pub(crate) fn of_slice(names: &'a [&'static str], values: &'a [&'a str]) -> Self {
        Self {
            names,
            values: Values::Slice(values),
            ..SampleLabels::NONE
        }
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
        let (values, count) = (self.values, self.names.len());
        let own = self.names.iter().enumerate();
        let own = own.map(move |(i, name)| (*name, values.get(count, i)));
        own.chain(self.extra)
    }
}

/// Appends label values as [`Values::Packed`] has them.
pub(crate) fn pack(packed: &mut Vec<u8>, values: &[&str]) {
    let mut end = 0_u32;
    for value in values {
        let len = u32::try_from(value.len()).ok();
        end = len
            .and_then(|len| end.checked_add(len))
            .expect("label values of less than 4 GiB");
        packed.extend_from_slice(&end.to_ne_bytes());
    }
    for value in values {
        packed.extend_from_slice(value.as_bytes());
    }
}

/// Returns one of `count` packed values.
#[inline(always)]
pub(crate) fn unpack(packed: &[u8], count: usize, index: usize) -> &[u8] {
    let (ends, text) = packed.split_at(4 * count);
    let (ends, _) = ends.as_chunks::<4>();
    let end = |index: usize| u32::from_ne_bytes(ends[index]) as usize;
    let start = index.checked_sub(1).map_or(0, end);
    &text[start..end(index)]
}

impl<'a> Values<'a> {
    fn get(self, count: usize, index: usize) -> &'a str {
        match self {
            Self::Slice(values) => values[index],
            Self::Packed(packed) => {
                str::from_utf8(unpack(packed, count, index)).expect("packed from strings")
            }
        }
    }
}
