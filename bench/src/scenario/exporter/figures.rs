//! Figures of scraping an exporter, and tables of differences between two pages.
//!
//! **Invariant:** a truncated table gives the number of missing rows. Tables contain label names but no values: records
//! name no machine, its paths or its addresses.

use super::{compare::Comparison, measure::Scraped, page::without_values};
use crate::{
    harness::{QUIET_CORES, ms},
    load::Histogram,
    record::{Difference, Figure, OwnCost, Record, Run},
};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum rows of a table.
const MOST_ROWS: usize = 100;
const SYSCALLS: &str = "system calls a scrape";

/// Returns the run of one turn.
pub(super) fn run(encoding: &str, scraped: &Scraped) -> Run {
    let Scraped { took, used, .. } = scraped;
    let count = took.len().max(1) as f64;
    let wall: Histogram = took.iter().copied().collect();
    let mut figures = vec![Figure::cost("CPU a scrape", "ms", ms(scraped.cpu) / count).headline()];
    figures.extend(wall.figures(
        "time of a scrape ",
        &[("P50", 0.5, true), ("P99", 0.99, false)],
    ));
    figures.extend([
        Figure::megabytes("RSS", scraped.resident.rss_bytes).headline(),
        Figure::megabytes("RSS peak", used.to.peak_rss_bytes),
        Figure::fact("threads", "", used.to.threads as f64),
        Figure::fact("size of a page", "kB", scraped.bytes / 1e3),
    ]);
    if let Some((series, families)) = scraped.series {
        figures.push(Figure::fact("series", "", series as f64));
        figures.push(Figure::fact("families", "", families as f64));
    }
    Run {
        distributions: vec![wall.distribution("scrapes")],
        own_costs: vec![
            OwnCost::new("own CPU a scrape", "ms", ms(used.own_cpu) / count),
            used.others(QUIET_CORES),
        ],
        ..Run::new(encoding, figures)
    }
}

/// Adds the number of system calls to a subject's first run.
pub(super) fn add_syscalls(record: &mut Record, subject: usize, calls: &BTreeMap<String, f64>) {
    let mut runs = record.runs.iter_mut();
    if let Some(run) = runs.find(|run| run.subject == subject && run.variant == "identity") {
        let figure = Figure::cost(SYSCALLS, "", calls.values().sum());
        run.figures.push(figure.headline());
    }
}

/// Returns system calls by name, a column for each exporter, the most frequent ones first.
pub(super) fn syscall_table(counted: &[(String, BTreeMap<String, f64>)]) -> Option<Difference> {
    let names: BTreeSet<&String> = counted.iter().flat_map(|(_, calls)| calls.keys()).collect();
    let of = |calls: &BTreeMap<String, f64>, name: &String| calls.get(name).copied().unwrap_or(0.0);
    let most = |name: &String| {
        let all = counted.iter().map(|(_, calls)| of(calls, name));
        all.fold(0.0, f64::max)
    };
    let mut names: Vec<&String> = names.into_iter().collect();
    names.sort_by(|a, b| most(b).total_cmp(&most(a)));
    let labels = counted.iter().map(|(label, _)| label.as_str());
    let columns: Vec<&str> = std::iter::once("call").chain(labels).collect();
    let mut table = Difference::new(format!("{SYSCALLS} (strace; without nanosleep)"), &columns);
    table.rows.extend(names.into_iter().map(|name| {
        let counts = counted.iter().map(|(_, calls)| of(calls, name));
        let counts = counts.map(|count| format!("{count:.1}"));
        std::iter::once(name.clone()).chain(counts).collect()
    }));
    (!counted.is_empty()).then_some(table)
}

/// Summarises the comparison of two pages in one sentence.
pub(super) fn summary(first: &str, other: &str, comparison: &Comparison) -> String {
    let Comparison {
        equal,
        moved_on,
        near,
        ..
    } = comparison;
    format!(
        "{other} against {first}: {} series of both, of which {equal} are equal, {moved_on} lie between {first}'s page \
         before and after, {near} within 5 % of it, {} differ; {} families and {} further series only {first} has, {} \
         and {} only {other}.",
        comparison.shared(),
        comparison.different.len(),
        comparison.only_first.len(),
        comparison.series_only_first.len(),
        comparison.only_other.len(),
        comparison.series_only_other.len(),
    )
}

/// Returns tables of the differences, without empty ones.
pub(super) fn tables(first: &str, other: &str, comparison: &Comparison) -> Vec<Difference> {
    let mut tables = Vec::new();
    let mut add = |title: String, columns: &[&str], rows| tables.extend(cut(title, columns, rows));
    let sides = [(first, other), (other, first)];
    let families = [&comparison.only_first, &comparison.only_other];
    for ((has, lacks), families) in sides.into_iter().zip(families) {
        let row = |(name, series): &(String, usize)| vec![name.clone(), series.to_string()];
        let title = format!("families only {has} has ({lacks} does not)");
        add(
            title,
            &["family", "series"],
            families.iter().map(row).collect(),
        );
    }
    let series = [&comparison.series_only_first, &comparison.series_only_other];
    for ((has, lacks), series) in sides.into_iter().zip(series) {
        let mut counts = BTreeMap::new();
        for one in series {
            *counts.entry(without_values(one)).or_insert(0_usize) += 1;
        }
        let row = |(name, count): (String, usize)| vec![name, count.to_string()];
        let title = format!("series of common families only {has} has ({lacks} does not)");
        let rows = counts.into_iter().map(row).collect();
        add(title, &["series, its labels", "how many"], rows);
    }
    let differ = |what: &str| format!("{what} that differ, {first} and {other}");
    let descriptions = comparison.descriptions.iter().map(|row| row.to_vec());
    add(
        differ("types and help texts"),
        &["family", "what", first, other],
        descriptions.collect(),
    );
    let different = comparison
        .different
        .iter()
        .map(|[series, a, b]| vec![without_values(series), a.clone(), b.clone()]);
    let columns = ["series", first, other];
    add(differ("values"), &columns, different.collect());
    tables
}

/// Returns the truncated table, `None` without rows.
fn cut(title: String, columns: &[&str], mut rows: Vec<Vec<String>>) -> Option<Difference> {
    let count = rows.len();
    rows.truncate(MOST_ROWS);
    let title = match count - rows.len() {
        0 => title,
        missing => format!("{title}, without {missing} more"),
    };
    let table = Difference::new(title, columns);
    (count > 0).then_some(Difference { rows, ..table })
}

#[cfg(test)]
mod tests;
