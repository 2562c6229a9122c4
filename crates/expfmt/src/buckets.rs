//! Native histograms: validated, bounded, and converted from classic ones.
//!
//! **Invariant:** a histogram that passes [`checked`] has as many buckets as its spans name, none of them negative,
//! and a count that agrees with them.

use narthex_model::{
    Histogram,
    histogram::{CUSTOM_BUCKETS, Span},
};

/// Reason a histogram is refused.
pub(crate) enum Refusal {
    /// It contradicts itself.
    Inconsistent(String),
    /// It has too many buckets.
    TooManyBuckets,
}

/// Largest plausible distance of a span from the previous one, in exponential buckets.
const FARTHEST: i64 = i32::MAX as i64;

/// Checks a histogram as Prometheus does before storing one.
pub(crate) fn check(histogram: &Histogram) -> Result<(), String> {
    let custom = histogram.uses_custom_buckets();
    if !custom && !(-4..=8).contains(&histogram.histogram_schema) {
        return Err(format!("invalid schema {}", histogram.histogram_schema));
    }
    if custom {
        if histogram.zero_count != 0.0 || histogram.zero_threshold != 0.0 {
            return Err("custom buckets: must have zero count and threshold of 0".into());
        }
        if !histogram.negative_spans.is_empty() || !histogram.negative_buckets.is_empty() {
            return Err("custom buckets: must not have negative buckets".into());
        }
        let bounds = &histogram.custom_values;
        if !bounds.is_sorted_by(|a, b| a < b) || bounds.last() == Some(&f64::INFINITY) {
            return Err("custom buckets: bounds must ascend and be finite".into());
        }
    }
    let sides = [
        (
            "negative",
            &histogram.negative_spans,
            &histogram.negative_buckets,
        ),
        (
            "positive",
            &histogram.positive_spans,
            &histogram.positive_buckets,
        ),
    ];
    let mut observations = histogram.zero_count;
    for (side, spans, counts) in sides {
        check_spans(side, spans, counts.len())?;
        if let Some(at) = counts.iter().position(|count| *count < 0.0) {
            return Err(format!(
                "{side} side: bucket number {} has observation count of {}: negative count",
                at + 1,
                counts[at]
            ));
        }
        observations += counts.iter().sum::<f64>();
    }
    if histogram.count < 0.0 || histogram.zero_count < 0.0 {
        return Err("negative count".into());
    }
    if histogram.integer_counts {
        let agrees = if histogram.sum.is_nan() {
            // Observations of NaN are in no bucket.
            observations <= histogram.count
        } else {
            observations == histogram.count
        };
        if !agrees {
            return Err(format!(
                "{observations} observations found in buckets, but the Count field is {}",
                histogram.count
            ));
        }
    }
    Ok(())
}

/// Checks that spans name exactly `buckets` buckets and do not overlap.
pub(crate) fn check_spans(side: &str, spans: &[Span], buckets: usize) -> Result<(), String> {
    let total: u64 = spans.iter().map(|span| u64::from(span.length)).sum();
    if total != buckets as u64 {
        return Err(format!(
            "{side} side: spans require {total} buckets, have {buckets}"
        ));
    }
    let mut reach = 0i64;
    for (at, span) in spans.iter().enumerate() {
        if at > 0 && span.offset < 0 {
            return Err(format!(
                "{side} side: span number {} with offset {}: negative span offset",
                at + 1,
                span.offset
            ));
        }
        reach += i64::from(span.offset) + i64::from(span.length);
        if reach.abs() > FARTHEST {
            return Err(format!("{side} side: a bucket beyond every index"));
        }
    }
    Ok(())
}

/// Returns a valid histogram within the limits; a bucket limit of 0 means none.
pub(crate) fn checked(
    mut histogram: Histogram,
    bucket_limit: usize,
    max_schema: i32,
) -> Result<Histogram, Refusal> {
    // Resolutions up to 52 are reserved: reducing them makes them readable.
    if (max_schema + 1..=52).contains(&histogram.histogram_schema) {
        histogram = reduced(&histogram, max_schema);
    }
    check(&histogram).map_err(Refusal::Inconsistent)?;
    let buckets =
        |histogram: &Histogram| histogram.positive_buckets.len() + histogram.negative_buckets.len();
    while bucket_limit > 0 && buckets(&histogram) > bucket_limit {
        if histogram.uses_custom_buckets() || histogram.histogram_schema <= -4 {
            return Err(Refusal::TooManyBuckets);
        }
        histogram = reduced(&histogram, histogram.histogram_schema - 1);
    }
    Ok(histogram)
}

fn reduced(histogram: &Histogram, histogram_schema: i32) -> Histogram {
    Histogram {
        integer_counts: histogram.integer_counts,
        reset_hint: histogram.reset_hint,
        ..histogram.at_schema(histogram_schema)
    }
}

/// Collects the parts of a classic histogram.
#[derive(Debug, Default)]
pub(crate) struct Classic {
    pub(crate) count: Option<f64>,
    pub(crate) sum: f64,
    /// Upper bound and cumulative count.
    pub(crate) buckets: Vec<(f64, f64)>,
}

