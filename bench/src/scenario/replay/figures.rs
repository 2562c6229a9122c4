//! Figures of one server, per sample.
//!
//! **Invariant:** a sample is one that was served; the series servers add about their scrapes are part of their cost.

use super::run::Outcome;
use crate::record::{Figure, OwnCost, Run};

/// Cores used by others above which a run is noisy, and by ourselves above which it is refused.
const OTHERS: f64 = 0.3;
const OWN: f64 = 0.5;

pub(crate) fn run(outcome: &Outcome) -> Run {
    let mut courses = outcome.ticks.courses(Some(("samples", "a second")));
    courses.extend(outcome.ticks.disk_courses());
    let used = &outcome.used;
    Run {
        courses,
        own_costs: vec![
            OwnCost::new("own CPU", "cores", used.own_cores()).refuse_above(OWN),
            used.others(OTHERS),
        ],
        ..Run::new("", figures(outcome))
    }
}

fn figures(outcome: &Outcome) -> Vec<Figure> {
    let used = &outcome.used;
    let a_sample = |total: f64| total / outcome.samples.max(1) as f64;
    let (cpu_us, written) = (used.cpu().as_secs_f64() * 1e6, used.written_bytes() as f64);
    // A server that writes blocks on demand is at rest in one; others are when they have stopped.
    let (stopped, stopped_files) = outcome.stopped;
    let (rest, rest_files) = outcome.snapshot.unwrap_or(outcome.stopped);
    let bytes = |key: &str, total: u64| Figure::cost(key, "B", a_sample(total as f64));
    let mut figures = vec![
        bytes("at rest, a sample", rest).headline(),
        bytes("at rest, files' length a sample", rest_files),
        bytes("data directory after a stop, a sample", stopped).headline(),
        bytes("files' length after a stop, a sample", stopped_files),
        Figure::cost("written to disk a sample", "B", a_sample(written)).headline(),
        Figure::cost("CPU a sample", "µs", a_sample(cpu_us)).headline(),
        Figure::megabytes("RSS at the end", outcome.resident.rss_bytes).headline(),
        Figure::megabytes("RSS peak", used.to.peak_rss_bytes),
        Figure::fact("samples served", "", outcome.samples as f64),
        Figure::fact("scrapes served", "", outcome.scrapes as f64),
        Figure::fact("series of the last round", "", outcome.series as f64),
        Figure::fact(
            "served a sample",
            "B",
            a_sample(outcome.served_bytes as f64),
        ),
        Figure::fact("time of serving", "s", outcome.took.as_secs_f64()),
    ];
    let compared = &outcome.compared;
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
