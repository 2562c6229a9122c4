//! Figures of one server: cores, per evaluation, and what it says of itself.

use super::run::Outcome;
use crate::record::{Figure, Run};

/// Returns a server's run; `baseline` are the cores it takes without rules.
pub(super) fn run(outcome: &Outcome, variant: &str, baseline: Option<f64>) -> Run {
    let cores = cores(outcome);
    let mut figures = vec![
        Figure::cost("CPU", "cores", cores).headline(),
        Figure::megabytes("RSS at the end", outcome.resident.rss_bytes).headline(),
        Figure::megabytes("RSS peak", outcome.to.usage.peak_rss_bytes),
        Figure::fact("threads", "", outcome.to.usage.threads as f64),
    ];
    figures.extend(evaluations(outcome, baseline));
    let schedule = &outcome.schedule;
    figures.extend([
        Figure::fact("scrapes", "", schedule.answered as f64),
        Figure::cost("missed scrapes", "", schedule.missed as f64),
        Figure::cost("late scrapes", "", schedule.late as f64),
        Figure::cost("scrapes off schedule p99", "ms", schedule.off_p99_ms),
        Figure::cost("scrapes off schedule p100", "ms", schedule.off_max_ms),
    ]);
    Run {
        courses: outcome
            .ticks
            .courses(Some(("samples taken in", "a second"))),
        own_costs: outcome.own_costs.clone(),
        ..Run::new(variant, figures)
    }
}

/// Returns the cores that the server took in the window.
pub(super) fn cores(outcome: &Outcome) -> f64 {
    let window = outcome.to.at - outcome.from.at;
    outcome.from.cpu_until(&outcome.to).as_secs_f64() / window.as_secs_f64()
}

fn evaluations(outcome: &Outcome, baseline: Option<f64>) -> Vec<Figure> {
    let (from, to) = &outcome.said;
    let grown = |key: &str| Some(to.get(key)? - from.get(key)?);
    let Some(count) = grown("evaluations_total").filter(|count| *count > 0.0) else {
        return Vec::new();
    };
    let window = (outcome.to.at - outcome.from.at).as_secs_f64();
    let cores = cores(outcome);
    let mut figures = vec![Figure::cost(
        "CPU an evaluation",
        "µs",
        cores * window * 1e6 / count,
    )];
    if let Some(baseline) = baseline {
        let of_rules = cores - baseline;
        figures.push(Figure::cost("CPU of rules", "cores", of_rules).headline());
        let each = of_rules * window * 1e6 / count;
        figures.push(Figure::cost("CPU of rules, an evaluation", "µs", each));
    }
    let mean = grown("evaluation_duration_seconds_sum")
        .zip(grown("evaluation_duration_seconds_count"))
        .map(|(seconds, count)| seconds / count.max(1.0));
    let quantile = |what: &str, share: f64| to.get(&format!("{what}_duration_seconds {share}"));
    for (key, seconds, is_headline) in [
        ("evaluation mean", mean, false),
        ("evaluation p50", quantile("evaluation", 0.5), false),
        ("evaluation p99", quantile("evaluation", 0.99), true),
        ("group p50", quantile("group", 0.5), false),
        ("group p99", quantile("group", 0.99), false),
    ] {
        figures.extend(seconds.map(|seconds| Figure {
            is_headline,
            ..Figure::cost(key, "ms", seconds * 1e3)
        }));
    }
    figures.push(Figure::fact("evaluations", "a second", count / window));
    let missed = grown("group_iterations_missed_total");
    figures.extend(missed.map(|missed| Figure::cost("missed iterations", "", missed)));
    let samples = to.get("group_last_evaluation_samples");
    figures.extend(samples.map(|count| Figure::fact("samples of a round", "", count)));
    for (state, count) in ["inactive", "pending", "firing"].iter().zip(outcome.alerts) {
        figures.push(Figure::fact(
            format!("alerting rules {state}"),
            "",
            count as f64,
        ));
    }
    figures
}
