//! Conversion of classic histograms to native ones with custom buckets, for `load_with_nhcb`.
//!
//! **Invariant:** the series of a classic histogram are joined by their labels without `le` and their name without
//! its suffix; bounds ascend, counts do not decrease.

use super::series::SeriesValue;
use narthex_model::{
    Histogram, LabelSet, METRIC_NAME,
    histogram::{CUSTOM_BUCKETS, Span},
};
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
struct Classic {
    buckets: Vec<(f64, f64)>,
    count: Option<f64>,
    sum: f64,
}

/// A series and its native histograms, by index of the original value.
type Converted = (LabelSet, BTreeMap<usize, Histogram>);

/// Converts the classic histograms among `series` to native ones, by index of their value.
pub(super) fn convert(series: &[(LabelSet, Vec<SeriesValue>)]) -> Result<Vec<Converted>, String> {
    let mut found: HashMap<LabelSet, BTreeMap<usize, Classic>> = HashMap::new();
    for (labels, values) in series {
        let name = labels.metric_name();
        let Some((base, suffix)) = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|s| Some((name.strip_suffix(s)?, *s)))
        else {
            continue;
        };
        let bound = labels
            .get("le")
            .and_then(|le| le.parse::<f64>().ok())
            .filter(|le| !le.is_nan());
        if suffix == "_bucket" && bound.is_none() {
            continue;
        }
        let by_index = found
            .entry(labels.with(METRIC_NAME, base).with("le", ""))
            .or_default();
        for (index, value) in values.iter().enumerate() {
            let SeriesValue::Float(x) = value else {
                continue;
            };
            let classic = by_index.entry(index).or_default();
            match (suffix, bound) {
                ("_bucket", Some(bound)) => classic.buckets.push((bound, *x)),
                ("_count", _) => classic.count = Some(*x),
                _ => classic.sum = *x,
            }
        }
    }
    let mut all: Vec<_> = found.into_iter().collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let convert = |(index, classic): (usize, Classic)| Ok((index, classic.into_native()?));
    let convert_all = |(labels, by_index): (LabelSet, BTreeMap<_, _>)| {
        let converted = by_index.into_iter().map(convert);
        Ok((labels, converted.collect::<Result<_, String>>()?))
    };
    all.into_iter().map(convert_all).collect()
}

impl Classic {
    fn into_native(mut self) -> Result<Histogram, String> {
        self.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.buckets.dedup_by(|next, kept| next.0 == kept.0);
        let highest = self.buckets.last().copied();
        let count = self.count.or(highest.map(|b| b.1)).unwrap_or_default();
        if highest.is_none_or(|b| b.0 != f64::INFINITY) {
            self.buckets.push((f64::INFINITY, count));
        }
        let mut before = 0.0;
        let mut counts = Vec::with_capacity(self.buckets.len());
        for (bound, cumulative) in &self.buckets {
            if *cumulative < before {
                return Err(format!(
                    "count is not cumulative: {cumulative} < {before} at {bound}"
                ));
            }
            counts.push(cumulative - before);
            before = *cumulative;
        }
        if count != before {
            return Err(format!("count mismatch: {count} != {before}"));
        }
        let length = u32::try_from(counts.len()).map_err(|_| "too many buckets")?;
        let mut histogram = Histogram {
            histogram_schema: CUSTOM_BUCKETS,
            count,
            sum: self.sum,
            positive_spans: vec![Span { offset: 0, length }],
            positive_buckets: counts,
            custom_values: self
                .buckets
                .iter()
                .map(|b| b.0)
                .filter(|b| *b != f64::INFINITY)
                .collect(),
            ..Histogram::default()
        };
        histogram.compact();
        Ok(histogram)
    }
}
