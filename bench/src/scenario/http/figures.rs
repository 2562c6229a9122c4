//! What runs of `http` come to: percentile tables, costs of a request and of a scrape.
//!
//! **Invariant:** percentiles are those of the incident tables people compare with: P50 to P99.99 and P100, from when a
//! request was due.

use super::{
    measure::{Alone, Loaded, Tick},
    plan::Plan,
    scraper::Scrape,
};
use crate::{
    frame::measure::{ms, quantile},
    record::{
        Course, Difference, Distribution, Figure, OwnCost, Readings, Record, Run,
        summary::{Spread, sound, variants},
    },
};

/// Variants: what happens besides the load, or instead of it.
pub(super) const ALONE: &str = "scrapes without load";
pub(super) const WITHOUT: &str = "load without scrapes";
pub(super) const WITH: &str = "load with scrapes";

/// The rows of a percentile table, and which of them a reader looks at first.
const PERCENTILES: [(&str, f64, bool); 7] = [
    ("P50", 0.5, false),
    ("P75", 0.75, false),
    ("P90", 0.9, false),
    ("P99", 0.99, false),
    ("P99.9", 0.999, true),
    ("P99.99", 0.9999, false),
    ("P100", 1.0, true),
];
const LATENCIES: &str = "requests";
/// Cores of strangers above which a result is called noisy.
const QUIET_CORES: f64 = 0.1;

/// Returns the run of scrapes without load.
pub(super) fn alone(variant: String, alone: &Alone) -> Run {
    let count = alone.scrapes.len().max(1) as f64;
    let mut figures = Vec::new();
    if let Some(cpu) = alone.cpu {
        let each = ms(cpu) / count;
        figures.push(Figure::cost("CPU a scrape", "ms", each).headline());
    }
    figures.extend(scrape_figures(&alone.scrapes));
    Run {
        subject: 0,
        variant,
        repetition: 0,
        figures,
        courses: Vec::new(),
        distributions: Vec::new(),
        own_costs: alone
            .other_cores
            .map(|cores| OwnCost::new("cores of others", "", cores).warn_above(QUIET_CORES))
            .into_iter()
            .collect(),
    }
}

/// Returns the run of one load.
pub(super) fn loaded(variant: String, plan: &Plan, loaded: &Loaded) -> Run {
    let load = &loaded.load;
    let corrected = &load.latencies.corrected;
    let mut figures: Vec<Figure> = PERCENTILES
        .iter()
        .map(|(name, share, is_headline)| {
            let figure = Figure::cost(*name, "ms", corrected.quantile_ms(*share));
            if *is_headline {
                figure.headline()
            } else {
                figure
            }
        })
        .collect();
    let seconds = plan.duration.as_secs_f64();
    figures.push(Figure::fact(
        "requests answered",
        "a second",
        load.answered as f64 / seconds,
    ));
    let bad = load.refused + load.lost;
    figures.push(Figure::cost(
        "requests without a good answer",
        "",
        bad as f64,
    ));
    if let Some((first, last)) = ends(loaded.ticks.as_deref()) {
        let cpu = last.usage.cpu.saturating_sub(first.usage.cpu);
        let time = (last.at - first.at).as_secs_f64();
        if loaded.scrapes.is_empty() {
            let each = cpu.as_secs_f64() * 1e6 / load.sent.max(1) as f64;
            figures.push(Figure::cost("CPU a request", "µs", each));
        }
        figures.push(Figure::cost(
            "CPU",
            "cores",
            cpu.as_secs_f64() / time.max(1e-9),
        ));
        figures.push(Figure::cost("RSS", "MB", last.usage.rss_bytes as f64 / 1e6));
    }
    if !loaded.scrapes.is_empty() {
        figures.extend(scrape_figures(&loaded.scrapes));
        figures.push(Figure::fact("scrapes", "", loaded.scrapes.len() as f64));
    }
    Run {
        subject: 0,
        variant,
        repetition: 0,
        figures,
        courses: courses(plan, loaded),
        distributions: vec![load.latencies.distribution(LATENCIES)],
        own_costs: own_costs(plan, loaded),
    }
}

/// Returns what the generator cost and how late it was, which is not the server's doing.
fn own_costs(plan: &Plan, loaded: &Loaded) -> Vec<OwnCost> {
    let load = &loaded.load;
    let cpu = load.cpu_a_request().as_secs_f64() * 1e6;
    let late = |share| load.late.quantile_ms(share);
    // A worst case of which the generator may be a good part is worth a second look.
    let longest = load.latencies.corrected.quantile_ms(1.0);
    vec![
        OwnCost::new("generator's CPU a request", "µs", cpu),
        OwnCost::new("late starts P99", "ms", late(0.99)).refuse_above(ms(plan.max_late)),
        OwnCost::new("late starts P100", "ms", late(1.0)).warn_above(longest / 2.0),
        OwnCost::new("generator ready without running", "ms", ms(load.waited)),
        OwnCost::new("cores of others", "", loaded.other_cores).warn_above(QUIET_CORES),
    ]
}

