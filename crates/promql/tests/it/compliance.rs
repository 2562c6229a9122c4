//! The queries of `prometheus/compliance`, asked of our engine and of Prometheus' over the same series.
//!
//! The series have the names and labels of the demo service that the queries are written for.

use crate::oracle::{Beside, Question};
use narthex_promql::{Engine, EngineOptions};
use narthex_testkit::{corpora, rng::SplitMix64};
use std::{collections::BTreeMap, fmt::Write as _, fs};

/// Number of queries once every template has all its values.
const ALL: usize = 539;

/// What stands for the words of a template, as the suite's tester has it.
const VALUES: [(&str, &[&str]); 13] = [
    ("range", &["1s", "15s", "1m", "5m", "15m", "1h"]),
    ("offset", &["1m", "5m", "10m"]),
    (
        "simpleAggrOp",
        &["sum", "avg", "max", "min", "count", "stddev", "stdvar"],
    ),
    (
        "simpleTimeAggrOp",
        &[
            "sum", "avg", "max", "min", "count", "stddev", "stdvar", "absent", "last",
        ],
    ),
    ("topBottomOp", &["topk", "bottomk"]),
    (
        "quantile",
        &[
            "-0.5", "0.1", "0.5", "0.75", "0.95", "0.90", "0.99", "1", "1.5",
        ],
    ),
    ("arithBinOp", &["+", "-", "*", "/", "%", "^"]),
    ("compBinOp", &["==", "!=", "<", ">", "<=", ">="]),
    (
        "binOp",
        &[
            "+", "-", "*", "/", "%", "^", "==", "!=", "<", ">", "<=", ">=",
        ],
    ),
    (
        "simpleMathFunc",
        &[
            "abs", "ceil", "floor", "exp", "sqrt", "ln", "log2", "log10", "round",
        ],
    ),
    ("extrapolatedRateFunc", &["delta", "rate", "increase"]),
    ("clampFunc", &["clamp_min", "clamp_max"]),
    ("instantRateFunc", &["idelta", "irate"]),
];

const DATES: [&str; 7] = [
    "day_of_month",
    "day_of_week",
    "days_in_month",
    "hour",
    "minute",
    "month",
    "year",
];

/// Samples of each series, five seconds apart: the longest range with the longest offset, and what is asked for.
const SAMPLES: usize = 1_100;
const STEP_MS: i64 = 5_000;

/// Reads the lines of the suite's file that it is made of: a query, the words it has values for, whether it fails.
fn templates(text: &str) -> Vec<(String, Vec<String>, bool)> {
    let mut all: Vec<(String, Vec<String>, bool)> = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_start_matches("- ");
        if let Some(query) = line.strip_prefix("query: ") {
            let quoted = |quote: char| query.strip_prefix(quote)?.strip_suffix(quote);
            let query = quoted('\'').or_else(|| quoted('"')).unwrap_or(query);
            all.push((query.to_owned(), Vec::new(), false));
        } else if let Some(list) = line.strip_prefix("variant_args: ") {
            let names = list.trim_matches(['[', ']']).split(", ");
            all.last_mut().unwrap().1 = names
                .map(|name| name.trim_matches('\'').to_owned())
                .collect();
        } else if line == "should_fail: true" {
            all.last_mut().unwrap().2 = true;
        }
    }
    all
}

/// Returns a template with every combination of values.
fn expanded(query: String, words: &[String]) -> Vec<String> {
    let Some((word, rest)) = words.split_first() else {
        return vec![query];
    };
    let known: BTreeMap<_, _> = VALUES
        .into_iter()
        .chain([("dateFunc", &DATES[..])])
        .collect();
    let place = format!("{{{{.{word}}}}}");
    let values = known[word.as_str()].iter();
    values
        .flat_map(|value| expanded(query.replace(&place, value), rest))
        .collect()
}

