//! A record on the terminal.
//!
//! **Invariant:** columns are as wide as their contents; nothing is truncated.

use super::tables;
use crate::record::{Difference, Record, Verdict, summary::variants};

/// Returns the tables of a record: figures by variant, latencies, costs of measuring, differences, notes.
pub(crate) fn render(record: &Record) -> String {
    let mut text = format!("\n{}, seed {}\n", record.title, record.seed);
    for variant in variants(record) {
        if !variant.is_empty() {
            text.push_str(&format!("\n{variant}:\n"));
        }
        text.push('\n');
        text.push_str(&table(&tables::figures(record, variant), 1));
        let latencies = tables::latencies(record, variant);
        if !latencies.rows.is_empty() {
            text.push('\n');
            text.push_str(&table(&latencies, 2));
        }
    }
    text.push('\n');
    for (run, costs, verdict) in tables::own_costs(record) {
        let verdict = match verdict {
            Verdict::Sound => "",
            Verdict::Noisy => "NOISY: ",
            Verdict::Refused => "REFUSED: ",
        };
        text.push_str(&format!("{run}: {verdict}{costs}\n"));
    }
    for difference in &record.differences {
        let columns = difference.columns.len();
        text.push_str(&format!(
            "\n{}:\n\n{}",
            difference.title,
            table(difference, columns)
        ));
    }
    for note in &record.notes {
        text.push_str(&format!("{note}\n"));
    }
    text
}

fn table(table: &Difference, left: usize) -> String {
    let lines = std::iter::once(&table.columns).chain(&table.rows);
    aligned(&lines.cloned().collect::<Vec<_>>(), left)
}

/// Aligns columns: the first `left` to the left, the others to the right.
pub(super) fn aligned(lines: &[Vec<String>], left: usize) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.map(|(at, (cell, width))| match at < left {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("   ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
