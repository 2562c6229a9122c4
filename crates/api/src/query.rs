//! `/query` and `/query_range`.

use crate::{
    answer::{Answer, List, respond},
    config::Api,
    error::{ApiError, Kind},
    json, metrics,
    params::Params,
};
use http::HeaderMap;
use narthex_model::storage::Context;
use narthex_net::axum::{
    extract::{Request, State},
    response::Response,
};
use narthex_promql::{
    Engine, EngineOptions, MatrixSeries, QueryResult, SampleValue, Value, VectorSample,
};
use serde_json::json;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Most points a range query may ask of each series.
const MAX_POINTS: i64 = 11_000;

pub(crate) async fn instant(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    respond(measured(instant_of(&api, request)).await, &headers)
}

pub(crate) async fn range(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    respond(measured(range_of(&api, request)).await, &headers)
}

async fn measured(
    query: impl Future<Output = Result<Answer, ApiError>>,
) -> Result<Answer, ApiError> {
    let start = Instant::now();
    let outcome = query.await;
    let label = outcome
        .as_ref()
        .map_or_else(|error| error.kind.as_str(), |_| "success");
    metrics::DURATION
        .with(&[label])
        .observe_duration(start.elapsed());
    outcome
}

async fn instant_of(api: &Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    let params = Params::of(request).await?;
    let limit = params.limit()?;
    let time_ms = params.time_or("time", (api.now_ms)())?;
    let options = Options::of(&params, api, limit)?;
    run(api, options.timeout, move |api, ctx| {
        let begun = Instant::now();
        let result = options
            .engine
            .instant(&*api.store, &options.query, time_ms, ctx)?;
        Ok(options.answer(result, begun))
    })
    .await
}

async fn range_of(api: &Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    let params = Params::of(request).await?;
    let limit = params.limit()?;
    let (start_ms, end_ms) = (params.time("start")?, params.time("end")?);
    if end_ms < start_ms {
        return Err(ApiError::parameter(
            "end",
            "end timestamp must not be before start time",
        ));
    }
    let step_ms = params.duration("step")?;
    if step_ms <= 0 {
        return Err(ApiError::parameter(
            "step",
            "zero or negative query resolution step widths are not accepted. Try a positive integer",
        ));
    }
    if (end_ms - start_ms) / step_ms > MAX_POINTS {
        return Err(ApiError::bad_data(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
        ));
    }
    let options = Options::of(&params, api, limit)?;
    run(api, options.timeout, move |api, ctx| {
        let begun = Instant::now();
        let engine = &options.engine;
        let result = engine.range(&*api.store, &options.query, start_ms, end_ms, step_ms, ctx)?;
        Ok(options.answer(result, begun))
    })
    .await
}

/// What instant and range queries have in common.
struct Options {
    engine: Engine,
    query: String,
    timeout: Duration,
    limit: Option<usize>,
    stats: String,
    arrived: Instant,
}

impl Options {
    fn of(params: &Params, api: &Api, limit: Option<usize>) -> Result<Self, ApiError> {
        let timeout = params.timeout(api.config.timeout)?;
        let lookback = params.get("lookback_delta");
        let lookback_delta_ms = if lookback.is_empty() {
            0
        } else {
            crate::time::parse_duration(lookback).map_err(|unread| {
                ApiError::bad_data(format!("error parsing lookback delta duration: {unread}"))
            })?
        };
        let engine = if lookback_delta_ms > 0 {
            Engine::new(EngineOptions {
                lookback_delta_ms,
                ..*api.engine.options()
            })
        } else {
            Engine::clone(&api.engine)
        };
        Ok(Self {
            engine,
            query: params.get("query").to_owned(),
            timeout,
            limit,
            stats: params.get("stats").to_owned(),
            arrived: Instant::now(),
        })
    }

    /// Returns the answer to a query whose evaluation began at `begun`.
    fn answer(&self, result: QueryResult, begun: Instant) -> Answer {
        let QueryResult {
            mut value,
            mut warnings,
            infos,
            stats,
        } = result;
        if truncate(&mut value, self.limit) {
            warnings.push("results truncated due to limit".to_owned());
        }
        let mut end = Vec::new();
        if !self.stats.is_empty() {
            if !matches!(&*self.stats, "true" | "all") {
                warnings.push(format!(
                    "value {:?} for parameter \"stats\" is deprecated and will be rejected in the next major release, use \"true\" or \"all\"",
                    self.stats
                ));
            }
            let evaluated = begun.elapsed().as_secs_f64();
            let queued = begun.duration_since(self.arrived).as_secs_f64();
            // Sorting and preparing are part of evaluating.
            let stats = json!({
                "timings": {
                    "evalTotalTime": evaluated,
                    "resultSortTime": 0.0,
                    "queryPreparationTime": 0.0,
                    "innerEvalTime": evaluated,
                    "execQueueTime": queued,
                    "execTotalTime": queued + evaluated,
                },
                "samples": {
                    "totalQueryableSamples": stats.samples_read,
                    "samplesRead": stats.samples_read,
                    "peakSamples": stats.peak_samples,
                },
            });
            end.extend_from_slice(b",\"stats\":");
            end.extend_from_slice(stats.to_string().as_bytes());
        }
        end.push(b'}');
        let mut answer = written(value, end);
        answer.warnings = warnings;
        answer.infos = infos;
        answer
    }
}