fn scrape_figures(scrapes: &[Scrape]) -> Vec<Figure> {
    let mut took: Vec<f64> = scrapes.iter().map(|scrape| ms(scrape.took)).collect();
    took.sort_by(f64::total_cmp);
    let bytes: u64 = scrapes.iter().map(|scrape| scrape.bytes).sum();
    let count = scrapes.len().max(1) as f64;
    vec![
        Figure::cost("scrape time P50", "ms", quantile(&took, 0.5)),
        Figure::cost("scrape time P100", "ms", quantile(&took, 1.0)),
        Figure::fact("size of a scrape", "MB", bytes as f64 / 1e6 / count),
        Figure::fact(
            "samples of a scrape",
            "",
            scrapes.last().map_or(0.0, |scrape| scrape.series as f64),
        ),
    ]
}

fn courses(plan: &Plan, loaded: &Loaded) -> Vec<Course> {
    let course = |key: &str, unit: &str, points: Vec<[f64; 2]>| Course {
        key: key.to_owned(),
        unit: unit.to_owned(),
        points,
    };
    let warmup = plan.warmup.as_secs_f64();
    let seconds = loaded.load.seconds.iter().enumerate();
    let longest = seconds.map(|(at, second)| [warmup + at as f64 + 0.5, ms(second.longest)]);
    let mut courses = vec![course("longest latency", "ms", longest.collect())];
    if let Some(ticks) = &loaded.ticks {
        let readings = Readings::new(ticks, |tick| tick.at);
        courses.push(readings.rate("CPU", "cores", |tick| tick.usage.cpu.as_secs_f64()));
        courses.push(readings.level("resident memory", "MB", |tick| {
            tick.usage.rss_bytes as f64 / 1e6
        }));
    }
    if !loaded.scrapes.is_empty() {
        let scrapes = loaded.scrapes.iter();
        let points = scrapes.map(|scrape| [warmup + scrape.at.as_secs_f64(), ms(scrape.took)]);
        courses.push(course("scrape time", "ms", points.collect()));
    }
    courses
}

fn ends(ticks: Option<&[Tick]>) -> Option<(&Tick, &Tick)> {
    let ticks = ticks?;
    ticks.first().zip(ticks.last())
}

/// Returns the percentile tables of each subject: medians over the pairs, and how much higher they are with scrapes.
pub(super) fn with_against_without(record: &Record) -> Vec<Difference> {
    let pairs = variants(record).into_iter().filter_map(|with| {
        let series = with.strip_suffix(WITH)?;
        Some((
            series.trim_end_matches(", "),
            format!("{series}{WITHOUT}"),
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
            differences.push(Difference {
                title: format!(
                    "{}: latency without and with scrapes, ms, median of the pairs (least..most)",
                    named.label
                ),
                columns: [
                    "series",
                    "percentile",
                    "without",
                    "with",
                    "with / without",
                    "without, uncorrected",
                    "with, uncorrected",
                ]
                .map(str::to_owned)
                .to_vec(),
                rows,
            });
        }
    }
    differences
}

fn row(series: &str, name: &str, share: f64, without: &[&Run], with: &[&Run]) -> Vec<String> {
    let corrected = |run: &&Run| run.figure(name).map(|figure| figure.value);
    let uncorrected = |run: &&Run| {
        let distribution: &Distribution = run.distributions.first()?;
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
    match Spread::new(values) {
        None => "-".to_owned(),
        Some(spread) if spread.count == 1 => number(spread.median),
        Some(spread) => {
            let (least, most) = (number(spread.least), number(spread.most));
            format!("{} ({least}..{most})", number(spread.median))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::sample;

    fn run(variant: &str, repetition: usize, p100: f64) -> Run {
        Run {
            subject: 0,
            variant: variant.to_owned(),
            repetition,
            figures: vec![Figure::cost("P100", "ms", p100)],
            courses: Vec::new(),
            distributions: Vec::new(),
            own_costs: Vec::new(),
        }
    }

    #[test]
    fn a_ratio_is_made_within_a_pair_and_then_summed_up() {
        let mut record = sample();
        record.runs.clear();
        for (repetition, without, with) in [(0, 2.0, 10.0), (1, 200.0, 200.0), (2, 4.0, 12.0)] {
            record
                .runs
                .push(run("9 series, load without scrapes", repetition, without));
            record
                .runs
                .push(run("9 series, load with scrapes", repetition, with));
        }
        let differences = with_against_without(&record);
        let last = differences[0].rows.last().unwrap();
        assert_eq!(
            last[..5],
            [
                "9 series",
                "P100",
                "4.00 (2.00..200)",
                "12.0 (10.0..200)",
                "3.00 (1.00..5.00)"
            ]
        );
        assert_eq!(differences[0].rows.len(), PERCENTILES.len());
    }

    #[test]
    fn tables_rise_with_their_percentile() {
        assert!(PERCENTILES.is_sorted_by(|a, b| a.1 < b.1));
    }
}
