//! `/status/active_queries`, `/status/top_queries` and `/status/metric_names_stats`.

use crate::{
    activity::{
        Origin, State,
        top::{Cost, Key},
        usage::Uses,
    },
    answer::{Answer, framed, items_of},
    call::run,
    config::{Api, Gate},
    error::ApiError,
    params::Params,
};
use narthex_model::{
    METRIC_NAME, Matcher,
    storage::{SeriesQuery, TimeRange},
    sync::Whole as _,
};
use narthex_net::axum::extract::Request;
use serde_json::{Value, json};
use std::sync::Arc;

/// Names that `/status/metric_names_stats` lists by default, as VictoriaMetrics does.
const NAMES: usize = 1000;
/// Queries in each list of `/status/top_queries` by default.
const TOP: usize = 20;

pub(crate) fn active_queries(api: &Api) -> Value {
    let running = api.activity.running.lock().whole().clone();
    let items = running.iter().map(|(id, entry)| {
        let (progress, [start, end, step]) = (entry.progress(), entry.times.map(seconds));
        json!({
            "id": id.to_string(),
            "query": &*entry.text,
            "start": start,
            "end": end,
            "step": step,
            "arrived": seconds(entry.arrived_ms),
            "durationSeconds": entry.age().as_secs_f64(),
            "state": match progress.state {
                State::Queued => "queued",
                State::Evaluating => "evaluating",
                State::Sending => "sending",
            },
            "stateSeconds": progress.since.elapsed().as_secs_f64(),
            "origin": origin(&entry.origin),
        })
    });
    Value::Array(items.collect())
}

fn origin(origin: &Origin) -> Value {
    match origin {
        Origin::Rule { file, group } => json!({ "kind": "rule", "file": **file, "group": **group }),
        Origin::Http {
            client,
            method,
            path,
            is_dashboard,
        } => json!({
            "kind": if *is_dashboard { "dashboard" } else { "query" },
            "clientIP": client,
            "method": method,
            "path": path,
        }),
    }
}

pub(crate) async fn top_queries(api: Arc<Api>, request: Request) -> Result<Answer, ApiError> {
    let params = Params::read(&api, request).await?;
    let most = params.count("topN")?.unwrap_or(TOP);
    let top = api.activity.top.lock().whole();
    let list = |all: Vec<(Key, Cost)>| Value::Array(all.iter().map(cost).collect());
    let average = |cost: &Cost| cost.duration.as_secs_f64() / cost.count.max(1) as f64;
    let data = json!({
        "since": seconds(api.activity.since_ms),
        "topN": most,
        "forgottenTotal": top.forgotten,
        "topByCount": list(top.by(most, |cost| cost.count)),
        "topBySumDuration": list(top.by(most, |cost| cost.duration)),
        "topByAvgDuration": list(top.by(most, average)),
        "topBySamples": list(top.by(most, |cost| cost.samples)),
    });
    Ok(Answer::json(&data))
}

fn cost(((text, range), cost): &(Key, Cost)) -> Value {
    json!({
        "query": &**text,
        "timeRangeSeconds": range,
        "count": cost.count,
        "failures": cost.failures,
        "sumDurationSeconds": cost.duration.as_secs_f64(),
        "avgDurationSeconds": cost.duration.as_secs_f64() / cost.count.max(1) as f64,
        "maxDurationSeconds": cost.longest.as_secs_f64(),
        "samplesRead": cost.samples,
        "peakSamples": cost.peak_samples,
        "first": seconds(cost.first_ms),
        "last": seconds(cost.last_ms),
    })
}

pub(crate) async fn metric_names_stats(
    api: Arc<Api>,
    request: Request,
) -> Result<Answer, ApiError> {
    let params = Params::read(&api, request).await?;
    let limit = params.count("limit")?.unwrap_or(NAMES);
    let most = params.count("le")?;
    let (start_ms, end_ms) = (api.activity.since_ms, (api.now_ms)());
    let range = TimeRange::new(
        params.time_or("start", start_ms.min(end_ms))?,
        params.time_or("end", end_ms)?,
    );
    run(&api, Gate::Metadata, api.config.timeout, move |api, ctx| {
        let pattern = params.get("match_pattern");
        let wanted = if pattern.is_empty() {
            Vec::new()
        } else {
            let op = narthex_model::MatchOp::Regex;
            let matcher = Matcher::within(op, METRIC_NAME, &pattern, &api.engine.patterns(ctx))
                .map_err(|error| ApiError::parameter("match_pattern", error))?;
            vec![vec![matcher]]
        };
        let query = SeriesQuery {
            any_of: wanted,
            range,
            limit: None,
        };
        let names = api.store.view(range)?.label_values(METRIC_NAME, &query, ctx)?;
        let usage = api.activity.usage.lock().whole();
        let ((records, bytes), forgotten) = (usage.size(), usage.forgotten);
        let _copy = ctx.budget.lease(bytes)?;
        let counts = usage.counts();
        drop(usage);
        let (mut found, mut pace) = (Vec::new(), ctx.stop.pace());
        for name in names.items {
            pace.spend(counts.work(&name))?;
            let uses = counts.of_metric(&name);
            if most.is_none_or(|most| uses.total() <= most as u64) {
                found.push((uses, name));
            }
        }
        let total = found.len();
        found.sort_by(|a, b| a.0.total().cmp(&b.0.total()).then_with(|| a.1.cmp(&b.1)));
        found.truncate(limit);
        let head = format!(
            "{{\"statsCollectedSince\":{},\"statsCollectedRecordsTotal\":{records},\"trackerCurrentMemoryUsageBytes\":{bytes},\"forgottenTotal\":{forgotten},\"matchingTotal\":{total},\"records\":",
            seconds(api.activity.since_ms),
        );
        let list = items_of(*b"[]", found.into_iter(), |out, (uses, name)| {
            out.extend_from_slice(record(uses, &name).to_string().as_bytes());
        });
        let mut answer = Answer::made(framed(head, "}", list));
        answer.holds.add(names.lease);
        answer.warnings = names.warnings;
        Ok(answer)
    })
    .await
}

fn record(uses: Uses, name: &str) -> Value {
    json!({
        "metricName": name,
        "queryRequestsCount": uses.total(),
        "queries": uses.queries,
        "dashboards": uses.dashboards,
        "rules": uses.rules,
        "lastRequestTimestamp": uses.last_ms / 1000,
    })
}

#[expect(clippy::cast_precision_loss, reason = "times stay below 2^53 ms")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}
