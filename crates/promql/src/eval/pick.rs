//! `topk`, `bottomk`, `limitk`, `limit_ratio`: a selection of each group's series.
//!
//! **Invariant:** selected samples keep their labels. Of equal values, and of all by `limitk`, those with the least labels
//! are selected, wherever they are stored; for a single step they come out best first.

use super::{
    Block, Eval, Outcome, Sample, Series,
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
use std::{cmp::Ordering, collections::BinaryHeap};

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
        let bytes = input.len() * (size_of::<usize>() + size_of::<Candidate<'_>>());
        let _heaps = self.memory.acquire(0, bytes as u64)?;
        let mut pace = self.ctx.stop.pace();
        let mut index = GroupIndex::new(a);
        let groups: Vec<usize> = input.series.iter().map(|s| index.group(s)).collect();
        let count = groups.iter().max().map_or(0, |last| last + 1);
        let mut rows = Rows::new(steps.count, &self.memory);
        let ranking = Ranking {
            op: a.op,
            series: &input.series,
        };
        let mut heaps: Vec<BinaryHeap<Candidate<'_>>> = Vec::new();
        heaps.resize_with(count, BinaryHeap::new);
        for (step, k) in params.iter().enumerate() {
            self.ctx.stop.check()?;
            let k = whole(*k).min(input.len());
            if k == 0 {
                continue;
            }
            for (row, group) in groups.iter().enumerate() {
                pace.spend(HEAP_WORK)?;
                let value = match input.sample(row, step) {
                    Sample::Absent => continue,
                    Sample::Float(x) => x,
                    Sample::Histogram(_) if a.op == AggregateOp::Limitk => f64::NAN,
                    Sample::Histogram(_) => {
                        self.notes().add(Note::histogram_ignored_in_aggregation(
                            a.op.as_str(),
                            a.span,
                        ));
                        continue;
                    }
                };
                let ranking = &ranking;
                let candidate = Candidate {
                    value,
                    row,
                    ranking,
                };
                offer(&mut heaps[*group], k, candidate);
            }
            for heap in &mut heaps {
                let mut best_first = std::mem::take(heap).into_sorted_vec();
                for one in best_first.drain(..) {
                    copy_sample(&mut rows, &input, one.row, step)?;
                }
                // With its room, for the next step.
                *heap = best_first.into();
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
    let Some(value) = input.sample(row, step).value() else {
        return Ok(());
    };
    let to = rows.row(&input.series[row])?;
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

/// What decides which of two samples is better.
struct Ranking<'a> {
    op: AggregateOp,
    series: &'a [Series],
}

/// A sample that may be selected. The better one is less, so that a heap has the worst on top.
struct Candidate<'a> {
    value: f64,
    row: usize,
    ranking: &'a Ranking<'a>,
}

impl Ord for Candidate<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_value = match self.ranking.op {
            AggregateOp::Limitk => Ordering::Equal,
            // NaN is worst.
            AggregateOp::Bottomk => match (self.value.is_nan(), other.value.is_nan()) {
                (false, false) => nan_first(self.value, other.value),
                (x, y) => x.cmp(&y),
            },
            _ => nan_first(other.value, self.value),
        };
        // Labels are looked at between equal values alone: making them takes longer.
        let labels = |of: &Self| self.ranking.series[of.row].labels();
        by_value.then_with(|| labels(self).cmp(&labels(other)))
    }
}

impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate<'_> {}

/// Keeps the `k` best candidates.
fn offer<'a>(heap: &mut BinaryHeap<Candidate<'a>>, k: usize, candidate: Candidate<'a>) {
    if heap.len() < k {
        heap.push(candidate);
    } else if let Some(mut worst) = heap.peek_mut()
        && candidate < *worst
    {
        *worst = candidate;
    }
}
