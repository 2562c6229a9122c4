//! What one run's readings come to: per push, per sample, per series.
//!
//! **Invariant:** the cost of a push is taken where nobody scrapes; what scrapes cost is told apart.

use super::{
    fleet::Fleet,
    plan::Plan,
    run::{Outcome, Quiet, Tick, Window},
    stored::Stored,
};
use crate::{
    frame::measure::ms,
    load::latency::Histogram,
    record::{Course, Figure, OwnCost, Readings, Run},
};

/// Cores of others above which a run is called noisy.
const OTHERS: f64 = 0.3;
/// What moving a value may cost.
const FILLING_NS: f64 = 60.0;
/// A late start refuses a run when it is more than this share of the latency it is part of.
const LATE_SHARE: f64 = 0.1;

/// Returns the run; subject and repetition are the caller's to set.
pub(crate) fn run(plan: &Plan, fleet: &Fleet, outcome: &Outcome) -> Run {
    let mut distributions = vec![outcome.plain.pushed.latencies.distribution("pushes")];
    if let Some(scraped) = &outcome.scraped {
        let latencies = &scraped.pushed.latencies;
        distributions.push(latencies.distribution("pushes while scraped"));
    }
    Run {
        subject: 0,
        variant: fleet.way.name(),
        repetition: 0,
        figures: figures(fleet, outcome),
        courses: courses(&outcome.ticks),
        distributions,
        own_costs: own_costs(plan, outcome),
    }
}

fn figures(fleet: &Fleet, outcome: &Outcome) -> Vec<Figure> {
    let Outcome { first, plain, .. } = outcome;
    let a_push = |window: &Window| ms(window.cpu) / window.pushed.taken().max(1) as f64;
    let samples = fleet.all_series() as f64 / f64::from(fleet.groups());
    let rss = outcome.usage.rss_bytes as f64;
    let mut figures = vec![
        Figure::cost("CPU a push", "ms", a_push(plain)).headline(),
        Figure::cost("CPU a sample", "ns", a_push(plain) * 1e6 / samples),
        Figure::cost("CPU a first push", "ms", a_push(first)),
        Figure::fact("pushes asked for", "a second", fleet.rate()),
        Figure::gain("pushes", "a second", rate(plain)).headline(),
    ];
    figures.extend(latencies("push", &plain.pushed.latencies.corrected, true));
    if let Some(scraped) = &outcome.scraped {
        figures.push(Figure::gain(
            "pushes while scraped",
            "a second",
            rate(scraped),
        ));
        let latencies = latencies(
            "push while scraped",
            &scraped.pushed.latencies.corrected,
            false,
        );
        figures.extend(latencies);
        figures.extend(scrapes(scraped));
    }
    let windows = || {
        [Some(first), Some(plain), outcome.scraped.as_ref()]
            .into_iter()
            .flatten()
    };
    let sum = |count: fn(&Window) -> u64| windows().map(count).sum::<u64>() as f64;
    figures.extend([
        Figure::cost("failed pushes", "", sum(|window| window.pushed.failed)),
        Figure::cost(
            "pushes nobody was free to send",
            "",
            sum(|window| window.pushed.unsent),
        ),
        Figure::fact(
            "body of a push",
            "kB",
            plain.pushed.body_bytes as f64 / 1e3 / plain.pushed.sent.len().max(1) as f64,
        ),
        Figure::cost("RSS", "MB", rss / 1e6).headline(),
        Figure::cost("RSS peak", "MB", outcome.usage.peak_rss_bytes as f64 / 1e6),
        Figure::cost(
            "RSS a series",
            "B",
            rss / outcome.stored.series.max(1) as f64,
        ),
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

fn latencies(what: &str, latencies: &Histogram, is_first: bool) -> Vec<Figure> {
    if latencies.count() == 0 {
        return Vec::new();
    }
    let figure = |(name, share): (&str, f64)| {
        let figure = Figure::cost(
            format!("{what}, {name}"),
            "ms",
            latencies.quantile_ms(share),
        );
        match name == "p99" || is_first && name == "p50" {
            true => figure.headline(),
            false => figure,
        }
    };
    [
        ("p50", 0.5),
        ("p90", 0.9),
        ("p99", 0.99),
        ("p99.9", 0.999),
        ("p100", 1.0),
    ]
    .into_iter()
    .map(figure)
    .collect()
}

/// Scrapes among pushes.
fn scrapes(window: &Window) -> Vec<Figure> {
    let mut times = Histogram::default();
    for scrape in window.scrapes.iter().filter(|scrape| scrape.is_success) {
        times.add(scrape.took);
    }
    let failed = window
        .scrapes
        .iter()
        .filter(|scrape| !scrape.is_success)
        .count();
    let mut figures = vec![
        Figure::fact("scrapes among pushes", "", window.scrapes.len() as f64),
        Figure::cost("failed scrapes", "", failed as f64),
    ];
    if times.count() > 0 {
        let [middle, longest] = [0.5, 1.0].map(|share| times.quantile_ms(share));
        figures.push(Figure::cost("scrape among pushes, p50", "ms", middle).headline());
        figures.push(Figure::cost("scrape among pushes, p100", "ms", longest));
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
    let Outcome { plain, .. } = outcome;
    let pushed = &plain.pushed;
    let samples = pushed.samples.max(1) as f64;
    let mut costs = vec![
        OwnCost::new(
            "moving a value",
            "ns",
            pushed.filling.as_nanos() as f64 / samples,
        )
        .warn_above(FILLING_NS),
        OwnCost::new(
            "compressing a sample",
            "ns",
            pushed.packing.as_nanos() as f64 / samples,
        ),
        OwnCost::new(
            "pushers' CPU",
            "cores",
            pushed.cpu.as_secs_f64() / plain.took.as_secs_f64(),
        ),
        OwnCost::new("cores of others", "", plain.other_cores).warn_above(OTHERS),
    ];
    let windows = [
        Some(("", plain)),
        outcome
            .scraped
            .as_ref()
            .map(|window| (" while scraped", window)),
    ];
    for (when, window) in windows.into_iter().flatten() {
        let late = window.pushed.late.quantile_ms(0.99);
        let bound = window.pushed.latencies.corrected.quantile_ms(0.99) * LATE_SHARE;
        let key = format!("late starts, p99{when}");
        costs.push(OwnCost::new(&key, "ms", late).refuse_above(bound.max(ms(plan.max_late))));
    }
    costs
}

/// CPU, memory and pushes as rates and levels.
fn courses(ticks: &[Tick]) -> Vec<Course> {
    let readings = Readings::new(ticks, |tick| tick.at);
    vec![
        readings.rate("CPU", "cores", |tick| tick.usage.cpu.as_secs_f64()),
        readings.level("resident memory", "MB", |tick| {
            tick.usage.rss_bytes as f64 / 1e6
        }),
        readings.rate("pushes", "a second", |tick| tick.ended as f64),
    ]
}

fn rate(window: &Window) -> f64 {
    window.pushed.taken() as f64 / window.took.as_secs_f64()
}