/// Runs work on a blocking thread under a permit; the work is cancelled when the request goes away.
pub(crate) async fn run(
    api: &Arc<Api>,
    timeout: Duration,
    work: impl FnOnce(&Api, &Context) -> Result<Answer, ApiError> + Send + 'static,
) -> Result<Answer, ApiError> {
    let (ctx, cancel) = api.context(timeout);
    metrics::QUERIES.inc();
    let _counted = Counted;
    let waiting = Arc::clone(&api.permits).acquire_owned();
    let permit = match tokio::time::timeout(timeout.min(api.config.timeout), waiting).await {
        Ok(permit) => permit.map_err(|closed| ApiError::internal(closed.to_string()))?,
        Err(_elapsed) => {
            let message = "query timed out in query queue".to_owned();
            return Err(ApiError {
                kind: Kind::Timeout,
                message,
            });
        }
    };
    let api = Arc::clone(api);
    let task = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut answer = work(&api, &ctx)?;
        answer.warnings.extend(ctx.warnings.take());
        Ok(answer)
    });
    let outcome = task
        .await
        .map_err(|panic| ApiError::internal(format!("unexpected error: {panic}")))?;
    drop(cancel);
    outcome
}

struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::QUERIES.dec();
    }
}

/// Returns a value as the data of an answer, `end` behind it.
fn written(value: Value, end: Vec<u8>) -> Answer {
    let mut head = br#"{"resultType":""#.to_vec();
    head.extend_from_slice(value.type_name().as_bytes());
    head.extend_from_slice(br#"","result":"#);
    match value {
        Value::Scalar { time_ms, value } => {
            json::sample(&mut head, time_ms, value);
            head.extend_from_slice(&end);
            Answer::of(head)
        }
        Value::String { time_ms, text } => {
            head.push(b'[');
            json::time(&mut head, time_ms);
            head.push(b',');
            json::string(&mut head, &text);
            head.push(b']');
            head.extend_from_slice(&end);
            Answer::of(head)
        }
        Value::Vector(samples) => framed(head, samples, vector_sample, end),
        Value::Matrix(series) => framed(head, series, matrix_series, end),
    }
}

/// Returns a list between two texts, written while it is sent.
fn framed<T: Send + 'static>(
    head: Vec<u8>,
    items: Vec<T>,
    write: impl Fn(&mut Vec<u8>, &T) + Send + 'static,
    end: Vec<u8>,
) -> Answer {
    let mut list = List::new(items, move |out: &mut Vec<u8>, item: T| write(out, &item));
    let mut head = Some(head);
    Answer::made(move |out| {
        if let Some(head) = head.take() {
            out.extend_from_slice(&head);
        }
        let more = list.write(out);
        if !more {
            out.extend_from_slice(&end);
        }
        more
    })
}

fn truncate(value: &mut Value, limit: Option<usize>) -> bool {
    let Some(limit) = limit else { return false };
    match value {
        Value::Vector(samples) if samples.len() > limit => samples.truncate(limit),
        Value::Matrix(series) if series.len() > limit => series.truncate(limit),
        _ => return false,
    }
    true
}

fn vector_sample(out: &mut Vec<u8>, sample: &VectorSample) {
    out.extend_from_slice(br#"{"metric":"#);
    json::labels(out, &sample.labels);
    match &sample.value {
        SampleValue::Float(value) => {
            out.extend_from_slice(br#","value":"#);
            json::sample(out, sample.time_ms, *value);
        }
        SampleValue::Histogram(histogram) => {
            out.extend_from_slice(br#","histogram":"#);
            json::histogram_sample(out, sample.time_ms, histogram);
        }
    }
    out.push(b'}');
}

fn matrix_series(out: &mut Vec<u8>, series: &MatrixSeries) {
    out.extend_from_slice(br#"{"metric":"#);
    json::labels(out, &series.labels);
    if !series.floats.is_empty() {
        out.extend_from_slice(br#","values":"#);
        json::list(out, &series.floats, |out, (time_ms, value)| {
            json::sample(out, *time_ms, *value);
        });
    }
    if !series.histograms.is_empty() {
        out.extend_from_slice(br#","histograms":"#);
        json::list(out, &series.histograms, |out, (time_ms, histogram)| {
            json::histogram_sample(out, *time_ms, histogram);
        });
    }
    out.push(b'}');
}
