//! What blocks have at the time of a late sample, so that a second value for it is refused and counted.
//!
//! **Invariant:** the effort per write is bounded. Beyond it late samples are stored unseen; reading still answers
//! with what the block has, because it came first.

use super::Inner;
use crate::head::{loose::Value, strip::Strip};
use narthex_model::{
    LabelSet, Matcher,
    cell::Cell,
    storage::{Context, Hints, Layout, StorageError, Tile, TimeRange},
};
use std::sync::{Arc, PoisonError};

/// Late samples of one write that are looked up in blocks.
const LOOKUPS: usize = 32;

impl Inner {
    /// Returns the time up to which blocks may have samples of `strip`.
    pub(super) fn flushed_until_ms(&self, strip: &Strip) -> i64 {
        strip.flushed_max_ms().unwrap_or_else(|| {
            let blocks = self.blocks.read().unwrap_or_else(PoisonError::into_inner);
            blocks.time_range().map_or(i64::MIN, |range| range.max_ms)
        })
    }

    /// Returns what blocks have of the first few of `wanted`: key, series, time.
    pub(super) fn values_in_blocks<K>(
        &self,
        wanted: impl Iterator<Item = (K, LabelSet, i64)>,
    ) -> Vec<(K, i64, Value)> {
        let mut found = Vec::new();
        for (key, labels, time_ms) in wanted.take(LOOKUPS) {
            // A block that cannot be read says nothing; queries will say why.
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
        let blocks = self
            .blocks
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .overlapping(instant);
        let matchers: Vec<Matcher> = labels
            .iter()
            .map(|label| Matcher::equal(label.name(), label.value()))
            .collect();
        let ctx = Context::unlimited();
        let mut tile = Tile::default();
        for block in blocks {
            for batch in block
                .select(&matchers, instant, &ctx)?
                .batches(&Hints::default())?
            {
                let Some(at) = (0..batch.len()).find(|at| batch.identity(*at) == labels.hash())
                else {
                    continue;
                };
                batch.read(&[at as u32], instant, Layout::SeriesMajor, &mut tile, &ctx)?;
                let value = tile.cells.first().and_then(|bits| match Cell::of(*bits) {
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
