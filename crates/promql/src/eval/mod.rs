//! Evaluates plans.
//!
//! **Invariant:** every operator works on all steps at once and on many series at once; input that can be consumed
//! piece by piece is streamed in blocks, so that an aggregation never holds all its input. The order of blocks and
//! rows is the store's, hence sums repeat bit for bit.

mod aggregate;
mod arithmetic;
mod binary;
mod block;
mod call;
mod count;
mod count_values;
mod finish;
mod float_pairs;
mod gaps;
mod group_index;
mod info;
mod joined;
mod matching;
mod memory;
mod operation;
mod over;
mod pairing;
mod pick;
mod repeated;
mod rows;
mod scalar;
mod scan;
mod select;
mod sets;
mod smooth;
mod stored;
mod together;

pub(crate) use arithmetic::scalar_operation;
pub(crate) use block::{Block, GroupKeys, META_LABELS, Sample, Series, Value};
pub(crate) use count::Counts;
pub(crate) use memory::{Hold, Memory, Meter, ROW_BYTES};
pub(crate) use rows::{merge_equal, same_labels};
pub(crate) use scalar::Scalars;

use crate::{
    cost::ReadLimits,
    error::QueryError,
    notes::{Note, Notes},
    plan::{self, Node, NodeKind, Plan, Steps},
    trace::{Phase, Tracer},
};
use narthex_model::storage::{Batch, Context, Helpers, Prepared, Store, TimeRange, View};
use narthex_model::sync::Whole as _;
use narthex_model::{KeptPatterns, Patterns};
use repeated::Repeated;
use std::sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64};
use stored::{Emitted, RowsSink};

pub(crate) type Outcome<T> = Result<T, QueryError>;

/// Consumer of a stream's blocks.
pub(crate) type Sink<'s> = dyn FnMut(Block) -> Outcome<()> + 's;

/// Evaluation rules common to all queries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) lookback_ms: i64,
    pub(crate) delayed_name_removal: bool,
    pub(crate) type_and_unit_labels: bool,
    pub(crate) start_times: bool,
}

/// Limits on a query besides its budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_samples: u64,
    pub(crate) max_label_bytes: usize,
    pub(crate) reads: ReadLimits,
}

/// What is observed of an evaluation, and who may help.
#[derive(Clone)]
pub(crate) struct Watch<'a> {
    pub(crate) count_steps: bool,
    pub(crate) tracer: Option<&'a Tracer<'a>>,
    /// Threads that may help to read, unless samples are counted by step or times taken.
    pub(crate) helpers: &'a Helpers,
    /// Regular expressions of other queries.
    pub(crate) kept_patterns: Option<&'a Arc<KeptPatterns>>,
}

/// What a query reads.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) store: &'a dyn Store,
    /// The hull of the selectors' ranges; empty without selectors.
    pub(crate) range: TimeRange,
}

/// One running query.
pub(crate) struct Eval<'a> {
    pub(crate) rules: Rules,
    /// The state that selectors found on the way see; `None` if the plan has none.
    pub(crate) view: Option<Arc<dyn View>>,
    pub(crate) prepared: Arc<dyn Prepared>,
    pub(crate) ctx: &'a Context,
    pub(crate) memory: Memory,
    /// Threads that may help to read.
    helpers: Helpers,
    /// Weight of a cell read from the store, in cells: more than one once histograms were seen.
    cell_weight: Arc<AtomicU64>,
    notes: Mutex<Notes>,
    pub(crate) counts: Counts,
    /// Values of repeated expressions, unless samples are counted by step.
    repeated: Repeated,
    tracer: Option<&'a Tracer<'a>>,
    kept_patterns: Option<&'a Arc<KeptPatterns>>,
}

impl<'a> Eval<'a> {
    pub(crate) fn new(
        plan: &Plan,
        rules: Rules,
        Source { store, range }: Source<'_>,
        ctx: &'a Context,
        limits: Limits,
        watch: Watch<'a>,
    ) -> Outcome<Self> {
        let is_watched = watch.count_steps || watch.tracer.is_some();
        let helpers = if is_watched {
            Helpers::none()
        } else {
            watch.helpers.of_query()
        };
        let view = plan.finds.map(|_| store.view(range));
        let view = view.transpose()?;
        let prepared = match &view {
            Some(view) => view.prepare(&plan.selectors, ctx)?,
            None => store.prepare(range, &plan.selectors, ctx)?,
        };
        let mut notes = Notes::default();
        for warning in prepared.warnings() {
            notes.add(Note::storage(warning));
        }
        let memory = Memory::new(&ctx.budget, limits)?;
        Ok(Self {
            rules,
            view,
            prepared: prepared.into(),
            ctx,
            memory,
            helpers,
            cell_weight: Arc::new(AtomicU64::new(1)),
            notes: Mutex::new(notes),
            counts: Counts::new(watch.count_steps, plan.steps),
            repeated: Repeated::new(if watch.count_steps { &[] } else { &plan.uses }),
            tracer: watch.tracer,
            kept_patterns: watch.kept_patterns,
        })
    }

