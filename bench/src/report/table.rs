//! A record on the terminal.
//!
//! **Invariant:** columns are as wide as what is in them; nothing is cut.

use super::number::{digits, name, ratio, spread};
use crate::record::{
    Distribution, OwnCost, Quantile, Record, Run, Verdict,
    summary::{Row, Spread, rows, sound, variants},
};

/// Returns the tables of a record: figures by variant, latencies, what measuring cost, differences, notes.
pub(crate) fn render(record: &Record) -> String {
    let mut text = format!("\n{}, seed {}\n", record.title, record.seed);
    for variant in variants(record) {
        if !variant.is_empty() {
            text.push_str(&format!("\n{variant}:\n"));
        }
        text.push('\n');
        figures(record, &rows(record, variant), &mut text);
        latencies(record, variant, &mut text);
    }
    text.push('\n');
    own_costs(record, &mut text);
    for difference in &record.differences {
        text.push_str(&format!("\n{}:\n\n", difference.title));
        let rows = std::iter::once(&difference.columns).chain(&difference.rows);
        text.push_str(&aligned(
            &rows.cloned().collect::<Vec<_>>(),
            difference.columns.len(),
        ));
    }
    for note in &record.notes {
        text.push_str(&format!("{note}\n"));
    }
    text
}

fn figures(record: &Record, rows: &[Row], text: &mut String) {
    let labels = || record.subjects.iter().map(|subject| subject.label.as_str());
    let mut head = vec![String::new()];
    head.extend(labels().map(str::to_owned));
    let first = labels().next().unwrap_or_default();
    head.extend(labels().skip(1).map(|label| format!("{label} / {first}")));
    let mut lines = vec![head];
    for row in rows {
        let mut line = vec![name(&row.key, &row.unit)];
        let value = |value: &Option<_>| value.as_ref().map_or("-".to_owned(), spread);
        line.extend(row.values.iter().map(value));
        let shown = |value: &Option<_>| value.as_ref().map_or_else(String::new, ratio);
        line.extend(row.ratios.iter().skip(1).map(shown));
        lines.push(line);
    }
    text.push_str(&aligned(&lines, 1));
}

/// Percentiles counted from when a request was due, and beside them what would be seen from when it was sent.
fn latencies(record: &Record, variant: &str, text: &mut String) {
    const SHARES: [(f64, &str); 5] = [
        (0.5, "p50"),
        (0.9, "p90"),
        (0.99, "p99"),
        (0.999, "p99.9"),
        (1.0, "p100"),
    ];
    let mut lines = Vec::new();
    for (at, subject) in record.subjects.iter().enumerate() {
        let runs = || sound(record, at, variant);
        let mut keys: Vec<&str> = Vec::new();
        for distribution in runs().flat_map(|run| &run.distributions) {
            if !keys.contains(&distribution.key.as_str()) {
                keys.push(&distribution.key);
            }
        }
        for key in keys {
            let tables = || runs().flat_map(|run| run.distributions.iter().find(|d| d.key == key));
            let unit = tables().next().map_or("", |table| table.unit.as_str());
            let corrected: fn(&Distribution) -> &[Quantile] = |table| &table.corrected;
            let sides = [
                ("from due", corrected),
                ("from sent", |table| &table.uncorrected),
            ];
            for (side, of) in sides {
                if tables().all(|table| of(table).is_empty()) {
                    continue;
                }
                let name = format!("{}, {side}", name(key, unit));
                let mut line = vec![name, subject.label.clone()];
                line.extend(SHARES.map(|(share, _)| {
                    let value = |table: &Distribution| {
                        let found = of(table).iter().find(|line| line.share == share);
                        found.map(|line| line.value)
                    };
                    let values = Spread::of(tables().filter_map(value));
                    values.map_or("-".to_owned(), |values| spread(&values))
                }));
                lines.push(line);
            }
        }
    }
    if lines.is_empty() {
        return;
    }
    lines.sort_by(|a, b| a.first().cmp(&b.first()));
    let mut head = vec!["latency".to_owned(), String::new()];
    head.extend(SHARES.map(|(_, name)| name.to_owned()));
    lines.insert(0, head);
    text.push('\n');
    text.push_str(&aligned(&lines, 2));
}

/// Says for each run what measuring cost, and which runs do not count.
fn own_costs(record: &Record, text: &mut String) {
    for run in &record.runs {
        if run.own_costs.is_empty() {
            continue;
        }
        let costs: Vec<String> = run.own_costs.iter().map(own_cost).collect();
        let verdict = match run.verdict() {
            Verdict::Sound => "",
            Verdict::Noisy => "NOISY: ",
            Verdict::Refused => "REFUSED: ",
        };
        text.push_str(&format!(
            "{}: {verdict}{}\n",
            title(record, run),
            costs.join("; ")
        ));
    }
}

/// Returns what a run is called: its subject, its variant and, where there are several, its repetition.
pub(crate) fn title(record: &Record, run: &Run) -> String {
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

/// Returns one cost, with its limit when it is above it.
pub(crate) fn own_cost(cost: &OwnCost) -> String {
    let shown = format!("{} {}", cost.key, digits(cost.value));
    let shown = if cost.unit.is_empty() {
        shown
    } else {
        format!("{shown} {}", cost.unit)
    };
    match cost.limit {
        Some(limit) if cost.verdict() != Verdict::Sound => {
            format!("{shown} (above {})", digits(limit.at_most))
        }
        _ => shown,
    }
}

/// Returns lines whose columns stand below each other: the first `left` to the left, the others to the right.
pub(crate) fn aligned(lines: &[Vec<String>], left: usize) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(at, (cell, width))| {
                if at < left {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        let line = cells.collect::<Vec<_>>().join("   ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::sample;

    #[test]
    fn a_record_is_a_table_with_ratios_and_their_spread() {
        let text = render(&sample());
        let expected = "
2 targets of 50 series, seed 1

with queries:

                            narthex        prometheus   prometheus / narthex
CPU a sample, µs      1.50 (1..2)           8 (4..12)              5x (4..6)
samples, a second   1000 (1000..1000)   1000 (1000..1000)           1x (1..1)
";
        for word in expected.split_whitespace() {
            assert!(text.contains(word), "{word} is missing in {text}");
        }
        assert!(
            text.contains("REFUSED: first byte p99 7 ms (above 5)\n"),
            "{text}"
        );
        assert!(text.contains("family"), "{text}");
        assert!(
            text.ends_with("victoria-metrics is not installed\n"),
            "{text}"
        );
    }

    #[test]
    fn columns_stand_below_each_other() {
        let lines = [["a", "1"], ["long", "22"]].map(|line| line.map(str::to_owned).to_vec());
        assert_eq!(aligned(&lines, 1), "a       1\nlong   22\n");
    }
}
