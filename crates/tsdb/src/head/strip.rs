//! Strips: the samples one origin reported since the last flush.
//!
//! Rows are in row chunks, samples without a row in the out-of-order buffer. Writers and readers share one lock, held
//! for encoding or decoding a few rows or taking a snapshot, and never for the disk: what a writer has stored is
//! behind the numbers up to which readers look until the log has it. Writers of one strip take turns, until then.
//!
//! **Invariant:** whoever ends row chunks or adds samples has the turn, so that what is not visible yet is last and can
//! be taken back; it is in no sealed row chunk. A row is visible in all pages or in none; rows and out-of-order samples are numbered from the strip's
//! creation and never renumbered, so that a view is two pairs of numbers; columns are appended, never removed, and
//! no two columns have the same labels.

use super::{
    out_of_order::{OutOfOrderBuffer, Value},
    row_chunk::{OpenRowChunk, RowChunk},
    starts::StartTimes,
    windows::Windows,
};
use crate::label_order::order_of;
use crate::sync::Guarded as _;
use crate::wal::StripMark;
use narthex_chunks::row::ColumnPick;
use narthex_model::{
    LabelSet, Schema,
    cell::{self, Cell},
    storage::TimeRange,
};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
};

/// Columns of a page, as the row codec limits them.
pub(crate) const PAGE_COLUMNS: usize = narthex_chunks::row::MAX_COLUMNS;

/// A clock that was set back by less catches up soon.
const AHEAD_MS: i64 = 15_000;

/// One origin's series and their recent samples.
#[derive(Debug)]
pub(crate) struct Strip {
    pub(crate) id: u32,
    /// Labels that all columns have.
    pub(crate) common: LabelSet,
    /// Key of their names.
    pub(crate) common_names: u64,
    /// Their place in the order of batches.
    pub(crate) common_order: u64,
    rows: AtomicU64,
    flushed_rows: AtomicU64,
    out_of_order: AtomicU64,
    flushed_out_of_order: AtomicU64,
    max_ms: AtomicI64,
    /// Number of the row after one that ended all columns; 0 for none.
    ended_rows: AtomicU64,
    /// Newest time that this process wrote into a block; `i64::MIN` before the first.
    flushed_max_ms: AtomicI64,
    has_shared: AtomicBool,
    bound: AtomicBool,
    /// Whether an origin wrote to it and is gone, or has moved to another strip.
    left: AtomicBool,
    /// Whether to remove it from the index as soon as no view needs it there.
    retired: AtomicBool,
    /// Whether it is out of the index: samples stored here would never be found.
    removed: AtomicBool,
    /// Time of the last append, by the caller's clock.
    touched_ms: AtomicI64,
    turn: Mutex<()>,
    state: Mutex<StripState>,
}

/// Other owners of the same series, by column.
pub(crate) type Shared = HashMap<u32, Vec<(Weak<Strip>, u32)>, foldhash::fast::RandomState>;

/// State protected by the lock.
#[derive(Debug)]
pub(crate) struct StripState {
    /// The columns, in the strip's own order; families are not kept.
    pub(crate) schema: Schema,
    pub(crate) sealed: VecDeque<Arc<RowChunk>>,
    pub(crate) open: OpenRowChunk,
    pub(crate) last_row_ms: i64,
    /// Time between the last two rows of the open row chunk, 0 after a key row.
    pub(crate) last_step_ms: i64,
    pub(crate) out_of_order: OutOfOrderBuffer,
    pub(crate) starts: StartTimes,
    pub(crate) shared: Arc<Shared>,
    /// WAL file that mentions the strip, and how many of its columns.
    pub(crate) logged: (u32, usize),
    /// Newest rows that are read again and again.
    pub(crate) windows: Windows,
}

/// Part of a strip that a view sees: from the first numbers, inclusive, to the second, exclusive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct StripSnapshot {
    pub(crate) rows: (u64, u64),
    pub(crate) out_of_order: (u64, u64),
}

impl StripSnapshot {
    /// Reports whether nothing is visible.
    pub(crate) fn is_empty(self) -> bool {
        self.rows.0 >= self.rows.1 && self.out_of_order.0 >= self.out_of_order.1
    }
}

