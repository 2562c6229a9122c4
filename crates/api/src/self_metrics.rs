//! `/status/self_metrics`: this process' own metrics as JSON.
//!
//! **Invariant:** families have the names and forms that protobuf's JSON gives client_model's messages: 64-bit counts
//! are strings, values that JSON has no numbers for are words.

use crate::{
    answer::Answer,
    call::run,
    config::{Api, Gate},
    error::ApiError,
    params::Params,
};
use narthex_client::{MetricType, Sample, Visitor};
use narthex_model::{METRIC_NAME, MatchOp, Matcher};
use narthex_net::axum::extract::Request;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(crate) async fn self_metrics(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    let params = Params::read(&api, request).await?;
    run(&api, Gate::Metadata, api.config.timeout, move |api, ctx| {
        let pattern = params.get("metric_name_pattern");
        let patterns = api.engine.patterns(ctx);
        let wanted = Some(&*pattern)
            .filter(|pattern| !pattern.is_empty())
            .map(|pattern| Matcher::within(MatchOp::Regex, METRIC_NAME, pattern, &patterns))
            .transpose()
            .map_err(|error| ApiError::bad_data(format!("invalid metric_name_pattern: {error}")))?;
        let mut families = Families {
            wanted,
            all: Vec::new(),
            is_wanted: false,
        };
        api.status.visit_metrics(&mut families);
        let bytes = families.all.iter().map(|family| family.len() as u64 * 256);
        let lease = ctx.budget.lease(bytes.sum())?;
        let mut answer = Answer::list(families.all, |out, family: Family| {
            out.extend_from_slice(family.json().to_string().as_bytes());
        });
        answer.holds.add(lease);
        Ok(answer)
    })
    .await
}

/// The families that are asked for.
struct Families {
    wanted: Option<Matcher>,
    all: Vec<Family>,
    is_wanted: bool,
}

/// A family and its series, which become distinct by their labels.
struct Family {
    name: String,
    help: String,
    kind: MetricType,
    series: Vec<Series>,
}

#[derive(Default)]
struct Series {
    labels: Vec<(String, String)>,
    /// The value, or the sum.
    value: f64,
    count: f64,
    /// Buckets or quantiles: bound and value.
    parts: Vec<(f64, f64)>,
}

impl Visitor for Families {
    fn family(&mut self, name: &str, help: &str, kind: MetricType) {
        self.is_wanted = self.wanted.as_ref().is_none_or(|one| one.matches(name));
        if self.is_wanted {
            self.all.push(Family {
                name: name.to_owned(),
                help: help.to_owned(),
                kind,
                series: Vec::new(),
            });
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        if let Some(family) = self.all.last_mut().filter(|_| self.is_wanted) {
            family.add(sample);
        }
    }
}

impl Family {
    fn len(&self) -> usize {
        self.series
            .iter()
            .map(|series| 1 + series.parts.len())
            .sum()
    }

    fn add(&mut self, sample: &Sample<'_>) {
        let bound = match (self.kind, sample.suffix) {
            (MetricType::Histogram, "_bucket") => Some("le"),
            (MetricType::Summary, "") => Some("quantile"),
            _ => None,
        };
        let (mut labels, mut at) = (Vec::new(), f64::NAN);
        for (name, value) in sample.labels.iter() {
            if bound == Some(name) {
                at = value.parse().unwrap_or(f64::INFINITY);
            } else {
                labels.push((name.to_owned(), value.to_owned()));
            }
        }
        if self.series.last().is_none_or(|last| last.labels != labels) {
            self.series.push(Series {
                labels,
                ..Series::default()
            });
        }
        let Some(series) = self.series.last_mut() else {
            return;
        };
        match (bound, sample.suffix) {
            (Some(_), _) => series.parts.push((at, sample.value)),
            (None, "_count") => series.count = sample.value,
            (None, _) => series.value = sample.value,
        }
    }

    fn json(&self) -> Value {
        let kind = self.kind.as_str();
        json!({
            "name": self.name,
            "help": self.help,
            "type": kind.to_uppercase(),
            "metric": self.series.iter().map(|one| one.json(self.kind)).collect::<Vec<_>>(),
        })
    }
}

impl Series {
    fn json(&self, kind: MetricType) -> Value {
        let mut metric = Map::new();
        if !self.labels.is_empty() {
            let label = |(name, value): &(String, String)| json!({ "name": name, "value": value });
            metric.insert("label".to_owned(), self.labels.iter().map(label).collect());
        }
        let value = match kind {
            MetricType::Histogram => self.distribution("bucket", |(bound, count)| {
                json!({ "cumulativeCount": whole(*count), "upperBound": number(*bound) })
            }),
            MetricType::Summary => self.distribution("quantile", |(quantile, value)| {
                json!({ "quantile": number(*quantile), "value": number(*value) })
            }),
            _ => json!({ "value": number(self.value) }),
        };
        metric.insert(kind.as_str().to_owned(), value);
        Value::Object(metric)
    }

    fn distribution(&self, parts: &str, part: impl Fn(&(f64, f64)) -> Value) -> Value {
        // The last bucket says what the count says.
        let finite = self.parts.iter().filter(|(bound, _)| bound.is_finite());
        let mut all = Map::new();
        all.insert("sampleCount".to_owned(), whole(self.count));
        all.insert("sampleSum".to_owned(), number(self.value));
        if !self.parts.is_empty() {
            all.insert(parts.to_owned(), finite.map(part).collect());
        }
        Value::Object(all)
    }
}

fn whole(count: f64) -> Value {
    format!("{count:.0}").into()
}

fn number(value: f64) -> Value {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.into()
    } else {
        let mut text = Vec::new();
        crate::json::number(&mut text, value);
        serde_json::from_slice(&text).unwrap_or_else(|_| json!(value))
    }
}
