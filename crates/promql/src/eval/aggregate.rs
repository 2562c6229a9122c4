//! Aggregations with one result series per group.
//!
//! **Invariant:** input is consumed as a stream, keeping one accumulator per group and step. Groups come out in order
//! of first appearance.

use super::{
    Block, Eval, Hold, Memory, Meter, Outcome, Sample, Scalars, Series, Value,
    group_index::GroupIndex,
    stored::{Emitted, StoredRows},
};
use crate::{
    error::QueryError,
    functions::{over_histograms::HistogramFold, over_time::Mean, quantile::quantile},
    kept_groups::{KeptGroups, KnownGroups},
    lex::AggregateOp,
    math::kahan_add,
    notes::{HistogramOperation, Note},
    plan::{Aggregate, Steps},
    span::Span,
};
use narthex_model::{Histogram, LabelHash, LabelSet, cell, histogram::ResetHint, storage::Pace};
use std::{collections::HashMap, ops::Range, sync::Arc};

/// The groups of an aggregation.
struct Groups {
    index: GroupIndex,
    /// Groups of a query that is evaluated again and again.
    known: Option<KnownGroups>,
    /// The known ones that have appeared, by number; `UNSEEN` for others.
    seen: Vec<u32>,
    /// Identity of each group.
    series: Vec<Series>,
    cells: Accumulators,
    /// The key of each row's group, of rows that are being added.
    keys: Vec<LabelHash>,
}

/// No group.
const UNSEEN: u32 = u32::MAX;

impl Groups {
    /// Returns the group of a series.
    fn find(&mut self, of: &Series) -> Outcome<usize> {
        self.with_key(self.index.key(of), of.drop_name, |index| index.labels(of))
    }

    /// Returns the group with this key; `labels` are its labels.
    fn with_key(
        &mut self,
        key: LabelHash,
        drop_name: bool,
        labels: impl FnOnce(&GroupIndex) -> LabelSet,
    ) -> Outcome<usize> {
        let group = if let Some(known) = &mut self.known {
            let number = known.number(key, || labels(&self.index));
            self.known_group(number)?
        } else {
            let (group, new) = self.index.number(key);
            if new {
                self.add(labels(&self.index))?;
            }
            group
        };
        self.series[group].drop_name |= drop_name;
        Ok(group)
    }

    fn add(&mut self, labels: LabelSet) -> Outcome<()> {
        let of_group = Series::new(labels);
        self.cells.grow(of_group.heap_bytes())?;
        self.series.push(of_group);
        Ok(())
    }

    /// Returns a known group.
    fn known_group(&mut self, number: u32) -> Outcome<usize> {
        let at = number as usize;
        if self.seen.len() <= at {
            self.seen.resize(at + 1, UNSEEN);
        }
        if self.seen[at] == UNSEEN {
            self.seen[at] = u32::try_from(self.series.len()).expect("fewer than 2^32 groups");
            let labels = self.known.as_ref().map(|known| known.labels(number));
            self.add(labels.unwrap_or_else(LabelSet::empty))?;
        }
        Ok(self.seen[at] as usize)
    }

    /// Adds rows without histograms.
    fn add_stored(&mut self, rows: &StoredRows, pace: &mut Pace<'_>) -> Outcome<()> {
        let known = self.known.as_mut().filter(|_| !rows.drop_name);
        let (index, series) = (&self.index, |series: u32| rows.stored(series));
        let known = known.and_then(|known| {
            let key_of = |of: u32| index.key(&series(of));
            known.of_batch(&rows.batch, rows.bare, key_of, |of| {
                index.labels(&series(of))
            })
        });
        let mut keys = std::mem::take(&mut self.keys);
        if known.is_none() {
            self.index.row_keys(rows, &mut keys);
        }
        for row in 0..rows.len() {
            pace.spend(rows.width)?;
            let group = match &known {
                Some(known) => self.known_group(known[rows.series[row] as usize])?,
                None => self.with_key(keys[row], rows.drop_name, |index| {
                    index.labels(&rows.series_of(row))
                })?,
            };
            if rows.dense {
                self.cells.add_floats(group, rows.from, rows.row(row));
            } else {
                self.cells.add_runs(group, rows.from, rows.row(row));
            }
        }
        self.keys = keys;
        Ok(())
    }
}

