//! Figures of one server: per sample, per series, per second.

use super::{plan::Plan, run::Outcome};
use crate::{
    harness::{MOST_POINTS, ms},
    load::{Class, Event, paced::latencies},
    record::{Course, Figure, Record, Run},
};
use std::time::Duration;

/// Interval aggregated into one point of a latency's course.
const LATENCY_STEP: Duration = Duration::from_secs(10);

/// Returns a server's run.
pub(super) fn run(plan: &Plan, variant: &str, outcome: &Outcome) -> Run {
    let mut courses = outcome
        .ticks
        .courses(Some(("samples taken in", "a second")));
    courses.extend(outcome.ticks.disk_courses());
    courses.extend(
        outcome
            .asked
            .iter()
            .map(|(class, events)| latency_course(outcome, class, events)),
    );
    let (from, to) = (outcome.from.at, outcome.to.at);
    let asked = outcome.asked.iter();
    let mut figures = resources(plan, outcome);
    figures.extend(schedule(outcome));
    figures.extend(queries(outcome));
    figures.extend_from_slice(&outcome.alone);
    figures.extend(starts(outcome));
    Run {
        courses,
        distributions: asked
            .map(|(class, events)| latencies(events, from, to).distribution(class.key))
            .collect(),
        own_costs: outcome.own_costs.clone(),
        ..Run::new(variant, figures)
    }
}

/// Describes the servers' losses at the kill, a sentence for each run with losses.
pub(super) fn losses(record: &Record) -> Vec<String> {
    let lost = |run: &Run| {
        let is_lost = run.figure(CORRECT).is_none();
        let label = record
            .subjects
            .get(run.subject)
            .map(|subject| &subject.label)?;
        is_lost.then(|| {
            format!("{label}, {}: after kill -9 the past was not answered as before: something was lost", run.variant)
        })
    };
    record.runs.iter().filter_map(lost).collect()
}

/// A figure that is omitted if something was lost.
const CORRECT: &str = "after kill -9 until the past is answered";

fn resources(plan: &Plan, outcome: &Outcome) -> Vec<Figure> {
    let Outcome {
        from, to, resident, ..
    } = outcome;
    let samples = (to.samples - from.samples).max(1) as f64;
    // Samples since the start, all of which the directory contains.
    let stored = to.samples.max(1) as f64;
    let series = plan.all_series() as f64;
    let cpu = to.usage.cpu.saturating_sub(from.usage.cpu).as_secs_f64();
    let first = outcome.first_round_cpu.as_secs_f64() * 1e6;
    let (rss, anonymous) = (resident.rss_bytes as f64, resident.anonymous_bytes as f64);
    let written = to.usage.write_bytes.saturating_sub(from.usage.write_bytes) as f64;
    let (disk, files) = (outcome.disk_bytes.0 as f64, outcome.disk_bytes.1 as f64);
    let window = (to.at - from.at).as_secs_f64();
    vec![
        Figure::cost("CPU a sample", "µs", cpu * 1e6 / samples),
        Figure::cost("CPU", "cores", cpu / window).headline(),
        Figure::cost(
            "CPU until all were scraped once",
            "µs a series",
            first / series,
        ),
        Figure::megabytes("RSS at the end", resident.rss_bytes).headline(),
        Figure::cost("RSS a series", "B", rss / series),
        Figure::cost("anonymous memory a series", "B", anonymous / series),
        Figure::megabytes("RSS peak", to.usage.peak_rss_bytes),
        Figure::megabytes("RSS peak with queries", outcome.peak_with_queries_bytes),
        Figure::cost("written to disk a sample", "B", written / samples).headline(),
        Figure::cost("data directory a sample", "B", disk / stored).headline(),
        Figure::cost("data directory", "MB", disk / 1e6),
        Figure::cost("files' length a sample", "B", files / stored),
        Figure::fact("processes", "", to.usage.processes as f64),
        Figure::fact("threads", "", to.usage.threads as f64),
        Figure::gain("samples", "a second", samples / window),
    ]
}

fn schedule(outcome: &Outcome) -> Vec<Figure> {
    let schedule = &outcome.schedule;
    let mut figures = vec![
        Figure::fact("scrapes", "", schedule.answered as f64),
        Figure::cost("missed scrapes", "", schedule.missed as f64),
        Figure::cost("late scrapes", "", schedule.late as f64),
        Figure::cost("off schedule p99", "ms", schedule.off_p99_ms),
        Figure::cost("off schedule p100", "ms", schedule.off_max_ms),
    ];
    if outcome.replaced > 0 {
        figures.push(Figure::fact(
            "targets replaced",
            "",
            outcome.replaced as f64,
        ));
    }
    figures
}

/// Returns the figures of queries during the window.
fn queries(outcome: &Outcome) -> Vec<Figure> {
    let mut figures = Vec::new();
    let (mut sent, mut failed) = (0, 0);
    for (class, events) in &outcome.asked {
        let corrected = latencies(events, outcome.from.at, outcome.to.at).corrected;
        sent += events.len();
        failed += events.iter().filter(|event| !event.is_success).count();
        let shares = [
            ("p50", 0.5, false),
            ("p90", 0.9, false),
            ("p99", 0.99, true),
            ("p100", 1.0, false),
        ];
        if corrected.count() > 0 {
            figures.extend(corrected.figures(&format!("{}, ", class.key), &shares));
        }
    }
    if !outcome.asked.is_empty() {
        figures.push(Figure::fact("queries answered", "", (sent - failed) as f64));
        figures.push(Figure::cost("queries failed", "", failed as f64));
    }
    figures
}

fn starts(outcome: &Outcome) -> Vec<Figure> {
    let recovery = &outcome.recovery;
    let cost = |key, time| Figure::cost(key, "ms", ms(time));
    let mut figures = vec![
        cost("first start until ready", outcome.ready),
        cost("first start until the first scrape", outcome.scraping),
        cost("after kill -9 until ready", recovery.ready),
    ];
    figures.extend(recovery.correct.map(|time| cost(CORRECT, time)));
    let unstored = recovery.answered.saturating_sub(recovery.stored) as f64;
    let all_ms = ms(recovery.all_scraped);
    figures.extend([
        cost(
            "after kill -9 until the first scrape",
            recovery.first_scrape,
        )
        .headline(),
        Figure::fact("after kill -9 until all were scraped", "ms", all_ms),
        Figure::cost("scrapes answered and not stored at kill -9", "", unstored),
    ]);
    figures
}

/// Returns the 99th percentile of a class, a point for every ten seconds.
fn latency_course(outcome: &Outcome, class: &Class, events: &[Event]) -> Course {
    let (from, to) = (outcome.from.at, outcome.to.at);
    let step = LATENCY_STEP.max((to - from) / MOST_POINTS as u32);
    let (mut points, mut start) = (Vec::new(), from);
    while start < to {
        let end = (start + step).min(to);
        let some = latencies(events, start, end);
        if some.corrected.count() > 0 {
            let at = (end - outcome.started).as_secs_f64();
            points.push([at, some.corrected.quantile_ms(0.99)]);
        }
        start = end;
    }
    Course::new(&format!("{}, p99", class.key), "ms", points.into_iter())
}
