//! Steps of range queries that are asked again and again, as dashboards ask each few seconds: what was evaluated before
//! is evaluated again only as far as samples came since.
//!
//! **Invariant:** a kept step is what it would be if it were evaluated now: the store says from which time on anything
//! changed, and a query whose steps read later samples than their own time, or depend on other steps, is
//! never kept. Neither is one with notes, which say nothing of the steps that they are about.
//! **Invariant:** what is kept is leased. Nothing is kept of a query before it is asked for the second time.

use crate::{
    ast::{AggregateOp, BinaryOp, Expr, Extension, VectorSelector},
    error::QueryError,
    functions::FunctionId,
    observe::Query,
    result::MatrixSeries,
};
use narthex_model::{
    Recent,
    storage::{Budget, Lease, Pace, Store, WriteMark},
    sync::Whole as _,
};
use std::{
    cmp::Ordering,
    fmt,
    ops::RangeInclusive,
    sync::{Arc, Mutex},
};

/// Most queries that are known.
const MOST_QUERIES: usize = 256;
/// Longest text of a query, which its sender chooses.
const LONGEST_TEXT: usize = 4 << 10;
/// Work of joining a series' kept and new points, in samples read.
const SERIES_WORK: usize = 32;

/// Steps of range queries over one store.
pub struct KeptSteps {
    state: Mutex<State>,
    memory: Budget,
    /// Most bytes of one query, and of all.
    most_of_one: u64,
    most: u64,
}

#[derive(Default)]
struct State {
    /// `None` for queries that were asked once.
    known: Recent<Key, Option<Arc<Evaluated>>>,
    /// Bytes of all that is kept.
    bytes: u64,
}

/// What must be equal for steps to be those of another query.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Key {
    text: Box<str>,
    step_ms: i64,
    /// Time of the steps after a multiple of their distance.
    phase_ms: i64,
    lookback_ms: i64,
    /// Number of steps, about: a panel of an hour leaves those of one of a day alone.
    magnitude: u32,
}

/// Evaluated steps.
struct Evaluated {
    first_ms: i64,
    last_ms: i64,
    /// A moment before they were evaluated.
    mark: WriteMark,
    series: Vec<MatrixSeries>,
    lease: Lease,
}

/// A query that was asked before.
pub(crate) struct AskedAgain {
    key: Key,
    mark: WriteMark,
    first_ms: i64,
    last_ms: i64,
    reused: Option<Reused>,
}

struct Reused {
    steps: Arc<Evaluated>,
    /// The last step that is as it was.
    until_ms: i64,
}

impl fmt::Debug for KeptSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock().whole();
        f.debug_struct("KeptSteps")
            .field("queries", &state.known.len())
            .field("bytes", &state.bytes)
            .finish_non_exhaustive()
    }
}

impl KeptSteps {
    /// Returns an empty table of at most `most_bytes`, leased from a share of `memory`.
    #[must_use]
    pub fn new(memory: &Budget, most_bytes: u64) -> Self {
        let most = most_bytes.min(memory.percent(5));
        let most_of_one = most / 4;
        // What is no longer kept may still be in use.
        let limit = most + most_of_one;
        Self {
            state: Mutex::default(),
            memory: memory.share("kept steps of queries", limit, memory.percent(50)),
            most_of_one,
            most,
        }
    }

    /// Looks for a range query's steps; `None` if it was not asked before, or its steps cannot be kept.
    pub(crate) fn ask(
        &self,
        store: &dyn Store,
        expr: &Expr,
        query: &Query<'_>,
        lookback_ms: i64,
    ) -> Option<AskedAgain> {
        if query.text.len() > LONGEST_TEXT || !settles(expr) {
            return None;
        }
        let (first_ms, step_ms) = (query.start_ms, query.step_ms);
        let steps = query.end_ms.checked_sub(first_ms)? / step_ms;
        let last_ms = first_ms.checked_add(steps.checked_mul(step_ms)?)?;
        let key = Key {
            text: query.text.into(),
            step_ms,
            phase_ms: first_ms.rem_euclid(step_ms),
            lookback_ms,
            magnitude: steps.checked_ilog2().unwrap_or(0),
        };
        let steps = self.state.lock().whole().find(&key)?;
        // What is stored after this mark is looked for the next time, what was stored before it now.
        let mark = store.write_mark()?;
        let reused = steps.and_then(|steps| {
            let unchanged_ms = store.unchanged_before(steps.mark)?;
            let until_ms = steps.last_ms.min(unchanged_ms.saturating_sub(1));
            // One step is evaluated in any case.
            let until_ms = until_ms.min(last_ms.saturating_sub(step_ms));
            let until_ms = until_ms - (until_ms.checked_sub(first_ms)?).rem_euclid(step_ms);
            let is_known = steps.first_ms <= first_ms && first_ms <= until_ms;
            is_known.then_some(Reused { steps, until_ms })
        });
        Some(AskedAgain {
            key,
            mark,
            first_ms,
            last_ms,
            reused,
        })
    }

