//! The tables of a record, for the terminal and the page alike.

use super::number::{digits, name, ratio, spread};
use crate::record::{
    Difference, Distribution, OwnCost, Quantile, Record, Run, Verdict,
    summary::{Spread, distinct, rows, sound},
};

/// Percentiles of every latency table.
const SHARES: [(f64, &str); 6] = [
    (0.5, "p50"),
    (0.9, "p90"),
    (0.99, "p99"),
    (0.999, "p99.9"),
    (0.9999, "p99.99"),
    (1.0, "p100"),
];

type TableOf = fn(&Distribution) -> &Vec<Quantile>;

/// Where latencies are counted from, and the table of a distribution for that.
const SIDES: [(&str, TableOf); 2] = [
    ("from due", |distribution| &distribution.corrected),
    ("from sent", |distribution| &distribution.uncorrected),
];

/// Returns the figures under one variant: a column for each subject, then one for each ratio to the first.
pub(super) fn figures(record: &Record, variant: &str) -> Difference {
    let labels = || record.subjects.iter().map(|subject| subject.label.clone());
    let first = labels().next().unwrap_or_default();
    let ratios = labels().skip(1).map(|label| format!("{label} / {first}"));
    let rows = rows(record, variant).into_iter().map(|row| {
        let values = row.values.iter();
        let values = values.map(|value| value.as_ref().map_or("-".to_owned(), spread));
        let ratios = row.ratios.iter().skip(1);
        let ratios = ratios.map(|value| value.as_ref().map_or_else(String::new, ratio));
        let line = std::iter::once(name(&row.key, &row.unit));
        line.chain(values).chain(ratios).collect()
    });
    Difference {
        title: variant.to_owned(),
        columns: [String::new()]
            .into_iter()
            .chain(labels())
            .chain(ratios)
            .collect(),
        rows: rows.collect(),
    }
}

/// Returns percentiles from due times and from send times; no rows without latencies.
pub(super) fn latencies(record: &Record, variant: &str) -> Difference {
    let runs = |subject| sound(record, subject, variant);
    let subjects = || record.subjects.iter().enumerate();
    let all = subjects()
        .flat_map(|(at, _)| runs(at))
        .flat_map(|run| &run.distributions);
    let mut lines = Vec::new();
    for key in distinct(all.map(|distribution| distribution.key.as_str())) {
        for (side, table_of) in SIDES {
            for (at, subject) in subjects() {
                let found =
                    runs(at).flat_map(|run| run.distributions.iter().find(|d| d.key == key));
                let found: Vec<_> = found.collect();
                let tables = found.iter().map(|distribution| table_of(distribution));
                let tables: Vec<_> = tables.filter(|table| !table.is_empty()).collect();
                if tables.is_empty() {
                    continue;
                }
                let name = name(key, found.first().map_or("", |table| &table.unit));
                let count: u64 = found.iter().map(|table| table.count).sum();
                let mut line = vec![
                    format!("{name}, {side}"),
                    subject.label.clone(),
                    count.to_string(),
                ];
                line.extend(SHARES.map(|(share, _)| {
                    let value = |table: &&Vec<Quantile>| {
                        let found = table.iter().find(|line| (line.share - share).abs() < 1e-9);
                        found.map(|line| line.value)
                    };
                    let values = Spread::new(tables.iter().filter_map(value));
                    values.map_or("-".to_owned(), |values| spread(&values))
                }));
                lines.push(line);
            }
        }
    }
    let columns = ["latency", "", "number"].into_iter();
    Difference {
        title: variant.to_owned(),
        columns: columns
            .chain(SHARES.map(|(_, name)| name))
            .map(str::to_owned)
            .collect(),
        rows: lines,
    }
}

/// Returns the costs of measuring: each run's title, its costs and its verdict.
pub(super) fn own_costs(record: &Record) -> impl Iterator<Item = (String, String, Verdict)> {
    let costly = record.runs.iter().filter(|run| !run.own_costs.is_empty());
    costly.map(|run| {
        let costs: Vec<String> = run.own_costs.iter().map(own_cost).collect();
        (run_title(record, run), costs.join("; "), run.verdict())
    })
}

/// Returns a run's title: its subject, its variant and, if there are several, its repetition.
fn run_title(record: &Record, run: &Run) -> String {
    let label = record.subjects.get(run.subject);
    let mut title = label.map_or_else(String::new, |subject| subject.label.clone());
    if !run.variant.is_empty() {
        title.push_str(&format!(", {}", run.variant));
    }
    if record.runs.iter().any(|run| run.repetition > 0) {
        title.push_str(&format!(", repetition {}", run.repetition + 1));
    }
    title
}

/// Formats a cost, with its limit if it exceeds it.
fn own_cost(cost: &OwnCost) -> String {
    let shown = format!("{} {} {}", cost.key, digits(cost.value), cost.unit);
    let shown = shown.trim_end();
    match cost.limit {
        Some(limit) if cost.verdict() != Verdict::Sound => {
            format!("{shown} (above {})", digits(limit.at_most))
        }
        _ => shown.to_owned(),
    }
}
