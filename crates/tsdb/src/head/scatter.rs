//! Samples of any series in any order: each goes to the loose lane of the strip that has its series.
//!
//! **Invariant:** a series nobody has bound gets a column in a strip made for such series; its labels are all local.

use super::{
    Head, SCATTERED_COLUMNS,
    append::{CountAgain, Limits, append_loose},
    index::Index,
    loose::{LooseSample, Value},
    strip::Strip,
};
use crate::{error::TsdbError, wal::Wal};
use narthex_model::{
    LabelSet,
    storage::{Outcome, SeriesSample, SyncToken},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError},
};

/// The samples of one strip, with their columns.
type OfStrip<'a> = (Arc<Strip>, Vec<(u32, &'a SeriesSample)>);

/// Returns what blocks have at the times of some of a strip's samples.
pub(crate) type InBlocks<'a> =
    dyn Fn(&Strip, &[(u32, &SeriesSample)]) -> Vec<(u32, i64, Value)> + 'a;

impl Head {
    /// Stores scattered samples.
    ///
    /// # Errors
    /// Fails when the log cannot be written; samples of some series may have been stored then.
    pub(crate) fn scatter(
        &self,
        wal: &Wal,
        samples: &[SeriesSample],
        limits: Limits,
        in_blocks: &InBlocks<'_>,
    ) -> Result<Outcome, TsdbError> {
        let mut outcome = Outcome::default();
        let mut left: Vec<&SeriesSample> = samples.iter().collect();
        while !left.is_empty() {
            let mut again = Vec::new();
            for (strip, samples) in self.group(&left) {
                match self.scatter_to(wal, &strip, &samples, limits, in_blocks)? {
                    Some(stored) => outcome += stored,
                    // The strip was removed since: its series are no longer found in it.
                    None => again.extend(samples.iter().map(|(_, sample)| *sample)),
                }
            }
            left = again;
        }
        Ok(outcome)
    }

    /// Sorts samples by the strip that has their series, making columns for those nobody has.
    fn group<'a>(&self, samples: &[&'a SeriesSample]) -> Vec<OfStrip<'a>> {
        let mut of_strip: BTreeMap<u32, OfStrip<'a>> = BTreeMap::new();
        let mut unknown = Vec::new();
        let index = self.index();
        for &sample in samples {
            match index.find_first(sample.labels.hash()) {
                Some((strip, column)) => put(&mut of_strip, strip, column, sample),
                None => unknown.push(sample),
            }
        }
        drop(index);
        if !unknown.is_empty() {
            let mut index = self.index_mut();
            self.make_columns(&mut index, &unknown);
            for sample in unknown {
                let (strip, column) = index
                    .find_first(sample.labels.hash())
                    .expect("a column was made");
                put(&mut of_strip, strip, column, sample);
            }
        }
        of_strip.into_values().collect()
    }

    fn make_columns(&self, index: &mut Index, unknown: &[&SeriesSample]) {
        let mut seen: HashMap<LabelSet, (), foldhash::fast::RandomState> = HashMap::default();
        let mut fresh = Vec::new();
        for sample in unknown {
            // Another writer may have been faster.
            if index.find_first(sample.labels.hash()).is_none()
                && seen.insert(sample.labels.clone(), ()).is_none()
            {
                fresh.push(sample.labels.intern());
            }
        }
        for chunk in fresh.chunks(SCATTERED_COLUMNS) {
            let strip = self.scattered_strip(index, chunk.len());
            self.append_columns(index, &strip, chunk, None);
        }
    }

    /// Returns the strip for series without an origin, with room for `columns` more.
    fn scattered_strip(&self, index: &mut Index, columns: usize) -> Arc<Strip> {
        let mut scattered = self
            .scattered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let room = |strip: &Arc<Strip>| strip.lock().schema.len() + columns <= SCATTERED_COLUMNS;
        match &*scattered {
            Some(strip) if room(strip) => Arc::clone(strip),
            _ => {
                let strip = self.create(index, &LabelSet::empty());
                // No origin holds it: it may go as soon as it is flushed and idle.
                strip.unbind();
                Arc::clone(scattered.insert(strip))
            }
        }
    }

    fn scatter_to(
        &self,
        wal: &Wal,
        strip: &Strip,
        samples: &[(u32, &SeriesSample)],
        limits: Limits,
        in_blocks: &InBlocks<'_>,
    ) -> Result<Option<Outcome>, TsdbError> {
        let ticket = wal.ticket(|| self.families())?;
        let sharing = strip.has_shared().then(|| self.sharing());
        let mut others: HashMap<(u32, i64), Value> = HashMap::new();
        if sharing.is_some() {
            let wanted: Vec<(u32, i64)> = samples
                .iter()
                .map(|(column, sample)| (*column, sample.time_ms))
                .collect();
            let found = strip.values_of_others(&wanted).into_iter();
            others.extend(found.map(|(column, time_ms, value)| ((column, time_ms), value)));
        }
        let in_blocks = in_blocks(strip, samples).into_iter();
        others.extend(in_blocks.map(|(column, time_ms, value)| ((column, time_ms), value)));
        let mut state = strip.lock();
        if strip.is_removed() {
            return Ok(None);
        }
        strip.revive();
        let mut outcome = Outcome::default();
        let mut loose: Vec<LooseSample> = Vec::with_capacity(samples.len());
        for (column, sample) in samples {
            let value = match &sample.histogram {
                Some(histogram) => Value::Histogram(Arc::clone(histogram)),
                None => Value::Cell(sample.cell),
            };
            let key = (*column, sample.time_ms);
            let stored = others
                .get(&key)
                .cloned()
                .or_else(|| state.value_at(*column, sample.time_ms));
            if let Some(stored) = stored {
                outcome.count_again(stored == value);
            } else if limits.admits(&state, *column, sample.time_ms, &mut outcome) {
                outcome.accepted += 1;
                others.insert(key, value.clone());
                let start_time_ms = sample.start_time_ms;
                loose.push(LooseSample {
                    column: *column,
                    time_ms: sample.time_ms,
                    value,
                    start_time_ms,
                });
            }
        }
        if !loose.is_empty() {
            outcome.token = SyncToken(append_loose(strip, &mut state, &loose, limits, ticket)?);
        }
        self.metrics.loose_appended.inc_by(loose.len() as u64);
        Ok(Some(outcome))
    }
}

fn put<'a>(
    of_strip: &mut BTreeMap<u32, OfStrip<'a>>,
    strip: &Arc<Strip>,
    column: u32,
    sample: &'a SeriesSample,
) {
    let entry = of_strip
        .entry(strip.id)
        .or_insert_with(|| (Arc::clone(strip), Vec::new()));
    entry.1.push((column, sample));
}
