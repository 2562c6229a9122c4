//! `narthex tsdb backfill rules`: evaluates recording rules over the past and writes the results as blocks.
//!
//! **Invariant:** blocks appear in the output directory whole, at the end. A rule that fails is reported once and left
//! out; the others go on. A series ends with a staleness marker, as after a live evaluation.

mod scratch;
mod source;

use super::console::Console;
use crate::cli::BackfillOptions;
use narthex_model::{LabelSet, METRIC_NAME, cell, date, storage::SeriesSample};
use narthex_promql::{MatrixSeries, ast::Expr};
use narthex_rules::{ParseOptions, RuleKind, Texts, first_evaluation, load};
use narthex_tsdb::{Clock as _, SystemClock};
use scratch::Scratch;
use source::Source;
use std::{
    collections::HashMap,
    io::{self, Write},
    path::Path,
};

/// Time that one query covers, and the window of blocks.
const WINDOW_MS: i64 = 2 * 3_600_000;
/// Age up to which rules are backfilled unless an end is given, as in promtool.
const DEFAULT_AGE_MS: i64 = 3 * 3_600_000;
/// Samples that are stored at once.
const BATCH: usize = 5000;

/// A recording rule, with what its group says.
struct BackfilledRule {
    /// File, group and name, for people.
    shown: String,
    file: String,
    group: String,
    interval_ms: i64,
    offset_ms: i64,
    name: String,
    labels: Texts,
    expr: Expr,
    failed: bool,
    /// Series that had a sample at the last time so far.
    live: HashMap<LabelSet, i64>,
}

/// What was done so far.
#[derive(Default)]
struct Done {
    samples: u64,
    /// Histograms that the API does not tell whole.
    histograms: u64,
    failed: usize,
}

/// Backfills all rules, shows progress on a terminal, and returns the exit code.
///
/// # Errors
/// Fails when `error` cannot be written.
pub(crate) fn run(
    options: &BackfillOptions,
    error: &mut dyn Write,
    is_terminal: bool,
) -> io::Result<u8> {
    let mut console = Console::new("backfill", error, is_terminal);
    let outcome = backfill(options, &mut console);
    let code = u8::from(!matches!(outcome, Ok((_, false))));
    console.end(code, outcome.map(|(text, _)| text))
}

/// Returns a summary, and whether a rule failed.
fn backfill(
    options: &BackfillOptions,
    console: &mut Console<'_>,
) -> Result<(String, bool), String> {
    let times = times(options)?;
    let mut rules = rules(options)?;
    let source = Source::open(options)?;
    let scratch = Scratch::create(&options.output_dir)?;
    let mut done = Done::default();
    let mut window_ms = times.0 - times.0.rem_euclid(WINDOW_MS);
    while window_ms <= times.1 {
        let (from_ms, to_ms) = (
            window_ms.max(times.0),
            (window_ms + WINDOW_MS - 1).min(times.1),
        );
        let shown = date::rfc3339(from_ms);
        let shown = shown.get(..16).unwrap_or_default();
        for rule in rules.iter_mut().filter(|rule| !rule.failed) {
            console.progress(&format!("{shown} {}, {} samples", rule.name, done.samples))?;
            if let Err(reason) = window(rule, (from_ms, to_ms), &source, &scratch, &mut done) {
                console.warn(&format!("{}: {reason}", rule.shown))?;
                rule.failed = true;
                done.failed += 1;
            }
        }
        scratch.flush()?;
        window_ms += WINDOW_MS;
    }
    if done.histograms > 0 {
        console.warn(&format!(
            "{} histograms are left out: the API does not tell their resolution; --data-dir does",
            done.histograms
        ))?;
    }
    source.close();
    let (blocks, directory) = scratch.publish()?;
    let (samples, directory) = (done.samples, directory.display());
    let text = format!("{samples} samples in {blocks} blocks in {directory}");
    Ok((text, done.failed > 0))
}

