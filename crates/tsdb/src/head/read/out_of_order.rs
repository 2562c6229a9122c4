//! One series of the out-of-order buffer as a batch.
//!
//! **Invariant:** only samples that arrived within the view's bounds are read, never later ones.

use super::Strip;
use crate::head::out_of_order::Value;
use narthex_model::{
    LabelHash, LabelSet, cell,
    storage::{Batch, Context, Grouping, Layout, StorageError, Tile, TimeRange, group_key_of},
};
use std::{borrow::Cow, sync::Arc};

/// The out-of-order samples of one series.
pub(super) struct OutOfOrderBatch {
    strip: Arc<Strip>,
    local: LabelSet,
    column: u32,
    /// Places in the order of arrival: from inclusive, to exclusive.
    places: (u64, u64),
    start_times: bool,
}

impl OutOfOrderBatch {
    pub(super) fn new(
        strip: Arc<Strip>,
        local: LabelSet,
        column: u32,
        places: (u64, u64),
        start_times: bool,
    ) -> Self {
        Self {
            strip,
            local,
            column,
            places,
            start_times,
        }
    }

    fn visit(&self, range: TimeRange, mut visit: impl FnMut(i64, Value, i64)) {
        let state = self.strip.lock();
        let (from, to) = self.places;
        state
            .out_of_order
            .visit(self.column, from, to, |time_ms, value, start_ms| {
                if range.contains(time_ms) {
                    visit(time_ms, value, start_ms);
                }
            });
    }
}

impl Batch for OutOfOrderBatch {
    fn len(&self) -> usize {
        1
    }

    fn labels(&self, _: usize) -> LabelSet {
        self.strip.common.union(&self.local)
    }

    fn common(&self) -> Option<&LabelSet> {
        Some(&self.strip.common)
    }

    fn label(&self, _: usize, name: &str) -> Option<Cow<'_, str>> {
        self.local
            .get(name)
            .or_else(|| self.strip.common.get(name))
            .map(Cow::Borrowed)
    }

    fn identity(&self, _: usize) -> LabelHash {
        self.strip.common.hash() + self.local.hash()
    }

    fn group_key(&self, _: usize, grouping: &Grouping) -> LabelHash {
        group_key_of([&self.local, &self.strip.common], grouping)
    }

    fn time_range(&self) -> TimeRange {
        let mut range: Option<TimeRange> = None;
        self.visit(TimeRange::ALL, |time_ms, _, _| {
            let instant = TimeRange::new(time_ms, time_ms);
            range = Some(range.map_or(instant, |range| range.hull(instant)));
        });
        range.unwrap_or(TimeRange::new(0, -1))
    }

    fn rows(&self, range: TimeRange) -> usize {
        let mut rows = 0;
        self.visit(range, |_, _, _| rows += 1);
        rows
    }

    fn read(
        &self,
        series: &[u32],
        range: TimeRange,
        layout: Layout,
        tile: &mut Tile,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        ctx.stop.check()?;
        let mut samples = Vec::new();
        self.visit(range, |time_ms, value, start_ms| {
            samples.push((time_ms, value, start_ms));
        });
        let times_ms: Vec<i64> = samples.iter().map(|sample| sample.0).collect();
        tile.shape(layout, &times_ms, series.len(), cell::ABSENT);
        if self.start_times {
            tile.start_times_ms.resize(tile.cells.len(), 0);
        }
        for (row, (_, value, start_ms)) in samples.into_iter().enumerate() {
            let bits = match value {
                Value::Cell(bits) => bits,
                Value::Histogram(histogram) => {
                    cell::push_histogram(&mut tile.histograms, histogram)
                }
            };
            for at in 0..series.len() {
                let to = tile.at(row, at);
                tile.cells[to] = bits;
                if self.start_times {
                    tile.start_times_ms[to] = start_ms;
                }
            }
        }
        tile.establish_facts();
        Ok(())
    }
}