impl Classic {
    /// Returns the native histogram with custom buckets and the same counts.
    ///
    /// # Errors
    /// Fails when the counts contradict each other.
    pub(crate) fn convert(mut self) -> Result<Histogram, String> {
        if self.buckets.iter().any(|(bound, _)| bound.is_nan()) {
            return Err("boundary is NaN".into());
        }
        if !self.buckets.is_sorted_by(|a, b| a.0 < b.0) {
            self.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            self.buckets.dedup_by(|next, kept| next.0 == kept.0);
        }
        let last = self.buckets.last().copied();
        let count = self.count.or(last.map(|(_, count)| count));
        let count = count.ok_or("neither a count nor buckets")?;
        if last.is_none_or(|(bound, _)| bound != f64::INFINITY) {
            self.buckets.push((f64::INFINITY, count));
        }
        let mut before = 0.0;
        let mut counts = Vec::with_capacity(self.buckets.len());
        for (bound, cumulative) in &self.buckets {
            if *cumulative < before {
                return Err(format!(
                    "bucket counts are not cumulative: le={bound}, {cumulative} < {before}"
                ));
            }
            counts.push(cumulative - before);
            before = *cumulative;
        }
        if count != before {
            return Err(format!(
                "count mismatch: count={count} != le=+Inf count={before}"
            ));
        }
        let integer_counts = self
            .buckets
            .iter()
            .all(|(_, count)| *count == count.round());
        self.buckets.pop();
        let mut histogram = Histogram {
            histogram_schema: CUSTOM_BUCKETS,
            integer_counts,
            count,
            sum: self.sum,
            positive_spans: vec![Span {
                offset: 0,
                length: u32::try_from(counts.len()).expect("buckets are fewer than bytes"),
            }],
            positive_buckets: counts,
            custom_values: self.buckets.iter().map(|(bound, _)| *bound).collect(),
            ..Histogram::default()
        };
        histogram.compact();
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classic(count: Option<f64>, buckets: &[(f64, f64)]) -> Classic {
        Classic {
            count,
            sum: 10.0,
            buckets: buckets.to_vec(),
        }
    }

    #[test]
    fn classic_histograms_become_native_ones() {
        let inf = f64::INFINITY;
        let native = classic(Some(5.0), &[(1.0, 2.0), (2.0, 2.0), (inf, 5.0)])
            .convert()
            .unwrap();
        assert_eq!(native.custom_values, [1.0, 2.0]);
        assert_eq!(native.positive().collect::<Vec<_>>(), [(0, 2.0), (2, 3.0)]);
        assert!(native.integer_counts && check(&native).is_ok());
        let open = classic(None, &[(2.0, 3.5), (1.0, 1.0)]).convert().unwrap();
        assert_eq!((open.count, open.integer_counts), (3.5, false));
        let empty = classic(Some(0.0), &[]).convert().unwrap();
        assert!(empty.custom_values.is_empty() && empty.positive_buckets.is_empty());
        for bad in [
            classic(Some(4.0), &[(1.0, 2.0), (inf, 5.0)]),
            classic(None, &[(1.0, 3.0), (2.0, 2.0)]),
            classic(None, &[(f64::NAN, 3.0)]),
            classic(None, &[]),
            classic(Some(-1.0), &[]),
        ] {
            assert!(bad.convert().is_err());
        }
    }

    #[test]
    fn resolution_is_reduced_to_the_limit() {
        let wide = Histogram {
            histogram_schema: 3,
            integer_counts: true,
            count: 40.0,
            positive_spans: vec![Span {
                offset: -19,
                length: 40,
            }],
            positive_buckets: vec![1.0; 40],
            ..Histogram::default()
        };
        let limited = |limit, max| {
            checked(wide.clone(), limit, max).ok().map(|histogram| {
                assert!(check(&histogram).is_ok());
                (histogram.histogram_schema, histogram.positive_buckets.len())
            })
        };
        assert_eq!(limited(0, 8), Some((3, 40)));
        assert_eq!(limited(20, 8), Some((2, 20)));
        assert_eq!(limited(0, 1), Some((1, 10)));
        assert_eq!(limited(1, 8), None);
    }

    #[test]
    fn contradictions_are_found() {
        let span = |offset, length| Span { offset, length };
        let good = Histogram {
            integer_counts: true,
            count: 3.0,
            positive_spans: vec![span(0, 2)],
            positive_buckets: vec![1.0, 2.0],
            ..Histogram::default()
        };
        assert!(check(&good).is_ok());
        let mut bad = vec![good; 6];
        bad[0].count = 4.0;
        bad[1].positive_buckets[0] = -1.0;
        bad[2].positive_spans.push(span(-1, 0));
        bad[3].histogram_schema = 9;
        bad[4].positive_spans[0].length = 3;
        bad[5].positive_spans = vec![span(i32::MAX, 1), span(i32::MAX, 1)];
        for histogram in bad {
            assert!(check(&histogram).is_err(), "{histogram:?}");
        }
    }
}
