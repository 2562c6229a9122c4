//! A client of `testkit/oracle`, which answers with Prometheus' own engine, and the comparison of its answers with ours.
//!
//! **Invariant:** series, times, types, notes, whether a query fails and every part of a histogram must be the same;
//! numbers may differ only where [`tolerance`] says so.

use narthex_model::{LabelSet, MemStore, storage::Context};
use narthex_promql::{
    Engine, QueryError, QueryResult, SampleValue, Value as PromValue,
    testing::{self, TestStore},
};
use narthex_testkit::{LineServer, go_program};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Relative difference of sums that are added in another order.
const ROUNDING: f64 = 1e-12;

/// Prometheus' parser and engine.
pub(crate) struct Oracle(LineServer);

impl Oracle {
    pub(crate) fn start() -> Self {
        Self(LineServer::start(&go_program("oracle")))
    }

    /// Returns how a query is printed, or its error.
    pub(crate) fn parse(&mut self, query: &str) -> Result<String, String> {
        let answer = self.ask(&json!({ "expr": query }));
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        if answer["ok"] == true {
            Ok(text("string"))
        } else {
            Err(text("error"))
        }
    }

    fn ask(&mut self, request: &Value) -> Value {
        serde_json::from_str(&self.0.ask(&request.to_string())).unwrap()
    }
}

/// One query: at an instant, or over a range with a step.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) text: String,
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
    /// 0 asks for the instant `start_ms`.
    pub(crate) step_ms: i64,
}

/// Series by their labels as JSON, each with its samples as text.
type Points = BTreeMap<String, Vec<(i64, String)>>;

/// What a query has as its answer.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    kind: String,
    pub(crate) series: Points,
    /// Labels in the order of the answer.
    order: Vec<String>,
    warnings: Vec<String>,
    infos: Vec<String>,
}

/// The same series in both stores.
pub(crate) struct Beside {
    oracle: Oracle,
    pub(crate) engine: Engine,
    store: Box<dyn TestStore>,
    load: String,
    features: Value,
}

impl Beside {
    /// Loads the series of a script's `load` commands into both.
    pub(crate) fn new(load: &str, engine: Engine) -> Self {
        let options = *engine.options();
        let features = json!({
            "delayed_name_removal": options.delayed_name_removal,
            "type_and_unit_labels": options.type_and_unit_labels,
            "use_start_timestamps": options.use_start_timestamps,
        });
        Self {
            oracle: Oracle::start(),
            engine,
            store: testing::load(load, Box::new(MemStore::new())).unwrap(),
            load: load.to_owned(),
            features,
        }
    }

    /// Returns Prometheus' answer and how ours differs, if it does.
    pub(crate) fn compare(
        &mut self,
        question: &Question,
    ) -> (Result<Answer, String>, Option<String>) {
        let theirs = self.theirs(question);
        let theirs = theirs.map(Answer::compared);
        let ours = self.ours(question).map(Answer::compared);
        let difference = match (ours, &theirs) {
            (Err(_), Err(_)) => None,
            (Ok(_), Err(error)) => Some(format!("an answer instead of {error}")),
            (Err(error), Ok(_)) => Some(format!("{error} instead of an answer")),
            (Ok(ours), Ok(theirs)) => differ(&ours, theirs, tolerance(&question.text)),
        };
        (theirs, difference)
    }

    fn theirs(&mut self, question: &Question) -> Result<Answer, String> {
        let mut request = json!({
            "expr": question.text,
            // Sent once.
            "load": std::mem::take(&mut self.load),
            "exact": true,
            "features": self.features,
        });
        if question.step_ms == 0 {
            request["time_ms"] = question.start_ms.into();
        } else {
            request["start_ms"] = question.start_ms.into();
            request["end_ms"] = question.end_ms.into();
            request["step_ms"] = question.step_ms.into();
        }
        let answer = self.oracle.ask(&request);
        if answer["ok"] != true {
            return Err(answer["error"].as_str().unwrap().to_owned());
        }
        let mut all = Answer {
            kind: answer["type"].as_str().unwrap().to_owned(),
            warnings: texts(&answer["warnings"]),
            infos: texts(&answer["infos"]),
            ..Answer::default()
        };
        for series in answer["result"].as_array().unwrap() {
            let points = series["points"].as_array().unwrap();
            let point = |p: &Value| {
                (
                    p["ms"].as_i64().unwrap(),
                    p["text"].as_str().unwrap().to_owned(),
                )
            };
            all.add(series["labels"].to_string(), points.iter().map(point));
        }
        Ok(all)
    }

    fn ours(&self, question: &Question) -> Result<Answer, QueryError> {
        let (ctx, text) = (Context::unlimited(), &*question.text);
        let result = if question.step_ms == 0 {
            self.engine
                .instant(&*self.store, text, question.start_ms, &ctx)
        } else {
            let (start_ms, end_ms) = (question.start_ms, question.end_ms);
            self.engine
                .range(&*self.store, text, start_ms, end_ms, question.step_ms, &ctx)
        };
        Ok(Answer::of(result?))
    }
}

