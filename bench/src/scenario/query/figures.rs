//! Figures of questions: latencies by class and by question, costs, and a table of agreement.
//!
//! **Invariant:** every question has a latency and an agreement in the record, whatever they are.

use super::{
    answers::{Agreement, TOLERANCE},
    measure::{Asked, Plan, Round, Written},
};
use crate::{
    harness::{QUIET_CORES, ms},
    load::Histogram,
    record::{Difference, Figure, OwnCost, Run, summary::distinct},
};

/// Returns the run of one phase.
pub(super) fn run(plan: &Plan, phase: &str, round: &Round, written: Option<&Written>) -> Run {
    let (mut figures, mut distributions) = (Vec::new(), Vec::new());
    let asked = || plan.questions.iter().zip(&round.took);
    for class in distinct(
        plan.questions
            .iter()
            .map(|question| question.class.as_str()),
    ) {
        let of_class = asked().filter(|(question, _)| question.class == class);
        let all: Histogram = of_class
            .flat_map(|(_, took)| took.iter().copied())
            .collect();
        let shares = [("p50", 0.5, true), ("p99", 0.99, true)];
        figures.extend(all.figures(&format!("{class} queries "), &shares));
        distributions.push(all.distribution(&format!("{class} queries")));
    }
    let count: usize = round.took.iter().map(Vec::len).sum();
    let (before, peak) = (round.used.from.rss_bytes, round.used.to.peak_rss_bytes);
    let above = peak.saturating_sub(before);
    figures.extend([
        Figure::cost("CPU a query", "ms", ms(round.cpu) / count.max(1) as f64).headline(),
        Figure::megabytes("RSS before", before),
        Figure::megabytes("RSS peak", peak).headline(),
        Figure::megabytes("RSS peak above before", above),
    ]);
    for (question, took) in asked() {
        let one: Histogram = took.iter().copied().collect();
        let what = format!("{}: {} ", question.class, question.name);
        figures.extend(one.figures(&what, &[("p50", 0.5, false)]));
        distributions.push(one.distribution(&question.name));
    }
    if let Some(Written { sent, took, cpu }) = written {
        let samples = sent.samples.max(1) as f64;
        figures.extend([
            Figure::cost(
                "CPU a written sample",
                "µs",
                cpu.as_secs_f64() * 1e6 / samples,
            ),
            Figure::cost("time to write", "s", took.as_secs_f64()),
            Figure::fact("bytes a written sample", "B", sent.bytes as f64 / samples),
        ]);
    }
    Run {
        distributions,
        own_costs: vec![
            OwnCost::new("own CPU", "cores", round.used.own_cores()),
            round.used.others(QUIET_CORES),
        ],
        ..Run::new(phase, figures)
    }
}

/// Returns how each server's answers compare with the first one's, and the first difference of each that differs.
pub(super) fn agreement(plan: &Plan, labels: &[&str], asked: &[Vec<Asked>]) -> Vec<Difference> {
    let Some((first, others)) = asked.split_first() else {
        return Vec::new();
    };
    let first_label = labels.first().copied().unwrap_or_default();
    let (mut rows, mut details) = (Vec::new(), Vec::new());
    for (at, question) in plan.questions.iter().enumerate() {
        let Some(Asked { answer, touched }) = first.get(at) else {
            continue;
        };
        let touched = touched.map_or_else(|| "-".to_owned(), |touched| touched.to_string());
        let mut row = vec![question.name.clone(), touched, answer.len().to_string()];
        for (label, other) in labels.iter().skip(1).zip(others) {
            let Some(other) = other.get(at) else { continue };
            row.push(match answer.compare(&other.answer) {
                Agreement::Equal => "equal".to_owned(),
                Agreement::Close(apart) => format!("within {apart:.0e}"),
                Agreement::Differ(mismatch) => {
                    let text = format!("{} differ", mismatch.count);
                    details.push(vec![
                        question.name.clone(),
                        (*label).to_owned(),
                        mismatch.place,
                        mismatch.first,
                        mismatch.other,
                    ]);
                    text
                }
            });
        }
        rows.push(row);
    }
    let mut columns = vec!["query", "series touched", "in the answer"];
    columns.extend(labels.iter().skip(1));
    let title = format!(
        "answers against {first_label}'s: equal bit for bit, within {TOLERANCE:.0e}, or how many series differ"
    );
    let mut differences = vec![Difference {
        rows,
        ..Difference::new(title, &columns)
    }];
    if !details.is_empty() {
        let columns = [
            "query",
            "server",
            "series @ time",
            first_label,
            "server's value",
        ];
        let table = Difference::new("where answers differ first", &columns);
        differences.push(Difference {
            rows: details,
            ..table
        });
    }
    differences
}

#[cfg(test)]
mod tests;
