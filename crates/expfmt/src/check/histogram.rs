//! Checks that the parts of a histogram agree.

use super::family::{Family, Sample, group_of};
use crate::number;
use narthex_model::LabelSet;

/// Parts seen of one metric's histogram.
#[derive(Debug, Default)]
struct Parts {
    /// Bound and count of the last bucket.
    bucket: Option<(f64, f64)>,
    count: Option<f64>,
    sum: Option<f64>,
    gauge: bool,
    negative_buckets: bool,
}

/// Lists the offsets and contradictions of the family's histograms.
pub(super) fn check(family: &Family) -> Vec<(usize, &'static str)> {
    let mut wrong = Vec::new();
    let mut last: Option<(LabelSet, Option<i64>)> = None;
    let mut parts = Parts::default();
    let mut at = family.offset;
    for sample in &family.samples {
        let suffix = sample
            .name()
            .strip_prefix(family.name.as_str())
            .unwrap_or_default();
        let metric_type = family.metric_type.unwrap_or_default();
        let group = group_of(&family.name, metric_type, suffix, &sample.labels);
        let this = (group, sample.time_ms);
        if last.as_ref() != Some(&this) {
            if last.is_some() {
                wrong.extend(std::mem::take(&mut parts).disagree().map(|what| (at, what)));
            }
            last = Some(this);
        }
        at = sample.offset;
        wrong.extend(parts.add(suffix, sample).map(|what| (at, what)));
    }
    if last.is_some() {
        wrong.extend(parts.disagree().map(|what| (at, what)));
    }
    wrong
}

impl Parts {
    fn add(&mut self, suffix: &str, sample: &Sample) -> Option<&'static str> {
        match suffix {
            "_bucket" => {
                let le = sample.labels.get("le").unwrap_or_default();
                let bound = number::read(le.as_bytes()).unwrap_or(f64::NAN);
                self.negative_buckets |= bound < 0.0;
                let before = self.bucket.replace((bound, sample.value));
                match before {
                    Some((last, _)) if bound <= last => Some("buckets out of order"),
                    Some((_, count)) if sample.value < count => {
                        Some("a bucket with less than the one before")
                    }
                    _ => None,
                }
            }
            "_count" | "_gcount" => {
                self.count = Some(sample.value);
                self.gauge |= suffix == "_gcount";
                None
            }
            "_sum" | "_gsum" => {
                self.sum = Some(sample.value);
                self.gauge |= suffix == "_gsum";
                None
            }
            _ => None,
        }
    }

    /// Lists the contradictions between the parts.
    fn disagree(self) -> impl Iterator<Item = &'static str> {
        let infinite = self.bucket.filter(|(bound, _)| *bound == f64::INFINITY);
        let count_differs =
            infinite.is_some_and(|(_, last)| self.count.is_some_and(|count| count != last));
        let positive_sum = self.sum.is_some_and(|sum| sum < 0.0);
        [
            (infinite.is_none(), "no bucket for +Inf"),
            (count_differs, "a count that is not that of the +Inf bucket"),
            (
                self.negative_buckets && self.sum.is_some() && !self.gauge,
                "a sum although buckets are below zero",
            ),
            (
                self.gauge && positive_sum && !self.negative_buckets,
                "a sum below zero although no bucket is",
            ),
            (
                self.sum.is_some() != self.count.is_some(),
                "a sum without a count, or a count without a sum",
            ),
        ]
        .into_iter()
        .filter_map(|(wrong, what)| wrong.then_some(what))
    }
}
