//! The functions that templates call: Go's and Prometheus'.
//!
//! **Invariant:** a function's parameters have the types they have there, so a call that fails there fails here with the
//! same text.

use super::{
    compare,
    format::{show, sprint, sprintf, sprintln},
    humanize, text,
    time::{DurationNs, TimeMs},
    value::{Labels, Sample, Value},
};
use narthex_net::percent::escape_form;
use std::{collections::BTreeMap, sync::Arc};

/// The type of a parameter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Param {
    /// `interface{}`
    Any,
    /// `reflect.Value`, which takes everything.
    Reflect,
    String,
    Vector,
    Sample,
    Time,
    Duration,
}

impl Param {
    pub(super) fn go_type(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Reflect => "reflect.Value",
            Self::String => "string",
            Self::Vector => "template.queryResult",
            Self::Sample => "*template.sample",
            Self::Time => "time.Time",
            Self::Duration => "time.Duration",
        }
    }
}

/// The parameters of a function; the last one repeats if it is variadic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signature {
    pub(super) fixed: &'static [Param],
    pub(super) variadic: Option<Param>,
}

/// Answers queries.
pub(super) type Query<'a> = dyn Fn(&str) -> Result<Vec<(Labels, Value)>, String> + 'a;

/// What functions know beside their arguments.
pub(super) struct Surroundings<'a> {
    pub(super) time: TimeMs,
    pub(super) external_url: &'a str,
    pub(super) query: &'a Query<'a>,
}

/// Returns a function's parameters, `None` for an unknown function.
pub(super) fn signature(name: &str) -> Option<Signature> {
    use Param::{Any, Reflect, Sample, String, Vector};
    let fixed = |fixed| Signature {
        fixed,
        variadic: None,
    };
    let variadic = |fixed, last| Signature {
        fixed,
        variadic: Some(last),
    };
    Some(match name {
        "and" | "or" | "call" | "index" | "slice" | "eq" => variadic(&[Reflect], Reflect),
        "not" | "len" => fixed(&[Reflect]),
        "ne" | "lt" | "le" | "gt" | "ge" => fixed(&[Reflect, Reflect]),
        "html" | "js" | "urlquery" | "print" | "println" | "args" => variadic(&[], Any),
        "printf" => variadic(&[String], Any),
        "query" | "safeHtml" | "title" | "toUpper" | "toLower" | "graphLink" | "tableLink"
        | "stripPort" | "stripDomain" | "parseDuration" | "urlQueryEscape" => fixed(&[String]),
        "first" => fixed(&[Vector]),
        "label" => fixed(&[String, Sample]),
        "value" | "strvalue" => fixed(&[Sample]),
        "reReplaceAll" => fixed(&[String, String, String]),
        "match" => fixed(&[String, String]),
        "sortByLabel" => fixed(&[String, Vector]),
        "humanize" | "humanize1024" | "humanizeDuration" | "humanizePercentage"
        | "humanizeTimestamp" | "toTime" | "toDuration" => fixed(&[Any]),
        "now" | "pathPrefix" | "externalURL" => fixed(&[]),
        _ => return None,
    })
}

