//! What one server's readings come to: per sample, per series, per second.

use super::{
    outcome::{Outcome, Tick},
    plan::Plan,
};
use crate::record::{Course, Figure, Run};
use std::time::Duration;

/// Returns a server's run; subject and repetition are the caller's to set.
pub(super) fn run(plan: &Plan, outcome: &Outcome) -> Run {
    Run {
        subject: 0,
        variant: String::new(),
        repetition: 0,
        figures: figures(plan, outcome),
        courses: courses(outcome),
        distributions: Vec::new(),
        own_costs: outcome.own_costs.clone(),
    }
}

/// Returns the figures of one server; every server has the same ones in the same order.
fn figures(plan: &Plan, outcome: &Outcome) -> Vec<Figure> {
    let mut figures = resources(plan, outcome);
    figures.extend(schedule(outcome));
    let latency =
        |latency: &super::query::Latency| Figure::cost(latency.key, "ms", latency.p50_ms());
    figures.extend(outcome.latencies.iter().map(latency));
    figures.extend(starts(outcome));
    figures
}

fn resources(plan: &Plan, outcome: &Outcome) -> Vec<Figure> {
    let samples = outcome.samples.max(1) as f64;
    let stored = outcome.stored_samples.max(1) as f64;
    let series = plan.all_series() as f64;
    let cpu = outcome
        .to
        .cpu
        .saturating_sub(outcome.from.cpu)
        .as_secs_f64();
    let first = outcome.first_round_cpu.as_secs_f64();
    let rss = outcome.resident.rss_bytes as f64;
    let anonymous = outcome.resident.anonymous_bytes as f64;
    let written = outcome
        .to
        .write_bytes
        .saturating_sub(outcome.from.write_bytes) as f64;
    let disk = outcome.disk_bytes as f64;
    vec![
        Figure::cost("CPU a sample", "µs", cpu * 1e6 / samples),
        Figure::cost("CPU", "cores", cpu / outcome.window.as_secs_f64()),
        Figure::cost(
            "CPU until all were scraped once",
            "µs a series",
            first * 1e6 / series,
        ),
        Figure::cost("RSS at the end", "MB", rss / 1e6),
        Figure::cost("RSS a series", "B", rss / series),
        Figure::cost("anonymous memory a series", "B", anonymous / series),
        Figure::cost("RSS peak", "MB", outcome.to.peak_rss_bytes as f64 / 1e6),
        Figure::cost(
            "RSS peak with queries",
            "MB",
            outcome.peak_with_queries_bytes as f64 / 1e6,
        ),
        Figure::cost("written to disk a sample", "B", written / samples),
        Figure::cost("data directory a sample", "B", disk / stored),
        Figure::cost("data directory", "MB", disk / 1e6),
        Figure::fact(
            "samples",
            "a second",
            samples / outcome.window.as_secs_f64(),
        ),
    ]
}

fn schedule(outcome: &Outcome) -> [Figure; 4] {
    let schedule = &outcome.schedule;
    [
        Figure::fact("scrapes", "", schedule.answered as f64),
        Figure::fact("missed scrapes", "", schedule.missed as f64),
        Figure::fact("late scrapes", "", schedule.late as f64),
        Figure::cost("off schedule p99", "ms", schedule.off_p99_ms),
    ]
}

fn starts(outcome: &Outcome) -> [Figure; 7] {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let recovery = &outcome.recovery;
    let unstored = recovery.answered.saturating_sub(recovery.stored);
    [
        Figure::cost("first start until ready", "ms", ms(outcome.ready)),
        Figure::cost(
            "first start until the first scrape",
            "ms",
            ms(outcome.scraping),
        ),
        Figure::cost("after kill -9 until ready", "ms", ms(recovery.ready)),
        Figure::cost(
            "after kill -9 until the past is answered",
            "ms",
            ms(recovery.correct),
        ),
        Figure::cost(
            "after kill -9 until the first scrape",
            "ms",
            ms(recovery.first_scrape),
        ),
        Figure::fact(
            "after kill -9 until all were scraped",
            "ms",
            ms(recovery.all_scraped),
        ),
        Figure::fact(
            "scrapes answered and not stored at kill -9",
            "",
            unstored as f64,
        ),
    ]
}

/// Returns what changed while the server ran, a point a second.
fn courses(outcome: &Outcome) -> Vec<Course> {
    let course = |key: &str, unit: &str, of: &dyn Fn(&Tick) -> f64| Course {
        key: key.to_owned(),
        unit: unit.to_owned(),
        points: outcome
            .ticks
            .iter()
            .map(|tick| [tick.at.as_secs_f64(), of(tick)])
            .collect(),
    };
    vec![
        course("resident memory", "MB", &|tick| {
            tick.usage.rss_bytes as f64 / 1e6
        }),
        course("CPU time", "s", &|tick| tick.usage.cpu.as_secs_f64()),
        course("written to disk", "MB", &|tick| {
            tick.usage.write_bytes as f64 / 1e6
        }),
        course("data directory", "MB", &|tick| tick.disk_bytes as f64 / 1e6),
        course("scrapes", "", &|tick| tick.answered as f64),
    ]
}
