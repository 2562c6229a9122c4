//! Answers of the API, read from JSON.

use super::text::number;
use serde_json::Value as Json;
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

/// Labels by name.
pub(super) type Labels = BTreeMap<String, String>;

/// A query's value.
#[derive(Debug)]
pub(super) enum Answer {
    Scalar(Point),
    Text { time: f64, text: String },
    Vector(Vec<Series>),
    Matrix(Vec<Series>),
}

/// A time in seconds and a number, with the number's text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) time: f64,
    pub(super) value: f64,
    pub(super) text: String,
}

/// A series and its samples; a vector's have one.
#[derive(Debug, Default)]
pub(super) struct Series {
    pub(super) labels: Labels,
    pub(super) points: Vec<Point>,
    pub(super) histograms: Vec<(f64, Histogram)>,
}

/// A native histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Histogram {
    pub(super) count: String,
    pub(super) sum: String,
    pub(super) buckets: Vec<Bucket>,
}

/// Which bounds are inclusive, lower bound, upper bound, count.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bucket {
    pub(super) rule: i64,
    pub(super) lower: String,
    pub(super) upper: String,
    pub(super) count: String,
}

impl Series {
    /// Returns time and value of each sample, histograms last.
    pub(super) fn samples(&self) -> impl Iterator<Item = (f64, String)> {
        let points = self.points.iter();
        let points = points.map(|point| (point.time, point.text.clone()));
        let histograms = self.histograms.iter();
        points.chain(histograms.map(|(time, one)| (*time, one.to_string())))
    }
}

/// `Count: 3, Sum: 2, Buckets: [(0,1]:3]`.
impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buckets: Vec<String> = self.buckets.iter().map(ToString::to_string).collect();
        let (count, sum, buckets) = (&self.count, &self.sum, buckets.join(" "));
        write!(f, "Count: {count}, Sum: {sum}, Buckets: [{buckets}]")
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = if matches!(self.rule, 1 | 3) { '[' } else { '(' };
        let close = if matches!(self.rule, 0 | 3) { ']' } else { ')' };
        let (lower, upper, count) = (&self.lower, &self.upper, &self.count);
        write!(f, "{open}{lower},{upper}{close}:{count}")
    }
}

impl Answer {
    pub(super) fn read(data: &Json) -> Result<Self, String> {
        let result = &data["result"];
        match data["resultType"].as_str() {
            Some("scalar") => Ok(Self::Scalar(point(result)?)),
            Some("string") => Ok(Self::Text {
                time: result[0].as_f64().ok_or_else(|| malformed(result))?,
                text: text(&result[1])?,
            }),
            Some("vector") => Ok(Self::Vector(all(result, "value", "histogram")?)),
            Some("matrix") => Ok(Self::Matrix(all(result, "values", "histograms")?)),
            _ => Err(malformed(data)),
        }
    }
}

fn all(result: &Json, points: &str, histograms: &str) -> Result<Vec<Series>, String> {
    let items = result.as_array().ok_or_else(|| malformed(result))?;
    let list = |item: &Json| -> Vec<Json> {
        match item {
            // A vector has one sample in the place of a list.
            Json::Array(pair) if pair.first().is_some_and(Json::is_number) => vec![item.clone()],
            Json::Array(all) => all.clone(),
            _ => Vec::new(),
        }
    };
    let series = |item: &Json| {
        Ok(Series {
            labels: labels(&item["metric"])?,
            points: list(&item[points])
                .iter()
                .map(point)
                .collect::<Result<_, _>>()?,
            histograms: list(&item[histograms])
                .iter()
                .map(histogram)
                .collect::<Result<_, _>>()?,
        })
    };
    items.iter().map(series).collect()
}

fn point(pair: &Json) -> Result<Point, String> {
    let time = pair[0].as_f64().ok_or_else(|| malformed(pair))?;
    let text = text(&pair[1])?;
    let value = number(&text).ok_or_else(|| malformed(pair))?;
    Ok(Point { time, value, text })
}

fn histogram(pair: &Json) -> Result<(f64, Histogram), String> {
    let (time, whole) = (pair[0].as_f64(), &pair[1]);
    let bucket = |bucket: &Json| {
        Ok(Bucket {
            rule: bucket[0].as_i64().ok_or_else(|| malformed(bucket))?,
            lower: text(&bucket[1])?,
            upper: text(&bucket[2])?,
            count: text(&bucket[3])?,
        })
    };
    let buckets = whole["buckets"].as_array().into_iter().flatten();
    let histogram = Histogram {
        count: text(&whole["count"])?,
        sum: text(&whole["sum"])?,
        buckets: buckets.map(bucket).collect::<Result<_, String>>()?,
    };
    Ok((time.ok_or_else(|| malformed(pair))?, histogram))
}

fn labels(set: &Json) -> Result<Labels, String> {
    let pairs = set.as_object().ok_or_else(|| malformed(set))?;
    let pair = |(name, value): (&String, &Json)| Ok((name.clone(), text(value)?));
    pairs.iter().map(pair).collect()
}

fn text(value: &Json) -> Result<String, String> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| malformed(value))
}

fn malformed(value: &Json) -> String {
    let shown: String = value.to_string().chars().take(80).collect();
    format!("not an answer of the API: {shown}")
}

/// Reads a list of label sets.
pub(super) fn label_sets(data: &Json) -> Result<Vec<Labels>, String> {
    let items = data.as_array().ok_or_else(|| malformed(data))?;
    items.iter().map(labels).collect()
}

/// Reads a list of texts.
pub(super) fn texts(data: &Json) -> Result<Vec<String>, String> {
    let items = data.as_array().ok_or_else(|| malformed(data))?;
    items.iter().map(text).collect()
}

/// Appends the points of a later part of a range.
pub(super) fn append(whole: &mut Json, mut later: Json) {
    let Json::Array(more) = later["result"].take() else {
        return;
    };
    let Some(all) = whole["result"].as_array_mut() else {
        return;
    };
    let places = all.iter().enumerate();
    let places: HashMap<String, usize> = places
        .map(|(at, series)| (series["metric"].to_string(), at))
        .collect();
    for mut series in more {
        let known = places.get(&series["metric"].to_string());
        let Some(before) = known.and_then(|at| all.get_mut(*at)) else {
            all.push(series);
            continue;
        };
        for key in ["values", "histograms"] {
            let Json::Array(points) = series[key].take() else {
                continue;
            };
            match before[key].as_array_mut() {
                Some(before) => before.extend(points),
                None => before[key] = Json::Array(points),
            }
        }
    }
}
