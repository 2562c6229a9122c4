//! `query analyze`: how many buckets of histograms are used.
//!
//! **Invariant:** the report is promtool's, in the order of series' names.

use super::{
    answer::{Answer, Labels, Series},
    promql,
};
use serde_json::Value as Json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    time::Duration,
};

const HEAD: &str = "Bucket stats for each histogram series over time
------------------------------------------------
First the min, avg, and max number of populated buckets, followed by the total
number of buckets (only if different from the max number of populated buckets
which is typical for classic but not native histograms).
";
const FOOT: &str = "Aggregated bucket stats
-----------------------
Each line shows min/avg/max over the series above.
";

/// Populated buckets of one histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Statistics {
    least: usize,
    average: f64,
    most: usize,
    total: usize,
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:.3}/{}", self.least, self.average, self.most)?;
        if self.most == self.total {
            return Ok(());
        }
        write!(f, "/{}", self.total)
    }
}

/// Asks for the samples of histograms and returns the report.
pub(super) fn histograms(
    matches: &[String],
    duration: Duration,
    mut ask: impl FnMut(String) -> Result<Json, String>,
) -> Result<String, String> {
    let (mut native, mut classic) = (Vec::new(), Vec::new());
    let mut out = format!("{HEAD}\n");
    for selector in matches {
        let data = ask(format!("{selector}[{}ms]", duration.as_millis()))?;
        let Answer::Matrix(all) = Answer::read(&data)? else {
            return Err("query of buckets resulted in non-Matrix".to_owned());
        };
        let mut by_name = BTreeMap::<String, Vec<&Series>>::new();
        for series in &all {
            if !series.points.is_empty() {
                if let Some(name) = classic_name(&series.labels) {
                    by_name.entry(name).or_default().push(series);
                }
            } else if let Some(statistics) = of_native(series) {
                let name = promql::metric(&series.labels);
                let _ = writeln!(out, "- {name} (native): {statistics}");
                native.push(statistics);
            }
        }
        for (name, buckets) in by_name {
            if let Some(statistics) = of_classic(buckets)? {
                let _ = writeln!(out, "- {name} (classic): {statistics}");
                classic.push(statistics);
            }
        }
    }
    let _ = write!(out, "\n{FOOT}");
    for (kind, all) in [("Native", native), ("Classic", classic)] {
        if !all.is_empty() {
            let _ = write!(out, "\n{kind} {}\n", summary(&all));
        }
    }
    Ok(out)
}

/// Returns the name of the classic histogram that a bucket belongs to.
fn classic_name(labels: &Labels) -> Option<String> {
    let name = labels
        .get("__name__")
        .filter(|name| name.ends_with("_bucket"))?;
    labels.get("le")?;
    let mut others = labels.clone();
    others.remove("__name__");
    others.remove("le");
    let pairs = promql::label_sets(&[others]);
    Some(format!("{name}{}", pairs.trim_end()))
}

fn of_native(series: &Series) -> Option<Statistics> {
    if series.histograms.len() < 2 {
        return None;
    }
    let counts = series.histograms.iter().map(|(_, one)| one.buckets.len());
    let all = series.histograms.iter().flat_map(|(_, one)| &one.buckets);
    let distinct: BTreeSet<_> = all.map(|one| (one.rule, &one.lower, &one.upper)).collect();
    Some(statistics(counts.collect(), distinct.len()))
}

fn of_classic(mut buckets: Vec<&Series>) -> Result<Option<Statistics>, String> {
    let bound = |series: &&Series| {
        series
            .labels
            .get("le")
            .and_then(|le| le.parse::<f64>().ok())
    };
    buckets.sort_by(|a, b| bound(a).unwrap_or(0.0).total_cmp(&bound(b).unwrap_or(0.0)));
    let samples = buckets.first().map_or(0, |first| first.points.len());
    if samples < 2 {
        return Ok(None);
    }
    let mut counts = Vec::with_capacity(samples);
    for at in 0..samples {
        let mut populated = 0;
        let (mut below, mut time) = (0.0, None);
        for bucket in &buckets {
            // Series of different lengths give partial results.
            let Some(point) = bucket.points.get(at) else {
                break;
            };
            if time.is_some_and(|time| time != point.time) {
                return Err("matrix result is not time aligned".to_owned());
            }
            time = Some(point.time);
            populated += usize::from((point.value - below).trunc() != 0.0);
            below = point.value;
        }
        counts.push(populated);
    }
    Ok(Some(statistics(counts, buckets.len())))
}

fn statistics(counts: Vec<usize>, total: usize) -> Statistics {
    Statistics {
        least: counts.iter().copied().min().unwrap_or(0),
        average: counts.iter().sum::<usize>() as f64 / counts.len() as f64,
        most: counts.iter().copied().max().unwrap_or(0),
        total,
    }
}

fn summary(all: &[Statistics]) -> String {
    let line = |name: &str, of: fn(&Statistics) -> usize| {
        let counts = all.iter().map(of).collect::<Vec<_>>();
        let Statistics {
            least,
            average,
            most,
            ..
        } = statistics(counts, 0);
        format!("- {name}: {least}/{average:.3}/{most}")
    };
    let mut lines = vec![
        format!("histogram series ({} in total):", all.len()),
        line("min populated", |one| one.least),
        line("avg populated", |one| one.average as usize),
        line("max populated", |one| one.most),
    ];
    if all.iter().any(|one| one.most != one.total) {
        lines.push(line("total", |one| one.total));
    }
    lines.join("\n")
}
