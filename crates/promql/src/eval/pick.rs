//! `topk`, `bottomk`, `limitk`, `limit_ratio`: a selection of each group's series.
//!
//! **Invariant:** selected samples keep their labels. Of equal values, and of all by `limitk`, those with the least labels
//! are selected, wherever they are stored; for a single step they come out best first.

use super::{
    Block, Eval, Outcome, Sample, Series, Value,
    aggregate::{extremes, missing_parameter},
    group_index::GroupIndex,
    rows::Rows,
};
use crate::{
    error::QueryError,
    fmt::float_g,
    functions::quantile::nan_first,
    lex::AggregateOp,
    notes::Note,
    plan::{Aggregate, Steps},
    sampling,
};
use std::{cmp::Ordering, sync::Arc};

/// Work of offering a sample to a heap, in samples read.
const HEAP_WORK: usize = 8;

/// Work of copying a sample into a row, in samples read.
const ROW_WORK: usize = 8;

impl Eval<'_> {
    pub(super) fn pick(&self, a: &Aggregate, steps: Steps) -> Outcome<Block> {
        let param = a.param.as_ref().ok_or_else(missing_parameter)?;
        let params = self.scalar(param, steps)?;
        let input = self.collect(&a.input, steps)?;
        if a.op == AggregateOp::LimitRatio {
            return self.limit_ratio(&params, param.span, &input, steps);
        }
        if !check_counts(&params)? {
            return Ok(Block::new(steps.count));
        }
        // A group number and a heap entry for each row.
        let bytes = input.len() * (size_of::<usize>() + size_of::<(f64, usize)>());
        let _heaps = self.memory.acquire(0, bytes as u64)?;
        let mut pace = self.ctx.stop.pace();
        let mut index = GroupIndex::new(a);
        let groups: Vec<usize> = input.series.iter().map(|s| index.group(s)).collect();
        let count = groups.iter().max().map_or(0, |last| last + 1);
        let mut rows = Rows::new(steps.count, &self.memory);
        let mut heaps: Vec<Heap> = (0..count).map(|_| Heap::new(a.op)).collect();
        for (step, k) in params.iter().enumerate() {
            self.ctx.stop.check()?;
            heaps.iter_mut().for_each(Heap::clear);
            let k = whole(*k).min(input.len());
            if k == 0 {
                continue;
            }
            for (row, group) in groups.iter().enumerate() {
                pace.spend(HEAP_WORK)?;
                match input.sample(row, step) {
                    Sample::Absent => {}
                    Sample::Histogram(_) if a.op != AggregateOp::Limitk => {
                        self.notes().add(Note::histogram_ignored_in_aggregation(
                            a.op.as_str(),
                            a.span,
                        ));
                    }
                    Sample::Histogram(_) => heaps[*group].offer(&input.series, k, f64::NAN, row),
                    Sample::Float(x) => heaps[*group].offer(&input.series, k, x, row),
                }
            }
            for heap in &mut heaps {
                for row in heap.best_first(&input.series) {
                    copy_sample(&mut rows, &input, row, step)?;
                }
            }
        }
        Ok(rows.finish())
    }

    fn limit_ratio(
        &self,
        params: &[f64],
        span: crate::span::Span,
        input: &Block,
        steps: Steps,
    ) -> Outcome<Block> {
        let (lowest, highest) = extremes(params);
        let mut rows = Rows::new(steps.count, &self.memory);
        if highest == 0.0 && lowest == 0.0 {
            return Ok(rows.finish());
        }
        if params.iter().any(|r| r.is_nan()) {
            return Err(QueryError::Execution("Ratio value is NaN".to_owned()));
        }
        if highest > 1.0 {
            self.notes().add(Note::invalid_ratio(highest, 1.0, span));
        }
        if lowest < -1.0 {
            self.notes().add(Note::invalid_ratio(lowest, -1.0, span));
        }
        let offsets: Vec<f64> = input
            .series
            .iter()
            .map(|s| sampling::offset(&s.labels()))
            .collect();
        let mut pace = self.ctx.stop.pace();
        for (step, ratio) in params.iter().enumerate() {
            let ratio = ratio.clamp(-1.0, 1.0);
            for (row, offset) in offsets.iter().enumerate() {
                pace.spend(ROW_WORK)?;
                if !matches!(input.sample(row, step), Sample::Absent)
                    && sampling::is_within(ratio, *offset)
                {
                    copy_sample(&mut rows, input, row, step)?;
                }
            }
        }
        Ok(rows.finish())
    }
}