    /// Keeps a query's steps, if there is room for them.
    pub(crate) fn keep(&self, asked: AskedAgain, series: &[MatrixSeries]) {
        if asked.has_nothing_new() {
            return;
        }
        let bytes: usize = series.iter().map(MatrixSeries::heap_bytes).sum();
        let bytes = (bytes + size_of::<Evaluated>()) as u64;
        if !self.make_room(&asked.key, bytes) {
            return;
        }
        let Ok(lease) = self.memory.lease(bytes) else {
            // Memory is short: whoever asks next evaluates anew.
            *self.state.lock().whole() = State::default();
            return;
        };
        let steps = Evaluated {
            first_ms: asked.first_ms,
            last_ms: asked.last_ms,
            mark: asked.mark,
            series: series.to_vec(),
            lease,
        };
        let mut state = self.state.lock().whole();
        // Another viewer's may have come meanwhile.
        state.forget(&asked.key);
        if let Some(known) = state.known.get_mut(&asked.key) {
            *known = Some(Arc::new(steps));
            state.bytes += bytes;
        }
    }

    /// Makes room for a query's steps in place of those that are kept; reports whether they may be kept.
    fn make_room(&self, key: &Key, bytes: u64) -> bool {
        let mut state = self.state.lock().whole();
        state.forget(key);
        if bytes > self.most_of_one || state.known.get(key).is_none() {
            return false;
        }
        while state.bytes + bytes > self.most {
            state.drop_oldest();
        }
        true
    }
}

impl AskedAgain {
    /// Returns the first step to evaluate, if not all are.
    pub(crate) fn first_new_ms(&self) -> Option<i64> {
        let reused = self.reused.as_ref()?;
        Some(reused.until_ms.saturating_add(self.key.step_ms))
    }

    /// Reports whether only the step was evaluated that always is.
    fn has_nothing_new(&self) -> bool {
        let is_known = |reused: &Reused| {
            reused.steps.last_ms == self.last_ms
                && reused.until_ms.saturating_add(self.key.step_ms) == self.last_ms
        };
        self.reused.as_ref().is_some_and(is_known)
    }

    /// Returns the number of steps that are not evaluated.
    pub(crate) fn reused_steps(&self) -> u64 {
        let steps = self.reused.as_ref().map_or(0, |reused| {
            (reused.until_ms - self.first_ms) / self.key.step_ms + 1
        });
        steps.cast_unsigned()
    }

    /// Returns the series of all steps, given those of new ones, and the lease of what was added to them.
    ///
    /// # Errors
    /// Fails over budget, beyond `max_samples` and when stopped.
    pub(crate) fn join(
        &self,
        new: Vec<MatrixSeries>,
        max_samples: u64,
        memory: &Budget,
        pace: &mut Pace<'_>,
    ) -> Result<(Vec<MatrixSeries>, Option<Lease>), QueryError> {
        let Some(Reused { steps, until_ms }) = &self.reused else {
            return Ok((new, None));
        };
        // All of it, whether or not its first steps are still asked for.
        let lease = memory.lease(steps.lease.bytes())?;
        let (times, mut joined) = (self.first_ms..=*until_ms, Vec::new());
        let (mut kept, mut new) = (steps.series.iter().peekable(), new.into_iter().peekable());
        let mut points = 0;
        loop {
            pace.spend(SERIES_WORK)?;
            let order = match (kept.peek(), new.peek()) {
                (Some(kept), Some(new)) => kept.labels.cmp(&new.labels),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let kept = if order.is_le() { kept.next() } else { None };
            let mut series = kept.map(|kept| kept.within(&times));
            if order.is_ge()
                && let Some(new) = new.next()
            {
                match &mut series {
                    Some(series) => series.append(new),
                    None => series = Some(new),
                }
            }
            let series = series.filter(|series| series.points() > 0);
            joined.extend(series.inspect(|series| points += series.points() as u64));
        }
        if points > max_samples {
            return Err(QueryError::TooManySamples { limit: max_samples });
        }
        Ok((joined, Some(lease)))
    }
}

impl MatrixSeries {
    fn points(&self) -> usize {
        self.floats.len() + self.histograms.len()
    }

    /// Returns the points at some times.
    fn within(&self, times: &RangeInclusive<i64>) -> Self {
        Self {
            labels: self.labels.clone(),
            floats: of_times(&self.floats, times).to_vec(),
            histograms: of_times(&self.histograms, times).to_vec(),
        }
    }

