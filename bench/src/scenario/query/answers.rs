//! Compares servers' answers: equal, nearly equal, or different and where.
//!
//! **Invariant:** the order of series does not matter, that of samples within one does. Two numbers are equal if their
//! bits are, and NaN equals NaN; nothing else is rounded on the way.

use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum relative difference of two numbers that still agree: sums in another order.
pub(crate) const TOLERANCE: f64 = 1e-12;
/// Maximum length of a value shown in a difference.
const SHOWN: usize = 120;

/// Result of comparing two answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Agreement {
    Equal,
    /// Equal except for numbers that differ by at most this, relatively.
    Close(f64),
    Differ(Mismatch),
}

/// The first place where two answers differ.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mismatch {
    /// The series, and the time within it.
    pub(crate) place: String,
    pub(crate) first: String,
    pub(crate) other: String,
    /// Number of series that differ or are on one side only.
    pub(crate) count: usize,
}

/// The data of a successful answer, its series sorted by their labels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    entries: BTreeMap<String, Vec<Sample>>,
}

/// A time and a value; values other than numbers are texts.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    at: Option<f64>,
    value: String,
}

impl Answer {
    /// Parses the envelope; `None` if it is not a success or its data is of unknown type.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let answer: Value = serde_json::from_slice(body).ok()?;
        if answer["status"] != "success" {
            return None;
        }
        let data = &answer["data"];
        let mut entries = BTreeMap::new();
        match (data, data["resultType"].as_str()) {
            (Value::Array(items), _) => {
                // Label values are texts, series are label sets.
                for item in items {
                    let key = item.as_str().map_or_else(|| labels(item), str::to_owned);
                    entries.insert(key, Vec::new());
                }
            }
            (_, Some("vector" | "matrix")) => {
                for series in data["result"].as_array()? {
                    let samples: Option<Vec<Sample>> = match series["values"].as_array() {
                        Some(values) => values.iter().map(sample).collect(),
                        None => Some(vec![sample(&series["value"])?]),
                    };
                    entries.insert(labels(&series["metric"]), samples?);
                }
            }
            (_, Some("scalar" | "string")) => {
                entries.insert(String::new(), vec![sample(&data["result"])?]);
            }
            _ => return None,
        }
        Some(Self { entries })
    }

    /// Returns the number of series, or texts.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the value of the only sample of the only series.
    pub(crate) fn number(&self) -> Option<f64> {
        match self.entries.values().next().map(Vec::as_slice) {
            Some([sample]) if self.entries.len() == 1 => sample.value.parse().ok(),
            _ => None,
        }
    }

    /// Compares `self` with another server's answer.
    pub(crate) fn compare(&self, other: &Self) -> Agreement {
        let mut first: Option<Mismatch> = None;
        let (mut count, mut worst) = (0, 0.0_f64);
        let mut differ = |place: String, a: String, b: String| {
            count += 1;
            first.get_or_insert(Mismatch {
                place: shown(place),
                first: shown(a),
                other: shown(b),
                count: 0,
            });
        };
        for (key, samples) in &self.entries {
            match other.entries.get(key) {
                None => differ(key.clone(), describe(samples), "nothing".to_owned()),
                Some(others) => match compare(samples, others) {
                    Ok(apart) => worst = worst.max(apart),
                    Err((place, a, b)) => differ(format!("{key}{place}"), a, b),
                },
            }
        }
        for (key, samples) in &other.entries {
            if !self.entries.contains_key(key) {
                differ(key.clone(), "nothing".to_owned(), describe(samples));
            }
        }
        match first {
            Some(mismatch) => Agreement::Differ(Mismatch { count, ..mismatch }),
            None if worst > 0.0 => Agreement::Close(worst),
            None => Agreement::Equal,
        }
    }
}

/// Returns the maximum relative difference of two series' numbers, or the first place where it is too large.
fn compare(samples: &[Sample], others: &[Sample]) -> Result<f64, (String, String, String)> {
    let mut worst = 0.0_f64;
    for (a, b) in samples.iter().zip(others) {
        let place = a.at.map_or_else(String::new, |at| format!(" @ {at}"));
        if a.at != b.at {
            let text = |sample: &Sample| format!("a sample at {}", sample.at.unwrap_or_default());
            return Err((place, text(a), text(b)));
        }
        let apart = match (a.value.parse(), b.value.parse()) {
            (Ok(a), Ok(b)) => apart(a, b),
            _ if a.value == b.value => 0.0,
            _ => f64::INFINITY,
        };
        if apart > TOLERANCE {
            return Err((place, a.value.clone(), b.value.clone()));
        }
        worst = worst.max(apart);
    }
    if samples.len() != others.len() {
        let text = |samples: &[Sample]| format!("{} samples", samples.len());
        return Err((String::new(), text(samples), text(others)));
    }
    Ok(worst)
}

/// Returns the relative difference of two numbers, 0 for the same bits and for any two NaN.
fn apart(a: f64, b: f64) -> f64 {
    if a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    if !a.is_finite() || !b.is_finite() {
        return f64::INFINITY;
    }
    // Zeros of opposite sign differ in bits, but not in value.
    (a - b).abs() / a.abs().max(b.abs()).max(f64::MIN_POSITIVE)
}

fn describe(samples: &[Sample]) -> String {
    match samples {
        [] => "it".to_owned(),
        [one] => one.value.clone(),
        many => format!("{} samples", many.len()),
    }
}

fn shown(text: String) -> String {
    if text.chars().count() <= SHOWN {
        return text;
    }
    let short: String = text.chars().take(SHOWN).collect();
    format!("{short}…")
}

fn sample(pair: &Value) -> Option<Sample> {
    Some(Sample {
        at: Some(pair[0].as_f64()?),
        value: pair[1].as_str()?.to_owned(),
    })
}

/// Returns a label set as text, sorted by name.
fn labels(metric: &Value) -> String {
    let pairs = metric.as_object().into_iter().flatten();
    let pairs: BTreeMap<&String, &Value> = pairs.collect();
    let text: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!("{{{}}}", text.join(", "))
}

#[cfg(test)]
mod tests;
