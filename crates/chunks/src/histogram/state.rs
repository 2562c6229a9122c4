//! A histogram as a layout and numbers, which change one by one.
//!
//! Invariant: the numbers are the count, the zero count, then one for each slot of the positive and of the negative
//! spans; integers when all of them are, else the bits of the floats.

use super::{counts, hint_bits, hint_of};
use crate::decimal::{RAW, to_float, to_int};
use narthex_model::Histogram;
use narthex_model::histogram::Span;
use std::sync::Arc;

/// Where the count is among the numbers, how many precede those of buckets.
pub(super) const COUNT: usize = 0;
pub(crate) const BEFORE_BUCKETS: usize = 2;

/// A column's last histogram, from which the next one is written as a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramState {
    pub(super) layout: Arc<Layout>,
    /// Bits of the sum of all observations.
    pub(super) sum: u64,
    pub(super) numbers: Box<[i64]>,
}

/// Everything of a histogram but its counts and its sum; floats are kept as bits, so that equal ones are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Exponent of the numbers: 0, or that of raw bits.
    pub(super) exp: u8,
    hint: u8,
    integer_counts: bool,
    histogram_schema: i32,
    zero_threshold: u64,
    custom_values: Vec<u64>,
    pub(super) positive_spans: Vec<Span>,
    pub(super) negative_spans: Vec<Span>,
}

impl Layout {
    pub(crate) fn new(h: &Histogram) -> Self {
        Self {
            exp: exponent(h),
            hint: hint_bits(h.reset_hint),
            integer_counts: h.integer_counts,
            histogram_schema: h.histogram_schema,
            zero_threshold: h.zero_threshold.to_bits(),
            custom_values: h
                .custom_values
                .iter()
                .map(|bound| bound.to_bits())
                .collect(),
            positive_spans: h.positive_spans.clone(),
            negative_spans: h.negative_spans.clone(),
        }
    }

    /// Reports whether `h` differs in nothing but spans and the exponent of its numbers.
    pub(crate) fn has_head_of(&self, h: &Histogram) -> bool {
        let bounds = h.custom_values.iter().map(|bound| bound.to_bits());
        self.hint == hint_bits(h.reset_hint)
            && self.integer_counts == h.integer_counts
            && self.histogram_schema == h.histogram_schema
            && self.zero_threshold == h.zero_threshold.to_bits()
            && self.custom_values.iter().copied().eq(bounds)
    }
}

/// How a histogram differs from a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// In numbers and the sum.
    Same,
    /// In its spans, too.
    Spans,
    /// In more.
    None,
}

impl HistogramState {
    /// Returns the state after `histogram`.
    #[must_use]
    pub fn new(histogram: &Histogram) -> Self {
        let layout = Layout::new(histogram);
        Self {
            sum: histogram.sum.to_bits(),
            numbers: numbers(histogram, layout.exp).collect(),
            layout: Arc::new(layout),
        }
    }

    /// Returns the histogram, bit for bit.
    #[must_use]
    pub fn to_histogram(&self) -> Histogram {
        let Layout { exp, .. } = *self.layout;
        let float = |number: &i64| to_float(*number, exp);
        let (own, buckets) = self.numbers.split_at(BEFORE_BUCKETS);
        let positive = slots(&self.layout.positive_spans);
        let (positive, negative) = buckets.split_at(positive.min(buckets.len()));
        Histogram {
            histogram_schema: self.layout.histogram_schema,
            reset_hint: hint_of(self.layout.hint),
            integer_counts: self.layout.integer_counts,
            zero_threshold: f64::from_bits(self.layout.zero_threshold),
            zero_count: float(&own[1]),
            count: float(&own[COUNT]),
            sum: f64::from_bits(self.sum),
            positive_spans: self.layout.positive_spans.clone(),
            negative_spans: self.layout.negative_spans.clone(),
            positive_buckets: positive.iter().map(float).collect(),
            negative_buckets: negative.iter().map(float).collect(),
            custom_values: self
                .layout
                .custom_values
                .iter()
                .map(|bits| f64::from_bits(*bits))
                .collect(),
        }
    }

    /// Returns the heap bytes held.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let layout = &*self.layout;
        let spans = layout.positive_spans.len() + layout.negative_spans.len();
        size_of::<Layout>()
            + spans * size_of::<Span>()
            + (layout.custom_values.len() + self.numbers.len()) * 8
    }

    /// Returns how `histogram` differs, and the exponent of its numbers.
    pub(super) fn fit(&self, histogram: &Histogram) -> (Fit, u8) {
        let exp = exponent(histogram);
        let same = self.layout.positive_spans == histogram.positive_spans
            && self.layout.negative_spans == histogram.negative_spans;
        let fit = match self.layout.exp == exp && self.layout.has_head_of(histogram) {
            true if same => Fit::Same,
            true => Fit::Spans,
            false => Fit::None,
        };
        (fit, exp)
    }

    /// Replaces the spans, and the numbers by those of the new slots.
    pub(super) fn set_spans(&mut self, spans: [Vec<Span>; 2], numbers: Box<[i64]>) {
        let [positive_spans, negative_spans] = spans;
        self.layout = Arc::new(Layout {
            positive_spans,
            negative_spans,
            ..(*self.layout).clone()
        });
        self.numbers = numbers;
    }
}

/// Returns the exponent of a histogram's numbers: 0 when all are integers, else that of raw bits.
fn exponent(h: &Histogram) -> u8 {
    let are_integers = counts(h).all(|count| to_int(count, 0).is_some());
    if are_integers { 0 } else { RAW }
}

/// Lists the numbers of a histogram at their exponent.
pub(super) fn numbers(h: &Histogram, exp: u8) -> impl Iterator<Item = i64> + '_ {
    counts(h).map(move |count| match exp {
        RAW => count.to_bits() as i64,
        _ => count as i64,
    })
}

/// Returns the number of buckets in spans.
pub(crate) fn slots(spans: &[Span]) -> usize {
    spans.iter().map(|span| span.length as usize).sum()
}

/// Lists the index of every bucket in spans.
pub(crate) fn indexes(spans: &[Span]) -> impl Iterator<Item = i64> + '_ {
    let mut end = 0;
    spans.iter().flat_map(move |span| {
        let begin = end + i64::from(span.offset);
        end = begin + i64::from(span.length);
        begin..end
    })
}

/// Reports whether each bucket in spans is above the one before it, as it is unless something made them up.
pub(crate) fn ascend(spans: &[Span]) -> bool {
    spans.iter().skip(1).all(|span| span.offset >= 0)
}
