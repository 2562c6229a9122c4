//! Compares results with expectations.
//!
//! **Invariant:** floats, and each number of a histogram, may differ by 1e-6 of their sum; everything else must be
//! equal.

use super::{
    script::{Eval, Expect, Text},
    series::SeriesValue,
};
use crate::{
    QueryResult, SampleValue, Value, VectorSample, functions::almost_equal, result::MatrixSeries,
};
use narthex_model::{Histogram, LabelSet};
use std::sync::Arc;

const EPSILON: f64 = 1e-6;

/// Checks warnings and infos.
pub(super) fn notes(expect: &Expect, result: &QueryResult) -> Result<(), String> {
    notes_of("warn", &expect.warn, expect.no_warn, &result.warnings)?;
    notes_of("info", &expect.info, expect.no_info, &result.infos)
}

fn notes_of(kind: &str, wanted: &[Text], none: bool, got: &[String]) -> Result<(), String> {
    if none && !got.is_empty() {
        return Err(format!("unexpected {kind} annotations: {got:?}"));
    }
    if wanted.is_empty() {
        return Ok(());
    }
    if let Some(missing) = wanted.iter().find(|w| !got.iter().any(|g| w.matches(g))) {
        return Err(format!(
            "expected {kind} annotation {missing}, found {got:?}"
        ));
    }
    match got.iter().find(|g| !wanted.iter().any(|w| w.matches(g))) {
        Some(extra) => Err(format!("unexpected {kind} annotation {extra:?}")),
        None => Ok(()),
    }
}

/// Checks a value.
pub(super) fn value(eval: &Eval, value: &Value) -> Result<(), String> {
    let expect = &eval.expect;
    match value {
        Value::String { text, .. } => {
            let wanted = expect.string.as_deref().unwrap_or_default();
            match wanted == text {
                true => Ok(()),
                false => Err(format!("expected string {wanted:?}, got {text:?}")),
            }
        }
        Value::Scalar { value, .. } => match expect.scalar {
            Some(wanted) if almost_equal(wanted, *value, EPSILON) => Ok(()),
            Some(wanted) => Err(format!("expected scalar {wanted}, got {value}")),
            None => Err(format!("expected no scalar, got {value}")),
        },
        _ if expect.scalar.is_some() => {
            Err(format!("expected a scalar, got a {}", value.type_name()))
        }
        Value::Vector(samples) => vector(expect, samples),
        Value::Matrix(series) => matrix(eval, series),
    }
}

fn vector(expect: &Expect, samples: &[VectorSample]) -> Result<(), String> {
    for (position, sample) in samples.iter().enumerate() {
        let VectorSample { labels, value, .. } = sample;
        let Some(at) = expect.series.iter().position(|one| one.0 == *labels) else {
            return Err(format!("unexpected series {labels} {value:?}"));
        };
        if expect.ordered && at != position {
            let (at, was) = (at + 1, position + 1);
            return Err(format!("expected {labels} at position {at}, was at {was}"));
        }
        let wanted = expect.series[at].1.first();
        match (wanted, value) {
            (Some(SeriesValue::Float(x)), SampleValue::Float(y))
                if almost_equal(*x, *y, EPSILON) => {}
            (
                Some(SeriesValue::Histogram {
                    histogram,
                    hint_given,
                }),
                SampleValue::Histogram(h),
            ) if same_histogram(histogram, h, *hint_given) => {}
            (wanted, got) => {
                let (wanted, got) = (show(wanted), show_sample(got));
                return Err(format!("{labels}: expected {wanted}, got {got}"));
            }
        }
    }
    none_missing(expect, samples.iter().map(|sample| &sample.labels))
}

fn none_missing<'a>(
    expect: &Expect,
    found: impl Iterator<Item = &'a LabelSet> + Clone,
) -> Result<(), String> {
    let mut wanted = expect.series.iter();
    match wanted.find(|(labels, _)| !found.clone().any(|other| other == labels)) {
        Some((labels, values)) => {
            let first = show(values.first());
            Err(format!("expected {labels} {first} not found"))
        }
        None => Ok(()),
    }
}

