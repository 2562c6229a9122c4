//! Makes every identity occur once: merges head, blocks, out-of-order samples and shared series.
//!
//! **Invariant:** the result depends only on the order of the given batches and of the series in them; on equal
//! times the cell of the earlier batch wins.

use super::{
    Batch, Stop, StopReason,
    merged_batch::{Layer, MergedBatch},
};
use crate::labels::LabelHash;
use std::{collections::HashMap, sync::Arc};

/// Returns batches over the same samples in which every identity occurs exactly once.
///
/// Where two batches have a sample of one series at the same time, the earlier batch wins. Batches whose series occur
/// nowhere else pass through untouched; series that occur in the same set of batches stay together in one merged
/// batch.
///
/// # Errors
/// Fails when stopped.
pub fn unify(batches: Vec<Arc<dyn Batch>>, stop: &Stop) -> Result<Vec<Arc<dyn Batch>>, StopReason> {
    if batches.len() < 2 {
        return Ok(batches);
    }
    let occurrences = occurrences(&batches, stop)?;
    let total: usize = batches.iter().map(|batch| batch.len()).sum();
    if occurrences.len() == total {
        return Ok(batches);
    }
    let mut pace = stop.pace();
    let mut place_of: HashMap<Vec<u32>, usize> = HashMap::new();
    let mut merged: Vec<Merged> = Vec::new();
    for places in &occurrences {
        pace.spend(SERIES_WORK)?;
        let sources: Vec<u32> = places.iter().map(|place| place.batch).collect();
        let at = *place_of.entry(sources).or_insert_with_key(|sources| {
            merged.push(Merged::over(sources, &batches));
            merged.len() - 1
        });
        for (source, place) in merged[at].sources.iter_mut().zip(places) {
            source.1.push(place.series);
        }
    }
    Ok(merged.into_iter().map(Merged::into_batch).collect())
}

/// Cost of hashing and comparing a series, in samples read.
const SERIES_WORK: usize = 8;

#[derive(Clone, Copy)]
struct Place {
    batch: u32,
    series: u32,
}

/// Lists where each identity occurs, identities in order of first appearance.
fn occurrences(batches: &[Arc<dyn Batch>], stop: &Stop) -> Result<Vec<Vec<Place>>, StopReason> {
    let mut pace = stop.pace();
    let mut index_of: HashMap<LabelHash, usize, foldhash::fast::RandomState> = HashMap::default();
    let mut all: Vec<Vec<Place>> = Vec::new();
    for (batch_at, batch) in (0u32..).zip(batches) {
        for (series_at, index) in (0u32..).zip(0..batch.len()) {
            pace.spend(SERIES_WORK)?;
            let place = Place {
                batch: batch_at,
                series: series_at,
            };
            let at = *index_of.entry(batch.identity(index)).or_insert(all.len());
            match all.get_mut(at) {
                Some(places) => places.push(place),
                None => all.push(vec![place]),
            }
        }
    }
    Ok(all)
}

/// The same series from several batches (or some series of one).
struct Merged {
    /// Batches, with the series in each that correspond to the merged ones.
    sources: Vec<(Arc<dyn Batch>, Vec<u32>)>,
}

impl Merged {
    fn over(sources: &[u32], batches: &[Arc<dyn Batch>]) -> Self {
        let source = |at: &u32| (Arc::clone(&batches[*at as usize]), Vec::new());
        Self {
            sources: sources.iter().map(source).collect(),
        }
    }

    /// Returns the batch itself when there is nothing to merge: all series of one batch, in order.
    fn into_batch(self) -> Arc<dyn Batch> {
        if let [(batch, series)] = self.sources.as_slice()
            && series.len() == batch.len()
            && (0u32..).zip(series).all(|(i, s)| i == *s)
        {
            return Arc::clone(batch);
        }
        let layers = self.sources.into_iter();
        let layers = layers.map(|(batch, series)| Layer::chosen(batch, series));
        Arc::new(MergedBatch::new(layers.collect(), 0))
    }
}