/// Writes the demo service's series on three instances.
fn series() -> String {
    let mut rng = SplitMix64::new(0x0c0f);
    let mut text = String::from("load 5s\n");
    for port in 10_000..10_003 {
        let target = format!("instance=\"demo.promlabs.com:{port}\", job=\"demo\"");
        let mut gauge = |labels: String, least: f64, most: f64| {
            write!(text, "  {labels}").unwrap();
            for _ in 0..SAMPLES {
                write!(
                    text,
                    " {}",
                    (least + rng.unit_f64() * (most - least)).round()
                )
                .unwrap();
            }
            text.push('\n');
        };
        for kind in ["used", "free", "cached", "buffers"] {
            gauge(
                format!("demo_memory_usage_bytes{{{target}, type=\"{kind}\"}}"),
                1e8,
                4e9,
            );
        }
        gauge(format!("demo_disk_usage_bytes{{{target}}}"), 1e11, 2e11);
        writeln!(text, "  demo_num_cpus{{{target}}} 4x{SAMPLES}").unwrap();
        let mut counter = |labels: String, most: f64| {
            write!(text, "  {labels}").unwrap();
            let mut value = 0.0;
            for _ in 0..SAMPLES {
                value = if rng.one_in(300) {
                    0.0
                } else {
                    value + rng.unit_f64() * most
                };
                write!(text, " {value}").unwrap();
            }
            text.push('\n');
        };
        for mode in ["user", "system", "idle"] {
            counter(
                format!("demo_cpu_usage_seconds_total{{{target}, mode=\"{mode}\"}}"),
                5.0,
            );
        }
        // A job every five minutes that fails at times, and a metric that comes and goes.
        write!(
            text,
            "  demo_batch_last_success_timestamp_seconds{{{target}}}"
        )
        .unwrap();
        let mut last = 0;
        for at in 0..SAMPLES {
            last = if at % 60 == 7 && !rng.one_in(4) {
                at * 5
            } else {
                last
            };
            write!(text, " {last}").unwrap();
        }
        write!(text, "\n  demo_intermittent_metric{{{target}}}").unwrap();
        for at in 0..SAMPLES {
            text.push_str(match at / 90 % 2 {
                0 => " 1",
                _ if at % 90 == 0 => " stale",
                _ => " _",
            });
        }
        text.push('\n');
        requests(&mut text, &target, &mut rng);
    }
    text
}

/// Writes a classic histogram of each kind of request.
fn requests(text: &mut String, target: &str, rng: &mut SplitMix64) {
    for path in ["/api/foo", "/api/bar"] {
        for (method, status) in [("GET", "200"), ("GET", "500"), ("POST", "200")] {
            let labels =
                format!("{target}, method=\"{method}\", path=\"{path}\", status=\"{status}\"");
            let mut counts = vec![[0_u64; 8]];
            for _ in 1..SAMPLES {
                let mut next = *counts.last().unwrap();
                let first = rng.index(8);
                next[first..].iter_mut().for_each(|count| *count += 1);
                counts.push(next);
            }
            let name = "demo_api_request_duration_seconds";
            for (at, le) in ["0.001", "0.005", "0.01", "0.05", "0.1", "0.5", "1", "+Inf"]
                .iter()
                .enumerate()
            {
                write!(text, "  {name}_bucket{{{labels}, le=\"{le}\"}}").unwrap();
                counts
                    .iter()
                    .for_each(|row| write!(text, " {}", row[at]).unwrap());
                text.push('\n');
            }
            for (suffix, factor) in [("count", 1.0), ("sum", 0.037)] {
                write!(text, "  {name}_{suffix}{{{labels}}}").unwrap();
                counts
                    .iter()
                    .for_each(|row| write!(text, " {}", row[7] as f64 * factor).unwrap());
                text.push('\n');
            }
        }
    }
}

#[test]
fn queries_of_the_compliance_suite_answer_as_prometheus_does() {
    let Some(dir) = corpora::dir("promql-compliance") else {
        return corpora::report("queries of prometheus/compliance", 0, ALL);
    };
    let text = fs::read_to_string(dir.join("promql-test-queries.yml")).unwrap();
    let mut beside = Beside::new(&series(), Engine::new(EngineOptions::default()));
    let (mut ran, mut filled, mut wrong) = (0, 0, Vec::new());
    for (template, words, fails) in templates(&text) {
        for query in expanded(template, &words) {
            // As the tester asks: ten minutes in steps of ten seconds.
            let question = Question {
                text: query,
                start_ms: 75 * 60_000,
                end_ms: 85 * 60_000,
                step_ms: 2 * STEP_MS,
            };
            let (theirs, difference) = beside.compare(&question);
            ran += 1;
            filled += usize::from(
                theirs
                    .as_ref()
                    .is_ok_and(|answer| !answer.series.is_empty()),
            );
            // Any text may be the name of a label since.
            let agrees = theirs.is_err() == fails || question.text.contains("~invalid");
            wrong.extend(
                difference
                    .or((!agrees).then(|| format!("{theirs:?}")))
                    .map(|text| format!("{}: {text}", question.text)),
            );
        }
    }
    corpora::report("queries of prometheus/compliance", ran, ALL);
    assert!(
        wrong.is_empty(),
        "{} of {ran}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(ran, ALL);
    assert!(filled > ALL * 8 / 10, "only {filled} have an answer");
}