impl Answer {
    fn of(result: QueryResult) -> Self {
        let mut all = Self {
            kind: result.value.type_name().to_owned(),
            warnings: result.warnings,
            infos: result.infos,
            ..Self::default()
        };
        let none = || Value::from(serde_json::Map::new()).to_string();
        match result.value {
            PromValue::Scalar { time_ms, value } => all.add(none(), [(time_ms, float(value))]),
            PromValue::String { time_ms, text } => all.add(none(), [(time_ms, text)]),
            PromValue::Vector(samples) => {
                for sample in samples {
                    let text = match sample.value {
                        SampleValue::Float(value) => float(value),
                        SampleValue::Histogram(h) => h.test_notation(),
                    };
                    all.add(labels(&sample.labels), [(sample.time_ms, text)]);
                }
            }
            PromValue::Matrix(matrix) => {
                for series in matrix {
                    let floats = series.floats.iter().map(|(ms, value)| (*ms, float(*value)));
                    let histograms = series.histograms.iter();
                    let histograms = histograms.map(|(ms, h)| (*ms, h.test_notation()));
                    all.add(labels(&series.labels), floats.chain(histograms));
                }
            }
        }
        all
    }

    pub(crate) fn has_notes(&self) -> bool {
        !self.warnings.is_empty() || !self.infos.is_empty()
    }

    /// Leaves out what `docs/conformance.md` lists: that a histogram was not reset, which follows from where storage cuts
    /// chunks, how often buckets were bent to be monotonic, and sorting in subqueries of one step.
    fn compared(mut self) -> Self {
        for (_, text) in self.series.values_mut().flatten() {
            *text = text.replace(" counter_reset_hint:not_reset", "");
            if text.starts_with("{{") {
                // A bucket that was left out is a zero without a sign.
                for (signed, bare) in [(" -0 ", " 0 "), ("[-0 ", "[0 "), (" -0]", " 0]")] {
                    while text.contains(signed) {
                        *text = text.replace(signed, bare);
                    }
                }
            }
        }
        for notes in [&mut self.warnings, &mut self.infos] {
            let listed = ["conflicting counter resets", "sort is ineffective"];
            notes.retain(|note| !listed.iter().any(|text| note.contains(text)));
            for note in notes.iter_mut() {
                if let (Some(from), Some(to)) = (note.find(", with a max diff"), note.rfind(" (")) {
                    note.replace_range(from..to, "");
                }
            }
            notes.sort();
        }
        self
    }

    fn add(&mut self, labels: String, points: impl IntoIterator<Item = (i64, String)>) {
        self.order.push(labels.clone());
        self.series.insert(labels, points.into_iter().collect());
    }
}

fn labels(set: &LabelSet) -> String {
    let pairs = set
        .iter()
        .map(|label| (label.name().to_owned(), Value::from(label.value())));
    Value::Object(pairs.collect()).to_string()
}

fn float(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else {
        // The shortest text that means this number.
        format!("{value:e}")
    }
}

fn texts(list: &Value) -> Vec<String> {
    let all = list.as_array().into_iter().flatten();
    all.map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Returns how much numbers may differ: nothing, unless floats are added up across series, which Prometheus does in the
/// order in which a store happens to have them.
pub(crate) fn tolerance(query: &str) -> f64 {
    const SUMS: [&str; 6] = ["sum", "avg", "std", "quantile", "fraction", "count_values"];
    if SUMS.iter().any(|word| query.contains(word)) {
        ROUNDING
    } else {
        0.0
    }
}

fn differ(ours: &Answer, theirs: &Answer, tolerance: f64) -> Option<String> {
    if ours.kind != theirs.kind {
        return Some(format!("a {} instead of a {}", ours.kind, theirs.kind));
    }
    if ours.series.keys().ne(theirs.series.keys()) {
        let keys = |points: &Points| points.keys().cloned().collect::<Vec<_>>();
        let (ours, theirs) = (keys(&ours.series), keys(&theirs.series));
        return Some(format!("series {ours:?} instead of {theirs:?}"));
    }
    for (labels, points) in &ours.series {
        let expected = &theirs.series[labels];
        let times = |points: &[(i64, String)]| points.iter().map(|p| p.0).collect::<Vec<_>>();
        if times(points) != times(expected) {
            let (ours, theirs) = (times(points), times(expected));
            return Some(format!("{labels} at {ours:?} instead of {theirs:?}"));
        }
        let mut pairs = points.iter().zip(expected);
        if let Some((a, b)) = pairs.find(|(a, b)| !same(&a.1, &b.1, tolerance)) {
            return Some(format!("{labels} at {}: {} instead of {}", a.0, a.1, b.1));
        }
    }
    for (ours, theirs) in [
        (&ours.warnings, &theirs.warnings),
        (&ours.infos, &theirs.infos),
    ] {
        if ours != theirs {
            return Some(format!("notes {ours:?} instead of {theirs:?}"));
        }
    }
    None
}

/// Compares two samples, a histogram number by number.
fn same(ours: &str, theirs: &str, tolerance: f64) -> bool {
    if ours == theirs {
        return true;
    }
    let words = |text: &str| -> Vec<String> {
        let ends = |c: char| matches!(c, ' ' | ':' | '[' | ']' | '{' | '}');
        text.split(ends).map(str::to_owned).collect()
    };
    let (a, b) = (words(ours), words(theirs));
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same_number(a, b, tolerance))
}

fn same_number(ours: &str, theirs: &str, tolerance: f64) -> bool {
    let (Ok(a), Ok(b)) = (ours.parse::<f64>(), theirs.parse::<f64>()) else {
        return ours == theirs;
    };
    let close = (a - b).abs() <= tolerance * a.abs().max(b.abs());
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) || (tolerance > 0.0 && close)
}
