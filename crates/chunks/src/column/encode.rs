//! The column encoder: picks the form, writes it.
//!
//! Invariant: buffers are scratch only; the bytes depend on the cells alone.

use narthex_model::Histogram;
use narthex_model::cell::{self, Cell};
use std::sync::Arc;

use super::floats::FloatEncoder;
use super::{histograms, states};

/// Encodes columns; reuses its buffers between columns.
#[derive(Debug, Default)]
pub struct ColumnEncoder {
    floats: Vec<f64>,
    encoder: FloatEncoder,
}

impl ColumnEncoder {
    /// Returns an encoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `cells` (one per row, markers included); a histogram cell is an index into `histograms`.
    ///
    /// # Panics
    /// Panics when a cell's index is beyond `histograms`.
    pub fn encode(&mut self, cells: &[f64], histograms: &[Arc<Histogram>], out: &mut Vec<u8>) {
        if cells.is_empty() {
            return;
        }
        if cells.iter().all(|c| cell::is_float(*c)) {
            return self.encoder.encode(cells, out);
        }
        let mut floats = std::mem::take(&mut self.floats);
        floats.clear();
        floats.extend(cells.iter().copied().filter(|c| cell::is_float(*c)));
        let of_rows = cells.iter().filter_map(|c| match Cell::decode(*c) {
            Cell::Histogram(index) => Some(&*histograms[index as usize]),
            _ => None,
        });
        states::encode(cells, !floats.is_empty(), out);
        histograms::put(&of_rows.collect::<Vec<_>>(), &mut self.encoder, out);
        if !floats.is_empty() {
            self.encoder.encode(&floats, out);
        }
        self.floats = floats;
    }
}
