//! Where an evaluation's time goes: by operation and phase.
//!
//! **Invariant:** every nanosecond between the beginning and the end belongs to exactly one phase of one operation.
//! Operations pass results on while they run, so the one that consumes them is resumed for that time.

use crate::{plan::Node, span::Span};
use narthex_model::sync::Whole as _;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
};

narthex_model::named! {
    /// A phase of an evaluation.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub enum Phase {
        /// Reading the text.
        Parse = "parse",
        /// Planning.
        Plan = "plan",
        /// Taking a snapshot of the store and resolving selectors.
        View = "view",
        /// Finding the series of a selector.
        Select = "select",
        /// Decoding samples.
        Read = "read",
        /// Everything that an operation does itself.
        Compute = "compute",
        /// Making the result.
        Finish = "finish",
    }
}

/// Times of a query.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The operations, parents first; the first one is the query itself.
    pub nodes: Vec<TraceNode>,
    /// The plan as text.
    pub plan: String,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct TraceNode {
    /// Position in the query's text.
    pub span: Span,
    /// The operation that consumes its results.
    pub parent: Option<usize>,
    /// Time of each phase, without its inputs'.
    pub phases_ns: [u64; Phase::ALL.len()],
    /// Series passed on.
    pub series: u64,
    /// Samples read from the store.
    pub samples: u64,
}

impl TraceNode {
    fn new(span: Span, parent: Option<usize>) -> Self {
        Self {
            span,
            parent,
            phases_ns: [0; Phase::ALL.len()],
            series: 0,
            samples: 0,
        }
    }
}

/// An operation and its phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    node: usize,
    phase: Phase,
}

/// Measures one evaluation.
pub(crate) struct Tracer<'a> {
    clock: &'a (dyn Fn() -> u64 + Sync),
    state: Mutex<State>,
}

struct State {
    nodes: Vec<TraceNode>,
    /// Places of the plan's nodes in `nodes`, by address.
    places: HashMap<usize, usize>,
    current: Current,
    since_ns: u64,
}

impl<'a> Tracer<'a> {
    /// Begins with parsing the query's text.
    pub(crate) fn new(clock: &'a (dyn Fn() -> u64 + Sync), text: &str) -> Self {
        let whole = Span::new(0, u32::try_from(text.len()).unwrap_or(u32::MAX));
        let current = Current {
            node: 0,
            phase: Phase::Parse,
        };
        Self {
            clock,
            state: Mutex::new(State {
                nodes: vec![TraceNode::new(whole, None)],
                places: HashMap::new(),
                current,
                since_ns: clock(),
            }),
        }
    }

    /// Enters a phase of the current operation; returns what to resume after it.
    pub(crate) fn enter(&self, phase: Phase) -> Current {
        let mut state = self.state();
        let node = state.current.node;
        state.switch((self.clock)(), Current { node, phase })
    }

    /// Enters an operation; returns what to resume after it.
    pub(crate) fn enter_node(&self, node: &Node) -> Current {
        let mut state = self.state();
        let place = state.place(node);
        let phase = Phase::Compute;
        state.switch((self.clock)(), Current { node: place, phase })
    }

    /// Goes on with something else; returns what was interrupted.
    pub(crate) fn resume(&self, other: Current) -> Current {
        self.state().switch((self.clock)(), other)
    }

    /// Counts series that the current operation passes on.
    pub(crate) fn count_series(&self, series: usize) {
        self.change_current(|node| node.series += series as u64);
    }

    /// Counts samples that the current operation read.
    pub(crate) fn count_samples(&self, samples: u64) {
        self.change_current(|node| node.samples += samples);
    }

    fn change_current(&self, change: impl FnOnce(&mut TraceNode)) {
        let mut state = self.state();
        let node = state.current.node;
        state.nodes.get_mut(node).map(change);
    }

    /// Ends the measurement.
    pub(crate) fn finish(&self) -> Vec<TraceNode> {
        let mut state = self.state();
        let current = state.current;
        state.switch((self.clock)(), current);
        std::mem::take(&mut state.nodes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().whole()
    }
}

impl State {
    fn switch(&mut self, now_ns: u64, to: Current) -> Current {
        let Current { node, phase } = self.current;
        let spent_ns = now_ns.saturating_sub(self.since_ns);
        if let Some(node) = self.nodes.get_mut(node) {
            node.phases_ns[phase as usize] += spent_ns;
        }
        self.since_ns = now_ns;
        std::mem::replace(&mut self.current, to)
    }

    fn place(&mut self, node: &Node) -> usize {
        let address = std::ptr::from_ref(node).addr();
        let Self {
            nodes,
            places,
            current,
            ..
        } = self;
        *places.entry(address).or_insert_with(|| {
            nodes.push(TraceNode::new(node.span, Some(current.node)));
            nodes.len() - 1
        })
    }
}
