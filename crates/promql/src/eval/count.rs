//! Counts of samples by step, as Prometheus counts them for `stats=all`.
//!
//! **Invariant:** a step counts what it would if it were a query of its own: whole windows, whatever earlier steps
//! read of them; a subquery counts what its inner query reads, not its results. `read` counts each sample once.

use super::{Eval, Sample, stored::StoredRows};
use crate::plan::Steps;
use narthex_model::{storage::Tile, sync::Whole as _};
use std::{
    ops::Range,
    sync::{Mutex, MutexGuard},
};

/// Counts of the steps that are evaluated.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepCounts {
    /// Samples that each step uses.
    pub(crate) used: Vec<u64>,
    /// Of these, samples that no step before it has read.
    pub(crate) read: Vec<u64>,
}

impl StepCounts {
    pub(crate) fn new(steps: Steps) -> Self {
        Self {
            used: vec![0; steps.count],
            read: vec![0; steps.count],
        }
    }

    fn add(&mut self, step: usize, used: u64, read: u64) {
        for (counts, more) in [(&mut self.used, used), (&mut self.read, read)] {
            if let Some(count) = counts.get_mut(step) {
                *count += more;
            }
        }
    }
}

/// The counts of a query, if they are asked for.
#[derive(Debug, Default)]
pub(crate) struct Counts(Option<Mutex<StepCounts>>);

impl Counts {
    pub(crate) fn new(is_on: bool, steps: Steps) -> Self {
        Self(is_on.then(|| Mutex::new(StepCounts::new(steps))))
    }

    /// Returns the counts.
    pub(crate) fn take_counts(&self) -> Option<StepCounts> {
        self.lock().map(|mut counts| std::mem::take(&mut *counts))
    }

    fn lock(&self) -> Option<MutexGuard<'_, StepCounts>> {
        self.0.as_ref().map(|counts| counts.lock().whole())
    }
}

impl Eval<'_> {
    /// Counts the samples that instant selectors found.
    pub(super) fn count_rows(&self, rows: &StoredRows) {
        let Some(mut counts) = self.counts.lock() else {
            return;
        };
        for row in 0..rows.len() {
            for (column, cell) in rows.row(row).iter().enumerate() {
                let samples = Sample::of(*cell, &rows.histograms).weight();
                counts.add(rows.from + column, samples, samples);
            }
        }
    }

    /// Counts the samples of windows over a tile, one window for each step.
    pub(super) fn count_windows(&self, tile: &Tile, windows: &[Range<usize>]) {
        let Some(mut counts) = self.counts.lock() else {
            return;
        };
        let mut before = Vec::with_capacity(tile.times_ms.len() + 1);
        for series in 0..tile.series {
            before.clear();
            let mut sum = 0;
            before.push(sum);
            for cell in tile.series_cells(series) {
                sum += Sample::of(*cell, &tile.histograms).weight();
                before.push(sum);
            }
            let within = |rows: Range<usize>| match (before.get(rows.end), before.get(rows.start)) {
                (Some(to), Some(from)) => to.saturating_sub(*from),
                _ => 0,
            };
            let mut seen = 0;
            for (step, rows) in windows.iter().enumerate() {
                let fresh = rows.start.max(seen)..rows.end.max(seen);
                counts.add(step, within(rows.clone()), within(fresh));
                seen = seen.max(rows.end);
            }
        }
    }

    /// Counts samples at the first step.
    pub(super) fn count_first(&self, samples: u64) {
        if let Some(mut counts) = self.counts.lock() {
            counts.add(0, samples, samples);
        }
    }

    /// Runs `work`, which evaluates something at other steps, and returns their counts.
    pub(super) fn counted_apart<T>(
        &self,
        steps: Steps,
        work: impl FnOnce() -> T,
    ) -> (T, Option<StepCounts>) {
        let swap = |new: StepCounts| {
            self.counts
                .lock()
                .map(|mut all| std::mem::replace(&mut *all, new))
        };
        let Some(outer) = swap(StepCounts::new(steps)) else {
            return (work(), None);
        };
        let result = work();
        (result, swap(outer))
    }

    /// Adds the counts of what is evaluated once for all of `steps`.
    pub(super) fn count_once(&self, once: Option<StepCounts>, steps: Steps) {
        let (Some(once), Some(mut counts)) = (once, self.counts.lock()) else {
            return;
        };
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        let (used, read) = (sum(&once.used), sum(&once.read));
        for step in 0..steps.count {
            counts.add(step, used, if step == 0 { read } else { 0 });
        }
    }

    /// Adds the counts of a subquery, of whose steps each step uses a window.
    pub(super) fn count_subquery(&self, inner: Option<StepCounts>, windows: &[Range<usize>]) {
        let (Some(inner), Some(mut counts)) = (inner, self.counts.lock()) else {
            return;
        };
        let sum = |counts: &[u64], rows: Range<usize>| -> u64 {
            counts.get(rows).map_or(0, |counts| counts.iter().sum())
        };
        let mut seen = 0;
        for (step, rows) in windows.iter().enumerate() {
            let fresh = rows.start.max(seen)..rows.end.max(seen);
            let used = sum(&inner.used, rows.clone());
            counts.add(step, used, sum(&inner.read, fresh));
            seen = seen.max(rows.end);
        }
    }
}
