//! What is asked: a list of queries in a file, placed in the time of the data.
//!
//! **Invariant:** a file that is wrong is refused with its place before anything is started; every query of a file is
//! asked.

use crate::{
    frame::{
        cli::{parse_time, usage},
        error::BenchError,
        yaml::{self, Node, Wrong},
    },
    load::{dataset::DatasetConfig, fleet::clock::seconds},
};
use narthex_testkit::http::query as encode;
use std::time::Duration;

/// The list that is built in.
const BUILT_IN: &str = include_str!("../../../scenarios/queries-20.yml");

/// How a query is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Instant,
    Range,
    /// The values of a label.
    Values,
    /// The label sets of series.
    Series,
}

/// A time, relative to the data.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Edge {
    BeforeEnd(Duration),
    /// 0 is the start of the data, 1 its end.
    Share(f64),
}

/// One query.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Question {
    pub(super) name: String,
    /// What it is compared with in one figure, such as `small`.
    pub(super) class: String,
    form: Form,
    expr: String,
    label: String,
    start: Edge,
    end: Edge,
    step: Duration,
    /// A selector of the series it reads; empty when the file does not say.
    pub(super) touches: String,
}

impl Question {
    /// Returns its path and query for data of that configuration.
    pub(super) fn path(&self, data: &DatasetConfig) -> String {
        let start = seconds(self.start.ms(data));
        let end = seconds(self.end.ms(data));
        let step = seconds(i64::try_from(self.step.as_millis()).unwrap_or(i64::MAX));
        let expr = self.expr.as_str();
        match self.form {
            Form::Instant => instant(expr, self.end.ms(data)),
            Form::Range => {
                let fields = [
                    ("query", expr),
                    ("start", &start),
                    ("end", &end),
                    ("step", &step),
                ];
                format!("/api/v1/query_range?{}", encode(&fields))
            }
            Form::Values => {
                let mut fields = vec![("start", start.as_str()), ("end", &end)];
                if !expr.is_empty() {
                    fields.push(("match[]", expr));
                }
                format!("/api/v1/label/{}/values?{}", self.label, encode(&fields))
            }
            Form::Series => {
                let fields = [("match[]", expr), ("start", &start), ("end", &end)];
                format!("/api/v1/series?{}", encode(&fields))
            }
        }
    }

    /// Returns the path that counts the series it reads, where it says which those are.
    pub(super) fn touched(&self, data: &DatasetConfig) -> Option<String> {
        let count = format!("count({})", self.touches);
        (!self.touches.is_empty()).then(|| instant(&count, data.end_ms))
    }
}

/// Returns the path of a query for one time.
pub(super) fn instant(expr: &str, at_ms: i64) -> String {
    let time = seconds(at_ms);
    format!(
        "/api/v1/query?{}",
        encode(&[("query", expr), ("time", &time)])
    )
}

impl Edge {
    fn parse(text: &str) -> Option<Self> {
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.parse().ok()?;
            return (0.0..=100.0)
                .contains(&percent)
                .then_some(Self::Share(percent / 100.0));
        }
        text.strip_prefix('-')
            .and_then(parse_time)
            .map(Self::BeforeEnd)
    }

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
    let questions = parse(text.unwrap_or(BUILT_IN)).map_err(|wrong| {
        let Wrong { line, column, what } = wrong;
        usage(format!("{file}:{line}:{column}: {what}"))
    })?;
    if questions.is_empty() {
        return Err(usage(format!("{file}: there is no query")));
    }
    Ok(questions)
}

fn parse(text: &str) -> Result<Vec<Question>, Wrong> {
    let mut questions: Vec<Question> = Vec::new();
    let Some(root) = yaml::read(text)? else {
        return Ok(questions);
    };
    for (key, list) in root.pairs()? {
        if key.text()? != "queries" {
            return Err(key.wrong("only `queries` belongs here"));
        }
        for item in list.items()? {
            let question = question(item)?;
            if questions.iter().any(|other| other.name == question.name) {
                return Err(item.wrong(format!("two are called {:?}", question.name)));
            }
            questions.push(question);
        }
    }
    Ok(questions)
}

fn question(item: &Node) -> Result<Question, Wrong> {
    let mut question = Question {
        name: String::new(),
        class: String::new(),
        form: Form::Instant,
        expr: String::new(),
        label: String::new(),
        start: Edge::Share(1.0),
        end: Edge::Share(1.0),
        step: Duration::from_secs(60),
        touches: String::new(),
    };
    for (key, value) in item.pairs()? {
        let text = value.text()?;
        let wrong = |what: &str| value.wrong(format!("{text:?} is {what}"));
        match key.text()? {
            "name" => text.clone_into(&mut question.name),
            "class" => text.clone_into(&mut question.class),
            "expr" => text.clone_into(&mut question.expr),
            "label" => text.clone_into(&mut question.label),
            "touches" => text.clone_into(&mut question.touches),
            "kind" => {
                question.form = match text {
                    "instant" => Form::Instant,
                    "range" => Form::Range,
                    "values" => Form::Values,
                    "series" => Form::Series,
                    _ => return Err(wrong("none of instant, range, values, series")),
                }
            }
            "start" | "end" => {
                let edge = Edge::parse(text);
                let edge =
                    edge.ok_or_else(|| wrong("neither a share, as 50%, nor a time, as -30m"))?;
                if key.text()? == "start" {
                    question.start = edge;
                } else {
                    question.end = edge;
                }
            }
            "step" => {
                let step = parse_time(text).filter(|step| !step.is_zero());
                question.step = step.ok_or_else(|| wrong("no time, such as 30s"))?;
            }
            other => return Err(key.wrong(format!("a query has no {other:?}"))),
        }
    }
    let lacks = match question.form {
        _ if question.name.is_empty() => "a `name`",
        _ if question.class.is_empty() => "a `class`",
        Form::Values if question.label.is_empty() => "a `label`",
        Form::Instant | Form::Range | Form::Series if question.expr.is_empty() => "an `expr`",
        _ => return Ok(question),
    };
    Err(item.wrong(format!("a query needs {lacks}")))
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
        for form in [Form::Instant, Form::Range, Form::Values, Form::Series] {
            assert!(
                questions.iter().any(|question| question.form == form),
                "{form:?}"
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
            ("", "q.yml: there is no query"),
            ("a: 1\n", "q.yml:1:1: only `queries` belongs here"),
            (
                "queries:\n- {name: a, expr: up}\n",
                "q.yml:2:3: a query needs a `class`",
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
                "q.yml:2:39: \"x\" is none of instant, range, values, series",
            ),
            (
                "queries:\n- {name: a, class: c, expr: up, exp: x}\n",
                "q.yml:2:33: a query has no \"exp\"",
            ),
            (
                "queries:\n- {name: a, class: c, expr: up}\n- {name: a, class: c, expr: up}\n",
                "q.yml:3:3: two are called \"a\"",
            ),
        ] {
            let error = read(Some(text), "q.yml").unwrap_err();
            assert_eq!(error.to_string(), reason);
        }
    }
}
