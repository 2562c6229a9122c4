//! Frames: one round of one origin.
//!
//! **Invariant:** `values` and the presence bits have one entry for each slot of the schema; a column is never both
//! present and stale; a present cell never has a marker's bits, except those of a histogram cell.

use crate::{
    bits::BitSet,
    cell::{self, Cell},
    histogram::Histogram,
    labels::LabelSet,
    schema::{ColumnId, Schema},
};
use std::sync::Arc;

/// A sample observation with its own labels, usually a trace id.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar {
    /// The exemplar's own labels, such as `trace_id`.
    pub labels: LabelSet,
    /// The observed value.
    pub value: f64,
    /// Time of the observation, or `None` for the sample's own time; a store may drop a repetition of such an
    /// exemplar.
    pub time_ms: Option<i64>,
}

/// One round of numbers for a schema.
///
/// Built for reuse: `restart` keeps every allocation.
#[derive(Clone, Debug)]
pub struct Frame {
    schema: Schema,
    time_ms: i64,
    values: Vec<f64>,
    present: BitSet,
    stale: Vec<ColumnId>,
    histograms: Vec<Arc<Histogram>>,
    times_ms: Vec<i64>,
    /// Bounds of `time_ms` and all of `times_ms`.
    oldest_ms: i64,
    newest_ms: i64,
    exemplars: Vec<(ColumnId, Exemplar)>,
    start_times_ms: Vec<(ColumnId, i64)>,
}

impl Frame {
    /// Returns a frame without samples.
    #[must_use]
    pub fn new(schema: Schema, time_ms: i64) -> Self {
        let len = schema.len();
        Self {
            schema,
            time_ms,
            values: vec![0.0; len],
            present: BitSet::new(len),
            stale: Vec::new(),
            histograms: Vec::new(),
            times_ms: Vec::new(),
            oldest_ms: time_ms,
            newest_ms: time_ms,
            exemplars: Vec::new(),
            start_times_ms: Vec::new(),
        }
    }

    /// Empties the frame for the next round, keeping its memory; `schema` may be another version or lineage.
    pub fn restart(&mut self, schema: &Schema, time_ms: i64) {
        if !self.schema.same(schema) {
            self.schema = schema.clone();
        }
        self.time_ms = time_ms;
        (self.oldest_ms, self.newest_ms) = (time_ms, time_ms);
        self.values.resize(schema.len(), 0.0);
        self.present.resize(schema.len());
        self.present.clear();
        self.stale.clear();
        self.histograms.clear();
        self.times_ms.clear();
        self.exemplars.clear();
        self.start_times_ms.clear();
    }

    /// Sets a float sample; reserved bits become the ordinary NaN, a staleness marker becomes a stale event.
    pub fn set(&mut self, column: ColumnId, value: f64) {
        if cell::is_stale(value) {
            self.mark_stale(column);
            return;
        }
        self.values[column.index()] = cell::canonical(value);
        self.present.insert(column.index());
    }

    /// Sets a native histogram sample.
    pub fn set_histogram(&mut self, column: ColumnId, histogram: Arc<Histogram>) {
        self.values[column.index()] = cell::push_histogram(&mut self.histograms, histogram);
        self.present.insert(column.index());
    }

    /// Sets what `from` has in its column `column`: a float or a native histogram.
    pub fn set_from(&mut self, to: ColumnId, from: &Self, column: ColumnId) {
        let value = from.values[column.index()];
        match Cell::decode(value) {
            Cell::Histogram(at) => self.set_histogram(to, from.histograms[at as usize].clone()),
            _ => self.set(to, value),
        }
    }

    /// Ends the series of `column` at this frame's time.
    pub fn mark_stale(&mut self, column: ColumnId) {
        self.present.remove(column.index());
        self.stale.push(column);
    }