impl Strip {
    /// Returns a strip without columns; rows and out-of-order samples count from `start`, before which blocks hold
    /// everything.
    pub(crate) fn new(id: u32, common: LabelSet, start: StripMark) -> Self {
        let mut out_of_order = OutOfOrderBuffer::default();
        out_of_order.start_at(start.out_of_order);
        let state = StripState {
            schema: Schema::new(common.clone()),
            sealed: VecDeque::new(),
            open: OpenRowChunk::after(None, start.rows),
            last_row_ms: i64::MIN,
            last_step_ms: 0,
            out_of_order,
            starts: StartTimes::default(),
            shared: Arc::default(),
            logged: (0, 0),
            windows: Windows::default(),
        };
        Self {
            id,
            common_names: common.names_key(),
            common_order: order_of(&common),
            common,
            rows: AtomicU64::new(start.rows),
            flushed_rows: AtomicU64::new(start.rows),
            out_of_order: AtomicU64::new(start.out_of_order),
            flushed_out_of_order: AtomicU64::new(start.out_of_order),
            max_ms: AtomicI64::new(i64::MIN),
            ended_rows: AtomicU64::new(0),
            flushed_max_ms: AtomicI64::new(i64::MIN),
            has_shared: AtomicBool::new(false),
            bound: AtomicBool::new(false),
            left: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            touched_ms: AtomicI64::new(i64::MIN),
            turn: Mutex::default(),
            state: Mutex::new(state),
        }
    }