impl Eval<'_> {
    pub(super) fn aggregate(&self, a: &Aggregate, steps: Steps) -> Outcome<Block> {
        let block = match a.op {
            AggregateOp::Topk
            | AggregateOp::Bottomk
            | AggregateOp::Limitk
            | AggregateOp::LimitRatio => self.pick(a, steps)?,
            AggregateOp::CountValues => self.count_values(a, steps)?,
            _ => self.fold(a, steps)?,
        };
        self.charge(block)
    }

    fn fold(&self, a: &Aggregate, steps: Steps) -> Outcome<Block> {
        let mut params = Scalars::default();
        if let Some(param) = &a.param {
            params = self.scalar(param, steps)?;
        }
        let span = a.input.span;
        let mut groups = Groups {
            index: GroupIndex::new(a),
            known: a.kept.as_ref().map(KeptGroups::take_known),
            seen: Vec::new(),
            series: Vec::new(),
            cells: Accumulators::new(a.op, steps.count, &self.memory),
            keys: Vec::new(),
        };
        let mut pace = self.ctx.stop.pace();
        self.stream_rows(&a.input, steps, &mut |rows| {
            let hold = match rows {
                Emitted::Stored(rows) if rows.histograms.is_empty() => {
                    let hold = self.hold_for(&rows, rows.width)?;
                    groups.add_stored(&rows, &mut pace)?;
                    hold
                }
                rows => {
                    let block = self.whole(rows, steps.count)?;
                    for row in 0..block.len() {
                        pace.spend(steps.count)?;
                        let group = groups.find(&block.series[row])?;
                        self.fold_row(a.op, &mut groups.cells, group, &block, row, span)?;
                    }
                    block.hold
                }
            };
            if a.op == AggregateOp::Quantile {
                // Quantiles keep all values, so the memory stays leased.
                groups.cells.inputs.join(hold);
            }
            Ok(())
        })?;
        let Groups {
            known,
            series,
            cells: mut groups,
            ..
        } = groups;
        if let (Some(kept), Some(known)) = (&a.kept, known) {
            kept.keep(known, series.len(), &self.ctx.budget);
        }
        if let Some(param) = &a.param {
            // After the input's notes: of equal notes the last one's position is kept.
            self.note_quantiles(&params, param.span);
        }
        let mut result = Block::new(steps.count);
        for (group, series) in series.into_iter().enumerate() {
            let row = result.add_row(series);
            for step in 0..steps.count {
                pace.spend(groups.finish_work(group, step))?;
                let q = params.get(step).copied().unwrap_or_default();
                if let Some(value) = self.finish_cell(&mut groups, group, step, q, span) {
                    result.set(row, step, value);
                }
            }
        }
        result.drop_empty_rows();
        Ok(result)
    }

    fn note_quantiles(&self, params: &[f64], span: Span) {
        // A NaN parameter makes both extremes NaN, so that only the NaN is noted.
        let highest = params.iter().copied().fold(f64::MIN, crate::math::max);
        let lowest = params.iter().copied().fold(f64::MAX, crate::math::min);
        if params.iter().any(|q| q.is_nan()) {
            self.notes().add(Note::invalid_quantile(f64::NAN, span));
        }
        if highest > 1.0 {
            self.notes().add(Note::invalid_quantile(highest, span));
        }
        if lowest < 0.0 {
            self.notes().add(Note::invalid_quantile(lowest, span));
        }
    }

    fn fold_row(
        &self,
        op: AggregateOp,
        groups: &mut Accumulators,
        group: usize,
        block: &Block,
        row: usize,
        span: Span,
    ) -> Outcome<()> {
        if block.dense {
            groups.add_floats(group, 0, block.row(row));
            return Ok(());
        }
        if block.histograms.is_empty() {
            groups.add_runs(group, 0, block.row(row));
            return Ok(());
        }
        let mut pace = self.ctx.stop.pace();
        for step in 0..block.steps {
            match block.sample(row, step) {
                Sample::Absent => {}
                Sample::Float(x) => groups.add_float(group, step, x),
                Sample::Histogram(h) => match op {
                    AggregateOp::Sum | AggregateOp::Avg => {
                        pace.spend(4 * h.weight())?;
                        groups.lease_histogram(group, step, h)?;
                        self.add_histogram(op, groups, group, step, h, &block.series[row], span);
                    }
                    AggregateOp::Count | AggregateOp::Group => groups.add_float(group, step, 1.0),
                    _ => self
                        .notes()
                        .add(Note::histogram_ignored_in_aggregation(op.as_str(), span)),
                },
            }
        }
        Ok(())
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "where to add, what, and what to blame"
    )]
    fn add_histogram(
        &self,
        op: AggregateOp,
        groups: &mut Accumulators,
        group: usize,
        step: usize,
        h: &Arc<Histogram>,
        series: &Series,
        span: Span,
    ) {
        let has_floats = groups.seen(group, step);
        let kept = groups
            .histograms
            .entry((group, step))
            .or_insert_with(|| HistogramGroup {
                seen_floats_first: has_floats,
                ..HistogramGroup::default()
            });
        if kept.incompatible {
            return;
        }
        // A group that began with a float is mixed and has no result: Prometheus does not add its histograms.
        if kept.seen_floats_first {
            return;
        }
        match h.reset_hint {
            ResetHint::Reset => kept.reset_seen = true,
            ResetHint::NotReset => kept.not_reset_seen = true,
            ResetHint::Unknown | ResetHint::Gauge => {}
        }
        let Some(sum) = &mut kept.sum else {
            let is_average = op == AggregateOp::Avg;
            kept.sum = Some(HistogramFold::new(is_average, (**h).clone()));
            return;
        };
        match sum.add(h) {
            Ok(true) => self.notes().add(Note::bounds_reconciled(
                HistogramOperation::Aggregation,
                span,
            )),
            Ok(false) => {}
            Err(_) => {
                kept.incompatible = true;
                self.notes()
                    .add(Note::mixed_exponential_custom(&series.metric_name(), span));
            }
        }
    }

    fn finish_cell(
        &self,
        groups: &mut Accumulators,
        group: usize,
        step: usize,
        q: f64,
        span: Span,
    ) -> Option<Value> {
        let has_floats = groups.seen(group, step);
        let Some(kept) = groups.histograms.remove(&(group, step)) else {
            return if has_floats {
                Some(Value::Float(groups.finish(group, step, q)))
            } else {
                None
            };
        };
        if kept.incompatible {
            return None;
        }
        if has_floats {
            self.notes().add(Note::mixed_in_aggregation(span));
            return None;
        }
        if kept.reset_seen && kept.not_reset_seen {
            self.notes()
                .add(Note::reset_conflict(HistogramOperation::Aggregation, span));
        }
        let mut result = kept.sum?.finish();
        result.compact();
        Some(Value::Histogram(Arc::new(result)))
    }
}

