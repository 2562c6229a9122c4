//! What a query cost, as JSON: Prometheus' statistics, and where the time went.

use narthex_promql::{Phase, QueryStats, StepSamples, Trace};
use serde_json::{Map, Value as Json, json};
use std::time::Duration;

/// Returns statistics as Prometheus shows them; `by_step` also shows each step's.
pub(crate) fn stats_json(
    stats: &QueryStats,
    queued: Duration,
    evaluated: Duration,
    by_step: bool,
) -> Json {
    let (queued, evaluated) = (queued.as_secs_f64(), evaluated.as_secs_f64());
    let steps = stats.steps.as_ref();
    let sum = |counts: &[u64]| counts.iter().sum::<u64>();
    let mut samples = Map::new();
    if let Some(steps) = steps.filter(|_| by_step) {
        let used = by_time(steps, &steps.used);
        samples.insert("totalQueryableSamplesPerStep".to_owned(), used);
        let read = by_time(steps, &steps.read);
        samples.insert("samplesReadPerStep".to_owned(), read);
    }
    let [used, read] = match steps {
        Some(steps) => [sum(&steps.used), sum(&steps.read)],
        None => [stats.samples_read; 2],
    };
    samples.insert("totalQueryableSamples".to_owned(), used.into());
    samples.insert("samplesRead".to_owned(), read.into());
    samples.insert("seriesTouched".to_owned(), stats.series.into());
    samples.insert("peakSamples".to_owned(), stats.peak_samples.into());
    // Sorting and preparing are included in evaluation.
    json!({
        "timings": {
            "evalTotalTime": evaluated,
            "resultSortTime": 0.0,
            "queryPreparationTime": 0.0,
            "innerEvalTime": evaluated,
            "execQueueTime": queued,
            "execTotalTime": queued + evaluated,
        },
        "samples": samples,
    })
}

/// Returns `[[time, count], …]`.
fn by_time(steps: &StepSamples, counts: &[u64]) -> Json {
    let time = |at: usize| {
        let ms = steps.start_ms + i64::try_from(at).unwrap_or_default() * steps.step_ms;
        if ms % 1000 == 0 {
            json!(ms / 1000)
        } else {
            json!(ms as f64 / 1000.0)
        }
    };
    let counts = counts.iter().enumerate();
    counts.map(|(at, count)| json!([time(at), count])).collect()
}

/// Returns where the time of a query went; operations name their part of the text in bytes.
pub(crate) fn trace_json(trace: &Trace, text: &str, queued: Duration) -> Json {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let node = |node: &narthex_promql::TraceNode| {
        let (start, end) = (node.span.start as usize, node.span.end as usize);
        let phases = Phase::ALL.iter().zip(node.phases_ns);
        let phases = phases.filter(|(_, ns)| *ns > 0);
        let phases: Map<String, Json> = phases
            .map(|(phase, ns)| (phase.as_str().to_owned(), seconds(ns).into()))
            .collect();
        json!({
            "text": text.get(start..end).unwrap_or_default(),
            "start": start,
            "end": end,
            "parent": node.parent,
            "seconds": phases,
            "series": node.series,
            "samples": node.samples,
        })
    };
    let total: u64 = trace.nodes.iter().flat_map(|node| node.phases_ns).sum();
    json!({
        "queuedSeconds": queued.as_secs_f64(),
        "totalSeconds": seconds(total),
        "plan": trace.plan,
        "nodes": trace.nodes.iter().map(node).collect::<Vec<_>>(),
    })
}
