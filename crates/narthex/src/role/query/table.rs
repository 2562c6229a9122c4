//! Tables for people: labels that all series share are said once, above.

use super::{
    Screen,
    answer::{Answer, Labels, Series},
    promql, sorted, text,
};
use narthex_model::date::rfc3339;
use std::{collections::BTreeSet, fmt::Write as _};

/// Fewest columns of characters that a label keeps on a narrow screen.
const LEAST: usize = 8;

/// A table's cells; the first `labels` columns may be shortened.
struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    labels: usize,
}

/// Formats a query's value.
pub(super) fn answer(answer: &Answer, screen: Screen) -> String {
    match answer {
        Answer::Scalar(point) => format!("{}\n", point.text),
        Answer::Text { text, .. } => format!("{text}\n"),
        Answer::Vector(all) => series(all, screen, &["value"], |one| {
            let points = one.points.iter().map(|point| point.text.clone());
            let histograms = one.histograms.iter();
            let histograms =
                histograms.map(|(_, one)| format!("count {} sum {}", one.count, one.sum));
            vec![points.chain(histograms).next().unwrap_or_default()]
        }),
        Answer::Matrix(all) => {
            let columns = ["min", "avg", "max", "last", "points", "at"];
            series(all, screen, &columns, statistics)
        }
    }
}

/// Returns what a series was like over its range.
fn statistics(series: &Series) -> Vec<String> {
    let numbers = series.points.iter().map(|point| point.value);
    let numbers: Vec<f64> = numbers.filter(|value| !value.is_nan()).collect();
    let of = |fold: fn(f64, f64) -> f64| numbers.iter().copied().reduce(fold).map(text::short);
    let average =
        of(|a, b| a + b).map(|_| text::short(numbers.iter().sum::<f64>() / numbers.len() as f64));
    let times = series.points.iter().map(|point| point.time);
    let times = times.chain(series.histograms.iter().map(|(time, _)| *time));
    let last_time = times.fold(f64::NEG_INFINITY, f64::max);
    let last = match series.histograms.last() {
        Some((time, one)) if *time >= last_time => format!("count {}", one.count),
        _ => series
            .points
            .last()
            .map_or(String::new(), |point| text::short(point.value)),
    };
    #[expect(clippy::cast_possible_truncation, reason = "a time in milliseconds")]
    let at = rfc3339((last_time * 1000.0) as i64);
    vec![
        of(f64::min).unwrap_or_default(),
        average.unwrap_or_default(),
        of(f64::max).unwrap_or_default(),
        last,
        (series.points.len() + series.histograms.len()).to_string(),
        at.get(11..19).unwrap_or_default().to_owned(),
    ]
}

fn series(
    all: &[Series],
    screen: Screen,
    columns: &[&str],
    cells: impl Fn(&Series) -> Vec<String>,
) -> String {
    let all = sorted(all.iter().collect());
    let rows = all.iter().map(|series| (&series.labels, cells(series)));
    labelled(&rows.collect::<Vec<_>>(), columns, screen)
}

/// Formats label sets.
pub(super) fn label_sets(sets: &[Labels], screen: Screen) -> String {
    let rows = sets.iter().map(|set| (set, Vec::new()));
    labelled(&rows.collect::<Vec<_>>(), &[], screen)
}

/// Formats rows of labels, with other cells behind them.
fn labelled(all: &[(&Labels, Vec<String>)], columns: &[&str], screen: Screen) -> String {
    if all.is_empty() {
        return "no series\n".to_owned();
    }
    let sets: Vec<&Labels> = all.iter().map(|(set, _)| *set).collect();
    let (common, names) = factored(&sets);
    let head = names.iter().chain(columns);
    let rows = all.iter().map(|(set, cells)| {
        let labels = names.iter().map(|name| set.get(*name).cloned());
        let labels = labels.map(Option::unwrap_or_default);
        labels.chain(cells.iter().cloned()).collect()
    });
    let table = Table {
        head: head.map(|name| (*name).to_owned()).collect(),
        rows: rows.collect(),
        labels: names.len(),
    };
    let heading = heading(&common, all.len(), screen);
    match table.head.is_empty() {
        true => heading,
        false => heading + &table.text(screen),
    }
}

/// Returns the labels that all sets share, and the names of the others.
pub(super) fn factored<'a>(sets: &[&'a Labels]) -> (Labels, Vec<&'a str>) {
    let mut common = sets.first().map(|set| (*set).clone()).unwrap_or_default();
    for set in sets {
        common.retain(|name, value| set.get(name) == Some(value));
    }
    let names: BTreeSet<&str> = sets
        .iter()
        .flat_map(|set| set.keys().map(String::as_str))
        .filter(|name| !common.contains_key(*name))
        .collect();
    (common, names.into_iter().collect())
}

/// Returns the line above: what all series share, and how many they are.
pub(super) fn heading(common: &Labels, count: usize, screen: Screen) -> String {
    let series = if count == 1 {
        "1 series".to_owned()
    } else {
        format!("{count} series")
    };
    let shared = match common.is_empty() {
        true => String::new(),
        false => format!("{}  ", promql::metric(common)),
    };
    let (bold, dim, plain) = styles(screen);
    format!("{bold}{shared}{plain}{dim}{series}{plain}\n")
}

/// Returns what begins bold text and dim text, and what ends them.
fn styles(screen: Screen) -> (&'static str, &'static str, &'static str) {
    if screen.has_colours {
        ("\x1b[1m", "\x1b[2m", "\x1b[0m")
    } else {
        ("", "", "")
    }
}

impl Table {
    fn text(&self, screen: Screen) -> String {
        let widths = self.widths(screen);
        let (_, dim, plain) = styles(screen);
        let mut out = format!("{dim}{}{plain}\n", self.line(&self.head, &widths));
        for row in &self.rows {
            let _ = writeln!(out, "{}", self.line(row, &widths));
        }
        out
    }

    /// Returns the width of each column; on a terminal, labels are shortened until the table fits.
    fn widths(&self, screen: Screen) -> Vec<usize> {
        let width = |text: &String| text.chars().count();
        let mut widths: Vec<usize> = self.head.iter().map(width).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(cell));
            }
        }
        let gaps = 2 * widths.len().saturating_sub(1);
        while screen.is_terminal && widths.iter().sum::<usize>() + gaps > screen.columns {
            let labels = widths.iter_mut().take(self.labels);
            let Some(widest) = labels.max().filter(|width| **width > LEAST) else {
                break;
            };
            *widest -= 1;
        }
        widths
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut out = String::new();
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let length = cell.chars().count();
            let cell = match length > *width {
                true => cell.chars().take(width - 1).chain(['…']).collect(),
                false => cell.clone(),
            };
            let gap = if at == 0 { "" } else { "  " };
            // Labels are texts, the others numbers.
            if at < self.labels {
                let _ = write!(out, "{gap}{cell:<width$}");
            } else {
                let _ = write!(out, "{gap}{cell:>width$}");
            }
        }
        out.trim_end().to_owned()
    }
}
