//! Comparison of two records of one scenario.
//!
//! **Invariant:** only figures that both have are compared, under the same variant; a difference counts only if the
//! spreads do not overlap.

use super::{
    number::{digits, name, spread},
    terminal::aligned,
};
use crate::record::{
    Better, Record, Run, Subject,
    summary::{Row, Spread, rows, variants},
};

/// Differences below this are not mentioned.
const NOTABLE: f64 = 0.05;

/// Returns the table of a comparison, with `names` in its header.
pub(crate) fn render(a: &Record, b: &Record, names: [&str; 2]) -> String {
    let mut text = format!(
        "\nA: {}: {}\nB: {}: {}\n",
        names[0], a.title, names[1], b.title
    );
    for warning in warnings(a, b) {
        text.push_str(&format!("note: {warning}\n"));
    }
    for variant in variants(a)
        .into_iter()
        .filter(|variant| variants(b).contains(variant))
    {
        let (rows_a, rows_b) = (rows(a, variant), rows(b, variant));
        for (at, subject) in a.subjects.iter().enumerate() {
            let Some(other) = same_subject(b, subject) else {
                continue;
            };
            let mut lines = vec![["", "A", "B", "B / A", ""].map(str::to_owned).to_vec()];
            for row in &rows_a {
                let is_same = |other: &&Row| other.key == row.key && other.unit == row.unit;
                let values = rows_b.iter().find(is_same).and_then(|same| {
                    Some((
                        row.values.get(at)?.as_ref()?,
                        same.values.get(other)?.as_ref()?,
                    ))
                });
                lines.extend(values.map(|(a, b)| line(row, a, b)));
            }
            let heading = match variant {
                "" => subject.label.clone(),
                variant => format!("{}, {variant}", subject.label),
            };
            text.push_str(&format!("\n{heading}:\n\n{}", aligned(&lines, 1)));
        }
    }
    text
}

fn same_subject(record: &Record, subject: &Subject) -> Option<usize> {
    record
        .subjects
        .iter()
        .position(|other| other.label == subject.label)
}

fn line(row: &Row, a: &Spread, b: &Spread) -> Vec<String> {
    let ratio = (a.median > 0.0).then(|| b.median / a.median);
    let shown = ratio.map_or_else(String::new, |ratio| format!("{}x", digits(ratio)));
    vec![
        name(&row.key, &row.unit),
        spread(a),
        spread(b),
        shown,
        verdict(row.better, a, b).to_owned(),
    ]
}

/// Returns whether B is better or worse, if the difference is more than chance.
fn verdict(better: Better, a: &Spread, b: &Spread) -> &'static str {
    let is_apart = b.least > a.most || b.most < a.least;
    let is_notable = (b.median - a.median).abs() > NOTABLE * a.median.abs();
    if !is_apart || !is_notable {
        return "";
    }
    match (better, b.median < a.median) {
        (Better::Neither, _) => "",
        (Better::Less, true) | (Better::More, false) => "better",
        (Better::Less, false) | (Better::More, true) => "worse",
    }
}

/// Returns the differences other than figures.
fn warnings(a: &Record, b: &Record) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut differ = |what: &str, a: &str, b: &str| {
        if a != b {
            warnings.push(format!("{what} differs: {a} and {b}"));
        }
    };
    differ("the processor", &a.machine.cpu, &b.machine.cpu);
    differ("the kernel", &a.machine.kernel, &b.machine.kernel);
    differ(
        "the number of cores",
        &a.machine.cores.to_string(),
        &b.machine.cores.to_string(),
    );
    differ("the tool's build", &a.tool.profile, &b.tool.profile);
    differ("the seed", &a.seed.to_string(), &b.seed.to_string());
    for parameter in &a.parameters {
        let other = b
            .parameters
            .iter()
            .find(|other| other.name == parameter.name);
        let other = other.map_or("", |other| other.value.as_str());
        if parameter.name != "seed" && parameter.name != "server" {
            differ(&parameter.name, &parameter.value, other);
        }
    }
    for subject in &a.subjects {
        let other = b.subjects.iter().find(|other| other.label == subject.label);
        if let Some(other) = other {
            differ(
                &format!("{}'s version", subject.label),
                &subject.version,
                &other.version,
            );
        }
    }
    warnings
}

/// Returns both as one record, for the page: every subject of A followed by its counterpart of B.
pub(crate) fn merged(a: &Record, b: &Record, names: [&str; 2]) -> Record {
    let mut both = a.clone();
    both.title = format!(
        "A ({}): {}; B ({}): {}",
        names[0], a.title, names[1], b.title
    );
    both.subjects.clear();
    both.runs.clear();
    let mut add = |record: &Record, subject: usize, name: &str| {
        let Some(mut named) = record.subjects.get(subject).cloned() else {
            return;
        };
        named.label = format!("{} {name}", named.label);
        let place = both.subjects.len();
        both.subjects.push(named);
        let runs = record.runs.iter().filter(|run| run.subject == subject);
        both.runs.extend(runs.map(|run| Run {
            subject: place,
            ..run.clone()
        }));
    };
    for (at, subject) in a.subjects.iter().enumerate() {
        add(a, at, "A");
        if let Some(other) = same_subject(b, subject) {
            add(b, other, "B");
        }
    }
    both.notes = warnings(a, b);
    both.differences.clear();
    both
}

#[cfg(test)]
mod tests;
