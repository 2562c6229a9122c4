//! Functions of instant vectors and scalars.
//!
//! **Invariant:** functions of one sample at a time stream; those that need all series of a step collect.

use super::{
    Block, Eval, META_LABELS, Meter, Outcome, Series, Sink, rows,
    select::{SampleSearch, Wanted},
};
use crate::{
    error::QueryError,
    functions::{FunctionId, classic, dates, histograms, labels, math, sort},
    math::seconds,
    notes::Note,
    plan::{Call, Node, NodeKind, Steps},
};
use narthex_model::{
    LabelSet, LabelSetBuilder, MatchOp, Matcher,
    cell::{self, ABSENT},
};

/// Work of creating a series' labels, in samples read.
const LABELS_WORK: usize = 128;

impl Eval<'_> {
    pub(super) fn stream_call(
        &self,
        call: &Call,
        node: &Node,
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Outcome<()> {
        use FunctionId as F;
        let first = call.args.first();
        match (call.function, first) {
            (F::Vector, Some(scalar)) => {
                let values = self.scalar(scalar, steps)?.to_vec();
                sink(self.charge(one_row(Series::new(LabelSet::empty()), values))?)
            }
            (F::Timestamp | F::StartTimestamp, Some(arg)) => {
                self.stream_timestamp(call.function, arg, steps, sink)
            }
            (F::Absent, Some(vector)) => {
                let labels = match &vector.kind {
                    NodeKind::Select(select) => absent_labels(&select.matchers),
                    _ => LabelSet::empty(),
                };
                self.absent(Series::new(labels), steps, sink, |found| {
                    self.stream(vector, steps, found)
                })
            }
            (F::Clamp | F::ClampMin | F::ClampMax, Some(vector)) => {
                self.clamp(call, vector, steps, sink)
            }
            (F::Round, Some(vector)) => {
                let to = self.scalar_or(call.args.get(1), 1.0, steps)?;
                self.stream_floats(vector, steps, sink, |x, step| math::round(x, to[step]))
            }
            (F::Sort | F::SortDesc | F::SortByLabel | F::SortByLabelDesc, Some(vector)) => {
                let block = self.collect(vector, steps)?;
                // Sorting copies the block.
                let _copy = self.memory.acquire(0, block.heap_bytes())?;
                if steps.count > 1 {
                    self.notes().add(Note::sort_in_range_query(node.span));
                }
                let names = texts(&call.args);
                sink(sort::sort(call.function, block, &names, &self.ctx.stop)?)
            }
            (F::LabelReplace | F::LabelJoin, Some(vector)) => {
                let change =
                    labels::Change::new(call.function, &texts(&call.args), &self.patterns())?;
                let mut block = self.collect(vector, steps)?;
                let (mut meter, mut pace) = (Meter::new(&self.memory), self.ctx.stop.pace());
                for series in &mut block.series {
                    pace.spend(LABELS_WORK)?;
                    change.apply(series, &self.memory, &mut meter)?;
                }
                block.hold.join(meter.finish());
                sink(rows::merge_equal(block)?)
            }
            (F::HistogramQuantile | F::HistogramQuantiles | F::HistogramFraction, _) => {
                self.classic(call, steps, sink)
            }
            (F::Info, Some(base)) => {
                let block = self.info(call, base, steps)?;
                sink(self.charge(block)?)
            }
            (id, None) => {
                let part = dates::part(id).ok_or_else(|| unsupported(id))?;
                let _cells = self.memory.room_for_steps(steps.count)?;
                let cells = steps.times_ms().map(|ms| part(seconds(ms))).collect();
                sink(self.charge(one_row(Series::new(LabelSet::empty()), cells))?)
            }
            (id, Some(vector)) => {
                if let Some(f) = dates::part(id).or_else(|| math::function(id)) {
                    return self.stream_floats(vector, steps, sink, |x, _| f(x));
                }
                let f = histograms::function(id).ok_or_else(|| unsupported(id))?;
                self.stream_histograms(vector, steps, sink, f)
            }
        }
    }

    /// Maps floats; drops histograms.
    fn stream_floats(
        &self,
        vector: &Node,
        steps: Steps,
        sink: &mut Sink<'_>,
        f: impl Fn(f64, usize) -> f64,
    ) -> Outcome<()> {
        self.stream_mapped(vector, steps, sink, |block| {
            let dense = block.dense;
            for row in block.cells.chunks_exact_mut(steps.count) {
                for (step, x) in row.iter_mut().enumerate() {
                    *x = if dense || cell::is_float(*x) {
                        cell::canonical(f(*x, step))
                    } else {
                        ABSENT
                    };
                }
            }
            block.histograms.clear();
        })
    }

    /// Maps histograms to floats; drops floats.
    fn stream_histograms(
        &self,
        vector: &Node,
        steps: Steps,
        sink: &mut Sink<'_>,
        f: fn(&narthex_model::Histogram) -> f64,
    ) -> Outcome<()> {
        self.stream_mapped(vector, steps, sink, |block| {
            let of: Vec<f64> = block
                .histograms
                .iter()
                .map(|h| cell::canonical(f(h)))
                .collect();
            for x in &mut block.cells {
                *x = match cell::Cell::decode(*x) {
                    cell::Cell::Histogram(index) => {
                        of.get(index as usize).copied().unwrap_or(ABSENT)
                    }
                    _ => ABSENT,
                };
            }
            block.histograms.clear();
            block.dense = false;
        })
    }

    /// Maps samples and drops names.
    fn stream_mapped(
        &self,
        vector: &Node,
        steps: Steps,
        sink: &mut Sink<'_>,
        change: impl Fn(&mut Block),
    ) -> Outcome<()> {
        self.stream_nameless(vector, steps, sink, |mut block| {
            change(&mut block);
            if !block.dense {
                block.drop_empty_rows();
            }
            Ok(block)
        })
    }

    fn stream_timestamp(
        &self,
        id: FunctionId,
        arg: &Node,
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Outcome<()> {
        let start_time = id == FunctionId::StartTimestamp;
        let delayed = self.rules.delayed_name_removal;
        if let NodeKind::Select(select) = &arg.kind {
            if start_time && !self.rules.start_times {
                return Ok(());
            }
            // Prometheus looks back from the pinned time itself here, but reads samples only up to the offset.
            let mut select = select.clone();
            let mut lookback_ms = self.rules.lookback_ms;
            if select.at_ms.is_some() {
                select.offset_ms = select.offset_ms.max(0);
                lookback_ms = lookback_ms.saturating_sub(select.offset_ms);
            }
            let batches = self.batches(select.selector)?;
            let wanted = if start_time {
                Wanted::StartTime
            } else {
                Wanted::Time
            };
            let look = SampleSearch {
                wanted,
                lookback_ms,
            };
            return self.select_blocks(&select, &batches, steps, look, &mut |mut block| {
                block.series.iter_mut().for_each(|s| s.forget_name(delayed));
                sink(block)
            });
        }
        if start_time {
            // A result has no start, but may have notes and errors.
            return self.collect(arg, steps).map(drop);
        }
        let _times = self.memory.room_for_steps(steps.count)?;
        let times: Vec<f64> = steps.times_ms().map(seconds).collect();
        self.stream_mapped(arg, steps, sink, |block| {
            for row in block.cells.chunks_exact_mut(steps.count) {
                for (x, time) in row.iter_mut().zip(&times) {
                    if !cell::is_absent(*x) {
                        *x = *time;
                    }
                }
            }
            block.histograms.clear();
        })
    }

    /// Passes on a series with a 1 at the steps at which `stream` passes on no sample.
    pub(super) fn absent(
        &self,
        series: Series,
        steps: Steps,
        sink: &mut Sink<'_>,
        stream: impl FnOnce(&mut Sink<'_>) -> Outcome<()>,
    ) -> Outcome<()> {
        let _found = self.memory.room_for_steps(steps.count)?;
        let mut cells = vec![1.0; steps.count];
        stream(&mut |block| {
            for row in 0..block.len() {
                for (cell, x) in cells.iter_mut().zip(block.row(row)) {
                    if !cell::is_absent(*x) {
                        *cell = ABSENT;
                    }
                }
            }
            Ok(())
        })?;
        if cells.iter().all(|cell| cell::is_absent(*cell)) {
            return Ok(());
        }
        sink(self.charge(one_row(series, cells))?)
    }

    fn clamp(&self, call: &Call, vector: &Node, steps: Steps, sink: &mut Sink<'_>) -> Outcome<()> {
        let (least, most) = match call.function {
            FunctionId::ClampMax => (None, call.args.get(1)),
            FunctionId::ClampMin => (call.args.get(1), None),
            _ => (call.args.get(1), call.args.get(2)),
        };
        let low = self.scalar_or(least, f64::NEG_INFINITY, steps)?;
        let high = self.scalar_or(most, f64::INFINITY, steps)?;
        self.stream_mapped(vector, steps, sink, |block| {
            for row in block.cells.chunks_exact_mut(steps.count) {
                for ((x, low), high) in row.iter_mut().zip(&*low).zip(&*high) {
                    let empty_range = high < low;
                    let keep = cell::is_float(*x) && !empty_range;
                    *x = if keep {
                        crate::math::max(*low, crate::math::min(*high, *x))
                    } else {
                        ABSENT
                    };
                }
            }
            block.histograms.clear();
            block.dense = false;
        })
    }

    /// Computes quantiles and fractions of histograms, classic and native.
    fn classic(&self, call: &Call, steps: Steps, sink: &mut Sink<'_>) -> Outcome<()> {
        let request = classic::Request::new(call);
        let mut scalars = Vec::new();
        for node in request.scalars {
            scalars.push((self.scalar(node, steps)?, node.span));
        }
        let input = self.collect(request.vector, steps)?;
        let classic = classic::Classic {
            function: call.function,
            label: request.label,
            scalars: &scalars,
            span: request.vector.span,
            delayed: self.rules.delayed_name_removal,
            memory: &self.memory,
            stop: &self.ctx.stop,
        };
        let mut notes = |note: Note, time_ms: i64| self.notes().add_at(note, time_ms);
        sink(self.charge(classic.evaluate(&input, steps, &mut notes)?)?)
    }
}

/// Returns the labels that a selector fixes to one value each.
pub(super) fn absent_labels(matchers: &[Matcher]) -> LabelSet {
    let mut labels = LabelSetBuilder::default();
    let mut seen: Vec<&str> = Vec::new();
    for matcher in matchers.iter().filter(|m| !META_LABELS.contains(&&*m.name)) {
        // A second matcher on a label makes its value uncertain, even if it is the same matcher.
        if matcher.op == MatchOp::Equal && !seen.contains(&&*matcher.name) {
            labels.set(&matcher.name, &matcher.value);
            seen.push(&matcher.name);
        } else {
            labels.remove(&matcher.name);
        }
    }
    labels.finish()
}

fn one_row(series: Series, cells: Vec<f64>) -> Block {
    let mut block = Block::new(cells.len());
    block.series.push(series);
    block.cells = cells;
    block.dense = block.cells.iter().all(|x| cell::is_float(*x));
    block
}

/// Returns the string arguments, in order.
fn texts(args: &[Node]) -> Vec<&str> {
    args.iter()
        .filter_map(|node| match &node.kind {
            NodeKind::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

fn unsupported(id: FunctionId) -> QueryError {
    QueryError::Execution(format!("{id:?} gives no instant vector"))
}
