//! Values in blocks at the times of late samples, so that a second value is refused and counted.
//!
//! **Invariant:** the effort is bounded, for a write and for each late sample on average. Beyond it late samples are
//! stored unchecked; reads still return the block's value, because it came first.

use super::{Inner, blocks::range_of};
use crate::head::{out_of_order::Value, strip::Strip};
use crate::sync::Guarded as _;
use narthex_model::{
    LabelSet, Matcher,
    cell::Cell,
    storage::{Context, Hints, Layout, StorageError, Tile, TimeRange},
};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// Most late samples of one write that are looked up in blocks.
const LOOKUPS: usize = 32;
/// Effort of visiting a strip of a block; reading one row of a column is 1, some ten nanoseconds.
const STRIP_EFFORT: u64 = 32;
/// Effort that each late sample adds to what look-ups may take: less than storing it. A look-up reads a whole column,
/// so without this bound a long series sent again one sample at a time would take the square of its length.
const EARNED: i64 = 64;
/// Most effort saved for later look-ups, some tens of milliseconds.
const MOST_SAVED: i64 = 1 << 22;

/// Effort left for look-ups.
#[derive(Debug)]
pub(super) struct Effort(AtomicI64);

impl Default for Effort {
    fn default() -> Self {
        Self(AtomicI64::new(MOST_SAVED))
    }
}

impl Effort {
    fn earn(&self, samples: usize) {
        let more = EARNED.saturating_mul(i64::try_from(samples).unwrap_or(i64::MAX));
        self.change(|left| left.saturating_add(more).min(MOST_SAVED));
    }

    fn is_left(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// May exceed what is left; the debt is then earned before the next look-up.
    fn spend(&self, effort: u64) {
        let less = i64::try_from(effort).unwrap_or(i64::MAX);
        self.change(|left| left.saturating_sub(less));
    }

    fn change(&self, to: impl Fn(i64) -> i64) {
        // Infallible: the closure always returns a value.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(to(left)));
    }
}

impl Inner {
    /// Returns the time up to which blocks may have samples of `strip` that are no newer than `newest_ms`.
    ///
    /// Ignores samples that a fast clock left in the strip or in blocks: they begin after `newest_ms`.
    pub(super) fn flushed_until_ms(&self, strip: &Strip, newest_ms: i64) -> i64 {
        let flushed_ms = strip.flushed_max_ms();
        if let Some(flushed_ms) = flushed_ms.filter(|flushed_ms| *flushed_ms < newest_ms) {
            return flushed_ms;
        }
        let blocks = self.blocks.read().guarded();
        let begun = blocks.all().iter().map(|block| range_of(block));
        let begun = begun.filter(|range| range.min_ms <= newest_ms);
        let in_blocks_ms = begun.map(|range| range.max_ms).max().unwrap_or(i64::MIN);
        flushed_ms.map_or(in_blocks_ms, |flushed_ms| flushed_ms.min(in_blocks_ms))
    }

    /// Returns the values in blocks for the first few of the `count` that are `wanted`: key, series, time.
    pub(super) fn values_in_blocks<K>(
        &self,
        count: usize,
        wanted: impl Iterator<Item = (K, LabelSet, i64)>,
    ) -> Vec<(K, i64, Value)> {
        let mut found = Vec::new();
        self.late.earn(count);
        for (key, labels, time_ms) in wanted.take(LOOKUPS) {
            if !self.late.is_left() {
                break;
            }
            // Ignore a block that cannot be read; queries report the reason.
            if let Ok(Some(value)) = self.value_in_blocks(&labels, time_ms) {
                found.push((key, time_ms, value));
            }
        }
        found
    }

    fn value_in_blocks(
        &self,
        labels: &LabelSet,
        time_ms: i64,
    ) -> Result<Option<Value>, StorageError> {
        let instant = TimeRange::new(time_ms, time_ms);
        let blocks = self.blocks.read().guarded().overlapping(instant);
        let matchers: Vec<Matcher> = labels
            .iter()
            .map(|label| Matcher::equal(label.name(), label.value()))
            .collect();
        let ctx = Context::unlimited();
        let mut tile = Tile::default();
        for block in blocks {
            let strips = block.meta().strips;
            self.late.spend(strips.saturating_mul(STRIP_EFFORT));
            // Those of one series hardly come again.
            let found = block.find(&matchers, instant, false, &ctx)?;
            for batch in found.select(&ctx)?.batches(&Hints::default()) {
                let Some(at) = (0..batch.len()).find(|at| batch.identity(*at) == labels.hash())
                else {
                    continue;
                };
                self.late.spend(batch.rows(TimeRange::ALL) as u64);
                batch.read(&[at as u32], instant, Layout::SeriesMajor, &mut tile, &ctx)?;
                let value = tile
                    .cells
                    .first()
                    .and_then(|bits| match Cell::decode(*bits) {
                        Cell::Absent => None,
                        Cell::Histogram(at) => tile
                            .histograms
                            .get(at as usize)
                            .map(|h| Value::Histogram(Arc::clone(h))),
                        Cell::Stale | Cell::Float(_) => Some(Value::Cell(*bits)),
                    });
                if value.is_some() {
                    return Ok(value);
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Db, DbOptions, FaultyIo, ManualClock, Tuning, head::strip::Strip, wal::StripMark};
    use narthex_model::{
        LabelSet, METRIC_NAME,
        storage::{SeriesSample, Sink},
    };
    use std::sync::Arc;

    /// A block from a fast clock once made every round look up its samples in blocks.
    #[test]
    fn blocks_from_the_future_are_no_reason_to_look_up_what_comes_now() {
        let options = DbOptions {
            tuning: Tuning {
                future_limit_ms: None,
                ..Tuning::default()
            },
            ..DbOptions::new("/data")
        };
        let now_ms = 1_767_225_600_000;
        let clock = Arc::new(ManualClock::new(now_ms));
        let db = Db::open(Arc::new(FaultyIo::new()), options, clock).expect("a database");
        for time_ms in [now_ms - 60_000, now_ms + 86_400_000] {
            let labels = LabelSet::new([(METRIC_NAME, "m")]);
            let sample = SeriesSample::float(labels, time_ms, 1.0);
            db.append_samples(&[sample]).expect("appended");
        }
        db.flush().expect("flushed");
        let fresh = Strip::new(99, LabelSet::empty(), StripMark::default());
        assert_eq!(db.0.flushed_until_ms(&fresh, now_ms), now_ms - 60_000);
        let ahead = Strip::new(99, LabelSet::empty(), StripMark::default());
        ahead.set_flushed(StripMark::default(), now_ms + 86_400_000);
        assert_eq!(db.0.flushed_until_ms(&ahead, now_ms), now_ms - 60_000);
        // A writer ahead of time does find what is there.
        let late_ms = now_ms + 86_400_000;
        assert_eq!(db.0.flushed_until_ms(&fresh, late_ms), late_ms);
        assert_eq!(db.0.flushed_until_ms(&ahead, late_ms), late_ms);
    }
}
