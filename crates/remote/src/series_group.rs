//! A group of series that arrive together, with a binding of the sink and the frame that fills it.
//!
//! The samples of one instant form a row if they number at least half of those of the instant before; later samples of
//! that instant, and anything older, are appended as samples with their own times. So are all samples of ungrouped
//! series, which share no instants: their groups only share a binding.
//!
//! **Invariant:** when `append` returns, the sink has everything it was given; no sample is held back. A group that
//! panicked in the middle of a change is never used again.

use crate::error::RemoteError;
use narthex_model::{
    ColumnId, Exemplar, Family, Frame, Histogram, LabelHash, LabelSet, Schema,
    bits::BitSet,
    cell,
    storage::{Binding, Outcome, Sink},
};
use std::sync::{Arc, Mutex, MutexGuard};

/// A group of series with one binding.
pub(crate) struct SeriesGroup {
    /// `None` for ungrouped series, which have nothing in common.
    pub(crate) origin: Option<LabelHash>,
    pub(crate) common: LabelSet,
    state: Mutex<State>,
}

struct State {
    schema: Schema,
    binding: Box<dyn Binding>,
    frame: Frame,
    /// Columns for which the frame holds something.
    taken: BitSet,
    rows: Rows,
}

/// Decides which samples form a row.
#[derive(Debug)]
struct Rows {
    last_row_ms: i64,
    /// The newest instant, its number of samples, and that of the instant before.
    newest_ms: i64,
    newest: usize,
    usual: usize,
}

/// The samples of a group for one instant, or all samples of ungrouped series.
pub(crate) struct Instant<'a, F, H> {
    pub(crate) time_ms: i64,
    /// Number of samples, including histograms.
    pub(crate) count: usize,
    pub(crate) floats: F,
    pub(crate) histograms: H,
    pub(crate) exemplars: &'a [(ColumnId, Exemplar)],
}

/// A column's value at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<V> {
    pub(crate) column: ColumnId,
    pub(crate) value: V,
    pub(crate) time_ms: i64,
    pub(crate) start_ms: i64,
}

impl SeriesGroup {
    /// Returns a group without series; those of no `origin` are ungrouped.
    ///
    /// # Errors
    /// Fails if the sink accepts no more origins.
    pub(crate) fn new(
        origin: Option<LabelHash>,
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

    /// Reports whether its series are ungrouped.
    pub(crate) fn is_ungrouped(&self) -> bool {
        self.origin.is_none()
    }

    /// Returns the labels of a column, unless the group is broken.
    pub(crate) fn labels(&self, column: ColumnId) -> Option<LabelSet> {
        Some(self.lock().ok()?.schema.labels(column))
    }

    /// Returns the hash of a column's labels, unless the group is broken.
    pub(crate) fn hash(&self, column: ColumnId) -> Option<LabelHash> {
        let own = self.lock().ok()?.schema.column(column).set.hash();
        Some(self.common.hash() + own)
    }

    /// Returns the number of columns, including retired ones.
    ///
    /// # Errors
    /// Fails if the group is broken.
    pub(crate) fn columns(&self) -> Result<usize, RemoteError> {
        Ok(self.lock()?.schema.len())
    }

    /// Reports whether a panic left it half-changed: its binding and its frame may disagree. All that can be done with
    /// it then is to drop it.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.is_poisoned()
    }

    /// Appends columns and returns the first of them.
    pub(crate) fn extend(&self, sets: &[LabelSet]) -> Result<ColumnId, RemoteError> {
        let mut state = self.lock()?;
        let first = ColumnId::at(state.schema.len());
        let mut edit = state.schema.edit();
        let family = edit.family(Family::default());
        for set in sets {
            edit.push(set, family);
        }
        state.adopt(edit.finish())?;
        Ok(first)
    }

    /// Retires columns and returns the number left.
    pub(crate) fn retire(&self, columns: &[ColumnId]) -> Result<usize, RemoteError> {
        let mut state = self.lock()?;
        let mut edit = state.schema.edit();
        for column in columns {
            edit.retire(*column);
        }
        state.adopt(edit.finish())?;
        Ok(state.schema.live())
    }

