//! What is asked: a list of queries in a file, placed in the time of the data.
//!
//! **Invariant:** a file that is wrong is refused with its place before anything is started; every query of a file is
//! asked.

use crate::{
    frame::{
        cli::{parse_time, usage},
        error::BenchError,
        yaml,
    },
    load::{api, dataset::DatasetConfig, fleet::clock::seconds},
};
use narthex_testkit::http::query as encode;
use serde::Deserialize;
use serde_saphyr::Spanned;
use std::time::Duration;

/// The list that is built in.
const BUILT_IN: &str = include_str!("../../../scenarios/queries-20.yml");

/// A file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    queries: Vec<Spanned<Question>>,
}

/// Which endpoint answers a query.
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

/// A step of a range query.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
struct Step(Duration);

/// One query.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    pub(super) name: String,
    /// What it is compared with in one figure, such as `small`.
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
    #[serde(default)]
    step: Step,
    /// A selector of the series it reads; empty when the file does not say.
    #[serde(default)]
    pub(super) touches: String,
}

impl Question {
    /// Returns its path and query for data of that configuration.
    pub(super) fn path(&self, data: &DatasetConfig) -> String {
        let (start_ms, end_ms) = (self.start.ms(data), self.end.ms(data));
        let (start, end) = (seconds(start_ms), seconds(end_ms));
        let expr = self.expr.as_str();
        match self.endpoint {
            Endpoint::Instant => api::instant(expr, Some(end_ms)),
            Endpoint::Range => {
                let step_ms = i64::try_from(self.step.0.as_millis()).unwrap_or(i64::MAX);
                api::range(expr, start_ms, end_ms, step_ms)
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

    /// Returns the path that counts the series it reads, where it says which those are.
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

impl Default for Step {
    fn default() -> Self {
        Self(Duration::from_secs(60))
    }
}

impl TryFrom<String> for Step {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let step = parse_time(&text).filter(|step| !step.is_zero());
        step.map(Self)
            .ok_or_else(|| format!("{text:?} is no time, such as 30s"))
    }
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

/// Returns the queries of a file's text, which errors call `file`; without one, those that are built in.
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
mod tests {
    use super::*;

    fn data() -> DatasetConfig {
        DatasetConfig {
            series: 100,
            duration: Duration::from_secs(3600),
            interval: Duration::from_secs(30),
            seed: 1,
            end_ms: 1_700_000_400_000,
        }
    }

    #[test]
    fn the_list_that_is_built_in_has_twenty_queries_of_three_classes() {
        let questions = read(None, "built in").unwrap();
        assert_eq!(questions.len(), 20);
        let of = |class| {
            questions
                .iter()
                .filter(|question| question.class == class)
                .count()
        };
        assert_eq!((of("small"), of("scan"), of("metadata")), (7, 11, 2));
        assert!(
            questions
                .iter()
                .all(|question| question.touched(&data()).is_some())
        );
        for endpoint in [
            Endpoint::Instant,
            Endpoint::Range,
            Endpoint::Values,
            Endpoint::Series,
        ] {
            assert!(
                questions
                    .iter()
                    .any(|question| question.endpoint == endpoint),
                "{endpoint:?}"
            );
        }
        let exprs: Vec<&str> = questions
            .iter()
            .map(|question| question.expr.as_str())
            .collect();
        for word in [
            "rate(",
            "histogram_quantile(",
            "topk(",
            "group_left",
            "max_over_time(",
            "=~",
            "!~",
            ":1m]",
        ] {
            assert!(exprs.iter().any(|expr| expr.contains(word)), "{word}");
        }
    }

    #[test]
    fn times_are_placed_in_the_data() {
        let text = "queries:\n- {name: a, class: c, kind: range, expr: up, start: 50%, end: -10m, step: 90s}\n\
            - {name: b, class: c, expr: a{b=\"c\"}}\n- {name: d, class: c, kind: values, label: pod, start: 0%}\n\
            - {name: e, class: c, kind: series, expr: up, start: -1s}\n";
        let text = text.replace("a{b=\"c\"}", "'a{b=\"c\"}'");
        let questions = read(Some(&text), "q.yml").unwrap();
        let paths: Vec<String> = questions
            .iter()
            .map(|question| question.path(&data()))
            .collect();
        assert_eq!(
            paths,
            [
                "/api/v1/query_range?query=up&start=1699998600.000&end=1699999800.000&step=90.000",
                "/api/v1/query?query=a%7Bb%3D%22c%22%7D&time=1700000400.000",
                "/api/v1/label/pod/values?start=1699996800.000&end=1700000400.000",
                "/api/v1/series?match%5B%5D=up&start=1700000399.000&end=1700000400.000",
            ]
        );
        assert_eq!(questions[0].touched(&data()), None);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, reason) in [
            ("queries: []\n", "q.yml: there is no query"),
            (
                "a: 1\n",
                "q.yml:1:1: unknown field `a`, expected one of queries",
            ),
            (
                "queries:\n- {name: a, expr: up}\n",
                "q.yml:2:13: missing field `class`",
            ),
            (
                "queries:\n- {name: a, class: c}\n",
                "q.yml:2:3: a query needs an `expr`",
            ),
            (
                "queries:\n- {name: a, class: c, kind: values}\n",
                "q.yml:2:3: a query needs a `label`",
            ),
            (
                "queries:\n- {name: a, class: c, expr: up, start: 1h}\n",
                "q.yml:2:40: \"1h\" is neither a share, as 50%, nor a time, as -30m",
            ),
            (
                "queries:\n- {name: a, class: c, expr: up, start: 101%}\n",
                "q.yml:2:40: \"101%\" is neither a share, as 50%, nor a time, as -30m",
            ),
            (
                "queries:\n- {name: a, class: c, expr: up, step: 0s}\n",
                "q.yml:2:39: \"0s\" is no time, such as 30s",
            ),
            (
                "queries:\n- {name: a, class: c, expr: up, kind: x}\n",
                "q.yml:2:39: unknown variant `x`, expected one of instant, range, values, series",
            ),
            (
                "queries:\n- {name: a, class: c, expr: up, exp: x}\n",
                "q.yml:2:33: unknown field `exp`, expected one of name, class",
            ),
            (
                "queries:\n- {name: a, class: c, expr: up}\n- {name: a, class: c, expr: up}\n",
                "q.yml:3:3: two are called \"a\"",
            ),
        ] {
            let error = read(Some(text), "q.yml").unwrap_err().to_string();
            assert!(error.starts_with(reason), "{text}: {error}");
        }
    }
}
