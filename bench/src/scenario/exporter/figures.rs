//! Figures of scraping an exporter, and tables of differences between two pages.
//!
//! **Invariant:** a truncated table gives the number of missing rows. Tables contain label names but no values: records
//! name no machine, its paths or its addresses.

use super::{compare::Comparison, measure::Scraped, page::without_values};
use crate::{
    harness::measure::ms,
    load::latency::Histogram,
    record::{Difference, Figure, OwnCost, Record, Run},
};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum rows of a table.
const MOST_ROWS: usize = 100;
/// Cores used by other processes above which a result is noisy.
const QUIET_CORES: f64 = 0.1;
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
        Figure::cost("RSS", "MB", scraped.resident.rss_bytes as f64 / 1e6).headline(),
        Figure::cost("RSS peak", "MB", used.to.peak_rss_bytes as f64 / 1e6),
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
            OwnCost::new("cores of others", "", used.other_cores).warn_above(QUIET_CORES),
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
    let mut columns = vec!["call".to_owned()];
    columns.extend(counted.iter().map(|(label, _)| label.clone()));
    let row = |name: &String| {
        let counts = counted
            .iter()
            .map(|(_, calls)| format!("{:.1}", of(calls, name)));
        std::iter::once(name.clone()).chain(counts).collect()
    };
    (!counted.is_empty()).then(|| Difference {
        title: format!("{SYSCALLS} (strace; without nanosleep)"),
        columns,
        rows: names.into_iter().map(row).collect(),
    })
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

/// Returns tables of the differences.
pub(super) fn tables(first: &str, other: &str, comparison: &Comparison) -> Vec<Difference> {
    let families = |families: &[(String, usize)]| {
        let row = |(name, series): &(String, usize)| vec![name.clone(), series.to_string()];
        families.iter().map(row).collect::<Vec<_>>()
    };
    let series = |series: &[String]| {
        let mut counts = BTreeMap::new();
        for one in series {
            *counts.entry(without_values(one)).or_insert(0_usize) += 1;
        }
        let row = |(name, count): (String, usize)| vec![name, count.to_string()];
        counts.into_iter().map(row).collect::<Vec<_>>()
    };
    let different = |row: &[String; 3]| {
        let [series, a, b] = row;
        vec![without_values(series), a.clone(), b.clone()]
    };
    let of_family = ["family", "series"];
    let of_series = ["series, its labels", "how many"];
    let only =
        |what: &str, has: &str, lacks: &str| format!("{what} only {has} has ({lacks} does not)");
    let (some, common) = ("families", "series of common families");
    let differ = |what: &str| format!("{what} that differ, {first} and {other}");
    let values = comparison.different.iter().map(different).collect();
    let tables = [
        cut(
            only(some, first, other),
            &of_family,
            families(&comparison.only_first),
        ),
        cut(
            only(some, other, first),
            &of_family,
            families(&comparison.only_other),
        ),
        cut(
            only(common, first, other),
            &of_series,
            series(&comparison.series_only_first),
        ),
        cut(
            only(common, other, first),
            &of_series,
            series(&comparison.series_only_other),
        ),
        cut(
            differ("types and help texts"),
            &["family", "what", first, other],
            rows(&comparison.descriptions),
        ),
        cut(differ("values"), &["series", first, other], values),
    ];
    tables.into_iter().flatten().collect()
}

fn rows<const N: usize>(rows: &[[String; N]]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.to_vec()).collect()
}

/// Returns the truncated table, `None` without rows.
fn cut(title: String, columns: &[&str], mut rows: Vec<Vec<String>>) -> Option<Difference> {
    let count = rows.len();
    rows.truncate(MOST_ROWS);
    let title = match count - rows.len() {
        0 => title,
        missing => format!("{title}, without {missing} more"),
    };
    (count > 0).then(|| Difference {
        title,
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_table_says_what_it_leaves_out() {
        let rows = (0..MOST_ROWS + 7).map(|n| vec![n.to_string()]).collect();
        let table = cut("all".to_owned(), &["n"], rows).unwrap();
        assert_eq!(table.title, "all, without 7 more");
        assert_eq!(table.rows.len(), MOST_ROWS);
        assert!(cut("none".to_owned(), &["n"], Vec::new()).is_none());
    }

    #[test]
    fn system_calls_stand_side_by_side() {
        let calls = |calls: &[(&str, f64)]| {
            calls
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect()
        };
        let counted = [
            ("a".to_owned(), calls(&[("read", 2.0), ("write", 9.0)])),
            ("b".to_owned(), calls(&[("read", 3.5)])),
        ];
        let table = syscall_table(&counted).unwrap();
        assert_eq!(table.columns, ["call", "a", "b"]);
        assert_eq!(
            table.rows,
            [["write", "9.0", "0.0"], ["read", "2.0", "3.5"]]
        );
        assert!(syscall_table(&[]).is_none());
    }
}