/// Returns the lowest and the highest value other than NaN; without one, +Inf and −Inf in that order.
pub(super) fn extremes(values: &[f64]) -> (f64, f64) {
    values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
            (low.min(*x), high.max(*x))
        })
}

/// Accumulators of all groups and steps; `[group * steps + step]`.
struct Accumulators {
    op: AggregateOp,
    steps: usize,
    /// Sum, also of an average, extreme, or mean of a variance.
    values: Vec<f64>,
    /// Compensation of a sum, or sum of squares of a variance.
    seconds: Vec<f64>,
    counts: Vec<f64>,
    /// Number of gapless rows of each group that `counts` does not include.
    whole_rows: Vec<f64>,
    /// Averages whose sums would be infinite.
    means: HashMap<usize, Mean>,
    lists: Vec<Vec<f64>>,
    histograms: HashMap<(usize, usize), HistogramGroup>,
    /// Steps of the last run of floats.
    run: Range<usize>,
    meter: Meter,
    /// Lease for inputs whose values are kept.
    inputs: Hold,
}

#[derive(Default)]
struct HistogramGroup {
    sum: Option<HistogramFold>,
    seen_floats_first: bool,
    incompatible: bool,
    reset_seen: bool,
    not_reset_seen: bool,
}

impl Accumulators {
    fn new(op: AggregateOp, steps: usize, memory: &Memory) -> Self {
        Self {
            op,
            steps,
            values: Vec::new(),
            seconds: Vec::new(),
            counts: Vec::new(),
            whole_rows: Vec::new(),
            means: HashMap::new(),
            lists: Vec::new(),
            histograms: HashMap::new(),
            run: 0..0,
            meter: Meter::new(memory),
            inputs: Hold::default(),
        }
    }

