//! Tiles: a matrix of cells, times × series.
//!
//! **Invariant:** `cells.len() == times_ms.len() * series`; times ascend strictly; facts are true of every cell.

use crate::{cell, histogram::Histogram};
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

/// Known facts about all cells of a tile; `true` may save a kernel a pass, `false` and `None` mean unknown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// Every cell is a float: none is absent, stale or a histogram.
    pub all_floats: bool,
    /// Every cell of the first rows, as many as this, is a float, and every later cell a staleness marker: the series
    /// ended together. `None` if that is not so, not known, or `all_floats` says more.
    pub ended_after: Option<usize>,
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
    /// Tiles of parts, kept from one read to the next.
    spare: Vec<Tile>,
}

/// Most cells of a tile that is kept for parts: they are not leased between reads.
const MOST_SPARE_CELLS: usize = 64 << 10;

impl Tile {
    /// Returns a tile for a part of what is read into this one, with the cells that were in it before.
    #[must_use]
    pub fn take_spare(&mut self) -> Self {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps a tile for parts of later reads, unless it is large.
    pub fn keep_spare(&mut self, mut tile: Self) {
        if tile.cells.capacity() <= MOST_SPARE_CELLS {
            // They may be large, and nobody counts them until the next read.
            tile.histograms.clear();
            self.spare.push(tile);
        }
    }

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
        self.fill(series, fill);
    }

    /// Resizes a tile that has its times and nothing else, and sets all cells to `fill`.
    pub fn fill(&mut self, series: usize, fill: f64) {
        self.series = series;
        self.cells.resize(self.times_ms.len() * series, fill);
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

    /// Returns in how many rows every cell is a float, if all later cells are known to be staleness markers.
    #[must_use]
    pub fn float_rows(&self) -> Option<usize> {
        if self.facts.all_floats {
            return Some(self.times_ms.len());
        }
        self.facts.ended_after
    }

    /// Recomputes the facts from the cells.
    pub fn establish_facts(&mut self) {
        let all_floats = self.cells.iter().all(|cell| cell::is_float(*cell));
        self.facts = Facts {
            all_floats,
            ended_after: if all_floats { None } else { self.ended_after() },
            no_histograms: self.histograms.is_empty(),
            no_decrease: false,
        };
    }

    /// Finds the row in which all series of a tile that is not all floats end.
    fn ended_after(&self) -> Option<usize> {
        let rows = self.times_ms.len();
        // Most tiles with gaps belong to series that have not ended.
        if !self.cells.last().is_some_and(|cell| cell::is_stale(*cell)) {
            return None;
        }
        let first = (0..rows).take_while(|row| cell::is_float(self.get(*row, 0)));
        let floats = first.count();
        let are_floats = |cells: &[f64]| {
            let all = cells.iter().map(|cell| cell::is_float(*cell));
            all.fold(true, |all, is| all & is)
        };
        let are_stale = |cells: &[f64]| cells.iter().all(|cell| cell::is_stale(*cell));
        let is_as_expected =
            |(floats, stale): (&[f64], &[f64])| are_floats(floats) && are_stale(stale);
        let ended = match self.layout {
            Layout::SeriesMajor => {
                let mut series = self.cells.chunks(rows).map(|cells| cells.split_at(floats));
                series.all(is_as_expected)
            }
            Layout::TimeMajor => is_as_expected(self.cells.split_at(floats * self.series)),
        };
        ended.then_some(floats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cell::{ABSENT, STALE};

    #[test]
    fn a_tile_knows_when_all_its_series_end() {
        let facts = |layout, series: [[f64; 3]; 2]| {
            let mut tile = Tile::default();
            tile.shape(layout, &[1, 2, 3], 2, ABSENT);
            for (at, cells) in series.iter().enumerate() {
                for (row, cell) in cells.iter().enumerate() {
                    let to = tile.at(row, at);
                    tile.cells[to] = *cell;
                }
            }
            tile.establish_facts();
            (tile.facts.all_floats, tile.float_rows())
        };
        let ended = [5.0, 6.0, STALE];
        for layout in [Layout::SeriesMajor, Layout::TimeMajor] {
            let of = |first, second| facts(layout, [first, second]);
            assert_eq!(of([1.0; 3], [2.0; 3]), (true, Some(3)));
            assert_eq!(of(ended, ended), (false, Some(2)));
            assert_eq!(of([STALE; 3], [STALE; 3]), (false, Some(0)));
            for other in [
                [5.0, STALE, STALE],
                [5.0, 6.0, ABSENT],
                [5.0, ABSENT, STALE],
                [STALE, 6.0, STALE],
                [5.0; 3],
            ] {
                assert_eq!(of(ended, other), (false, None), "{other:?}");
                assert_eq!(of(other, ended), (false, None), "{other:?}");
            }
        }
    }
}
