//! One frame's samples in the strip's columns, in memory reused for the next frame.
//!
//! **Invariant:** a column is at most one of present, stale or a histogram; columns of out-of-order samples are none of
//! these.

use crate::head::out_of_order::{OutOfOrderSample, Value};
use narthex_model::{ColumnId, Histogram, bits::BitSet, cell};
use std::sync::Arc;

/// Memory that one binding reuses for every frame.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(super) values: Vec<f64>,
    pub(super) present: Vec<u64>,
    pub(super) stale: Vec<u32>,
    pub(super) histograms: Vec<(u32, Arc<Histogram>)>,
    /// Columns that are stale or have a histogram in this row; checked for every sample.
    taken: Vec<u64>,
    pub(super) out_of_order: Vec<OutOfOrderSample>,
    /// Columns with an out-of-order sample.
    has_out_of_order: Vec<u64>,
    /// By the frame's slots: samples newer than all out-of-order ones of their column.
    newer: Vec<u64>,
}

/// One row in the strip's columns.
#[derive(Clone, Copy)]
pub(super) struct RowParts<'a> {
    pub(super) time_ms: i64,
    pub(super) values: &'a [f64],
    /// `None` when all are present.
    pub(super) present: Option<&'a [u64]>,
    pub(super) stale: &'a [u32],
    pub(super) histograms: &'a [(u32, Arc<Histogram>)],
}

impl<'a> RowParts<'a> {
    /// Returns a row of only floats and ends.
    pub(super) fn plain(
        time_ms: i64,
        values: &'a [f64],
        present: Option<&'a [u64]>,
        stale: &'a [u32],
    ) -> Self {
        Self {
            time_ms,
            values,
            present,
            stale,
            histograms: &[],
        }
    }

    /// Reports whether all `columns` of the strip are stale in this row.
    pub(super) fn ends_all(&self, columns: usize) -> bool {
        // A frame may say twice that a column is stale.
        let different = self.stale.chunk_by(|one, next| one == next);
        self.stale.len() >= columns && different.count() == columns
    }
}

impl Scratch {
    /// Adds stale columns; reports whether all are absent, so that they can be used with a row as they are.
    pub(super) fn take_stale(&mut self, stale: &[ColumnId], present: &BitSet) -> bool {
        self.stale.clear();
        self.stale.extend(stale.iter().map(|column| column.0));
        self.stale.sort_unstable();
        self.stale.dedup();
        !stale.iter().any(|column| present.contains(column.index()))
    }

    /// Returns the number of samples of the last frame outside the row.
    pub(crate) fn out_of_order(&self) -> u64 {
        self.out_of_order.len() as u64
    }

    pub(super) fn restart(&mut self, columns: usize) {
        self.values.clear();
        self.values.resize(columns, 0.0);
        self.present.clear();
        self.present.resize(columns.div_ceil(64), 0);
        self.stale.clear();
        self.histograms.clear();
        self.taken.clear();
        self.taken.resize(columns.div_ceil(64), 0);
        self.out_of_order.clear();
        self.has_out_of_order.clear();
        self.has_out_of_order.resize(columns.div_ceil(64), 0);
    }

    /// Looks up the out-of-order buffer for all samples of a frame together, so that the cache misses overlap.
    pub(super) fn look_ahead(&mut self, slots: usize, newer: impl Iterator<Item = (usize, bool)>) {
        self.newer.clear();
        self.newer.resize(slots.div_ceil(64), 0);
        for (slot, newer) in newer {
            self.newer[slot / 64] |= u64::from(newer) << (slot % 64);
        }
    }

    /// Reports the result of `look_ahead` for a slot.
    pub(super) fn is_newer(&self, slot: usize) -> bool {
        self.newer[slot / 64] >> (slot % 64) & 1 == 1
    }

    /// Adds a sample without a row.
    pub(super) fn add_out_of_order(&mut self, sample: OutOfOrderSample) {
        let at = sample.column as usize;
        self.has_out_of_order[at / 64] |= 1 << (at % 64);
        self.out_of_order.push(sample);
    }

    pub(super) fn join(&mut self, column: u32, value: Value) {
        let at = column as usize;
        if !matches!(value, Value::Cell(value) if !cell::is_stale(value)) {
            self.taken[at / 64] |= 1 << (at % 64);
        }
        match value {
            Value::Histogram(histogram) => self.histograms.push((column, histogram)),
            Value::Cell(value) if cell::is_stale(value) => self.stale.push(column),
            Value::Cell(value) => {
                self.values[at] = value;
                self.present[at / 64] |= 1 << (at % 64);
            }
        }
    }

    /// Returns the value that the frame itself already gave for a column and time.
    pub(super) fn value_at(&self, column: u32, time_ms: i64, joins: bool) -> Option<Value> {
        let at = column as usize;
        if !joins {
            // Few columns have two out-of-order samples.
            if self.has_out_of_order[at / 64] >> (at % 64) & 1 == 0 {
                return None;
            }
            let same =
                |sample: &&OutOfOrderSample| sample.column == column && sample.time_ms == time_ms;
            return self
                .out_of_order
                .iter()
                .find(same)
                .map(|sample| sample.value.clone());
        }
        if self.present[at / 64] >> (at % 64) & 1 == 1 {
            return Some(Value::Cell(self.values[at]));
        }
        if self.taken[at / 64] >> (at % 64) & 1 == 0 {
            return None;
        }
        if self.stale.contains(&column) {
            return Some(Value::Cell(cell::STALE));
        }
        let (_, histogram) = self.histograms.iter().find(|(other, _)| *other == column)?;
        Some(Value::Histogram(Arc::clone(histogram)))
    }

    pub(super) fn row(&self, time_ms: i64) -> Option<RowParts<'_>> {
        let empty = self.stale.is_empty()
            && self.histograms.is_empty()
            && self.present.iter().all(|word| *word == 0);
        (!empty).then_some(RowParts {
            time_ms,
            values: &self.values,
            present: Some(&self.present),
            stale: &self.stale,
            histograms: &self.histograms,
        })
    }
}
