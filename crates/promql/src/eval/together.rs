//! Several threads read the parts of a scan, and one of them takes the results in order.
//!
//! The caller's thread takes results as soon as they are next, and computes parts itself while they are not. Where a
//! helper gets no CPU for a while, it computes what that one holds as well; where they seldom get any, it goes on alone, so
//! they cost little when they cannot help.
//!
//! **Invariant:** results are taken in the order of their parts, each once and with the notes made for it, so the outcome
//! does not depend on who computed what; at most `AHEAD` parts per thread were handed out and not taken.

use super::{
    Eval, Outcome,
    scan::{Piece, Pieces, Reader},
};
use crate::notes::Notes;
use narthex_model::{storage::Helper, sync::Whole as _};
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard},
    thread,
    time::Duration,
};

/// Parts per thread that may wait for an earlier one.
const AHEAD: usize = 4;
/// How long the caller's thread waits for a helper; several times what a part takes.
const PATIENCE: Duration = Duration::from_millis(3);
/// Parts that helpers must have taken since one was waited for in vain, or none is again; they take about as long as the wait.
const WORTH_WAITING: usize = 16;

/// A part's result, the notes made for it, and how many samples were read.
type Done<T> = Outcome<(T, Notes, u64)>;

/// What the threads of a scan share.
struct Shared<'b, P, T> {
    state: Mutex<State<'b, P, T>>,
    /// Signalled when the next result has come, when there is room for more parts, and at the end.
    changed: Condvar,
    /// Most parts that were handed out and not taken.
    ahead: usize,
}

struct State<'b, P, T> {
    parts: P,
    /// The parts that were handed out and not taken, and their results.
    out: VecDeque<(Piece<'b>, Option<Done<T>>)>,
    /// Number of the first of them.
    first: usize,
    /// Parts that helpers took since one was waited for in vain.
    helped: usize,
    /// Whether helpers get nothing more: the caller has gone, is faster alone, or a helper panicked.
    ended: bool,
}

/// What the caller's thread does next.
enum Next<'b, T> {
    /// Takes a result.
    Result(Done<T>),
    /// Computes a part.
    Compute(usize, Piece<'b>),
    /// Looks again.
    Wait,
    End,
}

/// Ends the help when its owner is dropped, so that nobody waits for a thread that panicked.
struct EndOnDrop<'s, 'b, P, T>(&'s Shared<'b, P, T>);

impl<P, T> Drop for EndOnDrop<'_, '_, P, T> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl<'b, P, T> Shared<'b, P, T> {
    fn lock(&self) -> MutexGuard<'_, State<'b, P, T>> {
        // Each change of the state is one step.
        self.state.lock().whole()
    }
}

impl<'b, P: Pieces<'b>, T> Shared<'b, P, T> {
    /// Stores a result, unless the part has one.
    fn store_result(&self, number: usize, result: Done<T>) {
        let mut state = self.lock();
        let Some(at) = number.checked_sub(state.first) else {
            return;
        };
        if let Some((_, slot @ None)) = state.out.get_mut(at) {
            *slot = Some(result);
        }
        if at == 0 {
            self.changed.notify_all();
        }
    }

    /// Waits for room and returns a part for a helper.
    fn hand_out(&self, eval: &Eval<'_>) -> Option<(usize, Piece<'b>)> {
        let mut state = self.lock();
        while !state.ended && state.out.len() >= self.ahead {
            state = self.changed.wait(state).whole();
        }
        if state.ended {
            return None;
        }
        state.helped += 1;
        state.hand_out(eval)
    }

    /// Returns what the caller's thread does next, and waits a while for a helper if there is nothing.
    fn next(&self, eval: &Eval<'_>) -> Next<'b, T> {
        let mut state = self.lock();
        if let Some(result) = state.take_next() {
            return Next::Result(result);
        }
        if state.out.len() < self.ahead
            && let Some((number, piece)) = state.hand_out(eval)
        {
            return Next::Compute(number, piece);
        }
        let Some((piece, _)) = state.out.front() else {
            return Next::End;
        };
        let (number, piece) = (state.first, *piece);
        let is_missing = |state: &mut State<'b, P, T>| matches!(state.out.front(), Some((_, None)));
        let waited = self.changed.wait_timeout_while(state, PATIENCE, is_missing);
        let (mut state, timeout) = waited.whole();
        if !timeout.timed_out() {
            return Next::Wait;
        }
        state.ended = state.helped < WORTH_WAITING;
        state.helped = 0;
        Next::Compute(number, piece)
    }
}