/// Calls a function with checked arguments; `and` and `or` are not called.
pub(super) fn call(
    name: &str,
    arguments: &[Value],
    around: &Surroundings<'_>,
) -> Result<Value, String> {
    let first = arguments.first().unwrap_or(&Value::Invalid);
    let second = arguments.get(1).unwrap_or(&Value::Invalid);
    let rest = arguments.get(1..).unwrap_or_default();
    Ok(match name {
        "not" => Value::Bool(!first.is_true()),
        "eq" => Value::Bool(compare::equal(first, rest)?),
        "ne" => Value::Bool(!compare::equal(first, rest)?),
        "lt" => Value::Bool(compare::less(first, second)?),
        "le" => Value::Bool(compare::less_or_equal(first, second)?),
        "gt" => Value::Bool(!compare::less_or_equal(first, second)?),
        "ge" => Value::Bool(!compare::less(first, second)?),
        "len" => compare::length(first)?,
        "index" => compare::index(first, rest)?,
        "slice" => compare::slice(first, rest)?,
        "html" => Value::text(text::html(&joined(arguments))),
        "js" => Value::text(text::js(&joined(arguments))),
        "urlquery" => Value::text(escape_form(&joined(arguments))),
        "print" => Value::text(sprint(arguments, false)),
        "println" => Value::text(sprintln(arguments)),
        "printf" => Value::text(sprintf(first.as_str().unwrap_or_default(), rest)),
        "args" => Value::Args(Arc::new(args(arguments))),
        "query" | "first" | "label" | "value" | "strvalue" | "sortByLabel" => {
            return query_function(name, first, second, around);
        }
        "humanize" => Value::text(humanize::thousands(humanize::number(first)?)),
        "humanize1024" => Value::text(humanize::powers_of_1024(humanize::number(first)?)),
        "humanizeDuration" => Value::text(humanize::duration(humanize::number(first)?)),
        "humanizePercentage" => Value::text(humanize::percentage(humanize::number(first)?)),
        "humanizeTimestamp" => Value::text(humanize::timestamp(humanize::number(first)?)?),
        "toTime" => Value::TimePointer(humanize::time(humanize::number(first)?)?),
        "toDuration" => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "what Go leaves open saturates"
            )]
            let ns = (humanize::number(first)? * 1e9) as i64;
            Value::DurationPointer(DurationNs(ns))
        }
        #[expect(clippy::cast_precision_loss, reason = "as in Go")]
        "now" => Value::Float(around.time.0 as f64 / 1000.0),
        "externalURL" => Value::text(around.external_url),
        "pathPrefix" => Value::text(text::url_path(around.external_url)),
        _ => return text_function(name, arguments),
    })
}

/// Calls a function whose arguments are all texts.
fn text_function(name: &str, arguments: &[Value]) -> Result<Value, String> {
    let argument = |at: usize| {
        arguments
            .get(at)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let first = argument(0);
    Ok(Value::text(match name {
        "safeHtml" => return Ok(Value::Html(first.into())),
        "match" => return text::matches(first, argument(1)).map(Value::Bool),
        "parseDuration" => return humanize::parse_duration(first).map(Value::Float),
        "reReplaceAll" => text::replace_all(first, argument(1), argument(2))?,
        "title" => text::title(first),
        "toUpper" => first.to_uppercase(),
        "toLower" => first.to_lowercase(),
        "graphLink" => format!("/graph?g0.expr={}&g0.tab=0", escape_form(first)),
        "tableLink" => format!("/graph?g0.expr={}&g0.tab=1", escape_form(first)),
        "stripPort" => text::strip_port(first),
        "stripDomain" => text::strip_domain(first),
        "urlQueryEscape" => escape_form(first),
        _ => return Err(format!("no function {name}")),
    }))
}

/// Calls a function of query results.
fn query_function(
    name: &str,
    first: &Value,
    second: &Value,
    around: &Surroundings<'_>,
) -> Result<Value, String> {
    let text = first.as_str().unwrap_or_default();
    let nil = || "runtime error: invalid memory address or nil pointer dereference".to_owned();
    Ok(match (name, first, second) {
        ("query", ..) => {
            let samples = (around.query)(text)?.into_iter().map(|(labels, value)| {
                Arc::new(Sample {
                    labels: Arc::new(labels),
                    value,
                })
            });
            Value::Vector(samples.collect())
        }
        ("first", Value::Vector(samples), _) => {
            let sample = samples.first().cloned().map(Value::Sample);
            sample.ok_or("first() called on vector with no elements")?
        }
        ("value", Value::Sample(sample), _) => sample.value.clone(),
        ("strvalue", Value::Sample(sample), _) => label(sample, "__value__"),
        ("label", _, Value::Sample(sample)) => label(sample, text),
        ("sortByLabel", _, Value::Vector(samples)) => {
            let mut sorted = samples.to_vec();
            let key = |sample: &Arc<Sample>| sample.labels.get(text).cloned().unwrap_or_default();
            sorted.sort_by_cached_key(key);
            Value::Vector(sorted.into())
        }
        _ => return Err(nil()),
    })
}

fn label(sample: &Sample, name: &str) -> Value {
    Value::text(sample.labels.get(name).map_or("", String::as_str))
}

fn args(values: &[Value]) -> BTreeMap<String, Value> {
    let named = values.iter().enumerate();
    named
        .map(|(at, value)| (format!("arg{at}"), value.clone()))
        .collect()
}

/// Joins what is to be escaped.
fn joined(arguments: &[Value]) -> String {
    match arguments {
        [Value::String(text)] => text.to_string(),
        [Value::Invalid] => show(&Value::Invalid),
        _ => sprint(arguments, true),
    }
}