fn matrix(eval: &Eval, all: &[MatrixSeries]) -> Result<(), String> {
    let expect = &eval.expect;
    if expect.ordered {
        return Err("expected ordered result, but query returned a matrix".to_owned());
    }
    sorted(all)?;
    for series in all {
        let mut expected = expect.series.iter();
        let Some((labels, values)) = expected.find(|one| one.0 == series.labels) else {
            return Err(format!("unexpected series {}", show_series(series)));
        };
        let (mut floats, mut histograms) = (Vec::new(), Vec::new());
        let mut time_ms = eval.start_ms;
        for value in values {
            if time_ms > eval.end_ms {
                let points = values.len();
                return Err(format!(
                    "expected {points} points for {labels}, more than the query has"
                ));
            }
            match value {
                SeriesValue::Missing => {}
                SeriesValue::Float(x) => floats.push((time_ms, *x)),
                SeriesValue::Histogram {
                    histogram,
                    hint_given,
                } => {
                    histograms.push((time_ms, histogram.clone(), *hint_given));
                }
            }
            time_ms += eval.step_ms;
        }
        let same_floats = floats.len() == series.floats.len()
            && floats
                .iter()
                .zip(&series.floats)
                .all(|(a, b)| a.0 == b.0 && almost_equal(a.1, b.1, EPSILON));
        let same_histograms = histograms.len() == series.histograms.len()
            && histograms
                .iter()
                .zip(&series.histograms)
                .all(|(a, b)| a.0 == b.0 && same_histogram(&a.1, &b.1, a.2));
        if !same_floats || !same_histograms {
            let wanted: Vec<String> = values.iter().map(|v| show(Some(v))).collect();
            let (wanted, got) = (wanted.join(" "), show_series(series));
            return Err(format!("{labels}: expected [{wanted}], got {got}"));
        }
    }
    none_missing(expect, all.iter().map(|series| &series.labels))
}

/// Checks that a matrix is sorted by labels.
pub(super) fn sorted(all: &[MatrixSeries]) -> Result<(), String> {
    match all.windows(2).find(|pair| pair[0].labels > pair[1].labels) {
        Some(pair) => Err(format!(
            "matrix is not sorted: {} before {}",
            pair[0].labels, pair[1].labels
        )),
        None => Ok(()),
    }
}

fn same_histogram(wanted: &Histogram, got: &Histogram, hint_given: bool) -> bool {
    let (mut a, mut b) = (wanted.clone(), got.clone());
    a.compact();
    b.compact();
    let close = |x: f64, y: f64| almost_equal(x, y, EPSILON);
    let all =
        |x: &[f64], y: &[f64]| x.len() == y.len() && x.iter().zip(y).all(|(x, y)| close(*x, *y));
    a.histogram_schema == b.histogram_schema
        && close(a.count, b.count)
        && close(a.sum, b.sum)
        && (!a.uses_custom_buckets() || a.custom_values == b.custom_values)
        && a.zero_threshold == b.zero_threshold
        && close(a.zero_count, b.zero_count)
        && a.negative_spans == b.negative_spans
        && a.positive_spans == b.positive_spans
        && all(&a.negative_buckets, &b.negative_buckets)
        && all(&a.positive_buckets, &b.positive_buckets)
        && (!hint_given || a.reset_hint == b.reset_hint)
}

fn show(value: Option<&SeriesValue>) -> String {
    match value {
        None | Some(SeriesValue::Missing) => "_".to_owned(),
        Some(SeriesValue::Float(x)) => x.to_string(),
        Some(SeriesValue::Histogram { histogram, .. }) => histogram.test_notation(),
    }
}

fn show_sample(value: &SampleValue) -> String {
    match value {
        SampleValue::Float(x) => x.to_string(),
        SampleValue::Histogram(h) => h.test_notation(),
    }
}

fn show_series(series: &MatrixSeries) -> String {
    let one = |(t, h): &(i64, Arc<Histogram>)| format!("{} @[{t}]", h.test_notation());
    let histograms: Vec<String> = series.histograms.iter().map(one).collect();
    let (labels, floats) = (&series.labels, &series.floats);
    format!("{labels} {floats:?} [{}]", histograms.join(" "))
}