/// Evaluates a rule in a window of time and stores the result.
fn window(
    rule: &mut BackfilledRule,
    (from_ms, to_ms): (i64, i64),
    source: &Source,
    scratch: &Scratch,
    done: &mut Done,
) -> Result<(), String> {
    let (interval_ms, offset_ms) = (rule.interval_ms, rule.offset_ms);
    // A server stores what it evaluates at a time under the time before by the offset.
    let slot_ms = first_evaluation(&rule.file, &rule.group, interval_ms, from_ms + offset_ms);
    let first_ms = slot_ms - offset_ms;
    if first_ms > to_ms {
        return Ok(());
    }
    let result = source.range(&rule.expr.to_string(), first_ms, to_ms, interval_ms)?;
    done.histograms += result.histograms_left_out;
    let last_ms = to_ms - (to_ms - first_ms).rem_euclid(interval_ms);
    let mut before = std::mem::take(&mut rule.live);
    let mut batch = Vec::new();
    for series in result.series {
        let labels = labelled(&series.labels, rule);
        let mut newest_ms = before.remove(&labels);
        for sample in samples(&labels, series) {
            let ended = newest_ms.filter(|newest_ms| newest_ms + interval_ms < sample.time_ms);
            batch.extend(ended.map(|newest_ms| end(&labels, newest_ms + interval_ms)));
            newest_ms = Some(sample.time_ms);
            batch.push(sample);
            if batch.len() >= BATCH {
                done.samples += scratch.store(&std::mem::take(&mut batch))?;
            }
        }
        match newest_ms {
            Some(newest_ms) if newest_ms < last_ms => {
                batch.push(end(&labels, newest_ms + interval_ms));
            }
            Some(newest_ms) => {
                rule.live.insert(labels, newest_ms);
            }
            None => {}
        }
    }
    let gone = before.iter();
    batch.extend(gone.map(|(labels, newest_ms)| end(labels, newest_ms + interval_ms)));
    done.samples += scratch.store(&batch)?;
    Ok(())
}

/// Returns the marker of a series that ended.
fn end(labels: &LabelSet, time_ms: i64) -> SeriesSample {
    SeriesSample::float(labels.clone(), time_ms, cell::STALE)
}

/// Returns the samples of a series in the order of their times.
fn samples(labels: &LabelSet, series: MatrixSeries) -> Vec<SeriesSample> {
    let floats = series.floats.into_iter();
    let floats = floats.map(|(time_ms, value)| SeriesSample::float(labels.clone(), time_ms, value));
    let histograms = series.histograms.into_iter();
    let histograms = histograms
        .map(|(time_ms, histogram)| SeriesSample::histogram(labels.clone(), time_ms, histogram));
    let mut samples: Vec<SeriesSample> = floats.chain(histograms).collect();
    samples.sort_by_key(|sample| sample.time_ms);
    samples
}

/// Returns the labels of a result under the rule's name; its own labels win.
fn labelled(labels: &LabelSet, rule: &BackfilledRule) -> LabelSet {
    let mut builder = labels.to_builder();
    builder.set(METRIC_NAME, &rule.name);
    for (name, value) in &rule.labels {
        builder.set(name, value);
    }
    builder.finish().intern()
}

/// Returns the first and the last time to evaluate at.
fn times(options: &BackfillOptions) -> Result<(i64, i64), String> {
    let parse = |what: &str, text: &str| {
        let parsed = date::parse_time(text);
        parsed.ok_or_else(|| {
            format!("error parsing {what} time: cannot parse {text:?} to a valid timestamp")
        })
    };
    let end_ms = match &*options.end {
        "" => SystemClock.now_ms() - DEFAULT_AGE_MS,
        end => parse("end", end)?,
    };
    let start_ms = parse("start", &options.start)?;
    if start_ms >= end_ms {
        return Err("start time is not before end time".to_owned());
    }
    Ok((start_ms, end_ms))
}

/// Reads the recording rules of all files.
fn rules(options: &BackfillOptions) -> Result<Vec<BackfilledRule>, String> {
    let default_ms = i64::try_from(options.eval_interval.as_millis()).unwrap_or(i64::MAX);
    let mut rules = Vec::new();
    for path in &options.files {
        let file = path.display().to_string();
        let read = load(Path::new(path), ParseOptions::default()).map_err(|errors| {
            let lines = errors.iter().map(|error| format!("{file}: {error}"));
            lines.collect::<Vec<_>>().join("\n")
        })?;
        for group in read.groups {
            let recording = group
                .rules
                .iter()
                .filter(|rule| rule.kind == RuleKind::Recording);
            rules.extend(recording.map(|rule| {
                let mut labels = group.labels.clone();
                labels.extend(rule.labels.clone());
                BackfilledRule {
                    shown: format!("{file}: group {:?}, rule {:?}", group.name, rule.name),
                    file: file.clone(),
                    group: group.name.clone(),
                    interval_ms: group.interval_ms.unwrap_or(default_ms).max(1),
                    offset_ms: group.query_offset_ms.unwrap_or_default(),
                    name: rule.name.clone(),
                    labels,
                    expr: rule.expr.clone(),
                    failed: false,
                    live: HashMap::new(),
                }
            }));
        }
    }
    if rules.is_empty() {
        return Err("there are no recording rules".to_owned());
    }
    Ok(rules)
}
