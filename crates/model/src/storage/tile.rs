//! Tiles: a matrix of cells, times × series.
//!
//! **Invariant:** `cells.len() == times_ms.len() * series`; times ascend strictly; facts are true of every cell.

use crate::histogram::Histogram;
use std::sync::Arc;

/// Memory order of a tile's cells.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Layout {
    /// One series after the other: `cells[series * times + time]`.
    #[default]
    SeriesMajor,
    /// One instant after the other: `cells[time * series_count + series]`.
    TimeMajor,
}

/// Known facts about all cells of a tile; `true` may save a kernel a pass, `false` means unknown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// Every cell is a float: none is absent, stale or a histogram.
    pub all_floats: bool,
    /// No cell is a histogram.
    pub no_histograms: bool,
    /// No series ever decreases.
    pub no_decrease: bool,
}

/// Decoded cells of some series of a batch; owned and reused by the caller.
#[derive(Clone, Debug, Default)]
pub struct Tile {
    /// Memory order of the cells.
    pub layout: Layout,
    /// The shared time axis, strictly ascending.
    pub times_ms: Vec<i64>,
    /// Number of series.
    pub series: usize,
    /// The cells; see [`crate::cell`].
    pub cells: Vec<f64>,
    /// The histograms that histogram cells refer to.
    pub histograms: Vec<Arc<Histogram>>,
    /// Start time of the counter behind each cell, in the layout of `cells`, 0 if unknown; empty unless requested.
    pub start_times_ms: Vec<i64>,
    /// Known facts about all cells.
    pub facts: Facts,
}

impl Tile {
    /// Empties the tile, keeping its memory.
    pub fn clear(&mut self, layout: Layout) {
        self.layout = layout;
        self.times_ms.clear();
        self.series = 0;
        self.cells.clear();
        self.histograms.clear();
        self.start_times_ms.clear();
        self.facts = Facts::default();
    }

    /// Resizes an empty tile and sets all cells to `fill`.
    pub fn shape(&mut self, layout: Layout, times_ms: &[i64], series: usize, fill: f64) {
        self.clear(layout);
        self.times_ms.extend_from_slice(times_ms);
        self.series = series;
        self.cells.resize(times_ms.len() * series, fill);
    }

    /// Returns the index of a cell.
    #[must_use]
    #[inline]
    pub fn at(&self, time: usize, series: usize) -> usize {
        match self.layout {
            Layout::SeriesMajor => series * self.times_ms.len() + time,
            Layout::TimeMajor => time * self.series + series,
        }
    }

    /// Returns a cell.
    #[must_use]
    #[inline]
    pub fn get(&self, time: usize, series: usize) -> f64 {
        self.cells[self.at(time, series)]
    }

    /// Returns all cells of one series of a series-major tile.
    #[must_use]
    pub fn series_cells(&self, series: usize) -> &[f64] {
        debug_assert_eq!(self.layout, Layout::SeriesMajor);
        &self.cells[series * self.times_ms.len()..(series + 1) * self.times_ms.len()]
    }

    /// Returns the cells of one instant of a time-major tile.
    #[must_use]
    pub fn row(&self, time: usize) -> &[f64] {
        debug_assert_eq!(self.layout, Layout::TimeMajor);
        &self.cells[time * self.series..(time + 1) * self.series]
    }

    /// Recomputes the facts from the cells.
    pub fn establish_facts(&mut self) {
        self.facts = Facts {
            all_floats: self.cells.iter().all(|cell| crate::cell::is_float(*cell)),
            no_histograms: self.histograms.is_empty(),
            no_decrease: false,
        };
    }
}
