//! What one server's readings come to: per sample.
//!
//! **Invariant:** a sample is one that was served; what servers add about their scrapes is part of their cost.

use super::run::{Outcome, Tick};
use crate::record::{Course, Figure, OwnCost, Readings, Run};

/// Cores of others above which a run is called noisy, and of our own above which it is refused.
const OTHERS: f64 = 0.3;
const OWN: f64 = 0.5;

/// Returns the run; subject and repetition are the caller's to set.
pub(crate) fn run(outcome: &Outcome) -> Run {
    Run {
        subject: 0,
        variant: String::new(),
        repetition: 0,
        figures: figures(outcome),
        courses: courses(&outcome.ticks),
        distributions: Vec::new(),
        own_costs: vec![
            OwnCost::new("own CPU", "cores", outcome.own_cores).refuse_above(OWN),
            OwnCost::new("cores of others", "", outcome.other_cores).warn_above(OTHERS),
        ],
    }
}

fn figures(outcome: &Outcome) -> Vec<Figure> {
    let samples = outcome.samples.max(1) as f64;
    let cpu = outcome
        .done
        .cpu
        .saturating_sub(outcome.ready.cpu)
        .as_secs_f64();
    let written = outcome
        .done
        .write_bytes
        .saturating_sub(outcome.ready.write_bytes) as f64;
    let rss = outcome.resident.rss_bytes as f64;
    // A server that writes blocks on demand is at rest in one; others are when they have stopped.
    let rest = outcome.snapshot.unwrap_or(outcome.stopped);
    let compared = &outcome.compared;
    let mut figures = vec![
        Figure::cost("at rest, a sample", "B", rest.0 as f64 / samples).headline(),
        Figure::cost(
            "at rest, files' length a sample",
            "B",
            rest.1 as f64 / samples,
        ),
        Figure::cost(
            "data directory after a stop, a sample",
            "B",
            outcome.stopped.0 as f64 / samples,
        )
        .headline(),
        Figure::cost(
            "files' length after a stop, a sample",
            "B",
            outcome.stopped.1 as f64 / samples,
        ),
        Figure::cost("written to disk a sample", "B", written / samples).headline(),
        Figure::cost("CPU a sample", "µs", cpu * 1e6 / samples).headline(),
        Figure::cost("RSS at the end", "MB", rss / 1e6).headline(),
        Figure::cost("RSS peak", "MB", outcome.done.peak_rss_bytes as f64 / 1e6),
        Figure::fact("samples served", "", outcome.samples as f64),
        Figure::fact("scrapes served", "", outcome.scrapes as f64),
        Figure::fact("series of the last round", "", outcome.series as f64),
        Figure::fact(
            "served a sample",
            "B",
            outcome.served_bytes as f64 / samples,
        ),
        Figure::fact("time of serving", "s", outcome.took.as_secs_f64()),
    ];
    if compared.samples > 0 {
        let count =
            |what: &str, count: u64| Figure::cost(format!("samples {what}"), "", count as f64);
        figures.extend([
            Figure::fact("samples read back", "", compared.samples as f64),
            count("missing", compared.missing),
            count("with other bits", compared.different),
            count("nobody served", compared.strange),
        ]);
    }
    figures
}

fn courses(ticks: &[Tick]) -> Vec<Course> {
    let readings = Readings::new(ticks, |tick| tick.at);
    vec![
        readings.rate("CPU", "cores", |tick| tick.usage.cpu.as_secs_f64()),
        readings.level("resident memory", "MB", |tick| {
            tick.usage.rss_bytes as f64 / 1e6
        }),
        readings.rate("written to disk", "MB/s", |tick| {
            tick.usage.write_bytes as f64 / 1e6
        }),
        readings.level("data directory", "MB", |tick| tick.disk_bytes as f64 / 1e6),
        readings.rate("samples", "a second", |tick| tick.samples as f64),
    ]
}