    /// Returns the regular expressions of the query's functions.
    fn patterns(&self) -> Patterns {
        Patterns::new(self.ctx.clone(), self.kept_patterns.cloned())
    }

    /// Returns the same query for a thread that helps it, with notes of its own.
    fn helping(&self) -> Self {
        Self {
            rules: self.rules,
            view: self.view.clone(),
            prepared: Arc::clone(&self.prepared),
            ctx: self.ctx,
            memory: self.memory.clone(),
            helpers: Helpers::none(),
            cell_weight: Arc::clone(&self.cell_weight),
            notes: Mutex::default(),
            counts: Counts::default(),
            repeated: Repeated::default(),
            tracer: None,
            kept_patterns: None,
        }
    }

    pub(crate) fn notes(&self) -> MutexGuard<'_, Notes> {
        // A panic elsewhere leaves notes complete: each is added in one step.
        self.notes.lock().whole()
    }

    /// Evaluates an instant vector and passes it to `sink` block by block.
    pub(crate) fn stream(&self, node: &Node, steps: Steps, sink: &mut Sink<'_>) -> Outcome<()> {
        let is_own = !matches!(
            node.kind,
            NodeKind::Select(_) | NodeKind::Over(_) | NodeKind::StepInvariant(_)
        );
        let Some(tracer) = self.tracer.filter(|_| is_own) else {
            return self.stream_node(node, steps, sink);
        };
        let consumer = tracer.enter_node(node);
        let outcome = self.stream_node(node, steps, &mut |block| {
            tracer.count_series(block.len());
            let producer = tracer.resume(consumer);
            let outcome = sink(block);
            tracer.resume(producer);
            outcome
        });
        tracer.resume(consumer);
        outcome
    }

    fn stream_node(&self, node: &Node, steps: Steps, sink: &mut Sink<'_>) -> Outcome<()> {
        self.ctx.stop.check()?;
        if steps.count == 0 {
            return Ok(());
        }
        match &node.kind {
            NodeKind::Select(_) | NodeKind::Over(_) => self.stream_rows(node, steps, &mut |rows| {
                sink(self.whole(rows, steps.count)?)
            }),
            NodeKind::Call(call) => {
                self.once_in_blocks(node, sink, |sink| self.stream_call(call, node, steps, sink))
            }
            NodeKind::Aggregate(aggregate) => {
                self.once_in_blocks(node, sink, |sink| sink(self.aggregate(aggregate, steps)?))
            }
            NodeKind::Binary(binary) => self.once_in_blocks(node, sink, |sink| {
                self.stream_binary(binary, node, steps, sink)
            }),
            NodeKind::Negate(inner) => {
                self.once_in_blocks(node, sink, |sink| self.stream_negated(inner, steps, sink))
            }
            NodeKind::StepInvariant(inner) => self.stream_step_invariant(inner, steps, sink),
            NodeKind::Number(_)
            | NodeKind::Text(_)
            | NodeKind::Window(_)
            | NodeKind::Subquery(_) => Err(QueryError::Execution(
                "expected an instant vector".to_owned(),
            )),
        }
    }

    /// Evaluates like `stream`; rows of stored series may be shorter than the query.
    fn stream_rows(&self, node: &Node, steps: Steps, sink: &mut RowsSink<'_>) -> Outcome<()> {
        let is_own = matches!(node.kind, NodeKind::Select(_) | NodeKind::Over(_));
        let Some(tracer) = self.tracer.filter(|_| is_own) else {
            return self.stream_stored(node, steps, sink);
        };
        let consumer = tracer.enter_node(node);
        let outcome = self.stream_stored(node, steps, &mut |rows| {
            tracer.count_series(rows.len());
            let producer = tracer.resume(consumer);
            let outcome = sink(rows);
            tracer.resume(producer);
            outcome
        });
        tracer.resume(consumer);
        outcome
    }

    /// Runs `work` as the operation of a node; it is passed what counts the operation's series.
    fn as_operation<T>(&self, node: &Node, work: impl FnOnce(&mut dyn FnMut(usize)) -> T) -> T {
        let Some(tracer) = self.tracer else {
            return work(&mut |_| ());
        };
        let consumer = tracer.enter_node(node);
        let result = work(&mut |series| tracer.count_series(series));
        tracer.resume(consumer);
        result
    }

    /// Runs `work` as a phase of the operation that is evaluated.
    pub(crate) fn traced<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let Some(tracer) = self.tracer else {
            return work();
        };
        let before = tracer.enter(phase);
        let result = work();
        tracer.resume(before);
        result
    }

    /// Finds the series of a selector of the plan.
    fn batches(&self, selector: usize) -> Outcome<Vec<Arc<dyn Batch>>> {
        let found = self.traced(Phase::Select, || self.prepared.batches(selector, self.ctx));
        Ok(found?)
    }

    /// Notes that samples were read from the store; fails when these are more than the query may read, or their series are.
    fn count_read(&self, samples: u64) -> Outcome<()> {
        if let Some(tracer) = self.tracer {
            tracer.count_samples(samples);
        }
        self.memory.count_read(samples)
    }

    fn stream_stored(&self, node: &Node, steps: Steps, sink: &mut RowsSink<'_>) -> Outcome<()> {
        self.ctx.stop.check()?;
        if steps.count == 0 {
            return Ok(());
        }
        match &node.kind {
            NodeKind::Select(select) => self.once(node, sink, |sink| {
                self.stream_select(select, node.span, steps, sink)
            }),
            NodeKind::Over(over) => {
                self.once(node, sink, |sink| self.stream_over(over, steps, sink))
            }
            _ => self.stream(node, steps, &mut |block| sink(Emitted::Block(block))),
        }
    }

    /// Reports whether the series of `node` can drop their names one block at a time.
    fn stays_distinct(&self, node: &Node) -> bool {
        // Types and units are dropped with the names, and may be the only difference.
        self.rules.delayed_name_removal
            || (!self.rules.type_and_unit_labels && plan::distinct_without_names(node))
    }

    /// Evaluates an instant vector as a whole.
    pub(crate) fn collect(&self, node: &Node, steps: Steps) -> Outcome<Block> {
        let mut whole = Block::new(steps.count);
        self.stream_rows(node, steps, &mut |rows| {
            match rows {
                Emitted::Block(block) => whole.append(block),
                Emitted::Stored(rows) => {
                    whole.hold.join(self.hold_for(&rows, steps.count)?);
                    whole.append_stored(rows);
                }
            }
            Ok(())
        })?;
        Ok(whole)
    }

    /// Charges a finished block for any memory not yet charged for.
    pub(crate) fn charge(&self, mut block: Block) -> Outcome<Block> {
        let missing = block.heap_bytes().saturating_sub(block.hold.bytes());
        let more = self.memory.acquire(block.weight(), missing)?;
        block.hold.join(more);
        Ok(block)
    }

    fn stream_negated(&self, inner: &Node, steps: Steps, sink: &mut Sink<'_>) -> Outcome<()> {
        self.stream_nameless(inner, steps, sink, |mut block| {
            let mut pace = self.ctx.stop.pace();
            for h in &mut block.histograms {
                pace.spend(h.weight())?;
                let mut negative = (**h).clone();
                negative.scale(-1.0);
                *h = Arc::new(negative);
            }
            for x in &mut block.cells {
                if narthex_model::cell::is_float(*x) {
                    *x = -*x;
                }
            }
            Ok(block)
        })
    }

    /// Passes on what `change` makes of the blocks of an instant vector, whose series lose their names by it.
    fn stream_nameless(
        &self,
        vector: &Node,
        steps: Steps,
        sink: &mut Sink<'_>,
        change: impl Fn(Block) -> Outcome<Block>,
    ) -> Outcome<()> {
        let delayed = self.rules.delayed_name_removal;
        let nameless = |block: Block| -> Outcome<Block> {
            let mut block = change(block)?;
            block.series.iter_mut().for_each(|s| s.forget_name(delayed));
            Ok(block)
        };
        if self.stays_distinct(vector) {
            return self.stream(vector, steps, &mut |block| sink(nameless(block)?));
        }
        let whole = nameless(self.collect(vector, steps)?)?;
        sink(merge_equal(whole)?)
    }

    fn stream_step_invariant(
        &self,
        inner: &Node,
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Outcome<()> {
        let mut repeat = |once: Block| {
            let cells = (once.cells.len() * steps.count) as u64;
            let _cells = self.memory.acquire(0, cells * size_of::<f64>() as u64)?;
            let mut block = Block::new(steps.count);
            block.cells = once
                .cells
                .iter()
                .flat_map(|x| std::iter::repeat_n(*x, steps.count))
                .collect();
            (block.series, block.histograms, block.dense) =
                (once.series, once.histograms, once.dense);
            sink(self.charge(block)?)
        };
        let one = steps.first();
        let (outcome, once) = self.counted_apart(one, || self.stream(inner, one, &mut repeat));
        self.count_once(once, steps);
        outcome
    }
}