fn copy_sample(rows: &mut Rows, input: &Block, row: usize, step: usize) -> Outcome<()> {
    let value = match input.sample(row, step) {
        Sample::Absent => return Ok(()),
        Sample::Float(x) => Value::Float(x),
        Sample::Histogram(h) => Value::Histogram(Arc::clone(h)),
    };
    let series: &Series = &input.series[row];
    let to = rows.row(series)?;
    rows.store(to, step, value)
}

/// Reports whether any step selects a series at all.
fn check_counts(params: &[f64]) -> Outcome<bool> {
    const MAX: f64 = 9_223_372_036_854_774_784.0;
    const MIN: f64 = -9_223_372_036_854_775_808.0;
    let (lowest, highest) = extremes(params);
    let nan = params.iter().any(|k| k.is_nan());
    if highest < 1.0 && !(nan && highest == f64::NEG_INFINITY) {
        return Ok(false);
    }
    let refuse = |text: String| Err(QueryError::Execution(text));
    if nan {
        return refuse("Parameter value is NaN".to_owned());
    }
    if lowest <= MIN {
        return refuse(format!("Scalar value {} underflows int64", float_g(lowest)));
    }
    if highest >= MAX {
        return refuse(format!("Scalar value {} overflows int64", float_g(highest)));
    }
    Ok(true)
}

fn whole(k: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates at 0"
    )]
    {
        k.max(0.0) as usize
    }
}

/// A binary heap that keeps the k best samples, the worst of them on top.
struct Heap {
    op: AggregateOp,
    entries: Vec<(f64, usize)>,
}

impl Heap {
    fn new(op: AggregateOp) -> Self {
        Self {
            op,
            entries: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.entries.clear();
    }

    /// Compares samples, the better one first. Labels are looked at between equal values alone: making them takes longer.
    fn order(&self, series: &[Series], a: (f64, usize), b: (f64, usize)) -> Ordering {
        let by_value = match self.op {
            AggregateOp::Limitk => Ordering::Equal,
            // NaN is worst.
            AggregateOp::Bottomk => match (a.0.is_nan(), b.0.is_nan()) {
                (false, false) => nan_first(a.0, b.0),
                (x, y) => x.cmp(&y),
            },
            _ => nan_first(b.0, a.0),
        };
        by_value.then_with(|| series[a.1].labels().cmp(&series[b.1].labels()))
    }

    fn offer(&mut self, series: &[Series], k: usize, x: f64, row: usize) {
        if self.entries.len() < k {
            self.entries.push((x, row));
            self.sift_up(series);
        } else if self.order(series, (x, row), self.entries[0]).is_lt() {
            self.entries[0] = (x, row);
            self.sift_down(series);
        }
    }

    fn is_worse(&self, series: &[Series], a: usize, b: usize) -> bool {
        self.order(series, self.entries[a], self.entries[b]).is_gt()
    }

    fn sift_up(&mut self, series: &[Series]) {
        let mut at = self.entries.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.is_worse(series, at, parent) {
                break;
            }
            self.entries.swap(at, parent);
            at = parent;
        }
    }

    fn sift_down(&mut self, series: &[Series]) {
        let (mut at, count) = (0, self.entries.len());
        loop {
            let left = 2 * at + 1;
            if left >= count {
                break;
            }
            let right = left + 1;
            let worse_right = right < count && self.is_worse(series, right, left);
            let child = if worse_right { right } else { left };
            if !self.is_worse(series, child, at) {
                break;
            }
            self.entries.swap(at, child);
            at = child;
        }
    }

    /// Returns the rows, best first.
    fn best_first(&mut self, series: &[Series]) -> impl Iterator<Item = usize> + '_ {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_by(|a, b| self.order(series, *a, *b));
        self.entries = entries;
        self.entries.iter().map(|entry| entry.1)
    }
}