    /// Ends the series of those columns of `before` that have no sample.
    pub fn mark_absent(&mut self, before: &BitSet) {
        let absent = before.difference(&self.present);
        self.stale.extend(absent.map(ColumnId::at));
    }

    /// Gives one sample its own time; the others keep the frame's.
    pub fn set_time(&mut self, column: ColumnId, time_ms: i64) {
        if self.times_ms.is_empty() {
            self.times_ms.resize(self.values.len(), self.time_ms);
        }
        self.times_ms[column.index()] = time_ms;
        self.oldest_ms = self.oldest_ms.min(time_ms);
        self.newest_ms = self.newest_ms.max(time_ms);
    }

    /// Attaches an exemplar to a sample.
    pub fn push_exemplar(&mut self, column: ColumnId, exemplar: Exemplar) {
        self.exemplars.push((column, exemplar));
    }

    /// Records when the counter of `column` started.
    pub fn set_start_time(&mut self, column: ColumnId, time_ms: i64) {
        self.start_times_ms.push((column, time_ms));
    }

    /// Forgets when counters started.
    pub fn forget_start_times(&mut self) {
        self.start_times_ms.clear();
    }

    /// Returns all cells and presence bits at once, for sources that write in place.
    ///
    /// The caller keeps the invariant: present floats pass through `cell::canonical` and are not staleness markers.
    pub fn cells_mut(&mut self) -> (&mut [f64], &mut BitSet) {
        (&mut self.values, &mut self.present)
    }

    /// Returns the schema the cells belong to.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the time of the round.
    #[must_use]
    pub fn time_ms(&self) -> i64 {
        self.time_ms
    }

    /// Returns one cell for each slot; a cell is valid only where `present` has its bit set.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns which slots have a sample.
    #[must_use]
    pub fn present(&self) -> &BitSet {
        &self.present
    }

    /// Returns the columns whose series end at this time.
    #[must_use]
    pub fn stale(&self) -> &[ColumnId] {
        &self.stale
    }

    /// Returns the histograms that histogram cells refer to.
    #[must_use]
    pub fn histograms(&self) -> &[Arc<Histogram>] {
        &self.histograms
    }

    /// Returns the samples' own times, one for each slot, or an empty slice when all use the frame's.
    #[must_use]
    pub fn times_ms(&self) -> &[i64] {
        &self.times_ms
    }

    /// Returns the time of the sample in `column`.
    #[must_use]
    pub fn time_of(&self, column: ColumnId) -> i64 {
        self.times_ms
            .get(column.index())
            .copied()
            .unwrap_or(self.time_ms)
    }

    /// Returns bounds of the frame's time and all its samples' own times, oldest first.
    ///
    /// Unlike [`Self::times_ms`], it costs nothing for the slots of a wide schema that have no sample.
    #[must_use]
    pub fn time_bounds_ms(&self) -> (i64, i64) {
        (self.oldest_ms, self.newest_ms)
    }

    /// Returns the exemplars in the order they were attached.
    #[must_use]
    pub fn exemplars(&self) -> &[(ColumnId, Exemplar)] {
        &self.exemplars
    }

    /// Returns the recorded start times.
    #[must_use]
    pub fn start_times_ms(&self) -> &[(ColumnId, i64)] {
        &self.start_times_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;

    #[test]
    fn bounds_cover_every_sample_of_the_round_alone() {
        let mut edit = Schema::new(LabelSet::empty()).edit();
        let family = edit.family(Family::default());
        let columns = ["a", "b"].map(|name| edit.push(&LabelSet::new([("name", name)]), family));
        let schema = edit.finish();
        let mut frame = Frame::new(schema.clone(), 100);
        assert_eq!(frame.time_bounds_ms(), (100, 100));
        frame.set_time(columns[1], 130);
        frame.set_time(columns[0], 70);
        assert_eq!(frame.time_bounds_ms(), (70, 130));
        frame.restart(&schema, 200);
        assert_eq!(frame.time_bounds_ms(), (200, 200));
    }
}
