//! Query plans, resolved for one time range.
//!
//! **Invariant:** a plan holds no names to look up and no times to compute: selectors are numbered, offsets, `@` and
//! durations are milliseconds, and every node with the same value at all steps is below a [`NodeKind::StepInvariant`].

mod build;
mod explain;
mod fold;
mod kept;
mod limits;
mod names;
mod reference;
mod repeated;
mod share;
mod step_invariant;

pub(crate) use build::build;
pub(crate) use kept::moves_with_time;
pub(crate) use names::distinct_without_names;
pub(crate) use reference::{Reference, shared as shared_reference};
pub(crate) use share::Use;
pub(crate) use step_invariant::depends_on_time;

use crate::{
    ast::{AggregateOp, BinaryOp, Extension, ValueType, VectorMatching},
    error::QueryError,
    functions::FunctionId,
    kept_groups::KeptGroups,
    span::Span,
};
use narthex_model::{
    Matcher,
    storage::{Selector, TimeRange},
};

/// The times at which a node is evaluated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Steps {
    pub(crate) start_ms: i64,
    pub(crate) step_ms: i64,
    pub(crate) count: usize,
}

impl Steps {
    /// Returns a single instant.
    pub(crate) fn one(time_ms: i64) -> Self {
        Self {
            start_ms: time_ms,
            step_ms: 1,
            count: 1,
        }
    }

    /// Returns the steps from `start_ms` to at most `end_ms`; empty if that is earlier.
    pub(crate) fn range(start_ms: i64, end_ms: i64, step_ms: i64) -> Self {
        let step_ms = step_ms.max(1);
        let count = if end_ms < start_ms {
            0
        } else {
            (end_ms.saturating_sub(start_ms) / step_ms).saturating_add(1)
        };
        Self {
            start_ms,
            step_ms,
            count: usize::try_from(count).unwrap_or(usize::MAX),
        }
    }

    pub(crate) fn time_ms(self, step: usize) -> i64 {
        let steps = i64::try_from(step).unwrap_or(i64::MAX);
        self.start_ms
            .saturating_add(steps.saturating_mul(self.step_ms))
    }

    pub(crate) fn last_ms(self) -> i64 {
        self.time_ms(self.count.saturating_sub(1))
    }

    pub(crate) fn first(self) -> Self {
        Self {
            count: self.count.min(1),
            ..self
        }
    }

    pub(crate) fn times_ms(self) -> impl ExactSizeIterator<Item = i64> {
        (0..self.count).map(move |step| self.time_ms(step))
    }
}

/// A resolved query.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) root: Node,
    pub(crate) steps: Steps,
    pub(crate) selectors: Vec<Selector>,
    pub(crate) selector_uses: Vec<Use>,
    /// The times of selectors that evaluation finds, which must see the same state of the store.
    pub(crate) finds: Option<TimeRange>,
    /// How often each of the repeated expressions is used.
    pub(crate) uses: Vec<usize>,
}

/// One operation.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    /// Its expression's position, without enclosing parentheses.
    pub(crate) span: Span,
    pub(crate) value_type: ValueType,
    /// Its place among the expressions that the query has more than once.
    pub(crate) repeated: Option<usize>,
}

impl Node {
    pub(crate) fn new(kind: NodeKind, span: Span, value_type: ValueType) -> Self {
        Self {
            kind,
            span,
            value_type,
            repeated: None,
        }
    }

    /// Returns the nodes that the node evaluates at `steps`, with the steps at which it does.
    pub(super) fn inputs_mut(&mut self, steps: Steps) -> Vec<(&mut Self, Steps)> {
        match &mut self.kind {
            NodeKind::Number(_) | NodeKind::Text(_) | NodeKind::Select(_) | NodeKind::Window(_) => {
                Vec::new()
            }
            NodeKind::Negate(inner) => vec![(inner, steps)],
            NodeKind::StepInvariant(inner) => vec![(inner, steps.first())],
            NodeKind::Subquery(subquery) => vec![(&mut subquery.inner, subquery.steps)],
            NodeKind::Binary(binary) => vec![(&mut binary.lhs, steps), (&mut binary.rhs, steps)],
            NodeKind::Aggregate(aggregate) => {
                let param = aggregate.param.as_mut().map(|param| (param, steps));
                param
                    .into_iter()
                    .chain([(&mut aggregate.input, steps)])
                    .collect()
            }
            NodeKind::Call(call) => call.args.iter_mut().map(|arg| (arg, steps)).collect(),
            NodeKind::Over(Over { source, args, .. }) => {
                let args = args.iter_mut().map(|arg| (arg, steps));
                let source = match source {
                    Source::Window(_) => None,
                    Source::Subquery(subquery) => Some((&mut *subquery.inner, subquery.steps)),
                };
                args.chain(source).collect()
            }
        }
    }
}

