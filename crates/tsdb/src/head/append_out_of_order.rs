//! Samples of any series in any order: each goes to the out-of-order buffer of the strip that has its series.
//!
//! **Invariant:** an unbound series gets a column in a strip made for such series; its labels are all local.

use super::{
    Head, UNGROUPED_COLUMNS,
    append::{CountAgain, Limits, PendingFrame, commit_frames},
    index::Index,
    out_of_order::{OutOfOrderSample, Value},
    strip::Strip,
};
use crate::{error::TsdbError, wal::Wal};
use narthex_model::sync::Whole as _;
use narthex_model::{
    LabelHash, LabelSet,
    storage::{Outcome, SeriesSample},
};
use std::{collections::HashMap, sync::Arc};

/// What a panic ends here.
pub(crate) const STORING: &str = "storing samples";

/// The samples of one strip, with their columns.
type OfStrip<'a> = (Arc<Strip>, Vec<(u32, &'a SeriesSample)>);

/// Returns the values in blocks at the times of some of a strip's samples.
pub(crate) type InBlocks<'a> =
    dyn Fn(&Strip, &[(u32, &SeriesSample)]) -> Vec<(u32, i64, Value)> + 'a;

impl Head {
    /// Stores individual samples.
    ///
    /// # Errors
    /// Fails when the WAL cannot be written; samples of some series may then have been stored.
    pub(crate) fn append_out_of_order(
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
            let (groups, refused) = self.group(&left);
            outcome.over_limit += refused;
            for (strip, samples) in groups {
                match self.append_to_strip(wal, &strip, &samples, limits, in_blocks)? {
                    Some(stored) => outcome += stored,
                    // The strip was removed meanwhile: its series are no longer found in it.
                    None => again.extend(samples.iter().map(|(_, sample)| *sample)),
                }
            }
            left = again;
        }
        Ok(outcome)
    }

    /// Sorts samples by the strip that has their series, adding columns for new series; also returns the number of
    /// samples of refused series.
    fn group<'a>(&self, samples: &[&'a SeriesSample]) -> (Vec<OfStrip<'a>>, u64) {
        let mut groups = Groups::default();
        let mut unknown = Vec::new();
        // Step by step over all samples, so that the samples' cache misses overlap.
        let hashes: Vec<LabelHash> = samples.iter().map(|sample| sample.labels.hash()).collect();
        let index = self.index();
        for (sample, hash) in samples.iter().zip(&hashes) {
            match index.find_first(*hash) {
                Some((strip, column)) => groups.add(strip, column, sample),
                None => unknown.push(*sample),
            }
        }
        drop(index);
        if !unknown.is_empty() && !self.admission.is_open() {
            for sample in &unknown {
                self.admission.refuse(&sample.labels, 1);
            }
            return (groups.of_strip, unknown.len() as u64);
        }
        if !unknown.is_empty() {
            let mut index = self.index_mut();
            self.make_columns(&mut index, &unknown);
            for sample in unknown {
                let (strip, column) = index
                    .find_first(sample.labels.hash())
                    .expect("a column was made");
                groups.add(strip, column, sample);
            }
        }
        (groups.of_strip, 0)
    }

    fn make_columns(&self, index: &mut Index, unknown: &[&SeriesSample]) {
        let mut seen: HashMap<LabelSet, (), foldhash::fast::RandomState> = HashMap::default();
        let mut fresh = Vec::new();
        for sample in unknown {
            // Another writer may have added it meanwhile.
            if index.find_first(sample.labels.hash()).is_none()
                && seen.insert(sample.labels.clone(), ()).is_none()
            {
                fresh.push(sample.labels.intern());
            }
        }
        for chunk in fresh.chunks(UNGROUPED_COLUMNS) {
            let strip = self.ungrouped_strip(index, chunk.len());
            self.append_columns(index, &strip, chunk);
        }
    }

    /// Returns the strip for series without an origin, with room for `columns` more.
    fn ungrouped_strip(&self, index: &mut Index, columns: usize) -> Arc<Strip> {
        let mut ungrouped = self.ungrouped.lock().whole();
        let room = |strip: &Arc<Strip>| strip.lock().schema.len() + columns <= UNGROUPED_COLUMNS;
        match &*ungrouped {
            Some(strip) if room(strip) => Arc::clone(strip),
            _ => {
                let strip = self.create(index, &LabelSet::empty());
                // No origin holds it: it may be removed once it is flushed and idle.
                strip.unbind();
                Arc::clone(ungrouped.insert(strip))
            }
        }
    }

    fn append_to_strip(
        &self,
        wal: &Wal,
        strip: &Strip,
        samples: &[(u32, &SeriesSample)],
        limits: Limits,
        in_blocks: &InBlocks<'_>,
    ) -> Result<Option<Outcome>, TsdbError> {
        let ticket = wal.ticket(self)?;
        let in_blocks = in_blocks(strip, samples).into_iter();
        let _turn = strip.turn();
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
        others.extend(in_blocks.map(|(column, time_ms, value)| ((column, time_ms), value)));
        let mut state = strip.lock();
        if strip.is_removed() {
            return Ok(None);
        }
        strip.revive();
        let mut outcome = Outcome::default();
        let mut taken: Vec<OutOfOrderSample> = Vec::with_capacity(samples.len());
        let first = state.out_of_order.arrived();
        for (column, sample) in samples {
            let (column, time_ms) = (*column, sample.time_ms);
            let value = value_of(sample);
            let elsewhere = if others.is_empty() {
                None
            } else {
                others.get(&(column, time_ms)).cloned()
            };
            let stored = elsewhere.or_else(|| state.row_value_at(column, time_ms));
            // Checked before the order: a repeated sample is not out of order.
            let ordered = limits.out_of_order_window_ms.is_some();
            let stored = stored.or_else(|| {
                if ordered {
                    state.out_of_order.value_at(column, time_ms)
                } else {
                    None
                }
            });
            if let Some(stored) = stored {
                outcome.count_again(stored == value);
                continue;
            }
            if !limits.admits(&state, column, time_ms, &mut outcome) {
                continue;
            }
            let out_of_order = OutOfOrderSample {
                column,
                time_ms,
                value,
                start_time_ms: sample.start_time_ms,
            };
            match state.out_of_order.insert(out_of_order.clone()) {
                Some(stored) => outcome.count_again(stored == out_of_order.value),
                None => {
                    outcome.accepted += 1;
                    taken.push(out_of_order);
                }
            }
        }
        // Within one write the order is free, and sorted samples take fewer bytes.
        taken.sort_unstable_by_key(|sample| (sample.column, sample.time_ms));
        let pending = PendingFrame::out_of_order(strip, state, &taken, first, limits);
        outcome.token = commit_frames(&mut [pending], self, &ticket, sharing, STORING)?;
        self.metrics
            .out_of_order_appended
            .inc_by(taken.len() as u64);
        Ok(Some(outcome))
    }
}

fn value_of(sample: &SeriesSample) -> Value {
    match &sample.histogram {
        Some(histogram) => Value::Histogram(Arc::clone(histogram)),
        None => Value::Cell(sample.cell),
    }
}

/// Samples by strip, strips in order of first appearance.
#[derive(Default)]
struct Groups<'a> {
    of_strip: Vec<OfStrip<'a>>,
    by_number: HashMap<u32, usize, foldhash::fast::RandomState>,
    /// Place of the previous sample, usually that of the next one too.
    last: Option<(u32, usize)>,
}

impl<'a> Groups<'a> {
    fn add(&mut self, strip: &Arc<Strip>, column: u32, sample: &'a SeriesSample) {
        let at = match self.last {
            Some((number, at)) if number == strip.id => at,
            _ => *self.by_number.entry(strip.id).or_insert_with(|| {
                self.of_strip.push((Arc::clone(strip), Vec::new()));
                self.of_strip.len() - 1
            }),
        };
        self.last = Some((strip.id, at));
        self.of_strip[at].1.push((column, sample));
    }
}
