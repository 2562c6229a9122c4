//! `/status/*` and the admin calls.
//!
//! **Invariant:** information about the process comes from a [`ServerStatus`]; field names are Prometheus', those about
//! the Go runtime included, because clients expect them.

use crate::{
    answer::{Answer, respond},
    call::run,
    config::{Api, BuildInfo, Gate},
    error::{ApiError, ErrorType},
    json,
    kept::{Asked, LookedUp, Of, Question},
    params::Params,
    process::{BlockStatus, ServerStatus, WalReplay},
};
use http::{HeaderMap, header::CONTENT_TYPE};
use narthex_model::{
    date::rfc3339,
    storage::{Cardinality, SeriesQuery, Share, TimeRange},
};
use narthex_net::{
    Router,
    axum::{
        extract::{Request, State},
        response::{IntoResponse, Response},
        routing::get,
    },
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Most entries of each list of `/status/tsdb`.
const MAX_TSDB_LIMIT: usize = 10_000;

pub(crate) fn build_info(api: &Api) -> Value {
    let build = &api.config.build;
    let mut data = build_of_prometheus(build);
    data["application"] = "Narthex".into();
    data["applicationVersion"] = json!(build.version);
    data["compiler"] = json!(build.compiler);
    data
}

/// Returns what Prometheus' own build says of itself.
fn build_of_prometheus(build: &BuildInfo) -> Value {
    json!({
        "version": build.prometheus_version,
        "revision": build.revision,
        "branch": build.branch,
        "buildUser": "",
        "buildDate": build.build_date,
        "goVersion": "",
    })
}

/// What the page `/version` has, outside the API's envelope.
pub(crate) async fn version(State(api): State<Arc<Api>>) -> impl IntoResponse {
    let data = build_of_prometheus(&api.config.build);
    ([(CONTENT_TYPE, "application/json")], data.to_string())
}

pub(crate) fn config(api: &Api) -> Value {
    json!({ "yaml": api.status.config_yaml() })
}

pub(crate) fn flags(api: &Api) -> Value {
    let flags = api.status.flags().into_iter();
    let flags: Map<String, Value> = flags.map(|(name, value)| (name, value.into())).collect();
    Value::Object(flags)
}

pub(crate) fn runtime_info(api: &Api) -> Value {
    let info = api.status.runtime();
    json!({
        "startTime": rfc3339(info.start_time_ms),
        "CWD": info.cwd,
        "hostname": info.hostname,
        "serverTime": rfc3339((api.now_ms)()),
        "reloadConfigSuccess": info.reload_config_success,
        "lastConfigTime": rfc3339(info.last_config_time_ms),
        "corruptionCount": info.corruption_count,
        "goroutineCount": info.threads,
        "GOMAXPROCS": info.cpus,
        "GOMEMLIMIT": info.memory_limit_bytes,
        "GOGC": "",
        "GODEBUG": "",
        "storageRetention": info.storage_retention,
    })
}

pub(crate) fn memory(api: &Api) -> Value {
    let memory = api.status.memory();
    let share = |share: &Share| {
        json!({
            "name": share.name,
            "usedBytes": share.used_bytes,
            "peakBytes": share.peak_bytes,
            // JavaScript cannot represent numbers beyond 2^53 exactly.
            "limitBytes": (share.limit_bytes < u64::MAX).then_some(share.limit_bytes),
            "refusedTotal": share.refused_total,
        })
    };
    json!({
        "limitBytes": memory.limit_bytes,
        "usedBytes": memory.used_bytes,
        "pressure": memory.pressure,
        "shares": memory.shares.iter().map(share).collect::<Vec<_>>(),
    })
}

pub(crate) fn blocks(api: &Api) -> Value {
    let block = |block: &BlockStatus| {
        json!({
            "ulid": block.id,
            "minTime": block.min_time_ms,
            // Prometheus' blocks end before this time.
            "maxTime": block.max_time_ms.saturating_add(1),
            "stats": {
                "numSamples": block.samples,
                "numSeries": block.series,
                "numBytes": block.bytes,
            },
            "compaction": {
                "level": u32::from(block.level) + 1,
                "sources": block.sources,
            },
            "version": 1,
        })
    };
    let blocks = api.status.blocks();
    json!({ "blocks": blocks.iter().map(block).collect::<Vec<_>>() })
}

/// Returns the routes available before storage is open: the progress of the WAL replay.
pub fn early_routes(status: Arc<dyn ServerStatus>) -> Router {
    let replay = move |headers: HeaderMap| async move {
        respond(Ok(Answer::json(&wal_replay(&*status))), &headers)
    };
    Router::new().route("/api/v1/status/walreplay", get(replay))
}

pub(crate) fn wal_replay(status: &dyn ServerStatus) -> Value {
    let WalReplay { min, max, current } = status.wal_replay();
    json!({ "min": min, "max": max, "current": current })
}

pub(crate) async fn tsdb(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    let params = Params::read(&api, request).await?;
    let limit = match &*params.scalar("limit")? {
        "" => 10,
        text => match text.parse() {
            Ok(limit @ 1..=MAX_TSDB_LIMIT) => limit,
            Ok(1..) => {
                return Err(ApiError::bad_data(format!(
                    "limit must not exceed {MAX_TSDB_LIMIT}"
                )));
            }
            _ => return Err(ApiError::bad_data("limit must be a positive number")),
        },
    };
    run(&api, Gate::Metadata, api.config.timeout, move |api, ctx| {
        let question = Question {
            of: Of::Cardinality,
            selectors: Vec::new(),
            limit: Some(limit),
        };
        let all = SeriesQuery::all(TimeRange::ALL);
        let asked = Asked {
            store: &*api.store,
            question: &question,
            query: &all,
            ctx,
        };
        let counts = match api.kept.look_up(asked)? {
            LookedUp::Answer(counts) => counts,
            LookedUp::Unknown(mark) => {
                let view = api.store.view(TimeRange::ALL)?;
                let counts = counts(&view.cardinality(limit, ctx)?);
                match mark {
                    Some(mark) if asked.has_still(mark)? => api.kept.keep(&question, mark, counts),
                    _ => counts.into(),
                }
            }
        };
        let range = api.store.time_range();
        let min_ms = range.map_or(i64::MAX, |range| range.min_ms);
        let max_ms = range.map_or(i64::MIN, |range| range.max_ms);
        let mut data = format!(r#"{{"headStats":{{"minTime":{min_ms},"maxTime":{max_ms},"#);
        data.reserve_exact(counts.len());
        let mut data = data.into_bytes();
        data.extend_from_slice(&counts);
        Ok(Answer::whole(data))
    })
    .await
}

/// Writes the rest of the answer behind the times, which change with every row.
fn counts(counted: &Cardinality) -> Vec<u8> {
    let mut out = format!(
        r#""numSeries":{},"numLabelPairs":{},"chunkCount":0}}"#,
        counted.series, counted.pairs
    )
    .into_bytes();
    let lists = [
        ("seriesCountByMetricName", &counted.by_metric),
        ("labelValueCountByLabelName", &counted.values_by_label),
        ("memoryInBytesByLabelName", &counted.bytes_by_label),
        ("seriesCountByLabelValuePair", &counted.by_pair),
    ];
    for (key, counts) in lists {
        out.extend_from_slice(format!(",\"{key}\":").as_bytes());
        json::list(&mut out, counts, |out, (name, value)| {
            out.extend_from_slice(b"{\"name\":");
            json::string(out, name);
            out.extend_from_slice(format!(",\"value\":{value}}}").as_bytes());
        });
    }
    out.push(b'}');
    out
}

/// Rejects the admin calls for deletion and snapshots, which the storage does not offer.
pub(crate) async fn admin(headers: HeaderMap) -> Response {
    let disabled = ApiError::new(ErrorType::Unavailable, "admin APIs disabled");
    respond(Err(disabled), &headers)
}