impl<'b, P: Pieces<'b>, T> State<'b, P, T> {
    fn hand_out(&mut self, eval: &Eval<'_>) -> Option<(usize, Piece<'b>)> {
        let piece = self.parts.next(eval)?;
        self.out.push_back((piece, None));
        Some((self.first + self.out.len() - 1, piece))
    }

    /// Takes the next result if it is there.
    fn take_next(&mut self) -> Option<Done<T>> {
        let (_, result) = self.out.front_mut()?;
        let result = result.take()?;
        self.out.pop_front();
        self.first += 1;
        Some(result)
    }
}

impl Eval<'_> {
    /// Computes `work` of each part with `helpers`, and passes the results to `emit` in the parts' order.
    pub(super) fn scan_together<'b, T: Send>(
        &self,
        parts: impl Pieces<'b>,
        helpers: Vec<Helper>,
        work: &(impl Fn(&Eval<'_>, Piece<'b>, &mut Reader) -> Outcome<(T, u64)> + Sync),
        emit: &mut impl FnMut(T) -> Outcome<()>,
    ) -> Outcome<()> {
        let shared = Shared {
            ahead: AHEAD * (helpers.len() + 1),
            state: Mutex::new(State {
                parts,
                out: VecDeque::new(),
                first: 0,
                // The first wait may be for a thread to start.
                helped: WORTH_WAITING,
                ended: false,
            }),
            changed: Condvar::new(),
        };
        thread::scope(|scope| {
            for helper in helpers {
                helper.help(scope, || self.help(&shared, work));
            }
            let _end = EndOnDrop(&shared);
            self.lead(&shared, work, emit)
        })
    }

    /// Computes parts until none are left.
    fn help<'b, T>(
        &self,
        shared: &Shared<'b, impl Pieces<'b>, T>,
        work: &impl Fn(&Eval<'_>, Piece<'b>, &mut Reader) -> Outcome<(T, u64)>,
    ) {
        let _end = EndOnDrop(shared);
        let eval = self.helping();
        let mut reader = Reader::default();
        while let Some((number, piece)) = shared.hand_out(&eval) {
            shared.store_result(number, eval.compute(piece, &mut reader, work));
        }
    }

    /// Takes the results, and computes parts while the next one is not there.
    fn lead<'b, T>(
        &self,
        shared: &Shared<'b, impl Pieces<'b>, T>,
        work: &impl Fn(&Eval<'_>, Piece<'b>, &mut Reader) -> Outcome<(T, u64)>,
        emit: &mut impl FnMut(T) -> Outcome<()>,
    ) -> Outcome<()> {
        let eval = self.helping();
        let mut reader = Reader::default();
        loop {
            match shared.next(&eval) {
                Next::Result(result) => {
                    shared.changed.notify_all();
                    let (value, notes, samples) = result?;
                    self.count_read(samples)?;
                    self.notes().append(notes);
                    emit(value)?;
                }
                Next::Compute(number, piece) => {
                    shared.store_result(number, eval.compute(piece, &mut reader, work));
                }
                Next::Wait => {}
                Next::End => return Ok(()),
            }
        }
    }

    fn compute<'b, T>(
        &self,
        piece: Piece<'b>,
        reader: &mut Reader,
        work: &impl Fn(&Eval<'_>, Piece<'b>, &mut Reader) -> Outcome<(T, u64)>,
    ) -> Done<T> {
        let (value, samples) = work(self, piece, reader)?;
        Ok((value, std::mem::take(&mut *self.notes()), samples))
    }
}
