//! `/status/*` and the admin calls.
//!
//! **Invariant:** what only the process knows comes from a [`ServerStatus`]; field names are Prometheus', those about
//! the Go runtime included, so that its clients find what they look for.

use crate::{
    answer::{Answer, respond},
    config::{Api, Gate},
    error::{ApiError, Kind},
    params::Params,
    query::run,
};
use http::HeaderMap;
use narthex_model::{
    date::rfc3339,
    storage::{Share, TimeRange},
};
use narthex_net::{
    Router,
    axum::{
        extract::{Request, State},
        response::Response,
        routing::get,
    },
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Most entries of each list of `/status/tsdb`.
const MAX_TSDB_LIMIT: usize = 10_000;

/// What the API says about the process it runs in.
pub trait ServerStatus: Send + Sync {
    /// Returns the configuration as YAML, secrets hidden.
    fn config_yaml(&self) -> String;

    /// Lists all flags by name, with their values as text.
    fn flags(&self) -> Vec<(String, String)>;

    /// Tells how the process runs.
    fn runtime(&self) -> RuntimeInfo;

    /// Tells how far the log is replayed.
    fn wal_replay(&self) -> WalReplay;

    /// Returns what the allocator says of the heap, for [`narthex_profile::heap`].
    ///
    /// # Errors
    /// A sentence that says why there is nothing.
    fn heap_dump(&self) -> Result<String, String> {
        Err("this server has no heap profiles".to_owned())
    }

    /// Tells how memory is used.
    fn memory(&self) -> MemoryStatus {
        MemoryStatus::default()
    }

    /// Lists the labels that every series gets on its way to other servers.
    fn external_labels(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// How the process runs.
#[derive(Clone, Debug, Default)]
pub struct RuntimeInfo {
    /// When it started.
    pub start_time_ms: i64,
    /// Its working directory.
    pub cwd: String,
    /// The host's name.
    pub hostname: String,
    /// Whether the last reload of the configuration succeeded.
    pub reload_config_success: bool,
    /// When the configuration was last loaded.
    pub last_config_time_ms: i64,
    /// Damaged places found in the log.
    pub corruption_count: u64,
    /// Threads of the process: what comes closest to goroutines.
    pub threads: usize,
    /// Processors it may use.
    pub cpus: usize,
    /// Bytes of memory it may use.
    pub memory_limit_bytes: u64,
    /// How long samples are kept, as text: `15d`, `15d or 10GiB`.
    pub storage_retention: String,
}

/// How far the log is replayed: numbers of files.
#[derive(Clone, Copy, Debug, Default)]
pub struct WalReplay {
    /// The first.
    pub min: u64,
    /// The last.
    pub max: u64,
    /// The one being read, or the last.
    pub current: u64,
}

/// How the process uses its memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryStatus {
    /// Bytes it may use.
    pub limit_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// How short memory is, in words.
    pub pressure: &'static str,
    /// Who uses it.
    pub shares: Vec<Share>,
}

/// Knows nothing: for tests and tools.
#[derive(Debug, Default)]
pub(crate) struct NoStatus;

impl ServerStatus for NoStatus {
    fn config_yaml(&self) -> String {
        String::new()
    }

    fn flags(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn runtime(&self) -> RuntimeInfo {
        RuntimeInfo::default()
    }

    fn wal_replay(&self) -> WalReplay {
        WalReplay::default()
    }
}

fn answer(data: &Value, headers: &HeaderMap) -> Response {
    respond(Ok(Answer::of(data.to_string().into_bytes())), headers)
}

pub(crate) async fn build_info(State(api): State<Arc<Api>>, headers: HeaderMap) -> Response {
    let build = &api.config.build;
    let data = json!({
        "version": build.prometheus_version,
        "revision": build.revision,
        "branch": build.branch,
        "buildUser": "",
        "buildDate": build.build_date,
        "goVersion": "",
        "application": "Narthex",
        "applicationVersion": build.version,
        "compiler": build.compiler,
    });
    answer(&data, &headers)
}

pub(crate) async fn config(State(api): State<Arc<Api>>, headers: HeaderMap) -> Response {
    answer(&json!({ "yaml": api.status.config_yaml() }), &headers)
}

pub(crate) async fn flags(State(api): State<Arc<Api>>, headers: HeaderMap) -> Response {
    let flags = api.status.flags().into_iter();
    let flags: Map<String, Value> = flags.map(|(name, value)| (name, value.into())).collect();
    answer(&Value::Object(flags), &headers)
}

pub(crate) async fn runtime_info(State(api): State<Arc<Api>>, headers: HeaderMap) -> Response {
    let info = api.status.runtime();
    let data = json!({
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
    });
    answer(&data, &headers)
}

pub(crate) async fn memory(State(api): State<Arc<Api>>, headers: HeaderMap) -> Response {
    let memory = api.status.memory();
    let share = |share: &Share| {
        json!({
            "name": share.name,
            "usedBytes": share.used_bytes,
            "peakBytes": share.peak_bytes,
            // Numbers beyond 2^53 are not exact in a page's script.
            "limitBytes": (share.limit_bytes < u64::MAX).then_some(share.limit_bytes),
            "refusedTotal": share.refused_total,
        })
    };
    let data = json!({
        "limitBytes": memory.limit_bytes,
        "usedBytes": memory.used_bytes,
        "pressure": memory.pressure,
        "shares": memory.shares.iter().map(share).collect::<Vec<_>>(),
    });
    answer(&data, &headers)
}

pub(crate) async fn wal_replay(State(api): State<Arc<Api>>, headers: HeaderMap) -> Response {
    replay(&*api.status, &headers)
}

/// Returns what can be answered before storage is open: how far the log is replayed.
pub fn early_routes(status: Arc<dyn ServerStatus>) -> Router {
    let wal_replay = move |headers: HeaderMap| {
        let answer = replay(&*status, &headers);
        async move { answer }
    };
    Router::new().route("/api/v1/status/walreplay", get(wal_replay))
}

fn replay(status: &dyn ServerStatus, headers: &HeaderMap) -> Response {
    let WalReplay { min, max, current } = status.wal_replay();
    answer(
        &json!({ "min": min, "max": max, "current": current }),
        headers,
    )
}

pub(crate) async fn tsdb(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    respond(tsdb_of(&api, request).await, &headers)
}

async fn tsdb_of(api: &Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    let params = Params::of(api, request).await?;
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
    run(api, Gate::Metadata, api.config.timeout, move |api, ctx| {
        let view = api.store.view(TimeRange::ALL)?;
        let counted = view.cardinality(limit, ctx)?;
        let list = |counts: &[(String, u64)]| -> Value {
            let entry = |(name, value): &(String, u64)| json!({ "name": name, "value": value });
            counts.iter().map(entry).collect()
        };
        let range = api.store.time_range();
        let data = json!({
            "headStats": {
                "numSeries": counted.series,
                "numLabelPairs": counted.pairs,
                "chunkCount": 0,
                "minTime": range.map_or(i64::MAX, |range| range.min_ms),
                "maxTime": range.map_or(i64::MIN, |range| range.max_ms),
            },
            "seriesCountByMetricName": list(&counted.by_metric),
            "labelValueCountByLabelName": list(&counted.values_by_label),
            "memoryInBytesByLabelName": list(&counted.bytes_by_label),
            "seriesCountByLabelValuePair": list(&counted.by_pair),
        });
        Ok(Answer::of(data.to_string().into_bytes()))
    })
    .await
}

/// Answers the calls that delete and copy, which the storage does not offer.
pub(crate) async fn admin(headers: HeaderMap) -> Response {
    let error = ApiError {
        kind: Kind::Unavailable,
        message: "admin APIs disabled".to_owned(),
    };
    respond(Err(error), &headers)
}
