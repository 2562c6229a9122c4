//! An order of batches that depends on their labels alone, whatever holds their samples: flushes and restarts change
//! neither the order of results nor what depends on it, such as the last digits of sums.
//!
//! A hash of the labels decides rather than the labels themselves, whose comparison would take a third of an instant
//! query over a thousand targets. Strips keep it.

use narthex_model::{
    LabelSet,
    storage::{Batch, arrange},
};
use rapidhash::v3::rapidhash_v3;
use std::sync::Arc;

/// Returns a hash that is the same in every process, unlike the labels' own.
pub(crate) fn order_of(labels: &LabelSet) -> u64 {
    let texts = labels
        .iter()
        .flat_map(|label| [label.name(), label.value()]);
    texts.fold(0, |hash: u64, text| {
        hash.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ rapidhash_v3(text.as_bytes())
    })
}

/// Parts of a block's window whose strips lie together.
const PARTS: i64 = 16;

/// What decides the place of a strip in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripExtent {
    pub(crate) min_ms: i64,
    pub(crate) max_ms: i64,
    /// Number of columns, if need be an upper bound.
    pub(crate) width: usize,
}

impl StripExtent {
    /// Returns the key by which a block has its strips: when they began and ended, then how wide they are, because equally
    /// wide ones share pages, then the order in which batches are read. So a query over many strips finds what it reads
    /// next in the same page, and little in it of strips outside its range.
    pub(crate) fn place(self, common_order: u64, window_ms: i64) -> (i64, i64, usize, u64) {
        let part_ms = (window_ms / PARTS).max(1);
        let part = |time_ms: i64| time_ms.div_euclid(part_ms);
        (
            part(self.min_ms),
            part(self.max_ms),
            self.width,
            common_order,
        )
    }

    /// Returns the extent of both together.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            min_ms: self.min_ms.min(other.min_ms),
            max_ms: self.max_ms.max(other.max_ms),
            width: self.width.max(other.width),
        }
    }
}

/// Puts batches into the order.
pub(crate) fn sort(batches: &mut [Arc<dyn Batch>]) {
    let key = |batch: &Arc<dyn Batch>| match (batch.common_order(), batch.common()) {
        (Some(order), _) => order,
        (None, Some(common)) => order_of(common),
        (None, None) => order_of(&batch.labels(0)),
    };
    let mut keyed: Vec<(u64, usize)> = batches.iter().map(key).zip(0..).collect();
    keyed.sort_unstable();
    arrange(batches, keyed.iter().map(|(_, at)| *at).collect());
    let mut rest = batches;
    for equal in keyed.chunk_by(|a, b| a.0 == b.0) {
        let (batches, others) = rest.split_at_mut(equal.len());
        rest = others;
        if batches.len() == 1 {
            continue;
        }
        let of_one_origin =
            batches.chunk_by_mut(|a, b| a.common().is_some() && a.common() == b.common());
        for batches in of_one_origin.filter(|batches| batches.len() > 1) {
            batches.sort_by_cached_key(|batch| order_of(&batch.labels(0)));
        }
    }
}