    /// Adds a group whose labels take `labels_bytes` bytes.
    fn grow(&mut self, labels_bytes: usize) -> Outcome<()> {
        let size = self.counts.len() + self.steps;
        // Three numbers and a list, or a mean, plus one number of the result.
        let cell_bytes = size_of::<f64>() * 4 + size_of::<(usize, Mean)>();
        self.meter.add(self.steps * cell_bytes + labels_bytes)?;
        self.counts.resize(size, 0.0);
        self.whole_rows.push(0.0);
        match self.op {
            // −0 leaves any first value unchanged.
            AggregateOp::Sum | AggregateOp::Avg => {
                self.values.resize(size, -0.0);
                self.seconds.resize(size, 0.0);
            }
            AggregateOp::Quantile => self.lists.resize(size, Vec::new()),
            AggregateOp::Min | AggregateOp::Max => self.values.resize(size, cell::NAN),
            AggregateOp::Stddev | AggregateOp::Stdvar => {
                self.values.resize(size, 0.0);
                self.seconds.resize(size, 0.0);
            }
            _ => {}
        }
        Ok(())
    }

    /// Leases memory for the first histogram of a group and step.
    fn lease_histogram(&mut self, group: usize, step: usize, h: &Histogram) -> Outcome<()> {
        if self.histograms.contains_key(&(group, step)) {
            return Ok(());
        }
        // Adding others may add buckets, and an average keeps a second histogram.
        let entry = size_of::<((usize, usize), HistogramGroup)>();
        self.meter.add(2 * entry + 3 * h.heap_bytes())
    }

    /// Returns the work of finishing a cell, in samples read.
    fn finish_work(&self, group: usize, step: usize) -> usize {
        let list = self.lists.get(group * self.steps + step);
        1 + 8 * list.map_or(0, Vec::len)
    }

    fn seen(&self, group: usize, step: usize) -> bool {
        self.whole_rows[group] > 0.0 || self.counts[group * self.steps + step] > 0.0
    }

    /// Adds the floats of a row without histograms that begins at step `from`.
    fn add_runs(&mut self, group: usize, from: usize, row: &[f64]) {
        // Neighbours mostly come and go together.
        if is_run(row, &self.run) {
            let run = self.run.clone();
            self.add_floats(group, from + run.start, &row[run]);
            return;
        }
        let mut step = 0;
        for run in row.chunk_by(|a, b| cell::is_float(*a) == cell::is_float(*b)) {
            if cell::is_float(run[0]) {
                self.run = step..step + run.len();
                self.add_floats(group, from + step, run);
            }
            step += run.len();
        }
    }

    /// Adds floats at consecutive steps, the first of them at step `from`.
    fn add_floats(&mut self, group: usize, from: usize, floats: &[f64]) {
        let begin = group * self.steps + from;
        let cells = begin..begin + floats.len();
        match self.op {
            AggregateOp::Sum | AggregateOp::Avg if self.adds_to_sums(begin, floats) => {
                let sums = &mut self.values[cells.clone()];
                add_row(sums, &mut self.seconds[cells.clone()], floats);
            }
            AggregateOp::Min => {
                for (least, x) in self.values[cells.clone()].iter_mut().zip(floats) {
                    *least = if *x < *least || least.is_nan() {
                        *x
                    } else {
                        *least
                    };
                }
            }
            AggregateOp::Max => {
                for (most, x) in self.values[cells.clone()].iter_mut().zip(floats) {
                    *most = if *x > *most || most.is_nan() {
                        *x
                    } else {
                        *most
                    };
                }
            }
            AggregateOp::Count | AggregateOp::Group => {}
            _ => {
                for (at, x) in floats.iter().enumerate() {
                    self.add_float(group, from + at, *x);
                }
                return;
            }
        }
        if floats.len() == self.steps {
            self.whole_rows[group] += 1.0;
        } else {
            self.counts[cells].iter_mut().for_each(|n| *n += 1.0);
        }
    }

    /// Reports whether floats from place `begin` on are added to sums: averages are unless a sum is or would be infinite.
    fn adds_to_sums(&self, begin: usize, floats: &[f64]) -> bool {
        let stay_finite = || {
            let both = self.values[begin..].iter().zip(floats);
            // All are looked at, without branches.
            both.fold(true, |stay, (sum, x)| stay & !(sum + x).is_infinite())
        };
        self.op == AggregateOp::Sum || self.means.is_empty() && stay_finite()
    }

