//! What one server's readings come to: per sample, per series, per second.

use super::{outcome::Outcome, plan::Plan};
use crate::{
    load::{latency::Histogram, paced::latencies},
    record::{Course, Figure, MOST_POINTS, Readings, Record, Run},
};
use std::time::Duration;

/// Over how much time a point of a latency's course looks.
const LATENCY_STEP: Duration = Duration::from_secs(10);

/// Returns a server's run; subject, variant and repetition are the caller's to set.
pub(super) fn run(plan: &Plan, outcome: &Outcome) -> Run {
    let mut courses = courses(outcome);
    courses.extend(latency_courses(outcome));
    let (from, to) = outcome.measured;
    let (from, to) = (outcome.started + from, outcome.started + to);
    let asked = outcome.asked.iter();
    Run {
        subject: 0,
        variant: String::new(),
        repetition: 0,
        figures: figures(plan, outcome),
        courses,
        distributions: asked
            .map(|(class, events)| latencies(events, from, to).distribution(class.key))
            .collect(),
        own_costs: outcome.own_costs.clone(),
    }
}

/// Says what servers lost at the kill, a sentence for each run that lost something.
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

/// A figure that is missing where something was lost.
const CORRECT: &str = "after kill -9 until the past is answered";

/// Returns the figures of one server in their order.
fn figures(plan: &Plan, outcome: &Outcome) -> Vec<Figure> {
    let mut figures = resources(plan, outcome);
    figures.extend(schedule(outcome));
    figures.extend(queries(outcome));
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
    let files = outcome.disk_apparent_bytes as f64;
    let window = outcome.window.as_secs_f64();
    vec![
        Figure::cost("CPU a sample", "µs", cpu * 1e6 / samples),
        Figure::cost("CPU", "cores", cpu / window).headline(),
        Figure::cost(
            "CPU until all were scraped once",
            "µs a series",
            first * 1e6 / series,
        ),
        Figure::cost("RSS at the end", "MB", rss / 1e6).headline(),
        Figure::cost("RSS a series", "B", rss / series),
        Figure::cost("anonymous memory a series", "B", anonymous / series),
        Figure::cost("RSS peak", "MB", outcome.to.peak_rss_bytes as f64 / 1e6),
        Figure::cost(
            "RSS peak with queries",
            "MB",
            outcome.peak_with_queries_bytes as f64 / 1e6,
        ),
        Figure::cost("written to disk a sample", "B", written / samples).headline(),
        Figure::cost("data directory a sample", "B", disk / stored).headline(),
        Figure::cost("data directory", "MB", disk / 1e6),
        Figure::cost("files' length a sample", "B", files / stored),
        Figure::fact("processes", "", outcome.to.processes as f64),
        Figure::fact("threads", "", outcome.to.threads as f64),
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

/// What was asked during the window.
fn queries(outcome: &Outcome) -> Vec<Figure> {
    let mut figures = Vec::new();
    let (mut sent, mut failed) = (0, 0);
    for (class, events) in &outcome.asked {
        let mut corrected = Histogram::default();
        for event in events {
            corrected.add(event.ended.saturating_duration_since(event.due));
        }
        sent += events.len();
        failed += events.iter().filter(|event| !event.is_success).count();
        if corrected.count() == 0 {
            continue;
        }
        for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p100", 1.0)] {
            let figure = Figure::cost(
                format!("{}, {name}", class.key),
                "ms",
                corrected.quantile_ms(share),
            );
            figures.push(if name == "p99" {
                figure.headline()
            } else {
                figure
            });
        }
    }
    if !outcome.asked.is_empty() {
        figures.push(Figure::fact("queries answered", "", (sent - failed) as f64));
        figures.push(Figure::cost("queries failed", "", failed as f64));
    }
    figures
}

fn starts(outcome: &Outcome) -> Vec<Figure> {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let recovery = &outcome.recovery;
    let unstored = recovery.answered.saturating_sub(recovery.stored);
    let mut figures = vec![
        Figure::cost("first start until ready", "ms", ms(outcome.ready)),
        Figure::cost(
            "first start until the first scrape",
            "ms",
            ms(outcome.scraping),
        ),
        Figure::cost("after kill -9 until ready", "ms", ms(recovery.ready)),
    ];
    figures.extend(
        recovery
            .correct
            .map(|time| Figure::cost(CORRECT, "ms", ms(time))),
    );
    figures.extend([
        Figure::cost(
            "after kill -9 until the first scrape",
            "ms",
            ms(recovery.first_scrape),
        )
        .headline(),
        Figure::fact(
            "after kill -9 until all were scraped",
            "ms",
            ms(recovery.all_scraped),
        ),
        Figure::cost(
            "scrapes answered and not stored at kill -9",
            "",
            unstored as f64,
        ),
    ]);
    figures
}

/// CPU, memory, disk and samples as rates and levels.
fn courses(outcome: &Outcome) -> Vec<Course> {
    let readings = Readings::new(&outcome.ticks, |tick| tick.at);
    vec![
        readings.level("resident memory", "MB", |tick| {
            tick.usage.rss_bytes as f64 / 1e6
        }),
        readings.rate("CPU", "cores", |tick| tick.usage.cpu.as_secs_f64()),
        readings.rate("written to disk", "MB/s", |tick| {
            tick.usage.write_bytes as f64 / 1e6
        }),
        readings.level("data directory", "MB", |tick| tick.disk_bytes as f64 / 1e6),
        readings.rate("samples taken in", "thousand a second", |tick| {
            tick.samples as f64 / 1e3
        }),
    ]
}

/// Returns the 99th percentile of each class, a point for every ten seconds.
fn latency_courses(outcome: &Outcome) -> Vec<Course> {
    let (from, to) = outcome.measured;
    let step = LATENCY_STEP.max((to - from) / MOST_POINTS as u32);
    let course = |(class, events): &(crate::load::paced::Class, Vec<crate::load::paced::Event>)| {
        let mut points = Vec::new();
        let mut start = from;
        while start < to {
            let end = (start + step).min(to);
            let some = latencies(events, outcome.started + start, outcome.started + end);
            if some.corrected.count() > 0 {
                points.push([end.as_secs_f64(), some.corrected.quantile_ms(0.99)]);
            }
            start = end;
        }
        Course {
            key: format!("{}, p99", class.key),
            unit: "ms".to_owned(),
            points,
        }
    };
    outcome.asked.iter().map(course).collect()
}
