//! Conversion of evaluated blocks to a result.
//!
//! **Invariant:** names marked for removal are gone, label sets are distinct, a matrix is sorted by labels.

use super::{
    Block, Eval, Hold, META_LABELS, Meter, Outcome, Sample, Series, rows,
    scan::Part,
    stored::{Emitted, StoredRows},
};
use crate::{
    ast::{Extension, ValueType},
    error::QueryError,
    functions::extended,
    plan::{Node, NodeKind, Plan, Select, Steps, Window},
    result::{MatrixSeries, SampleValue, Value, VectorSample},
};
use narthex_model::{
    Histogram, LabelSet, cell,
    storage::{LABEL_ORDER_BYTES, Tile, TimeRange, arrange, in_label_order},
};
use std::{ops::Range, sync::Arc};

/// A value before its notes are formatted, with its lease.
pub(crate) type Answer = (Value, Hold);

impl Eval<'_> {
    /// Evaluates a plan; `range` requests a matrix whatever the expression's type.
    pub(crate) fn answer(&self, plan: &Plan, range: bool) -> Outcome<Answer> {
        let steps = plan.steps;
        let _steps = self.memory.room_for_steps(steps.count)?;
        let time_ms = steps.start_ms;
        let root = &plan.root;
        match root.value_type {
            ValueType::Scalar => {
                let values = self.scalar(root, steps)?;
                if range {
                    let hold = self.memory.acquire(0, steps.count as u64 * POINT_BYTES)?;
                    let floats = steps.times_ms().zip(values.iter().copied()).collect();
                    let series = MatrixSeries {
                        labels: LabelSet::empty(),
                        floats,
                        histograms: Vec::new(),
                    };
                    return Ok((Value::Matrix(vec![series]), hold));
                }
                let value = values.first().copied().unwrap_or(f64::NAN);
                Ok((Value::Scalar { time_ms, value }, Hold::default()))
            }
            ValueType::String => match &root.kind {
                NodeKind::Text(text) => {
                    let hold = self.memory.acquire(0, text.len() as u64)?;
                    let text = text.clone();
                    Ok((Value::String { time_ms, text }, hold))
                }
                _ => Err(QueryError::Execution("expected a text".to_owned())),
            },
            ValueType::Vector => {
                if let NodeKind::Select(select) = &root.kind
                    && range
                    && select.extension != Extension::Smoothed
                {
                    return self.stored_matrix(root, select, steps);
                }
                let block = self.collect(root, steps)?;
                let block = match returns_stored(root) {
                    true => block,
                    false => self.without_names(block)?,
                };
                if range {
                    self.matrix(block, steps)
                } else {
                    self.vector(&block, time_ms)
                }
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
            NodeKind::Subquery(s) => {
                let (block, counts) =
                    self.counted_apart(s.steps, || self.collect(&s.inner, s.steps));
                let all = 0..s.steps.count;
                self.count_subquery(counts, std::slice::from_ref(&all));
                let block = self.without_names(block?)?;
                self.matrix(block, s.steps)
            }
            NodeKind::Window(w) => self.raw_window(w, steps),
            NodeKind::StepInvariant(inner) => self.matrix_answer(inner, steps),
            _ => Err(QueryError::Execution("expected a range vector".to_owned())),
        }
    }

    /// Returns the samples of a range as stored.
    fn raw_window(&self, w: &Window, steps: Steps) -> Outcome<Answer> {
        let lookback_ms = self.rules.lookback_ms;
        let end_ms = w.select.reference_ms(steps.start_ms);
        let start_ms = end_ms.saturating_sub(w.range_ms);
        let (before_ms, after_ms) = w.select.extension.reach_ms(lookback_ms);
        let range = TimeRange::new(
            start_ms.saturating_sub(before_ms) + 1,
            end_ms.saturating_add(after_ms),
        );
        let mut all = Vec::new();
        let mut held = Hold::default();
        let mut meter = Meter::new(&self.memory);
        let batches = self.batches(w.select.selector)?;
        let read = |_: &Eval<'_>, part: &Part<'_>| {
            let mut some = part.series().into_iter().enumerate();
            some.try_fold(Vec::new(), |mut read, (at, series)| {
                let mut series = raw_series(part.tile, at, series.labels());
                extend(&mut series, w.select.extension, start_ms, end_ms)?;
                read.push(series);
                Ok(read)
            })
        };
        self.scan(&batches, range, 1, read, |some| {
            for series in some {
                let weights = series.histograms.iter().map(|(_, h)| h.weight());
                let samples = (series.floats.len() + weights.sum::<usize>()) as u64;
                if samples > 0 {
                    self.count_first(samples);
                    held.join(self.memory.acquire(samples, 0)?);
                    meter.add(series.heap_bytes())?;
                    all.push(series);
                }
            }
            Ok(())
        })?;
        self.sort(&mut all)?;
        held.join(meter.finish());
        Ok((Value::Matrix(all), held))
    }

    fn vector(&self, block: &Block, time_ms: i64) -> Outcome<Answer> {
        let (mut meter, mut pace) = (Meter::new(&self.memory), self.ctx.stop.pace());
        let mut samples = Vec::new();
        for row in 0..block.len() {
            pace.spend(SERIES_WORK)?;
            let mut bytes = 2 * size_of::<VectorSample>();
            let value = match block.sample(row, 0) {
                Sample::Absent => continue,
                Sample::Float(x) => SampleValue::Float(x),
                Sample::Histogram(h) => {
                    bytes += h.heap_bytes();
                    SampleValue::Histogram(Arc::clone(h))
                }
            };
            let labels = block.series[row].labels();
            meter.add(bytes + labels.heap_bytes())?;
            samples.push(VectorSample {
                labels,
                time_ms,
                value,
            });
        }
        Ok((Value::Vector(samples), meter.finish()))
    }

    fn matrix(&self, block: Block, steps: Steps) -> Outcome<Answer> {
        let emitted = Emitted::Block(block);
        let starts = (0..emitted.len()).step_by(ROWS_AT_ONCE);
        let pieces: Vec<Range<usize>> = starts
            .map(|start| start..emitted.len().min(start + ROWS_AT_ONCE))
            .collect();
        let (mut all, mut held) = (Vec::new(), Hold::default());
        for some in self.helpers.map(&pieces, |rows| {
            self.matrix_rows(&emitted, rows.clone(), steps)
        }) {
            let (series, hold) = some?;
            all.extend(series);
            held.join(hold);
        }
        self.sort(&mut all)?;
        Ok((Value::Matrix(all), held))
    }

    /// Returns what a selector finds. Whoever reads samples makes their series, while it has the labels at hand.
    fn stored_matrix(&self, root: &Node, select: &Select, steps: Steps) -> Outcome<Answer> {
        let (mut all, mut held) = (Vec::new(), Hold::default());
        let make = |eval: &Eval<'_>, rows: StoredRows| {
            let _rows = eval.memory.acquire(0, rows.heap_bytes(rows.width))?;
            let mut samples = eval.memory.acquire(rows.weight(), 0)?;
            let rows = Emitted::Stored(rows);
            let (series, hold) = eval.matrix_rows(&rows, 0..rows.len(), steps)?;
            samples.join(hold);
            Ok((series, samples))
        };
        self.as_operation(root, |passed| {
            self.select_made(select, steps, make, |(series, hold)| {
                passed(series.len());
                all.extend(series);
                held.join(hold);
                Ok(())
            })
        })?;
        self.sort(&mut all)?;
        Ok((Value::Matrix(all), held))
    }

    /// Returns the series of some rows, with their lease.
    fn matrix_rows(
        &self,
        emitted: &Emitted,
        rows: Range<usize>,
        steps: Steps,
    ) -> Outcome<(Vec<MatrixSeries>, Hold)> {
        let (mut meter, mut pace) = (Meter::new(&self.memory), self.ctx.stop.pace());
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            let (from, cells, histograms) = emitted.row(row);
            pace.spend(SERIES_WORK + 2 * cells.len())?;
            let floats = cells.iter().filter(|x| cell::is_float(**x)).count();
            // Lease before allocating the points.
            meter.add(floats * POINT_BYTES as usize)?;
            let mut series = MatrixSeries {
                labels: emitted.labels(row),
                floats: Vec::with_capacity(floats),
                histograms: Vec::new(),
            };
            let times_ms = (from..).map(|step| steps.time_ms(step));
            add_points(&mut series, times_ms, cells, histograms);
            if series.floats.is_empty() && series.histograms.is_empty() {
                continue;
            }
            meter.add(series.heap_bytes() - floats * POINT_BYTES as usize)?;
            all.push(series);
        }
        Ok((all, meter.finish()))
    }

    /// Sorts series by their labels.
    fn sort(&self, all: &mut [MatrixSeries]) -> Outcome<()> {
        let bytes = size_of::<&LabelSet>() + LABEL_ORDER_BYTES;
        let _order = self.memory.acquire(0, (all.len() * bytes) as u64)?;
        let labels: Vec<&LabelSet> = all.iter().map(|series| &series.labels).collect();
        let order = in_label_order(&labels, &mut self.ctx.stop.pace())?;
        arrange(all, order);
        Ok(())
    }
}

