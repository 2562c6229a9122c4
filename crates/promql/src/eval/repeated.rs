//! Keeps the values of expressions that a query has more than once.
//!
//! What the first use passes on is copied while it is, and later uses get the copy: the same rows in the same pieces and
//! order, hence the same bits. A use counts its samples towards the limit and the statistics as if it had read them; the
//! copies count only as memory, and what would take more than `KEPT_BYTES` is evaluated again instead.
//!
//! **Invariant:** values whose evaluation made notes are not kept: each use makes its own, with its position.

use super::{
    Eval, Hold, Memory, Outcome, Sink,
    stored::{Emitted, RowsSink, StoredRows},
};
use crate::plan::Node;
use narthex_model::sync::Whole as _;
use std::sync::{Arc, Mutex};

/// Most memory that a query's copies take.
const KEPT_BYTES: u64 = 64 << 20;

/// The repeated expressions of a query.
#[derive(Debug, Default)]
pub(super) struct Repeated(Mutex<Vec<Expression>>);

#[derive(Debug)]
struct Expression {
    uses_left: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Not evaluated yet.
    New,
    /// Evaluated again by each use.
    Unkept,
    Kept(Arc<Values>),
}

/// What an expression passed on.
#[derive(Default)]
struct Values {
    pieces: Vec<Emitted>,
    hold: Hold,
    bytes: u64,
    samples: u64,
    series: u64,
}

/// What a use does.
enum Use {
    Evaluate,
    Keep,
    Take(Arc<Values>),
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} pieces", self.pieces.len())
    }
}

impl Repeated {
    /// Returns expressions that are used so often.
    pub(super) fn new(uses: &[usize]) -> Self {
        let expression = |uses_left: &usize| Expression {
            uses_left: *uses_left,
            state: State::New,
        };
        Self(Mutex::new(uses.iter().map(expression).collect()))
    }

    /// Begins a use; after the last one, nothing is kept.
    fn begin(&self, node: &Node) -> Use {
        let Some(number) = node.repeated else {
            return Use::Evaluate;
        };
        let mut all = self.0.lock().whole();
        let Some(expression) = all.get_mut(number) else {
            return Use::Evaluate;
        };
        expression.uses_left = expression.uses_left.saturating_sub(1);
        let is_last = expression.uses_left == 0;
        match &expression.state {
            State::New if !is_last => {
                expression.state = State::Unkept;
                Use::Keep
            }
            State::Kept(values) => {
                let values = Arc::clone(values);
                if is_last {
                    expression.state = State::Unkept;
                }
                Use::Take(values)
            }
            State::New | State::Unkept => Use::Evaluate,
        }
    }

    fn keep(&self, node: &Node, values: Values) {
        let mut all = self.0.lock().whole();
        let expression = node.repeated.and_then(|number| all.get_mut(number));
        if let Some(expression) = expression.filter(|expression| expression.uses_left > 0) {
            expression.state = State::Kept(Arc::new(values));
        }
    }

    /// Returns the memory of all copies.
    fn bytes(&self) -> u64 {
        let all = self.0.lock().whole();
        let kept = all.iter().map(|expression| match &expression.state {
            State::Kept(values) => values.bytes,
            State::New | State::Unkept => 0,
        });
        kept.sum()
    }
}

impl Values {
    /// Copies a piece; fails when there is no room.
    fn copy_piece(&mut self, piece: &Emitted, memory: &Memory, room: u64) -> Option<()> {
        let bytes = self.bytes + piece.heap_bytes();
        if bytes > room {
            return None;
        }
        memory.change(&mut self.hold, 0, bytes).ok()?;
        self.bytes = bytes;
        self.pieces.push(piece.copy());
        Some(())
    }
}

impl Emitted {
    fn heap_bytes(&self) -> u64 {
        match self {
            Self::Stored(rows) => rows.heap_bytes(rows.width),
            Self::Block(block) => block.heap_bytes(),
        }
    }

    /// Returns the same rows without their hold.
    fn copy(&self) -> Self {
        match self {
            Self::Stored(rows) => Self::Stored(StoredRows::clone(rows)),
            Self::Block(block) => Self::Block(block.copy()),
        }
    }
}

impl Eval<'_> {
    /// Passes on what `evaluate` does for `node`, or what it did for an equal expression.
    pub(super) fn once(
        &self,
        node: &Node,
        sink: &mut RowsSink<'_>,
        evaluate: impl FnOnce(&mut RowsSink<'_>) -> Outcome<()>,
    ) -> Outcome<()> {
        match self.repeated.begin(node) {
            Use::Evaluate => evaluate(sink),
            Use::Keep => self.evaluate_and_keep(node, sink, evaluate),
            Use::Take(values) => self.pass_on(values, sink),
        }
    }

    /// As `once`, for what comes in blocks.
    pub(super) fn once_in_blocks(
        &self,
        node: &Node,
        sink: &mut Sink<'_>,
        evaluate: impl FnOnce(&mut Sink<'_>) -> Outcome<()>,
    ) -> Outcome<()> {
        if node.repeated.is_none() {
            return evaluate(sink);
        }
        let mut sink = |piece| match piece {
            Emitted::Block(block) => sink(block),
            Emitted::Stored(_) => Ok(()),
        };
        self.once(node, &mut sink, |sink| {
            evaluate(&mut |block| sink(Emitted::Block(block)))
        })
    }

    fn evaluate_and_keep(
        &self,
        node: &Node,
        sink: &mut RowsSink<'_>,
        evaluate: impl FnOnce(&mut RowsSink<'_>) -> Outcome<()>,
    ) -> Outcome<()> {
        let room = KEPT_BYTES.saturating_sub(self.repeated.bytes());
        let notes = self.notes().made();
        let before = (self.memory.read_samples(), self.memory.found_series());
        let mut values = Some(Values::default());
        evaluate(&mut |piece| {
            let kept = values
                .as_mut()
                .and_then(|values| values.copy_piece(&piece, &self.memory, room));
            if kept.is_none() {
                values = None;
            }
            sink(piece)
        })?;
        if let Some(mut values) = values.filter(|_| self.notes().made() == notes) {
            values.samples = self.memory.read_samples() - before.0;
            values.series = self.memory.found_series() - before.1;
            self.repeated.keep(node, values);
        }
        Ok(())
    }

    fn pass_on(&self, values: Arc<Values>, sink: &mut RowsSink<'_>) -> Outcome<()> {
        self.memory
            .count_series(usize::try_from(values.series).unwrap_or(usize::MAX));
        self.memory.count_read(values.samples)?;
        let mut pass = |piece| {
            self.ctx.stop.check()?;
            sink(match piece {
                Emitted::Block(block) => Emitted::Block(self.charge(block)?),
                Emitted::Stored(rows) => Emitted::Stored(rows),
            })
        };
        match Arc::try_unwrap(values) {
            Ok(values) => values.pieces.into_iter().try_for_each(pass),
            Err(values) => values
                .pieces
                .iter()
                .map(Emitted::copy)
                .try_for_each(&mut pass),
        }
    }
}
