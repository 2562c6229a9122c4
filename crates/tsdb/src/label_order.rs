//! An order of batches that depends on their labels alone, whatever holds their samples: flushes and restarts change
//! neither the order of results nor what depends on it, such as the last digits of sums.
//!
//! A hash of the labels decides rather than the labels themselves, whose comparison would take a third of an instant
//! query over a thousand targets. Strips keep it.

use narthex_model::{LabelSet, storage::Batch};
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

/// Puts batches into the order.
pub(crate) fn sort(batches: &mut [Arc<dyn Batch>]) {
    batches.sort_by_cached_key(|batch| match (batch.common_order(), batch.common()) {
        (Some(order), _) => order,
        (None, Some(common)) => order_of(common),
        (None, None) => order_of(&batch.labels(0)),
    });
    let of_one_origin =
        batches.chunk_by_mut(|a, b| a.common().is_some() && a.common() == b.common());
    for batches in of_one_origin.filter(|batches| batches.len() > 1) {
        batches.sort_by_cached_key(|batch| order_of(&batch.labels(0)));
    }
}
