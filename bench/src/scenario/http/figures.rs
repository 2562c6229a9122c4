//! Figures of `http`: percentile tables, costs of a request and of a scrape.
//!
//! **Invariant:** percentiles are those of the incident tables that people compare with: P50 to P99.99 and P100, from
//! due times.

use super::{
    measure::{Measured, Phase},
    plan::Plan,
};
use crate::{
    harness::{QUIET_CORES, ms},
    load::{Histogram, Scrape, open_loop::Load},
    record::{
        Course, Difference, Figure, OwnCost, Record, Run,
        summary::{Spread, sound, variants},
    },
};
use std::time::Duration;

/// The rows of a percentile table, and whether each is a headline.
const PERCENTILES: [(&str, f64, bool); 7] = [
    ("P50", 0.5, false),
    ("P75", 0.75, false),
    ("P90", 0.9, false),
    ("P99", 0.99, false),
    ("P99.9", 0.999, true),
    ("P99.99", 0.9999, false),
    ("P100", 1.0, true),
];

/// Below this, clock ticks dominate a meter's reading.
const SHORTEST: Duration = Duration::from_millis(500);

/// Returns the run of one phase.
pub(super) fn run(variant: String, plan: &Plan, measured: &Measured) -> Run {
    let Measured { load, used, .. } = measured;
    let others = used.others(QUIET_CORES);
    let Some(load) = load else {
        let count = measured.scrapes.len().max(1) as f64;
        let cpu = |running| Figure::cost("CPU a scrape", "ms", ms(running) / count).headline();
        let mut figures: Vec<Figure> = measured.running.into_iter().map(cpu).collect();
        figures.extend(measured.reader.as_ref().map(|reader| {
            Figure::cost("CPU a scrape of the reader", "ms", ms(reader.cpu()) / count)
        }));
        figures.extend(scrape_figures(&measured.scrapes));
        return Run {
            own_costs: (used.took > SHORTEST)
                .then_some(others)
                .into_iter()
                .collect(),
            ..Run::new(variant, figures)
        };
    };
    let mut own_costs = generator_costs(plan, load);
    own_costs.push(others);
    Run {
        courses: courses(plan, load, measured),
        distributions: vec![load.latencies.distribution("requests")],
        own_costs,
        ..Run::new(variant, load_figures(plan, load, measured))
    }
}

fn load_figures(plan: &Plan, load: &Load, measured: &Measured) -> Vec<Figure> {
    let Measured { used, scrapes, .. } = measured;
    let mut figures = load.latencies.corrected.figures("", &PERCENTILES);
    let answered = load.answered as f64 / plan.flags.duration.as_secs_f64();
    let bad = (load.refused + load.lost) as f64;
    figures.push(Figure::fact("requests answered", "a second", answered));
    figures.push(Figure::cost("requests without a good answer", "", bad));
    if measured.reloads > 0 {
        figures.push(Figure::fact("reloads", "", measured.reloads as f64));
    }
    if measured.ticks.is_some() {
        if measured.phase == Phase::WithoutScrapes {
            let each = used.cpu().as_secs_f64() * 1e6 / load.sent.max(1) as f64;
            figures.push(Figure::cost("CPU a request", "µs", each));
        }
        figures.push(Figure::cost("CPU", "cores", used.cores()));
        figures.push(Figure::megabytes("RSS", used.to.rss_bytes));
    }
    if let Some(reader) = &measured.reader {
        figures.push(Figure::cost("CPU of the reader", "cores", reader.cores()));
    }
    if !scrapes.is_empty() {
        figures.extend(scrape_figures(scrapes));
        figures.push(Figure::fact("scrapes", "", scrapes.len() as f64));
    }
    figures
}

/// Returns the generator's cost and lateness, which are not the server's.
fn generator_costs(plan: &Plan, load: &Load) -> Vec<OwnCost> {
    let cpu = load.cpu_a_request().as_secs_f64() * 1e6;
    let late = |share| load.late.quantile_ms(share);
    // Warn if the generator may account for a good part of the worst case.
    let longest = load.latencies.corrected.quantile_ms(1.0);
    vec![
        OwnCost::new("generator's CPU a request", "µs", cpu),
        OwnCost::new("late starts P99", "ms", late(0.99)).refuse_above(ms(plan.flags.max_late)),
        OwnCost::new("late starts P100", "ms", late(1.0)).warn_above(longest / 2.0),
        OwnCost::new("generator ready without running", "ms", ms(load.waited)),
    ]
}

