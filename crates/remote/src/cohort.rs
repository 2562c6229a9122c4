//! Series that come together: a binding of the sink and the frame that fills it.
//!
//! What arrives for one instant is a row when it is at least half of what came for the instant before; the rest of
//! that instant, and anything older, is handed over as samples with times of their own.
//!
//! **Invariant:** when `append` returns, the sink has taken all it was given; a sample is never held back.

use crate::error::RemoteError;
use narthex_model::{
    ColumnId, Exemplar, Family, Frame, Histogram, LabelHash, LabelSet, Schema,
    bits::BitSet,
    cell,
    storage::{Binding, Outcome, Sink},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A group of series with one binding.
pub(crate) struct Cohort {
    origin: LabelHash,
    common: LabelSet,
    state: Mutex<State>,
}

struct State {
    schema: Schema,
    binding: Box<dyn Binding>,
    frame: Frame,
    /// Columns that the frame has something for.
    taken: BitSet,
    rows: Rows,
}

/// Tells rows from what is left of them.
#[derive(Debug)]
struct Rows {
    last_row_ms: i64,
    /// The newest instant, how many samples came for it, and how many for the one before.
    newest_ms: i64,
    newest: usize,
    usual: usize,
}

/// The samples of a cohort for one instant.
pub(crate) struct Instant<'a, F, H> {
    pub(crate) time_ms: i64,
    /// Samples, histograms included.
    pub(crate) count: usize,
    /// Columns, values and start times.
    pub(crate) floats: F,
    pub(crate) histograms: H,
    pub(crate) exemplars: &'a [(ColumnId, Exemplar)],
}

impl Cohort {
    /// Makes a cohort without series.
    ///
    /// # Errors
    /// Fails when the sink takes no more origins.
    pub(crate) fn new(
        origin: LabelHash,
        common: LabelSet,
        sink: &dyn Sink,
    ) -> Result<Self, RemoteError> {
        let schema = Schema::new(common);
        let state = State {
            binding: sink.bind(&schema)?,
            frame: Frame::new(schema.clone(), 0),
            taken: BitSet::new(0),
            rows: Rows {
                last_row_ms: i64::MIN,
                newest_ms: i64::MIN,
                newest: 0,
                usual: 0,
            },
            schema: schema.clone(),
        };
        Ok(Self {
            origin,
            common: schema.common().clone(),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn origin(&self) -> LabelHash {
        self.origin
    }

    pub(crate) fn common(&self) -> LabelSet {
        self.common.clone()
    }

    /// Returns the number of columns, retired ones included.
    pub(crate) fn columns(&self) -> usize {
        self.lock().schema.len()
    }

    /// Appends columns and returns the first of them.
    pub(crate) fn extend(&self, sets: &[LabelSet]) -> Result<ColumnId, RemoteError> {
        let mut state = self.lock();
        let first = ColumnId(u32::try_from(state.schema.len()).expect("cohorts are narrow"));
        let mut edit = state.schema.edit();
        let family = edit.family(Family::default());
        for set in sets {
            edit.push(set, family);
        }
        let schema = edit.finish();
        state.binding.rebind(&schema)?;
        state.schema = schema;
        Ok(first)
    }

    /// Retires columns and returns how many are left.
    pub(crate) fn retire(&self, columns: &[ColumnId]) -> Result<usize, RemoteError> {
        let mut state = self.lock();
        let mut edit = state.schema.edit();
        for column in columns {
            edit.retire(*column);
        }
        let schema = edit.finish();
        state.binding.rebind(&schema)?;
        state.schema = schema;
        Ok(state.schema.live())
    }

    /// Hands the samples of one instant to the sink.
    ///
    /// # Errors
    /// Fails when the sink takes nothing.
    pub(crate) fn append<'h>(
        &self,
        instant: Instant<
            '_,
            impl Iterator<Item = (ColumnId, f64, i64)>,
            impl Iterator<Item = (ColumnId, &'h Arc<Histogram>, i64)>,
        >,
    ) -> Result<Outcome, RemoteError> {
        let mut state = self.lock();
        let State {
            schema,
            binding,
            frame,
            taken,
            rows,
        } = &mut *state;
        let Instant {
            time_ms,
            count,
            floats,
            histograms,
            exemplars,
        } = instant;
        // A frame that is not newer than the last row is no row to the sink, whatever times its samples have.
        let is_row = count > 0 && rows.take(time_ms, count);
        let frame_ms = if is_row { time_ms } else { rows.last_row_ms };
        frame.restart(schema, frame_ms);
        taken.resize(schema.len());
        taken.clear();
        let mut repeated = Outcome::default();
        for (column, value, start_ms) in floats {
            if taken.contains(column.index()) {
                let same = if frame.present().contains(column.index()) {
                    frame.values()[column.index()].to_bits() == cell::canonical(value).to_bits()
                } else {
                    cell::is_stale(value)
                };
                repeated.accepted += u64::from(same);
                repeated.duplicate += u64::from(!same);
                continue;
            }
            taken.insert(column.index());
            frame.set(column, value);
            place(frame, column, time_ms, start_ms);
        }
        for (column, histogram, start_ms) in histograms {
            if taken.contains(column.index()) {
                repeated.duplicate += 1;
                continue;
            }
            taken.insert(column.index());
            frame.set_histogram(column, Arc::clone(histogram));
            place(frame, column, time_ms, start_ms);
        }
        for (column, exemplar) in exemplars {
            frame.push_exemplar(*column, exemplar.clone());
        }
        let mut outcome = binding.append(frame)?;
        outcome += repeated;
        Ok(outcome)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a sample its own time and start where they are not the frame's.
fn place(frame: &mut Frame, column: ColumnId, time_ms: i64, start_ms: i64) {
    if frame.time_ms() != time_ms {
        frame.set_time(column, time_ms);
    }
    if start_ms != 0 {
        frame.set_start_time(column, start_ms);
    }
}

impl Rows {
    /// Takes note of samples for an instant; tells whether they are its row.
    fn take(&mut self, time_ms: i64, count: usize) -> bool {
        if time_ms > self.newest_ms {
            self.usual = self.newest;
            self.newest_ms = time_ms;
            self.newest = 0;
        }
        if time_ms == self.newest_ms {
            self.newest += count;
        }
        let is_row = time_ms > self.last_row_ms && count * 2 >= self.usual;
        if is_row {
            self.last_row_ms = time_ms;
        }
        is_row
    }
}

impl std::fmt::Debug for Cohort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cohort({})", self.common)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_comes_at_once() {
        let mut rows = Rows {
            last_row_ms: i64::MIN,
            newest_ms: i64::MIN,
            newest: 0,
            usual: 0,
        };
        assert!(rows.take(10, 100));
        assert!(!rows.take(10, 5), "the rest of a row");
        assert!(!rows.take(20, 30), "less than half comes first");
        assert!(rows.take(20, 75));
        assert!(rows.take(30, 60));
        assert!(!rows.take(15, 100), "late");
        assert!(rows.take(40, 31), "half of what came the last time");
    }
}
