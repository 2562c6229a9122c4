//! From evaluated blocks to the answer.
//!
//! **Invariant:** names marked for removal are gone, label sets are distinct, a matrix is sorted by labels.

use super::{Block, Eval, META_LABELS, Outcome, Sample, Series, rows};
use crate::{
    ast::{Extension, ValueType},
    error::QueryError,
    functions::extended,
    plan::{Kind, Node, Plan, Steps, Window},
    result::{MatrixSeries, SampleValue, Value, VectorSample},
};
use narthex_model::{
    LabelSet,
    cell::Cell,
    storage::{Layout, Tile, TimeRange},
};
use std::sync::Arc;

/// An answer before its notes are put into words.
pub(crate) type Answer = Value;

impl Eval<'_> {
    /// Evaluates a plan; `range` asks for a matrix whatever the expression's type.
    pub(crate) fn answer(&self, plan: &Plan, range: bool) -> Outcome<Answer> {
        let steps = plan.steps;
        let _steps = self.memory.room_for_steps(steps.count)?;
        let time_ms = steps.start_ms;
        let root = &plan.root;
        match root.value_type {
            ValueType::Scalar => {
                let values = self.scalar(root, steps)?;
                if range {
                    let floats = steps.times_ms().zip(values).collect();
                    let series = MatrixSeries {
                        labels: LabelSet::empty(),
                        floats,
                        histograms: Vec::new(),
                    };
                    return Ok(Value::Matrix(vec![series]));
                }
                Ok(Value::Scalar {
                    time_ms,
                    value: values.first().copied().unwrap_or(f64::NAN),
                })
            }
            ValueType::String => match &root.kind {
                Kind::Text(text) => Ok(Value::String {
                    time_ms,
                    text: text.clone(),
                }),
                _ => Err(QueryError::Execution("expected a text".to_owned())),
            },
            ValueType::Vector => {
                let block = self.without_names(self.collect(root, steps)?)?;
                Ok(if range {
                    Value::Matrix(matrix(&block, steps))
                } else {
                    vector(&block, time_ms)
                })
            }
            ValueType::Matrix => self.matrix_answer(root, steps),
            ValueType::None => Err(QueryError::Execution("the query has no value".to_owned())),
        }
    }

    fn without_names(&self, mut block: Block) -> Outcome<Block> {
        if !self.rules.delayed_name_removal {
            rows::refuse_equal(&block)?;
            return Ok(block);
        }
        for series in block.series.iter_mut().filter(|s| s.drop_name) {
            *series = Series::new(series.labels().without(&META_LABELS));
        }
        rows::merge_equal(block)
    }

    fn matrix_answer(&self, root: &Node, steps: Steps) -> Outcome<Answer> {
        match &root.kind {
            Kind::Subquery(s) => {
                let block = self.without_names(self.collect(&s.inner, s.steps)?)?;
                Ok(Value::Matrix(matrix(&block, s.steps)))
            }
            Kind::Window(w) => self.raw_window(w, steps),
            Kind::Steady(inner) => self.matrix_answer(inner, steps),
            _ => Err(QueryError::Execution("expected a range vector".to_owned())),
        }
    }

    /// Returns the samples of a range as they are stored.
    fn raw_window(&self, w: &Window, steps: Steps) -> Outcome<Answer> {
        let lookback_ms = self.rules.lookback_ms;
        let end_ms = w.select.reference_ms(steps.start_ms);
        let start_ms = end_ms.saturating_sub(w.range_ms);
        let (before_ms, after_ms) = match w.select.extension {
            Extension::None => (0, 0),
            Extension::Anchored => (lookback_ms, 0),
            Extension::Smoothed => (lookback_ms, lookback_ms),
        };
        let range = TimeRange::new(
            start_ms.saturating_sub(before_ms) + 1,
            end_ms.saturating_add(after_ms),
        );
        let mut all = Vec::new();
        let mut held = Vec::new();
        let mut tile = Tile::default();
        for batch in self.prepared.batches(w.select.selector, self.ctx)? {
            self.for_chunks(&batch, range, 1, |eval, chunk| {
                let _hold = eval.read(&batch, chunk, range, Layout::SeriesMajor, &mut tile)?;
                for (at, series) in chunk.iter().enumerate() {
                    let labels = batch.labels(*series as usize);
                    let mut series = MatrixSeries {
                        labels,
                        floats: Vec::new(),
                        histograms: Vec::new(),
                    };
                    for (time, x) in tile.times_ms.iter().zip(tile.series_cells(at)) {
                        match Cell::of(*x) {
                            Cell::Absent | Cell::Stale => {}
                            Cell::Float(x) => series.floats.push((*time, x)),
                            Cell::Histogram(index) => {
                                let h = tile
                                    .histograms
                                    .get(index as usize)
                                    .map(|h| (*time, Arc::clone(h)));
                                series.histograms.extend(h);
                            }
                        }
                    }
                    extend(&mut series, w.select.extension, start_ms, end_ms)?;
                    let samples = (series.floats.len() + series.histograms.len()) as u64;
                    if samples > 0 {
                        held.push(eval.memory.take(samples, samples * 16)?);
                        all.push(series);
                    }
                }
                Ok(())
            })?;
        }
        all.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(Value::Matrix(all))
    }
}

fn extend(
    series: &mut MatrixSeries,
    extension: Extension,
    start_ms: i64,
    end_ms: i64,
) -> Outcome<()> {
    let word = match extension {
        Extension::None => return Ok(()),
        Extension::Anchored => "anchored",
        Extension::Smoothed => "smoothed",
    };
    if !series.histograms.is_empty() {
        return Err(QueryError::Execution(format!(
            "{word} modifier is not supported with histograms"
        )));
    }
    let (times, values): (Vec<i64>, Vec<f64>) = series.floats.iter().copied().unzip();
    series.floats = extended::extend(
        &times,
        &values,
        start_ms,
        end_ms,
        extension == Extension::Smoothed,
    );
    Ok(())
}

fn vector(block: &Block, time_ms: i64) -> Value {
    let sample = |row: usize| {
        let value = match block.sample(row, 0) {
            Sample::Absent => return None,
            Sample::Float(x) => SampleValue::Float(x),
            Sample::Histogram(h) => SampleValue::Histogram(Arc::clone(h)),
        };
        Some(VectorSample {
            labels: block.series[row].labels(),
            time_ms,
            value,
        })
    };
    Value::Vector((0..block.len()).filter_map(sample).collect())
}

fn matrix(block: &Block, steps: Steps) -> Vec<MatrixSeries> {
    let series = |row: usize| {
        let labels = block.series[row].labels();
        let mut series = MatrixSeries {
            labels,
            floats: Vec::new(),
            histograms: Vec::new(),
        };
        for (step, time_ms) in steps.times_ms().enumerate() {
            match block.sample(row, step) {
                Sample::Absent => {}
                Sample::Float(x) => series.floats.push((time_ms, x)),
                Sample::Histogram(h) => series.histograms.push((time_ms, Arc::clone(h))),
            }
        }
        series
    };
    let mut all: Vec<MatrixSeries> = (0..block.len()).map(series).collect();
    all.retain(|s| !s.floats.is_empty() || !s.histograms.is_empty());
    all.sort_by(|a, b| a.labels.cmp(&b.labels));
    all
}