fn scrape_figures(scrapes: &[Scrape]) -> Vec<Figure> {
    let took: Histogram = scrapes.iter().map(|scrape| scrape.took).collect();
    let bytes: u64 = scrapes.iter().map(|scrape| scrape.bytes).sum();
    let mb = bytes as f64 / 1e6 / scrapes.len().max(1) as f64;
    let samples = scrapes.last().map_or(0, |scrape| scrape.samples);
    let mut figures = took.figures("scrape time ", &[("P50", 0.5, false), ("P100", 1.0, false)]);
    figures.push(Figure::fact("size of a scrape", "MB", mb));
    figures.push(Figure::fact("samples of a scrape", "", samples as f64));
    figures
}

fn courses(plan: &Plan, load: &Load, measured: &Measured) -> Vec<Course> {
    let warmup = plan.flags.warmup.as_secs_f64();
    let seconds = load.seconds.iter().enumerate();
    let longest = seconds.map(|(at, second)| [warmup + at as f64 + 0.5, ms(second.longest)]);
    let mut courses = vec![Course::new("longest latency", "ms", longest)];
    courses.extend(measured.ticks.iter().flat_map(|ticks| ticks.courses(None)));
    if !measured.scrapes.is_empty() {
        let scrapes = measured.scrapes.iter();
        let points = scrapes.map(|scrape| [warmup + scrape.at.as_secs_f64(), ms(scrape.took)]);
        courses.push(Course::new("scrape time", "ms", points));
    }
    courses
}

/// Returns the percentile tables of each subject: medians over the pairs, and how much higher they are with scrapes.
pub(super) fn with_against_without(record: &Record) -> Vec<Difference> {
    let pairs = variants(record).into_iter().filter_map(|with| {
        let series = with.strip_suffix(Phase::WithScrapes.name())?;
        Some((
            series.trim_end_matches(", "),
            format!("{series}{}", Phase::WithoutScrapes.name()),
            with,
        ))
    });
    let pairs: Vec<_> = pairs.collect();
    let mut differences = Vec::new();
    for (subject, named) in record.subjects.iter().enumerate() {
        let mut rows = Vec::new();
        for (series, without, with) in &pairs {
            let runs = |variant| sound(record, subject, variant).collect::<Vec<_>>();
            let (without, with) = (runs(without), runs(with));
            for (name, share, _) in PERCENTILES {
                rows.push(row(series, name, share, &without, &with));
            }
        }
        if rows.iter().any(|row| row[2] != "-") {
            let title = format!(
                "{}: latency without and with scrapes, ms, median of the pairs (least..most)",
                named.label
            );
            let columns = [
                "series",
                "percentile",
                "without",
                "with",
                "with / without",
                "without, uncorrected",
                "with, uncorrected",
            ];
            let table = Difference::new(title, &columns);
            differences.push(Difference { rows, ..table });
        }
    }
    differences
}

fn row(series: &str, name: &str, share: f64, without: &[&Run], with: &[&Run]) -> Vec<String> {
    let corrected = |run: &&Run| run.figure(name).map(|figure| figure.value);
    let uncorrected = |run: &&Run| {
        let distribution = run.distributions.first()?;
        let quantile = distribution
            .uncorrected
            .iter()
            .find(|quantile| quantile.share == share);
        Some(quantile?.value)
    };
    let ratio = |run: &&Run| {
        let other = without
            .iter()
            .find(|other| other.repetition == run.repetition)?;
        let base = corrected(other).filter(|base| *base > 0.0)?;
        Some(corrected(run)? / base)
    };
    vec![
        series.to_owned(),
        name.to_owned(),
        shown(without.iter().filter_map(corrected)),
        shown(with.iter().filter_map(corrected)),
        shown(with.iter().filter_map(ratio)),
        shown(without.iter().filter_map(uncorrected)),
        shown(with.iter().filter_map(uncorrected)),
    ]
}

fn shown(values: impl Iterator<Item = f64>) -> String {
    let number = |value: f64| match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    };
    Spread::new(values).map_or("-".to_owned(), |spread| spread.shown("", number))
}

#[cfg(test)]
mod tests;
