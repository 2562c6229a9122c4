//! Templates of labels and annotations: Go's `text/template` with Prometheus' functions.
//!
//! ```text
//! text -> lex -> parse -> node -> exec -> text
//! ```
//!
//! **Invariant:** results and errors are Go's, positions included. Not there, and refused with a clear error: complex
//! numbers. Nesting, steps and the length of texts are bounded.

mod compare;
mod exec;
mod field;
mod format;
mod functions;
mod humanize;
mod lex;
mod node;
mod number;
mod parse;
mod text;
mod time;
mod unquote;
mod value;

pub use parse::TemplateParseError;
pub(crate) use time::go_duration;

use functions::Surroundings;
use narthex_promql::SampleValue;
use std::{collections::BTreeMap, error::Error, fmt, sync::Arc};
use value::{Data, Value};

/// What Prometheus puts before each template, which shifts the columns of errors.
const DECLARATIONS: &str = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}";

/// An element of a query's result.
pub type Element = (BTreeMap<String, String>, SampleValue);

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    name: String,
    text: String,
    trees: parse::Trees,
}

/// What a template is expanded with.
pub struct Scope<'a> {
    /// Labels of the element, `$labels`.
    pub labels: &'a BTreeMap<String, String>,
    /// The element's sample, `$value`.
    pub value: &'a SampleValue,
    /// Labels of this server, `$externalLabels`.
    pub external_labels: &'a BTreeMap<String, String>,
    /// URL under which this server is reachable, `$externalURL`.
    pub external_url: &'a str,
    /// The time of the evaluation.
    pub time_ms: i64,
    /// Answers queries as of that time.
    pub query: &'a dyn Fn(&str) -> Result<Vec<Element>, String>,
}

/// A template that could not be expanded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExpandError {
    /// The template's name.
    pub name: String,
    /// Description of the error, in Go's words.
    pub message: String,
}

impl fmt::Display for ExpandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "error executing template {}: {}",
            self.name, self.message
        )
    }
}

impl Error for ExpandError {}

impl Template {
    /// Parses a template of the alert `alert`.
    ///
    /// # Errors
    /// Fails with the first error.
    pub fn parse(alert: &str, text: &str) -> Result<Self, TemplateParseError> {
        let name = format!("__alert_{alert}");
        let text = format!("{DECLARATIONS}{text}");
        let trees = parse::parse(&name, &text, |name| functions::signature(name).is_some())?;
        Ok(Self { name, text, trees })
    }

    /// Reports whether the template may query; it may not if it says so nowhere, not even in a text.
    pub(crate) fn may_query(&self) -> bool {
        self.text[DECLARATIONS.len()..].contains("query")
    }

    /// Expands the template.
    ///
    /// # Errors
    /// Fails with the first error.
    pub fn expand(&self, scope: &Scope<'_>) -> Result<String, ExpandError> {
        let data = Data {
            labels: Arc::new(scope.labels.clone()),
            external_labels: Arc::new(scope.external_labels.clone()),
            external_url: scope.external_url.into(),
            value: sample_value(scope.value),
        };
        let query = |text: &str| {
            let elements = (scope.query)(text)?.into_iter();
            Ok(elements
                .map(|(labels, value)| (labels, sample_value(&value)))
                .collect())
        };
        let around = Surroundings {
            time: time::TimeMs(scope.time_ms),
            external_url: scope.external_url,
            query: &query,
        };
        let data = Value::Data(Arc::new(data));
        exec::execute(&self.trees, &self.name, &self.text, data, &around).map_err(|message| {
            ExpandError {
                name: self.name.clone(),
                message,
            }
        })
    }
}

fn sample_value(value: &SampleValue) -> Value {
    match value {
        SampleValue::Float(value) => Value::Float(*value),
        SampleValue::Histogram(histogram) => Value::Histogram(histogram.clone()),
    }
}
