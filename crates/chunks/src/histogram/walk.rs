//! Histograms one after the other, as processes report them, for tests.

use crate::row::tests::Rng;
use narthex_model::Histogram;
use narthex_model::histogram::{ResetHint, Span};
use std::collections::BTreeMap;

/// A histogram that is observed, reset, and rarely something else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walk {
    positive: BTreeMap<i32, f64>,
    negative: BTreeMap<i32, f64>,
    odd: u64,
    sum: f64,
}

impl Walk {
    /// Returns the next one.
    pub(crate) fn next(&mut self, rng: &mut Rng) -> Histogram {
        let odd = |rng: &mut Rng, one_in| rng.below(one_in) == 0;
        if odd(rng, 20) {
            *self = Self {
                odd: rng.below(9),
                ..Self::default()
            };
        }
        for _ in 0..rng.below(12) {
            let bucket = (rng.below(20) + rng.below(20)) as i32 - 20;
            let side = if odd(rng, 9) {
                &mut self.negative
            } else {
                &mut self.positive
            };
            *side.entry(bucket).or_default() += 1.0;
            self.sum += match self.odd {
                1 => (rng.below(1 << 50) as f64).sqrt(),
                2 => f64::NAN,
                _ => rng.below(9000) as f64 / 1000.0,
            };
        }
        if self.odd == 3 {
            self.positive.values_mut().for_each(|count| *count += 0.3);
        }
        let (positive_spans, positive_buckets) = side(&self.positive);
        let (negative_spans, negative_buckets) = side(&self.negative);
        let mut h = Histogram {
            histogram_schema: 3,
            integer_counts: self.odd != 3,
            zero_threshold: if self.odd == 4 { -0.0 } else { 1e-128 },
            zero_count: rng.below(3) as f64,
            sum: self.sum,
            positive_spans,
            negative_spans,
            positive_buckets,
            negative_buckets,
            ..Histogram::default()
        };
        let buckets = h.positive_buckets.iter().chain(&h.negative_buckets);
        h.count = h.zero_count + buckets.sum::<f64>();
        match self.odd {
            5 => h.count += rng.below(9) as f64,
            6 => {
                h.histogram_schema = -53;
                h.custom_values = (0..rng.below(4)).map(|bound| bound as f64).collect();
            }
            7 if !h.positive_spans.is_empty() => {
                // Spans as nobody writes them: a bucket twice, and an empty span.
                h.positive_spans[0].offset += 1;
                h.positive_spans.push(Span {
                    offset: -2,
                    length: 1,
                });
                h.positive_spans.push(Span::default());
                h.positive_buckets.push(-0.0);
            }
            8 => h.reset_hint = ResetHint::Gauge,
            _ => {}
        }
        h
    }
}

fn side(counts: &BTreeMap<i32, f64>) -> (Vec<Span>, Vec<f64>) {
    let (mut spans, mut end) = (Vec::<Span>::new(), 0);
    for bucket in counts.keys() {
        match spans.last_mut() {
            Some(last) if *bucket == end => last.length += 1,
            _ => spans.push(Span {
                offset: bucket - end,
                length: 1,
            }),
        }
        end = bucket + 1;
    }
    (spans, counts.values().copied().collect())
}

/// Returns everything of a histogram, floats by their bits.
pub(crate) fn bits(h: &Histogram) -> String {
    let floats = [h.zero_threshold, h.zero_count, h.count, h.sum];
    let lists = [&h.positive_buckets, &h.negative_buckets, &h.custom_values];
    let floats = floats.iter().chain(lists.into_iter().flatten());
    let floats: Vec<u64> = floats.map(|float| float.to_bits()).collect();
    let whole = (h.histogram_schema, h.reset_hint, h.integer_counts);
    format!(
        "{whole:?} {:?} {:?} {floats:x?}",
        h.positive_spans, h.negative_spans
    )
}
