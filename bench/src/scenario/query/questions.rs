//! Questions: a list of queries in a file, with times relative to the data.
//!
//! **Invariant:** an invalid file is refused with the position before anything is started; every query of a file is
//! asked.

use crate::{
    harness::{BenchError, usage, yaml},
    load::{DatasetConfig, api, fleet::seconds},
};
use narthex_cli::Value as _;
use narthex_testkit::http::query as encode;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_saphyr::Spanned;
use std::{ffi::OsStr, time::Duration};

/// The built-in list.
const BUILT_IN: &str = include_str!("../../../scenarios/queries-20.yml");

/// A file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    queries: Vec<Spanned<Question>>,
}

/// Endpoint of a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Endpoint {
    #[default]
    Instant,
    Range,
    /// The values of a label.
    Values,
    /// The label sets of series.
    Series,
}

/// A time, relative to the data.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
enum Edge {
    BeforeEnd(Duration),
    /// 0 is the start of the data, 1 its end.
    Share(f64),
}

/// One query.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    pub(super) name: String,
    /// Class for aggregated figures, such as `small`.
    pub(super) class: String,
    #[serde(default, rename = "kind")]
    endpoint: Endpoint,
    #[serde(default)]
    expr: String,
    #[serde(default)]
    label: String,
    #[serde(default)]
    start: Edge,
    #[serde(default)]
    end: Edge,
    /// Of a range query.
    #[serde(default = "minute", deserialize_with = "step")]
    step: Duration,
    /// A selector of the series it reads; empty if the file has none.
    #[serde(default)]
    pub(super) touches: String,
}

impl Question {
    /// Returns its path and query for data of that configuration; a range ends `steps_before` of its steps earlier.
    pub(super) fn path(&self, data: &DatasetConfig, steps_before: usize) -> String {
        let (start_ms, end_ms) = (self.start.ms(data), self.end.ms(data));
        let (start, end) = (seconds(start_ms), seconds(end_ms));
        let expr = self.expr.as_str();
        match self.endpoint {
            Endpoint::Instant => api::instant(expr, Some(end_ms)),
            Endpoint::Range => {
                let step_ms = i64::try_from(self.step.as_millis()).unwrap_or(i64::MAX);
                let before_ms = step_ms.saturating_mul(steps_before as i64);
                api::range(expr, start_ms - before_ms, end_ms - before_ms, step_ms)
            }
            Endpoint::Values => {
                let mut fields = vec![("start", start.as_str()), ("end", &end)];
                if !expr.is_empty() {
                    fields.push(("match[]", expr));
                }
                format!("/api/v1/label/{}/values?{}", self.label, encode(&fields))
            }
            Endpoint::Series => {
                let fields = [("match[]", expr), ("start", &start), ("end", &end)];
                format!("/api/v1/series?{}", encode(&fields))
            }
        }
    }

    /// Returns the path that counts the series it reads, if it has their selector.
    pub(super) fn touched(&self, data: &DatasetConfig) -> Option<String> {
        let count = format!("count({})", self.touches);
        (!self.touches.is_empty()).then(|| api::instant(&count, Some(data.end_ms)))
    }
}

impl Default for Edge {
    fn default() -> Self {
        Self::Share(1.0)
    }
}

impl TryFrom<String> for Edge {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let edge = match text.strip_suffix('%') {
            Some(percent) => percent
                .parse()
                .ok()
                .filter(|percent| (0.0..=100.0).contains(percent))
                .map(|percent: f64| Self::Share(percent / 100.0)),
            None => text
                .strip_prefix('-')
                .and_then(parse_time)
                .map(Self::BeforeEnd),
        };
        edge.ok_or_else(|| format!("{text:?} is neither a share, as 50%, nor a time, as -30m"))
    }
}

fn minute() -> Duration {
    Duration::from_secs(60)
}

fn step<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let step = parse_time(&text).filter(|step| !step.is_zero());
    step.ok_or_else(|| D::Error::custom(format!("{text:?} is no time, such as 30s")))
}

impl Edge {
    fn ms(self, data: &DatasetConfig) -> i64 {
        match self {
            Self::BeforeEnd(time) => {
                data.end_ms - i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
            }
            Self::Share(share) => {
                let whole = (data.end_ms - data.start_ms()) as f64;
                data.start_ms() + (whole * share) as i64
            }
        }
    }
}

fn parse_time(text: &str) -> Option<Duration> {
    Duration::parse(OsStr::new(text)).ok()
}

/// Parses the queries of a file's text, which errors call `file`; without one, returns the built-in ones.
pub(super) fn read(text: Option<&str>, file: &str) -> Result<Vec<Question>, BenchError> {
    let list: List = yaml::parse(text.unwrap_or(BUILT_IN), file)?;
    if list.queries.is_empty() {
        return Err(usage(format!("{file}: there is no query")));
    }
    let mut questions: Vec<Question> = Vec::new();
    for item in list.queries {
        let question = item.value;
        let is_twice = questions.iter().any(|other| other.name == question.name);
        let what = match question.endpoint {
            _ if is_twice => format!("two are called {:?}", question.name),
            Endpoint::Values if question.label.is_empty() => "a query needs a `label`".to_owned(),
            Endpoint::Instant | Endpoint::Range | Endpoint::Series if question.expr.is_empty() => {
                "a query needs an `expr`".to_owned()
            }
            _ => {
                questions.push(question);
                continue;
            }
        };
        return Err(yaml::wrong(file, item.referenced, what));
    }
    Ok(questions)
}

#[cfg(test)]
mod tests;
