//! Runs scripts against an engine and a store.
//!
//! **Invariant:** a failed evaluation does not end a script: every evaluation is judged.

use super::{
    compare, nhcb,
    script::{self, Command, Eval, Load, ScriptError, Text},
    series::{Limits, SeriesValue},
    variants,
};
use crate::{Engine, QueryError, QueryResult, SampleValue, Value, VectorSample};
use narthex_model::{
    Histogram, LabelSet, cell,
    storage::{Context, SeriesSample, Sink, Store},
};
use std::{collections::HashMap, sync::Arc};

/// A store for both writing and querying.
pub trait TestStore: Store + Sink {}

impl<T: Store + Sink> TestStore for T {}

/// Outcome of a script.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of evaluations with the expected result.
    pub passed: usize,
    /// Number of all evaluations.
    pub total: usize,
    /// The failed evaluations, in order.
    pub failures: Vec<Failure>,
}

/// An evaluation with an unexpected result.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The line it starts at, from 1.
    pub line: usize,
    /// The query.
    pub query: String,
    /// Description of the difference.
    pub reason: String,
}

/// Runs a script; the start and each `clear` get a store from `open`.
///
/// # Errors
/// Fails when the script is invalid or samples cannot be stored.
pub fn run(
    script: &str,
    engine: &Engine,
    open: &dyn Fn() -> Box<dyn TestStore>,
) -> Result<Report, ScriptError> {
    let mut report = Report::default();
    let mut runner = Runner {
        engine,
        loader: Loader {
            store: open(),
            samples: Samples::default(),
        },
        ctx: Context::unlimited(),
    };
    for command in script::parse(script, &mut Limits::unlimited())? {
        match command {
            Command::Clear => {
                runner.loader.store = open();
                runner.loader.samples = Samples::default();
            }
            Command::Load(load) => runner.loader.load(&load)?,
            Command::Broken {
                line,
                query,
                reason,
            } => report.add(line, &query, Err(reason)),
            Command::Eval(eval) => {
                let outcome = runner.judge(&eval);
                report.add(eval.line, &eval.query, outcome);
            }
        }
    }
    Ok(report)
}

/// Appends a script's samples to `store`, skipping its evaluations.
///
/// # Errors
/// Fails when the script is invalid or samples cannot be stored.
pub fn load(script: &str, store: Box<dyn TestStore>) -> Result<Box<dyn TestStore>, ScriptError> {
    let mut loader = Loader {
        store,
        samples: Samples::default(),
    };
    for command in script::parse(script, &mut Limits::unlimited())? {
        if let Command::Load(load) = command {
            loader.load(&load)?;
        }
    }
    Ok(loader.store)
}

/// Parses a script with at most `value_bytes` of values and `pattern_bytes` of patterns, and returns its number of
/// evaluations.
///
/// # Errors
/// Fails on an invalid script.
pub fn check(script: &str, value_bytes: usize, pattern_bytes: usize) -> Result<usize, ScriptError> {
    let mut room = Limits {
        value_bytes,
        pattern_bytes,
    };
    let commands = script::parse(script, &mut room)?;
    let counts = |command: &&Command| matches!(command, Command::Eval(_) | Command::Broken { .. });
    Ok(commands.iter().filter(counts).count())
}

impl Report {
    fn add(&mut self, line: usize, query: &str, outcome: Result<(), String>) {
        self.total += 1;
        match outcome {
            Ok(()) => self.passed += 1,
            Err(reason) => self.failures.push(Failure {
                line,
                query: query.to_owned(),
                reason,
            }),
        }
    }
}

/// A store under construction.
struct Loader {
    store: Box<dyn TestStore>,
    samples: Samples,
}

/// Makes samples of values, in the order of their times.
///
/// A histogram gets the reset hint that a store would derive from the sample before it.
#[derive(Debug, Default)]
pub struct Samples {
    /// The newest sample of each series, if it is a histogram.
    newest: HashMap<LabelSet, Option<Histogram>>,
}

impl Samples {
    /// Returns a value as the next sample of its series; `None` if it is missing.
    pub fn sample(
        &mut self,
        labels: &LabelSet,
        time_ms: i64,
        value: &SeriesValue,
    ) -> Option<SeriesSample> {
        match value {
            SeriesValue::Missing => None,
            SeriesValue::Float(x) => {
                self.newest.insert(labels.clone(), None);
                Some(SeriesSample::float(labels.clone(), time_ms, *x))
            }
            SeriesValue::Histogram { histogram, .. } => {
                Some(self.histogram(labels, time_ms, histogram))
            }
        }
    }

    fn histogram(
        &mut self,
        labels: &LabelSet,
        time_ms: i64,
        histogram: &Histogram,
    ) -> SeriesSample {
        let newest = self.newest.entry(labels.clone()).or_default();
        let reset_hint = histogram.stored_hint(newest.as_ref());
        let stored = Histogram {
            reset_hint,
            ..histogram.clone()
        };
        *newest = Some(stored.clone());
        SeriesSample::histogram(labels.clone(), time_ms, Arc::new(stored))
    }
}

