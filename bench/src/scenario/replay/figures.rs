//! What one server's readings come to: per sample.
//!
//! **Invariant:** a sample is one that was served; what servers add about their scrapes is part of their cost.

use super::run::{Outcome, Tick};
use crate::record::{Course, Figure, OwnCost, Run};

/// Points a course has at most.
const MOST_POINTS: usize = 300;
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
    let step = ticks.len().div_ceil(MOST_POINTS).max(1);
    let course = |key: &str, unit: &str, point: fn(&Tick, &Tick, f64) -> f64| Course {
        key: key.to_owned(),
        unit: unit.to_owned(),
        points: ticks
            .iter()
            .step_by(step)
            .zip(ticks.iter().step_by(step).skip(1))
            .map(|(from, to)| {
                let seconds = (to.at - from.at).as_secs_f64().max(1e-3);
                [to.at.as_secs_f64(), point(from, to, seconds)]
            })
            .collect(),
    };
    vec![
        course("CPU", "cores", |from, to, seconds| {
            to.usage.cpu.saturating_sub(from.usage.cpu).as_secs_f64() / seconds
        }),
        course("resident memory", "MB", |_, to, _| {
            to.usage.rss_bytes as f64 / 1e6
        }),
        course("written to disk", "MB/s", |from, to, seconds| {
            let bytes = to.usage.write_bytes.saturating_sub(from.usage.write_bytes);
            bytes as f64 / 1e6 / seconds
        }),
        course("data directory", "MB", |_, to, _| {
            to.disk_bytes as f64 / 1e6
        }),
        course("samples", "a second", |from, to, seconds| {
            to.samples.saturating_sub(from.samples) as f64 / seconds
        }),
    ]
}
