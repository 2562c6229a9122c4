//! The API's routes about segments: `GET /api/v1/segments` lists those of the directory that is read, and
//! `POST /api/v1/segments/switch` switches a metric of an application.
//!
//! **Invariant:** what other processes notice is changed by POST or PUT alone, and only where requests may reload and end
//! this process too.

use super::refuse_lifecycle;
use crate::reload::Reloader;
use http::{HeaderMap, Method};
use narthex_net::{
    Gate, Refusal, Router,
    axum::{
        extract::Query,
        response::Response,
        routing::{any, get},
    },
    respond_json,
};
use narthex_segment::{ListedSegment, SegmentError, list, set_switch};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Requests that read the directory at once: each reads all of it.
const AT_ONCE: usize = 1;
/// How long a request waits for others.
const WAIT: Duration = Duration::from_secs(30);

type Params = Query<HashMap<String, String>>;

/// Returns the routes; without a configuration file nothing is read.
pub(super) fn routes(reloader: Option<Arc<Reloader>>, may_switch: bool) -> Router {
    let gate = Arc::new(Gate::new("segments", AT_ONCE));
    let dir = move || {
        reloader
            .as_ref()
            .and_then(|reloader| reloader.segments_dir())
    };
    let (switch_gate, switch_dir) = (Arc::clone(&gate), dir.clone());
    let listing = move |headers: HeaderMap| async move {
        let dir = dir();
        let made = gate.prepare(WAIT, move || listed(dir.as_deref(), may_switch));
        answer(made.await, &headers)
    };
    let switching = move |method: Method, Query(params): Params, headers: HeaderMap| async move {
        if let Some(refusal) = refuse_lifecycle(may_switch, &method, &headers) {
            return refusal;
        }
        let dir = switch_dir();
        let made = switch_gate.prepare(WAIT, move || switched(dir, &params));
        answer(made.await, &headers)
    };
    Router::new()
        .route("/api/v1/segments", get(listing))
        .route("/api/v1/segments/switch", any(switching))
}

fn answer(made: Result<Value, Refusal>, headers: &HeaderMap) -> Response {
    match made {
        Ok(data) => {
            let body = json!({ "status": "success", "data": data });
            respond_json(body.to_string(), headers)
        }
        Err(refusal) => refusal.respond(headers),
    }
}

fn listed(dir: Option<&Path>, may_switch: bool) -> Result<Value, Refusal> {
    let Some(dir) = dir else {
        return Ok(json!({ "dir": null, "maySwitch": may_switch, "segments": [] }));
    };
    let (segments, bad) = match list(dir) {
        Ok(found) => found,
        // The first writer creates it.
        Err(SegmentError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            (Vec::new(), Vec::new())
        }
        Err(error) => return Err(refused(dir, &error)),
    };
    let mut all: Vec<Value> = segments.iter().map(shown).collect();
    all.extend(bad.iter().map(|(path, error)| {
        json!({ "file": name(path), "state": "broken", "reason": error.to_string(), "metrics": [] })
    }));
    Ok(json!({ "dir": dir.display().to_string(), "maySwitch": may_switch, "segments": all }))
}

fn shown(segment: &ListedSegment) -> Value {
    let metrics = segment.metrics.iter().map(|metric| {
        json!({
            "name": metric.name,
            "type": metric.kind.metric_type().as_str(),
            "series": metric.series,
            "isOn": metric.is_on,
        })
    });
    let state = match (&segment.problem, segment.is_live) {
        (Some(_), _) => "broken",
        (None, true) => "alive",
        (None, false) => "dead",
    };
    json!({
        "file": name(&segment.path),
        "app": segment.app,
        "worker": segment.worker,
        "pid": segment.pid,
        "createdMs": segment.created_ms,
        "state": state,
        "reason": segment.problem,
        "bytes": segment.bytes,
        "refusedSeries": segment.refused,
        "series": segment.metrics.iter().map(|metric| metric.series).sum::<usize>(),
        "metrics": metrics.collect::<Vec<_>>(),
    })
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn switched(dir: Option<PathBuf>, params: &HashMap<String, String>) -> Result<Value, Refusal> {
    let text = |name: &str| params.get(name).map_or("", String::as_str);
    let (app, metric) = (text("app"), text("metric"));
    let is_on = match text("state") {
        "on" => true,
        "off" => false,
        other => {
            let error = format!("invalid parameter \"state\": {other:?} is neither on nor off");
            return Err(Refusal::BadData(error));
        }
    };
    let dir = dir.ok_or_else(|| Refusal::BadData("no segments are configured".to_owned()))?;
    match set_switch(&dir, app, metric, is_on) {
        Ok(0) => Err(Refusal::BadData(format!(
            "no segment of {app:?} has a metric {metric:?}"
        ))),
        Ok(segments) => {
            tracing::info!(app, metric, is_on, segments, "A metric was switched.");
            Ok(json!({ "segments": segments }))
        }
        Err(error) => Err(refused(&dir, &error)),
    }
}

fn refused(dir: &Path, error: &SegmentError) -> Refusal {
    Refusal::BadData(format!("{}: {error}", dir.display()))
}