impl Loader {
    fn load(&mut self, load: &Load) -> Result<(), ScriptError> {
        let line = load.line;
        self.append(load)
            .map_err(|message| ScriptError { line, message })
    }

    fn append(&mut self, load: &Load) -> Result<(), String> {
        let mut samples = Vec::new();
        for series in &load.series {
            let mut time_ms = 0;
            for (at, value) in series.values.iter().enumerate() {
                let start = series.starts_ms.get(at).copied().flatten();
                let sample = self.samples.sample(&series.labels, time_ms, value);
                samples.extend(sample.map(|sample| SeriesSample {
                    start_time_ms: start.map_or(0, |offset| time_ms + offset),
                    ..sample
                }));
                time_ms += load.step_ms;
            }
        }
        if load.with_nhcb {
            let series: Vec<_> = load
                .series
                .iter()
                .map(|s| (s.labels.clone(), s.values.clone()))
                .collect();
            for (labels, by_index) in nhcb::convert(&series)? {
                for (index, histogram) in by_index {
                    let time_ms = i64::try_from(index).unwrap_or(i64::MAX) * load.step_ms;
                    samples.push(self.samples.histogram(&labels, time_ms, &histogram));
                }
            }
        }
        let stored = self.store.append_samples(&samples);
        stored.map(|_| ()).map_err(|e| e.to_string())
    }
}

struct Runner<'a> {
    engine: &'a Engine,
    loader: Loader,
    ctx: Context,
}

impl Runner<'_> {
    fn judge(&self, eval: &Eval) -> Result<(), String> {
        if eval.is_range {
            let outcome = self.range(&eval.query, [eval.start_ms, eval.end_ms, eval.step_ms]);
            return self.judge_one(eval, outcome).map(|_| ());
        }
        self.judge_instant(eval, &eval.query, eval.time_ms)?;
        let Some((query, times)) = variants::pinned(&eval.query, eval.time_ms)? else {
            return Ok(());
        };
        for time_ms in times {
            let judged = self.judge_instant(eval, &query, time_ms);
            judged.map_err(|reason| format!("as {query} at {time_ms}: {reason}"))?;
        }
        Ok(())
    }

    fn range(&self, query: &str, times_ms: [i64; 3]) -> Result<QueryResult, QueryError> {
        let (store, [start, end, step]) = (&*self.loader.store, times_ms);
        self.engine.range(store, query, start, end, step, &self.ctx)
    }

    /// Judges one evaluation; returns its result unless a failure was expected.
    fn judge_one(
        &self,
        eval: &Eval,
        outcome: Result<QueryResult, QueryError>,
    ) -> Result<Option<QueryResult>, String> {
        match (outcome, &eval.expect.fail) {
            (Err(error), None) => Err(format!("failed: {error}")),
            (Err(error), Some(wanted)) if wanted.matches(&error.to_string()) => Ok(None),
            (Err(error), Some(wanted)) => Err(format!("expected failure {wanted}, got: {error}")),
            (Ok(_), Some(Text::Any)) => Err("expected a failure".to_owned()),
            (Ok(_), Some(wanted)) => Err(format!("expected failure {wanted}")),
            (Ok(result), None) => {
                compare::notes(&eval.expect, &result)?;
                compare::value(eval, &result.value)?;
                Ok(Some(result))
            }
        }
    }

    fn judge_instant(&self, eval: &Eval, query: &str, time_ms: i64) -> Result<(), String> {
        let outcome = self
            .engine
            .instant(&*self.loader.store, query, time_ms, &self.ctx);
        let Some(result) = self.judge_one(eval, outcome)? else {
            return Ok(());
        };
        let depends_on_range = ["start()", "end()", "range()", "step()"]
            .iter()
            .any(|call| query.contains(call));
        if eval.expect.instant_only || depends_on_range {
            return Ok(());
        }
        let ranged = self.range(query, [time_ms - 60_000, time_ms + 60_000, 60_000]);
        let ranged = ranged.map_err(|e| format!("in range mode: {e}"))?;
        if eval.expect.ordered {
            return Ok(());
        }
        let Value::Matrix(matrix) = &ranged.value else {
            return Err("a range query gave no matrix".to_owned());
        };
        compare::sorted(matrix)?;
        let mut vector = Vec::new();
        for series in matrix {
            let float = series.floats.iter().find(|p| p.0 == time_ms);
            let float = float.map(|p| SampleValue::Float(p.1));
            let histogram = series.histograms.iter().find(|p| p.0 == time_ms);
            let histogram = histogram.map(|p| SampleValue::Histogram(Arc::clone(&p.1)));
            let samples = float.into_iter().chain(histogram);
            vector.extend(samples.map(|value| VectorSample {
                labels: series.labels.clone(),
                time_ms,
                value,
            }));
        }
        let value = if matches!(result.value, Value::Scalar { .. }) {
            let value = match vector.first().map(|sample| &sample.value) {
                Some(SampleValue::Float(x)) => *x,
                _ => cell::NAN,
            };
            Value::Scalar { time_ms, value }
        } else {
            Value::Vector(vector)
        };
        compare::value(eval, &value).map_err(|reason| format!("in range mode: {reason}"))
    }
}
