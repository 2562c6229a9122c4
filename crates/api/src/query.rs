//! `/query` and `/query_range`.

use crate::{
    answer::{Answer, respond},
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
use narthex_promql::{MatrixSeries, QueryResult, SampleValue, Value, VectorSample};
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
    let timeout = params.timeout(api.config.timeout)?;
    let query = params.get("query").to_owned();
    run(api, timeout, move |api, ctx| {
        let result = api.engine.instant(&*api.store, &query, time_ms, ctx)?;
        Ok(answer(result, limit))
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
    let timeout = params.timeout(api.config.timeout)?;
    let query = params.get("query").to_owned();
    run(api, timeout, move |api, ctx| {
        let result = api
            .engine
            .range(&*api.store, &query, start_ms, end_ms, step_ms, ctx)?;
        Ok(answer(result, limit))
    })
    .await
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

fn answer(result: QueryResult, limit: Option<usize>) -> Answer {
    let QueryResult {
        mut value,
        mut warnings,
        infos,
        ..
    } = result;
    if truncate(&mut value, limit) {
        warnings.push("results truncated due to limit".to_owned());
    }
    let mut data = Vec::new();
    data.extend_from_slice(br#"{"resultType":""#);
    data.extend_from_slice(value.type_name().as_bytes());
    data.extend_from_slice(br#"","result":"#);
    match &value {
        Value::Scalar { time_ms, value } => json::sample(&mut data, *time_ms, *value),
        Value::String { time_ms, text } => {
            data.push(b'[');
            json::time(&mut data, *time_ms);
            data.push(b',');
            json::string(&mut data, text);
            data.push(b']');
        }
        Value::Vector(samples) => json::list(&mut data, samples, vector_sample),
        Value::Matrix(series) => json::list(&mut data, series, matrix_series),
    }
    data.push(b'}');
    Answer {
        data,
        warnings,
        infos,
    }
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