    /// Waits for the writers before the caller, until they are done with the log; needed to change rows or samples.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().guarded()
    }

    /// Locks the mutable state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, StripState> {
        self.state.lock().guarded()
    }

    /// Returns the visible part that no block holds.
    pub(crate) fn snapshot(&self) -> StripSnapshot {
        let of = |from: &AtomicU64, to: &AtomicU64| {
            (from.load(Ordering::Acquire), to.load(Ordering::Acquire))
        };
        StripSnapshot {
            rows: of(&self.flushed_rows, &self.rows),
            out_of_order: of(&self.flushed_out_of_order, &self.out_of_order),
        }
    }

    /// Returns how far the strip has come.
    pub(crate) fn mark(&self) -> StripMark {
        let snapshot = self.snapshot();
        StripMark {
            rows: snapshot.rows.1,
            out_of_order: snapshot.out_of_order.1,
        }
    }

    /// Returns how far the strip is in blocks.
    pub(crate) fn flushed(&self) -> StripMark {
        let snapshot = self.snapshot();
        StripMark {
            rows: snapshot.rows.0,
            out_of_order: snapshot.out_of_order.0,
        }
    }

    /// Returns the newest time that this process wrote into a block.
    pub(crate) fn flushed_max_ms(&self) -> Option<i64> {
        Some(self.flushed_max_ms.load(Ordering::Acquire)).filter(|max_ms| *max_ms != i64::MIN)
    }

    /// Records that blocks hold everything before `mark`, none of it later than `max_ms`; later views do not look for
    /// it here.
    pub(crate) fn set_flushed(&self, mark: StripMark, max_ms: i64) {
        self.flushed_max_ms.fetch_max(max_ms, Ordering::AcqRel);
        self.flushed_rows.fetch_max(mark.rows, Ordering::AcqRel);
        self.flushed_out_of_order
            .fetch_max(mark.out_of_order, Ordering::AcqRel);
    }

    /// Makes everything before `mark` visible, and records the time.
    pub(crate) fn show(&self, mark: StripMark, now_ms: i64) {
        self.rows.store(mark.rows, Ordering::Release);
        self.out_of_order
            .store(mark.out_of_order, Ordering::Release);
        self.touched_ms.fetch_max(now_ms, Ordering::AcqRel);
    }

    /// Records that the row before row `rows`, which is shown next, is a staleness marker of every column.
    pub(crate) fn note_ended(&self, rows: u64) {
        self.ended_rows.store(rows, Ordering::Release);
    }

    /// Reports whether the newest sample that a snapshot shows until `max_ms` is known to be a staleness marker in all
    /// columns, and no other strip has one of these series.
    pub(crate) fn has_ended(&self, snapshot: StripSnapshot, max_ms: i64) -> bool {
        let StripSnapshot { rows, out_of_order } = snapshot;
        // Later rows change the newest time before they are shown.
        rows.0 < rows.1
            && self.ended_rows.load(Ordering::Acquire) == rows.1
            && out_of_order.0 == out_of_order.1
            && self.max_ms() <= max_ms
            && !self.has_shared()
    }

    /// Changes the newest time of any sample; returns the one before.
    pub(crate) fn set_max_ms(&self, max_ms: i64) -> i64 {
        self.max_ms.swap(max_ms, Ordering::AcqRel)
    }

    /// Returns the newest time of any sample.
    pub(crate) fn max_ms(&self) -> i64 {
        self.max_ms.load(Ordering::Acquire)
    }

    /// Returns the time of the last append.
    pub(crate) fn touched_ms(&self) -> i64 {
        self.touched_ms.load(Ordering::Acquire)
    }

    /// Reports whether the clock was set back since the last append, to before the strip's samples: a row at `time_ms`
    /// then cannot follow its rows.
    pub(crate) fn is_ahead(&self, time_ms: i64, now_ms: i64) -> bool {
        self.touched_ms().saturating_sub(AHEAD_MS) > now_ms && self.max_ms() >= time_ms
    }

    /// Reports whether the strip has samples that are ahead of the clock.
    pub(crate) fn has_future(&self, now_ms: i64) -> bool {
        self.max_ms().saturating_sub(AHEAD_MS) > now_ms
    }

    /// Reports whether an origin writes to the strip.
    pub(crate) fn is_bound(&self) -> bool {
        self.bound.load(Ordering::Acquire)
    }

    /// Claims the strip for one origin; fails when another has it.
    pub(crate) fn try_bind(&self) -> bool {
        let free = !self.bound.swap(true, Ordering::AcqRel);
        if free {
            self.left.store(false, Ordering::Release);
        }
        free
    }

    /// Releases the strip because its origin left it for good.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Release);
        self.unbind();
    }

    /// Reports whether the strip's origin has left, and none has come since.
    pub(crate) fn is_left(&self) -> bool {
        self.left.load(Ordering::Acquire) && !self.is_bound()
    }

    /// Releases the strip.
    pub(crate) fn unbind(&self) {
        self.bound.store(false, Ordering::Release);
    }

    /// Claims the strip for removal if no origin has it and blocks hold all of it.
    pub(crate) fn try_retire(&self) -> bool {
        let state = self.lock();
        // What is stored and not visible yet counts.
        let (held, flushed) = (state.end(), self.flushed());
        let is_flushed = held.rows <= flushed.rows && held.out_of_order <= flushed.out_of_order;
        if !is_flushed || !self.try_bind() {
            return false;
        }
        self.retired.store(true, Ordering::Release);
        drop(state);
        true
    }

    /// Withdraws a claim for removal, because samples arrived; call it under the strip's lock.
    pub(crate) fn revive(&self) {
        if self.retired.swap(false, Ordering::AcqRel) {
            self.unbind();
        }
    }

    /// Makes a claim for removal final; fails when it was withdrawn.
    pub(crate) fn try_remove(&self) -> bool {
        let state = self.lock();
        let removed = self.retired.load(Ordering::Acquire);
        self.removed.store(removed, Ordering::Release);
        drop(state);
        removed
    }

    /// Reports whether the strip is no longer in the index; under its lock the answer holds.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Reports whether another strip has a series of this one.
    pub(crate) fn has_shared(&self) -> bool {
        self.has_shared.load(Ordering::Acquire)
    }

    /// Records that another strip has the series of `column` too.
    pub(crate) fn share(&self, column: u32, other: &Arc<Strip>, other_column: u32) {
        let mut state = self.lock();
        let shared = Arc::make_mut(&mut state.shared);
        shared
            .entry(column)
            .or_default()
            .push((Arc::downgrade(other), other_column));
        self.has_shared.store(true, Ordering::Release);
    }

    /// Forgets owners that are gone.
    pub(crate) fn forget_dead_owners(&self) {
        let mut state = self.lock();
        let is_dead = |owner: &(Weak<Strip>, u32)| owner.0.strong_count() == 0;
        if !state.shared.values().flatten().any(is_dead) {
            return;
        }
        let shared = Arc::make_mut(&mut state.shared);
        shared
            .values_mut()
            .for_each(|owners| owners.retain(|owner| !is_dead(owner)));
        shared.retain(|_, owners| !owners.is_empty());
        self.has_shared.store(!shared.is_empty(), Ordering::Release);
    }

    /// Returns the values of other owners of `columns` at their times.
    pub(crate) fn values_of_others(&self, wanted: &[(u32, i64)]) -> Vec<(u32, i64, Value)> {
        let shared = Arc::clone(&self.lock().shared);
        let mut found = Vec::new();
        for (column, time_ms) in wanted {
            let owners = shared.get(column).into_iter().flatten();
            let value = owners.filter_map(|(owner, column)| {
                let owner = owner.upgrade()?;
                (owner.max_ms() >= *time_ms).then(|| owner.lock().value_at(*column, *time_ms))?
            });
            found.extend(value.take(1).map(|value| (*column, *time_ms, value)));
        }
        found
    }
}

impl StripState {
    /// Returns how far the strip has come, with what is not visible yet.
    pub(crate) fn end(&self) -> StripMark {
        StripMark {
            rows: self.open.published().end_row(),
            out_of_order: self.out_of_order.arrived(),
        }
    }

    /// Returns the row chunks, oldest first, with a copy of the open one.
    pub(crate) fn row_chunks(&self) -> Vec<Arc<RowChunk>> {
        let mut row_chunks: Vec<Arc<RowChunk>> = self.sealed.iter().cloned().collect();
        if self.open.published().rows() > 0 {
            row_chunks.push(Arc::new(self.open.copied()));
        }
        row_chunks
    }

