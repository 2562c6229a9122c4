//! Builds blocks row by row, keyed by labels.
//!
//! **Invariant:** at most one row has a given label set; two samples for one row and step are an error.

use super::{Block, Memory, Meter, Outcome, Series, Value};
use crate::error::QueryError;
use narthex_model::{LabelHash, cell};
use std::collections::{HashMap, HashSet};

/// Rows by their labels.
pub(super) struct Rows {
    block: Block,
    by_labels: HashMap<LabelHash, usize, foldhash::fast::RandomState>,
    meter: Meter,
}

impl Rows {
    pub(super) fn new(steps: usize, memory: &Memory) -> Self {
        Self {
            block: Block::new(steps),
            by_labels: HashMap::default(),
            meter: Meter::new(memory),
        }
    }

    /// Returns the row of `series`, creating it if necessary.
    pub(super) fn row(&mut self, series: &Series) -> Outcome<usize> {
        let hash = series.hash();
        if let Some(row) = self.by_labels.get(&hash) {
            return Ok(*row);
        }
        // Vectors grow by doubling, hence the factor of 2.
        let bytes = 2 * self.block.steps * size_of::<f64>() + series.heap_bytes();
        self.meter.add(bytes)?;
        let row = self.block.add_row(series.clone());
        self.by_labels.insert(hash, row);
        Ok(row)
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.block.len()
    }

    /// Stores a sample.
    pub(super) fn store(&mut self, row: usize, step: usize, value: Value) -> Outcome<()> {
        if !cell::is_absent(self.block.row(row)[step]) {
            return Err(same_labels());
        }
        self.block.set(row, step, value);
        Ok(())
    }

    /// Counts one more sample.
    pub(super) fn count(&mut self, row: usize, step: usize) {
        let cell = &mut self.block.row_mut(row)[step];
        *cell = if cell::is_absent(*cell) {
            1.0
        } else {
            *cell + 1.0
        };
    }

    /// Takes memory for a label of a future row.
    pub(super) fn add_label(&mut self, bytes: usize) -> Outcome<()> {
        self.meter.add_label(bytes)
    }

    pub(super) fn finish(mut self) -> Block {
        // Charging the finished block replaces this hold, except for newly created labels.
        self.block.hold = self.meter.finish();
        self.block
    }
}

pub(crate) fn same_labels() -> QueryError {
    QueryError::Execution("vector cannot contain metrics with the same labelset".to_owned())
}

/// Merges rows with equal labels; fails where both have a sample at one step.
pub(crate) fn merge_equal(mut block: Block) -> Outcome<Block> {
    let mut first: HashMap<LabelHash, usize, foldhash::fast::RandomState> = HashMap::default();
    first.reserve(block.len());
    let mut keep = vec![true; block.len()];
    for (row, kept) in keep.iter_mut().enumerate() {
        let target = *first.entry(block.series[row].hash()).or_insert(row);
        if target == row {
            continue;
        }
        *kept = false;
        for step in 0..block.steps {
            let value = block.row(row)[step];
            if cell::is_absent(value) {
                continue;
            }
            let to = &mut block.row_mut(target)[step];
            // Prometheus lets a float and a histogram meet here; but a series cannot have both at once.
            if !cell::is_absent(*to) {
                return Err(same_labels());
            }
            *to = value;
        }
    }
    if keep.contains(&false) {
        block.keep_rows(&keep);
        block.dense = false;
    }
    Ok(block)
}

/// Fails when two rows have equal labels, whatever their samples.
pub(super) fn refuse_equal(block: &Block) -> Outcome<()> {
    let mut seen: HashSet<LabelHash, foldhash::fast::RandomState> = HashSet::default();
    seen.reserve(block.len());
    if block.series.iter().all(|s| seen.insert(s.hash())) {
        Ok(())
    } else {
        Err(same_labels())
    }
}
