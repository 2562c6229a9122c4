//! Gaps in series: rows without a sample, and staleness markers.
//!
//! Series with gaps are made into series without: rows in which a series has nothing are left out, and windows are
//! numbered by the rows that remain, so that the kernels for gapless series apply. Targets that come and go leave the
//! same gaps in all their series: what follows from the gaps alone is computed once for neighbours that share them.
//!
//! **Invariant:** a window has the same floats with and without gaps.

use crate::functions::{rate, window::OverCall};
use narthex_model::cell;
use std::ops::Range;

/// The windows of consecutive steps.
pub(super) struct Windows<'a> {
    /// The first of the steps.
    pub(super) from: usize,
    /// Rows of each step's window, including those of its extension.
    pub(super) rows: &'a [Range<usize>],
    /// The end of each step's range.
    pub(super) ends_ms: &'a [i64],
}

/// A time axis with its windows, and what depends only on them.
#[derive(Debug, Default)]
pub(super) struct Grid {
    pub(super) times_ms: Vec<i64>,
    /// Rows of each step's window.
    pub(super) windows: Vec<Range<usize>>,
    pub(super) axis: Option<rate::Axis>,
}

impl Grid {
    /// Returns the grid of series with a float in every row; with an axis nothing else of it is needed.
    pub(super) fn gapless(call: &OverCall, times_ms: &[i64], windows: &Windows<'_>) -> Self {
        let axis = rate::Axis::new(call, times_ms, windows.rows, windows.ends_ms);
        if axis.is_some() {
            return Self {
                axis,
                ..Self::default()
            };
        }
        Self {
            times_ms: times_ms.to_vec(),
            windows: windows.rows.to_vec(),
            axis,
        }
    }
}

/// The grid of the last series with gaps, for all that have the same.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Whether there is a float, by row, 64 rows in a word.
    present: Vec<u64>,
    /// The same of the series being looked at.
    candidate: Vec<u64>,
    rows: Vec<usize>,
    grid: Grid,
    values: Vec<f64>,
}

impl Gaps {
    /// Returns a series' floats and their grid; `None` if it has none.
    pub(super) fn close<'a>(
        &'a mut self,
        call: &OverCall,
        times_ms: &[i64],
        windows: &Windows<'_>,
        cells: &'a [f64],
    ) -> Option<(&'a Grid, &'a [f64])> {
        mark(cells, cell::is_float, &mut self.candidate);
        if self.candidate != self.present {
            std::mem::swap(&mut self.candidate, &mut self.present);
            self.renew(call, times_ms, windows);
        }
        let (first, last) = (*self.rows.first()?, *self.rows.last()?);
        if last - first + 1 == self.rows.len() {
            // Targets that begin or end.
            return Some((&self.grid, &cells[first..=last]));
        }
        self.values.clear();
        self.values.extend(self.rows.iter().map(|row| cells[*row]));
        Some((&self.grid, &self.values))
    }

    /// Computes what follows from `present`.
    fn renew(&mut self, call: &OverCall, times_ms: &[i64], windows: &Windows<'_>) {
        let is_present = |row: &usize| self.present[row / 64] >> (row % 64) & 1 == 1;
        self.rows.clear();
        self.rows.extend((0..times_ms.len()).filter(is_present));
        let grid = &mut self.grid;
        grid.times_ms.clear();
        grid.times_ms
            .extend(self.rows.iter().map(|row| times_ms[*row]));
        // Windows ascend.
        let (mut from, mut to) = (0, 0);
        let before = |at: &mut usize, end: usize| {
            while self.rows.get(*at).is_some_and(|row| *row < end) {
                *at += 1;
            }
            *at
        };
        grid.windows.clear();
        grid.windows.extend(windows.rows.iter().map(|rows| {
            let from = before(&mut from, rows.start);
            from..before(&mut to, rows.end).max(from)
        }));
        grid.axis = rate::Axis::new(call, &grid.times_ms, &grid.windows, windows.ends_ms);
    }
}

/// The row of each step's newest sample, for all series with the same gaps.
#[derive(Debug, Default)]
pub(super) struct Newest {
    /// Whether there is no cell, and whether there is a staleness marker, by row; 64 rows in a word.
    absent: Vec<u64>,
    stale: Vec<u64>,
    /// The same of the series being looked at.
    candidate: (Vec<u64>, Vec<u64>),
    rows: Vec<usize>,
}

/// Stands for no row.
pub(super) const NO_ROW: usize = usize::MAX;

impl Newest {
    /// Returns, for each window, always the same ones, the row of a series' newest sample, or `NO_ROW` if it has none or has ended.
    pub(super) fn rows(&mut self, cells: &[f64], windows: &[Range<usize>]) -> &[usize] {
        let (absent, stale) = &mut self.candidate;
        mark(cells, cell::is_absent, absent);
        mark(cells, cell::is_stale, stale);
        if self.rows.len() != windows.len() || (&*absent, &*stale) != (&self.absent, &self.stale) {
            std::mem::swap(absent, &mut self.absent);
            std::mem::swap(stale, &mut self.stale);
            let is_set = |words: &[u64], row: usize| words[row / 64] >> (row % 64) & 1 == 1;
            let (mut newest, mut next) = (NO_ROW, 0);
            self.rows.clear();
            // Windows ascend.
            self.rows.extend(windows.iter().map(|window| {
                while next < window.end {
                    if !is_set(&self.absent, next) {
                        newest = next;
                    }
                    next += 1;
                }
                let found = window.contains(&newest) && !is_set(&self.stale, newest);
                if found { newest } else { NO_ROW }
            }));
        }
        &self.rows
    }
}

/// Sets the bits of the cells for which `holds`.
fn mark(cells: &[f64], holds: impl Fn(f64) -> bool, out: &mut Vec<u64>) {
    out.clear();
    out.extend(cells.chunks(64).map(|chunk| {
        let bits = chunk.iter().enumerate();
        bits.fold(0, |word, (at, x)| word | u64::from(holds(*x)) << at)
    }));
}

#[cfg(test)]
mod tests;