#[derive(Debug)]
pub(crate) enum NodeKind {
    Number(f64),
    Text(String),
    /// An instant selector.
    Select(Select),
    /// A range selector that is the whole query.
    Window(Window),
    /// A subquery that is the whole query.
    Subquery(Subquery),
    /// A function of instant vectors and scalars.
    Call(Call),
    /// A function over ranges.
    Over(Over),
    Aggregate(Box<Aggregate>),
    Binary(Box<Binary>),
    Negate(Box<Node>),
    /// Evaluated once for all steps.
    StepInvariant(Box<Node>),
}

/// The samples an instant selector reads.
#[derive(Clone, Debug)]
pub(crate) struct Select {
    /// Its index in the plan's list.
    pub(crate) selector: usize,
    pub(crate) at_ms: Option<i64>,
    pub(crate) offset_ms: i64,
    pub(crate) extension: Extension,
    /// Whether all its series have the same metric name.
    pub(crate) one_name: bool,
    /// Whether only counts and sums of histograms are needed.
    pub(crate) stats_only: bool,
    /// The matchers as written, for the labels of `absent`.
    pub(crate) matchers: Vec<Matcher>,
}

impl Select {
    /// Returns the time that the selector reads at when the query is at `time_ms`.
    pub(crate) fn reference_ms(&self, time_ms: i64) -> i64 {
        self.at_ms.unwrap_or(time_ms).saturating_sub(self.offset_ms)
    }
}

/// The samples a range selector reads.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) select: Select,
    pub(crate) range_ms: i64,
    pub(crate) range_seconds: f64,
}

/// An inner query with its own steps.
#[derive(Debug)]
pub(crate) struct Subquery {
    pub(crate) inner: Box<Node>,
    pub(crate) steps: Steps,
    pub(crate) at_ms: Option<i64>,
    pub(crate) offset_ms: i64,
    pub(crate) range_ms: i64,
    pub(crate) range_seconds: f64,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: FunctionId,
    pub(crate) args: Vec<Node>,
}

#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) function: FunctionId,
    pub(crate) source: Source,
    /// The arguments other than the range, in order.
    pub(crate) args: Vec<Node>,
    /// Position of the range; a subquery has no position, as in Prometheus.
    pub(crate) source_span: Span,
    /// Position of the first argument.
    pub(crate) first_span: Span,
}

#[derive(Debug)]
pub(crate) enum Source {
    Window(Window),
    Subquery(Subquery),
}

#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) op: AggregateOp,
    pub(crate) input: Node,
    pub(crate) param: Option<Node>,
    pub(crate) without: bool,
    /// Sorted, distinct.
    pub(crate) grouping: Vec<Box<str>>,
    /// Groups of earlier evaluations, in a plan that is kept.
    pub(crate) kept: Option<KeptGroups>,
    /// Position of the whole aggregation.
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) op: BinaryOp,
    pub(crate) lhs: Node,
    pub(crate) rhs: Node,
    pub(crate) matching: VectorMatching,
    pub(crate) return_bool: bool,
}

/// Inputs of a plan besides the query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Most steps a query or subquery may have.
    pub(crate) max_steps: u64,
    pub(crate) lookback_ms: i64,
    pub(crate) default_subquery_step_ms: i64,
    pub(crate) start_times: bool,
    /// Whether the plan will be evaluated again and again.
    pub(crate) is_kept: bool,
}

impl Settings {
    /// Fails when there are more steps than a query may hold samples: data kept once per step must be bounded too.
    fn check(self, steps: Steps) -> Result<(), QueryError> {
        if steps.count as u64 > self.max_steps {
            return Err(QueryError::TooManySamples {
                limit: self.max_steps,
            });
        }
        Ok(())
    }
}