    /// Adds the value of an average that has `before` values, or more of them where the sum became infinite.
    fn add_to_mean(&mut self, at: usize, before: f64, x: f64) {
        if let Some(mean) = self.means.get_mut(&at) {
            mean.add(x);
            return;
        }
        let mean = if before > 0.0 {
            let mut mean = Mean::of_sum(before, self.values[at], self.seconds[at]);
            mean.add(x);
            mean
        } else {
            Mean::new(x)
        };
        match mean.sum() {
            Some((sum, lost)) => (self.values[at], self.seconds[at]) = (sum, lost),
            None => {
                self.means.insert(at, mean);
            }
        }
    }

    fn add_float(&mut self, group: usize, step: usize, x: f64) {
        let at = group * self.steps + step;
        let before = self.counts[at] + self.whole_rows[group];
        self.counts[at] += 1.0;
        let first = self.counts[at] == 1.0;
        match self.op {
            AggregateOp::Sum => {
                (self.values[at], self.seconds[at]) =
                    kahan_add(x, self.values[at], self.seconds[at]);
            }
            AggregateOp::Avg => self.add_to_mean(at, before, x),
            AggregateOp::Min if x < self.values[at] || self.values[at].is_nan() => {
                self.values[at] = x;
            }
            AggregateOp::Max if x > self.values[at] || self.values[at].is_nan() => {
                self.values[at] = x;
            }
            AggregateOp::Quantile => self.lists[at].push(x),
            AggregateOp::Stddev | AggregateOp::Stdvar if first => {
                self.values[at] = x;
                self.seconds[at] = if x.is_finite() { 0.0 } else { cell::NAN };
            }
            AggregateOp::Stddev | AggregateOp::Stdvar => {
                let delta = x - self.values[at];
                self.values[at] += delta / self.counts[at];
                self.seconds[at] += delta * (x - self.values[at]);
            }
            _ => {}
        }
    }

    fn finish(&mut self, group: usize, step: usize, q: f64) -> f64 {
        let at = group * self.steps + step;
        match self.op {
            AggregateOp::Sum => self.values[at] + self.seconds[at],
            AggregateOp::Avg => {
                let count = self.counts[at] + self.whole_rows[group];
                let mean = self.means.remove(&at);
                mean.unwrap_or_else(|| Mean::of_sum(count, self.values[at], self.seconds[at]))
                    .finish()
            }
            AggregateOp::Count => self.counts[at] + self.whole_rows[group],
            AggregateOp::Group => 1.0,
            AggregateOp::Quantile => quantile(q, &mut self.lists[at]),
            AggregateOp::Stdvar => self.seconds[at] / self.counts[at],
            AggregateOp::Stddev => (self.seconds[at] / self.counts[at]).sqrt(),
            _ => self.values[at],
        }
    }
}

/// Reports whether a row's floats are those of `run`.
fn is_run(row: &[f64], run: &Range<usize>) -> bool {
    let (Some(before), Some(floats), Some(after)) = (
        row.get(..run.start),
        row.get(run.clone()),
        row.get(run.end..),
    ) else {
        return false;
    };
    // Whole slices are compared without branches.
    let none = |cells: &[f64]| {
        cells
            .iter()
            .fold(true, |none, x| none & !cell::is_float(*x))
    };
    let all = |cells: &[f64]| cells.iter().fold(true, |all, x| all & cell::is_float(*x));
    all(floats) & none(before) & none(after)
}

/// Adds a row to compensated sums.
///
/// The error of each addition is found without comparing (Knuth's TwoSum): the same bits as `kahan_add`, in a loop
/// that vectorizes.
fn add_row(sums: &mut [f64], lost: &mut [f64], row: &[f64]) {
    for ((sum, lost), x) in sums.iter_mut().zip(lost).zip(row) {
        let total = *sum + *x;
        let added = total - *sum;
        let error = (*sum - (total - added)) + (*x - added);
        *lost = if total.is_infinite() {
            0.0
        } else {
            *lost + error
        };
        *sum = total;
    }
}

/// Returns the error for an unexpectedly missing parameter.
pub(super) fn missing_parameter() -> QueryError {
    QueryError::Execution("an aggregation lacks its parameter".to_owned())
}

#[cfg(test)]
mod tests;
