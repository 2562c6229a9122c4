//! A rule's results as an origin: a schema of the series it ever had, and a frame for each evaluation.
//!
//! **Invariant:** a series has one column from its first evaluation until the schema is rebuilt; `live` are the columns
//! of the last round that was stored. A round is begun, filled, finished, stored by the group, and noted as stored.

use narthex_model::{
    ColumnId, Family, Frame, LabelSet, Schema, SchemaEdit,
    bits::BitSet,
    storage::{Binding, BoundRound, Budget, Lease, OverBudget, Sink, StorageError},
};
use narthex_promql::SampleValue;
use std::{collections::HashMap, sync::Arc};

/// Bytes that a column costs here and in the sink, roughly.
const COLUMN_BYTES: u64 = 600;
/// Columns without a series below which the schema is never rebuilt.
const FEW_UNUSED: usize = 256;

/// The results of one rule.
pub(crate) struct Output {
    schema: Schema,
    /// The schema with the columns that this round added.
    edit: Option<SchemaEdit>,
    columns: HashMap<LabelSet, ColumnId>,
    frame: Frame,
    binding: Option<Box<dyn Binding>>,
    cells: Vec<(ColumnId, SampleValue)>,
    taken: BitSet,
    live: BitSet,
    /// What `live` becomes once the round is stored.
    present: BitSet,
    lease: Option<Lease>,
    /// How often the schema was rebuilt: columns of another generation mean nothing.
    generation: u64,
}

impl Output {
    /// Returns the output of a rule whose series all have the labels `common`.
    pub(crate) fn new(common: LabelSet) -> Self {
        let schema = Schema::new(common);
        Self {
            frame: Frame::new(schema.clone(), 0),
            schema,
            edit: None,
            columns: HashMap::new(),
            binding: None,
            cells: Vec::new(),
            taken: BitSet::new(0),
            live: BitSet::new(0),
            present: BitSet::new(0),
            lease: None,
            generation: 0,
        }
    }

    /// Begins a round.
    pub(crate) fn begin(&mut self) {
        self.cells.clear();
        self.taken.clear();
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the column of the series with the labels `local` beside the common ones.
    ///
    /// # Errors
    /// Fails when there is no memory for another series.
    pub(crate) fn column(
        &mut self,
        local: &LabelSet,
        memory: &Budget,
    ) -> Result<ColumnId, OverBudget> {
        if let Some(column) = self.columns.get(local) {
            return Ok(*column);
        }
        match &mut self.lease {
            Some(lease) => lease.grow(COLUMN_BYTES)?,
            none => *none = Some(memory.lease(COLUMN_BYTES)?),
        }
        let edit = self.edit.get_or_insert_with(|| self.schema.edit());
        let family = edit.family(Family::default());
        let column = edit.push(local, family);
        self.columns.insert(local.intern(), column);
        Ok(column)
    }

    /// Adds a sample to the round; returns `false` if its series already has one.
    pub(crate) fn add(&mut self, column: ColumnId, value: SampleValue) -> bool {
        if self.taken.len() <= column.index() {
            self.taken.resize((column.index() + 1).next_power_of_two());
        }
        if self.taken.contains(column.index()) {
            return false;
        }
        self.taken.insert(column.index());
        self.cells.push((column, value));
        true
    }

    /// Returns the number of samples in the round.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Completes the round with the end of every series that it lacks; returns whether there is anything to store.
    ///
    /// # Errors
    /// Fails when the sink does.
    pub(crate) fn finish(&mut self, sink: &dyn Sink, time_ms: i64) -> Result<bool, StorageError> {
        self.finish_edit();
        self.frame.restart(&self.schema, time_ms);
        if self.cells.is_empty() && self.live.count() == 0 {
            return Ok(false);
        }
        for (column, value) in self.cells.drain(..) {
            match value {
                SampleValue::Float(value) => self.frame.set(column, value),
                SampleValue::Histogram(mut histogram) => {
                    // Rules record float counts.
                    if histogram.integer_counts {
                        Arc::make_mut(&mut histogram).integer_counts = false;
                    }
                    self.frame.set_histogram(column, histogram);
                }
            }
        }
        self.present = self.frame.present().clone();
        self.frame.mark_absent(&self.live);
        self.bind(sink)?;
        Ok(true)
    }

    /// Returns the finished round; `None` without a binding.
    pub(crate) fn round(&mut self) -> Option<BoundRound<'_>> {
        let binding = self.binding.as_deref_mut()?;
        Some(BoundRound::new(binding, &self.frame))
    }

    /// Binds anew for the next round: a panic may have left the binding half-done.
    pub(crate) fn forget_binding(&mut self) {
        self.binding = None;
    }

    /// Goes on from the finished round, which is stored.
    pub(crate) fn note_stored(&mut self) {
        std::mem::swap(&mut self.live, &mut self.present);
        self.forget_unused();
    }

    /// Ends the live series except those that `is_reported` names, which another rule goes on with.
    ///
    /// # Errors
    /// Fails when the sink does.
    pub(crate) fn end(
        &mut self,
        sink: &dyn Sink,
        time_ms: i64,
        is_reported: &dyn Fn(&LabelSet) -> bool,
    ) -> Result<(), StorageError> {
        self.finish_edit();
        self.frame.restart(&self.schema, time_ms);
        let live = std::mem::replace(&mut self.live, BitSet::new(0));
        let mut any = false;
        for column in live.iter().map(ColumnId::at) {
            if !is_reported(&self.schema.labels(column)) {
                self.frame.mark_stale(column);
                any = true;
            }
        }
        if any {
            self.bind(sink)?;
            if let Some(BoundRound { binding, frame, .. }) = self.round() {
                binding.append(frame)?;
            }
        }
        Ok(())
    }

    /// Returns the number of series that the last round ended.
    pub(crate) fn ended(&self) -> u64 {
        self.frame.stale().len() as u64
    }

    /// Lists the live series.
    pub(crate) fn live(&self) -> impl Iterator<Item = LabelSet> + '_ {
        let columns = self.live.iter().map(ColumnId::at);
        columns.map(|column| self.schema.labels(column))
    }

    fn bind(&mut self, sink: &dyn Sink) -> Result<(), StorageError> {
        if self.binding.is_none() {
            self.binding = Some(sink.bind(&self.schema)?);
        }
        Ok(())
    }

    fn finish_edit(&mut self) {
        if let Some(edit) = self.edit.take() {
            self.schema = edit.finish();
        }
    }

    /// Begins another schema without the columns of series that are gone, once they are most of it.
    fn forget_unused(&mut self) {
        let (all, live) = (self.schema.len(), self.live.count());
        if all - live <= live.max(FEW_UNUSED) {
            return;
        }
        let mut edit = Schema::new(self.schema.common().clone()).edit();
        let family = edit.family(Family::default());
        self.columns.clear();
        for column in self.live.iter().map(ColumnId::at) {
            let set = &self.schema.column(column).set;
            self.columns.insert(set.clone(), edit.push(set, family));
        }
        self.schema = edit.finish();
        self.live = BitSet::new(live);
        self.live.fill();
        self.generation += 1;
        if let Some(lease) = &mut self.lease {
            lease.shrink((all - live) as u64 * COLUMN_BYTES);
        }
    }
}