    /// Appends the samples of one instant to the sink.
    ///
    /// # Errors
    /// Fails if the sink does.
    pub(crate) fn append<'h>(
        &self,
        instant: Instant<
            '_,
            impl Iterator<Item = Sample<f64>>,
            impl Iterator<Item = Sample<&'h Arc<Histogram>>>,
        >,
    ) -> Result<Outcome, RemoteError> {
        let mut state = self.lock()?;
        let Instant {
            time_ms,
            count,
            floats,
            histograms,
            exemplars,
        } = instant;
        // The sink does not treat a frame that is not newer than the last row as a row, unless most columns share one
        // newer time.
        let is_row = !self.is_ungrouped() && count > 0 && state.rows.forms_row(time_ms, count);
        let frame_ms = if is_row {
            time_ms
        } else {
            state.rows.last_row_ms
        };
        state.restart(frame_ms);
        let mut outcome = Outcome::default();
        for sample in floats {
            if self.is_ungrouped() {
                outcome += state.flush_if_taken(sample.column)?;
            } else if let Some(same) = state.has(&sample) {
                outcome.accepted += u64::from(same);
                outcome.duplicate += u64::from(!same);
                continue;
            }
            state.frame.set(sample.column, sample.value);
            state.place(&sample);
        }
        for sample in histograms {
            if self.is_ungrouped() {
                outcome += state.flush_if_taken(sample.column)?;
            } else if state.taken.contains(sample.column.index()) {
                outcome.duplicate += 1;
                continue;
            }
            let histogram = Arc::clone(sample.value);
            state.frame.set_histogram(sample.column, histogram);
            state.place(&sample);
        }
        for (column, exemplar) in exemplars {
            state.frame.push_exemplar(*column, exemplar.clone());
        }
        outcome += state.append()?;
        Ok(outcome)
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>, RemoteError> {
        self.state.lock().map_err(|_broken| RemoteError::Panicked)
    }
}

impl State {
    fn adopt(&mut self, schema: Schema) -> Result<(), RemoteError> {
        self.binding.rebind(&schema)?;
        self.schema = schema;
        Ok(())
    }

    fn restart(&mut self, frame_ms: i64) {
        self.frame.restart(&self.schema, frame_ms);
        self.taken.resize(self.schema.len());
        self.taken.clear();
    }

    fn append(&mut self) -> Result<Outcome, RemoteError> {
        Ok(self.binding.append(&self.frame)?)
    }

    /// Appends the frame if it already holds something for this column.
    fn flush_if_taken(&mut self, column: ColumnId) -> Result<Outcome, RemoteError> {
        if !self.taken.contains(column.index()) {
            return Ok(Outcome::default());
        }
        let outcome = self.append()?;
        self.restart(self.frame.time_ms());
        Ok(outcome)
    }

    /// Reports whether the frame's value for a column equals the sample; `None` if it has no value.
    fn has(&self, sample: &Sample<f64>) -> Option<bool> {
        let at = sample.column.index();
        let same = || {
            if self.frame.present().contains(at) {
                self.frame.values()[at].to_bits() == cell::canonical(sample.value).to_bits()
            } else {
                cell::is_stale(sample.value)
            }
        };
        self.taken.contains(at).then(same)
    }

    /// Sets a sample's own time and start time where they differ from the frame's.
    fn place<V>(&mut self, sample: &Sample<V>) {
        self.taken.insert(sample.column.index());
        if self.frame.time_ms() != sample.time_ms {
            self.frame.set_time(sample.column, sample.time_ms);
        }
        if sample.start_ms != 0 {
            self.frame.set_start_time(sample.column, sample.start_ms);
        }
    }
}

impl Rows {
    /// Counts samples for an instant; reports whether they form its row.
    fn forms_row(&mut self, time_ms: i64, count: usize) -> bool {
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

impl std::fmt::Debug for SeriesGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SeriesGroup({})", self.common)
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
        assert!(rows.forms_row(10, 100));
        assert!(!rows.forms_row(10, 5), "the rest of a row");
        assert!(!rows.forms_row(20, 30), "less than half comes first");
        assert!(rows.forms_row(20, 75));
        assert!(rows.forms_row(30, 60));
        assert!(!rows.forms_row(15, 100), "late");
        assert!(rows.forms_row(40, 31), "half of what came the last time");
    }
}