    /// Ends the open row chunk; the next row begins another.
    pub(crate) fn seal(&mut self) {
        let end = self.open.published().end_row();
        self.seal_to(end);
    }

    /// Ends the open row chunk; the next row is numbered `end`.
    pub(crate) fn seal_to(&mut self, end: u64) {
        let sealed = self.open.seal();
        if sealed.rows() > 0 {
            self.sealed.push_back(Arc::new(sealed));
        }
        let before = std::mem::take(&mut self.open);
        self.open = OpenRowChunk::after(Some(before), end);
    }

    /// Returns the value of a column at a time, from rows or out-of-order samples.
    pub(crate) fn value_at(&self, column: u32, time_ms: i64) -> Option<Value> {
        self.out_of_order
            .value_at(column, time_ms)
            .or_else(|| self.row_value_at(column, time_ms))
    }

    pub(crate) fn row_value_at(&self, column: u32, time_ms: i64) -> Option<Value> {
        if time_ms > self.last_row_ms {
            return None;
        }
        let (page, at) = (
            column as usize / PAGE_COLUMNS,
            column as usize % PAGE_COLUMNS,
        );
        let open = self.open.published();
        if let Some(row) = row_of(open, time_ms).filter(|_| self.open.has_noted(column)) {
            if row + 1 == open.rows()
                && let Some(state) = self.open.state(page)
                && state.is_present(at)
            {
                return state.value(at).map(Value::Cell);
            }
            let row = row.checked_sub(open.pages.get(page)?.first)?;
            return value_in(row, column, |row| self.open.row(page, row));
        }
        // Chunks follow each other in time, and a long backfill leaves thousands of them.
        let is_before = |row_chunk: &Arc<RowChunk>| {
            row_chunk
                .time_range()
                .is_none_or(|(_, max_ms)| max_ms < time_ms)
        };
        let row_chunk = self.sealed.get(self.sealed.partition_point(is_before))?;
        let rows = row_chunk.pages.get(page)?;
        let row = row_of(row_chunk, time_ms).filter(|_| row_chunk.has_seen(column))?;
        let row = row.checked_sub(rows.first)?;
        value_in(row, column, |row| {
            (row < rows.rows()).then(|| rows.row(row))
        })
    }

    /// Returns an interval that covers everything held.
    pub(crate) fn time_range(&self) -> Option<TimeRange> {
        let row_chunks = self
            .sealed
            .iter()
            .map(|row_chunk| &**row_chunk)
            .chain([self.open.published()]);
        let ranges = row_chunks
            .filter_map(RowChunk::time_range)
            .chain(self.out_of_order.time_range());
        ranges
            .map(|(min_ms, max_ms)| TimeRange::new(min_ms, max_ms))
            .reduce(TimeRange::hull)
    }

    /// Drops rows and out-of-order samples before `mark`.
    pub(crate) fn drop_before(&mut self, mark: StripMark) {
        while self
            .sealed
            .front()
            .is_some_and(|row_chunk| row_chunk.end_row() <= mark.rows)
        {
            self.sealed.pop_front();
        }
        self.sealed.shrink_to_fit();
        self.starts.drop_before(mark.rows);
        self.out_of_order.drop_before(mark.out_of_order);
    }

    /// Returns the heap bytes held, without identities.
    pub(crate) fn heap_bytes(&self) -> usize {
        let sealed: usize = self
            .sealed
            .iter()
            .map(|row_chunk| row_chunk.encoded_bytes())
            .sum();
        sealed + self.open.heap_bytes() + self.out_of_order.heap_bytes()
    }
}

/// Returns the row of a chunk at exactly `time_ms`.
fn row_of(row_chunk: &RowChunk, time_ms: i64) -> Option<usize> {
    let row = row_chunk.row_at(time_ms);
    (row < row_chunk.rows() && row_chunk.time_ms(row) == time_ms).then_some(row)
}

/// Decodes the value of one column in row `row` of its page, whose rows' bytes `bytes_of` returns.
fn value_in<'r>(
    row: usize,
    column: u32,
    bytes_of: impl Fn(usize) -> Option<&'r [u8]>,
) -> Option<Value> {
    let mut pick = ColumnPick::new(&[column % PAGE_COLUMNS as u32]);
    let mut histogram = None;
    for at in 0..=row {
        let stepped = pick.step_with(bytes_of(at)?, |_, state| {
            histogram = (at == row).then(|| state.to_histogram());
        });
        stepped.ok()?;
    }
    let value = *pick.cells().first()?;
    match Cell::decode(value) {
        Cell::Absent => None,
        Cell::Histogram(_) => Some(Value::Histogram(Arc::new(histogram?))),
        Cell::Stale => Some(Value::Cell(cell::STALE)),
        Cell::Float(value) => Some(Value::Cell(value)),
    }
}
