//! Figures of one run: per push, per sample, per series.
//!
//! **Invariant:** the cost of a push is measured while nobody scrapes; scrapes have costs of their own.

use super::{
    fleet::Fleet,
    plan::Plan,
    run::{Outcome, Quiet, Window},
    stored::Stored,
};
use crate::{
    harness::ms,
    load::Histogram,
    record::{Figure, OwnCost, Run},
};

/// Cores used by other processes above which a run is noisy.
const OTHERS: f64 = 0.3;
/// Maximum cost of writing a value into a body.
const WRITING_NS: f64 = 60.0;
/// A late start refuses a run if it exceeds this share of the latency that includes it.
const LATE_SHARE: f64 = 0.1;

pub(crate) fn run(plan: &Plan, fleet: &Fleet, outcome: &Outcome) -> Run {
    let distributions = outcome.windows().map(|(when, window)| {
        window
            .pushed
            .latencies
            .distribution(&format!("pushes{when}"))
    });
    Run {
        courses: outcome.ticks.courses(Some(("pushes", "a second"))),
        distributions: distributions.collect(),
        own_costs: own_costs(plan, outcome),
        ..Run::new(fleet.mode.name(), figures(fleet, outcome))
    }
}

fn figures(fleet: &Fleet, outcome: &Outcome) -> Vec<Figure> {
    let Outcome { first, plain, .. } = outcome;
    let a_push = |window: &Window| ms(window.used.cpu()) / window.pushed.taken().max(1) as f64;
    let samples = fleet.push_samples() as f64;
    let rss = outcome.usage.rss_bytes as f64;
    let mut figures = vec![
        Figure::cost("CPU a push", "ms", a_push(plain)).headline(),
        Figure::cost("CPU a sample", "ns", a_push(plain) * 1e6 / samples),
        Figure::cost("CPU a first push", "ms", a_push(first)),
        Figure::fact("pushes asked for", "a second", fleet.rate()),
    ];
    for (when, window) in outcome.windows() {
        let is_plain = when.is_empty();
        let rate = window.pushed.taken() as f64 / window.used.took.as_secs_f64();
        let rate = Figure::gain(format!("pushes{when}"), "a second", rate);
        figures.push(if is_plain { rate.headline() } else { rate });
        let shares = [
            ("p50", 0.5, is_plain),
            ("p90", 0.9, false),
            ("p99", 0.99, true),
            ("p99.9", 0.999, false),
            ("p100", 1.0, false),
        ];
        let latencies = &window.pushed.latencies.corrected;
        if latencies.count() > 0 {
            figures.extend(latencies.figures(&format!("push{when}, "), &shares));
        }
        if !is_plain {
            figures.extend(scrapes(window));
        }
    }
    let windows = || outcome.all_windows().map(|window| &window.pushed);
    let failed: u64 = windows().map(|pushed| pushed.failed).sum();
    let unsent: u64 = windows().map(|pushed| pushed.unsent).sum();
    let bytes = plain.pushed.body_bytes as f64 / plain.pushed.sent.len().max(1) as f64;
    let series = outcome.stored.series.max(1) as f64;
    figures.extend([
        Figure::cost("failed pushes", "", failed as f64),
        Figure::cost("pushes nobody was free to send", "", unsent as f64),
        Figure::fact("body of a push", "kB", bytes / 1e3),
        Figure::megabytes("RSS", outcome.usage.rss_bytes).headline(),
        Figure::megabytes("RSS peak", outcome.usage.peak_rss_bytes),
        Figure::cost("RSS a series", "B", rss / series),
    ]);
    if let Some([identity, gzip]) = &outcome.quiet {
        figures.extend(quiet("identity", identity));
        figures.extend(quiet("gzip", gzip));
    }
    figures.extend(stored("", &outcome.stored));
    if let Some(restart) = &outcome.restart {
        figures.push(Figure::cost("restart until ready", "ms", ms(restart.ready)));
        figures.extend(stored(" after a restart", &restart.stored));
    }
    figures
}

/// Returns the figures of scrapes during pushes.
fn scrapes(window: &Window) -> Vec<Figure> {
    let (count, good) = (window.scrapes.len(), || window.scrapes.iter().flatten());
    let times: Histogram = good().map(|scrape| scrape.took).collect();
    let mut figures = vec![
        Figure::fact("scrapes among pushes", "", count as f64),
        Figure::cost("failed scrapes", "", (count - good().count()) as f64),
    ];
    if times.count() > 0 {
        let shares = [("p50", 0.5, true), ("p100", 1.0, false)];
        figures.extend(times.figures("scrape among pushes, ", &shares));
    }
    figures
}

fn quiet(encoding: &str, quiet: &Quiet) -> [Figure; 3] {
    [
        Figure::cost(format!("scrape alone, {encoding}"), "ms", ms(quiet.took)),
        Figure::cost(format!("CPU of a scrape, {encoding}"), "ms", ms(quiet.cpu)),
        Figure::fact(format!("page, {encoding}"), "MB", quiet.bytes as f64 / 1e6),
    ]
}

fn stored(when: &str, stored: &Stored) -> [Figure; 4] {
    let figure =
        |what: &str, count: u64| Figure::cost(format!("series {what}{when}"), "", count as f64);
    [
        Figure::fact(format!("series stored{when}"), "", stored.series as f64),
        figure("missing", stored.missing),
        figure("with a wrong value", stored.wrong),
        figure("nobody pushed", stored.strange),
    ]
}

fn own_costs(plan: &Plan, outcome: &Outcome) -> Vec<OwnCost> {
    let Window { pushed, used, .. } = &outcome.plain;
    let samples = pushed.samples.max(1) as f64;
    let writing_ns = pushed.writing.as_nanos() as f64 / samples;
    let packing_ns = pushed.packing.as_nanos() as f64 / samples;
    let cores = pushed.cpu.as_secs_f64() / used.took.as_secs_f64();
    let mut costs = vec![
        OwnCost::new("writing a value", "ns", writing_ns).warn_above(WRITING_NS),
        OwnCost::new("compressing a sample", "ns", packing_ns),
        OwnCost::new("pushers' CPU", "cores", cores),
        used.others(OTHERS),
    ];
    costs.extend(outcome.windows().map(|(when, window)| {
        let late = window.pushed.late.quantile_ms(0.99);
        let bound = window.pushed.latencies.corrected.quantile_ms(0.99) * LATE_SHARE;
        let cost = OwnCost::new(&format!("late starts, p99{when}"), "ms", late);
        cost.refuse_above(bound.max(ms(plan.flags.max_late)))
    }));
    costs
}