/// Rows of a matrix that are made at once.
const ROWS_AT_ONCE: usize = 1024;

/// Memory of a point of a result, in bytes.
const POINT_BYTES: u64 = size_of::<(i64, f64)>() as u64;

/// Work of creating a series of a result, in samples read.
const SERIES_WORK: usize = 32;

/// Reports whether a node returns series as they are stored: no two of them have the same labels.
fn returns_stored(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Select(_) => true,
        NodeKind::StepInvariant(inner) => returns_stored(inner),
        _ => false,
    }
}

/// Returns one series of a tile as stored.
fn raw_series(tile: &Tile, series: usize, labels: LabelSet) -> MatrixSeries {
    let mut raw = MatrixSeries {
        labels,
        floats: Vec::new(),
        histograms: Vec::new(),
    };
    let times_ms = tile.times_ms.iter().copied();
    add_points(
        &mut raw,
        times_ms,
        tile.series_cells(series),
        &tile.histograms,
    );
    raw
}

/// Adds the samples of cells to a series.
fn add_points(
    series: &mut MatrixSeries,
    times_ms: impl Iterator<Item = i64>,
    cells: &[f64],
    histograms: &[Arc<Histogram>],
) {
    for (time_ms, value) in times_ms.zip(cells) {
        match Sample::of(*value, histograms) {
            Sample::Absent => {}
            Sample::Float(x) => series.floats.push((time_ms, x)),
            Sample::Histogram(h) => series.histograms.push((time_ms, Arc::clone(h))),
        }
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