    /// Adds another part's later points.
    fn append(&mut self, later: Self) {
        self.floats.extend(later.floats);
        self.histograms.extend(later.histograms);
    }
}

fn of_times<'a, T>(points: &'a [(i64, T)], times: &RangeInclusive<i64>) -> &'a [(i64, T)] {
    let begin = points.partition_point(|point| point.0 < *times.start());
    let end = points.partition_point(|point| point.0 <= *times.end());
    points.get(begin..end).unwrap_or_default()
}

impl State {
    /// Returns the steps that are kept, if any; `None` for a query that was not asked before.
    fn find(&mut self, key: &Key) -> Option<Option<Arc<Evaluated>>> {
        if let Some(known) = self.known.use_mut(key) {
            return Some(known.clone());
        }
        if self.known.len() == MOST_QUERIES {
            self.drop_oldest();
        }
        self.known.insert(key.clone(), None);
        None
    }

    /// Forgets a query's steps, not that it was asked.
    fn forget(&mut self, key: &Key) {
        let steps = self.known.get_mut(key).and_then(Option::take);
        self.give_back(steps);
    }

    fn drop_oldest(&mut self) {
        let steps = self.known.remove_oldest().flatten();
        self.give_back(steps);
    }

    fn give_back(&mut self, steps: Option<Arc<Evaluated>>) {
        self.bytes -= steps.map_or(0, |steps| steps.lease.bytes());
    }
}

/// Reports whether a step's value depends on its time and on samples up to it alone, whatever the query's other steps.
///
/// Series that become equal without their names are an error even if they are never at one step: they come from selectors
/// of several names, and in subqueries also from what joins or renames series.
fn settles(expr: &Expr) -> bool {
    let selects = |selector: &VectorSelector| {
        selector.at.is_none()
            && selector.offset_ns >= 0
            && selector.offset_expr.is_none()
            && selector.extension != Extension::Smoothed
            && selector.has_one_name()
    };
    expr.all(&|expr| match expr {
        Expr::Vector(selector) => selects(selector),
        Expr::Matrix(matrix) => selects(&matrix.selector) && matrix.range_expr.is_none(),
        Expr::Subquery(subquery) => {
            subquery.at.is_none()
                && subquery.offset_ns >= 0
                && subquery.offset_expr.is_none()
                && subquery.range_expr.is_none()
                && subquery.step_expr.is_none()
                && keeps_names(&subquery.expr)
        }
        Expr::Call(call) => !matches!(
            call.function.id,
            FunctionId::Start | FunctionId::End | FunctionId::Range | FunctionId::Info
        ),
        _ => true,
    })
}

/// Reports whether series have the names that selectors gave them, or none.
fn keeps_names(expr: &Expr) -> bool {
    expr.all(&|expr| match expr {
        Expr::Binary(binary) => binary.op != BinaryOp::Or,
        Expr::Aggregate(aggregate) => aggregate.op != AggregateOp::CountValues,
        Expr::Call(call) => !matches!(
            call.function.id,
            FunctionId::LabelReplace | FunctionId::LabelJoin
        ),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_read_later_samples_or_know_of_others_do_not_settle() {
        let settling = [
            "sum by (job) (rate(a[5m] offset 3m)) / ignoring (x) sum(rate(b{c=~'d|e'}[1m]))",
            "max_over_time(rate(a[5m])[10m:1m] offset 1m) + time() - timestamp(a)",
            "topk(3, a) or label_replace({__name__='a'}, 'x', 'y', '', '')",
            "topk(3, a) or absent(b) or increase(c[5m] anchored) * step()",
        ];
        for text in settling {
            assert!(settles(&crate::parse(text).unwrap()), "{text}");
        }
        let others = [
            "a offset -1m",
            "sum(rate(a[1m] offset -1s))",
            "a @ 5",
            "rate(a[1m] @ end())",
            "max_over_time(a[10m:1m] @ start())",
            "max_over_time(a[10m:1m] offset -1h)",
            "rate(a[5m] smoothed)",
            "a - start()",
            "vector(end())",
            "a * range()",
            "increase(a[range() + 1m])",
            "a offset (step() - 1m)",
            "max_over_time(a[10m:step() + 1s])",
            "info(a)",
            "rate({__name__=~'a|b'}[1m])",
            "count({job='a'})",
            "max_over_time((a or b)[5m:1m])",
            "max_over_time(label_replace(a, '__name__', 'b', '', '')[5m:1m])",
            "max_over_time(count_values('__name__', a)[5m:1m])",
        ];
        for text in others {
            assert!(!settles(&crate::parse(text).unwrap()), "{text}");
        }
    }
}
