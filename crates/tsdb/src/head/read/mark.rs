//! Marks of what the head's part of a listing depends on: whether a list that was made before would be made again.
//!
//! **Invariant:** a mark covers everything that `listing.rs` looks at. Rows that are appended change none, so that lists of origins that
//! go on reporting the same series keep their marks.

use super::super::{Head, index::Chosen, strip::StripState};
use super::{
    HeadSnapshot, RowChunk, Strip, StripSnapshot, Visible, out_of_order_overlaps, overlaps,
    row_chunks_within,
};
use narthex_model::sync::Whole as _;
use narthex_model::{
    LabelHash,
    storage::{Context, ListingOf, Marker, SeriesQuery, StorageError, TimeRange},
};
use std::sync::Arc;

/// Cost of asking a strip, in samples read.
const STRIP_WORK: usize = 16;

/// A moment at which every strip of the index was listed, as each had a sample within an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllListed {
    /// Number of the index's changes.
    changes: u64,
    samples: TimeRange,
}

/// What a listing shows of a strip's columns.
enum Seen {
    All,
    /// None of them, or others.
    Some(Option<Visible>),
}

impl Head {
    /// Adds what the list of `of` for `query` depends on; returns whether that is all known.
    ///
    /// # Errors
    /// Fails over budget and when stopped.
    pub(crate) fn mark_listing(
        &self,
        of: ListingOf<'_>,
        query: &SeriesQuery,
        ctx: &Context,
        marker: &mut Marker,
    ) -> Result<bool, StorageError> {
        ctx.stop.check()?;
        if !query.any_of.is_empty() {
            return self.mark_selected(query, ctx, marker);
        }
        match of {
            ListingOf::Names | ListingOf::Values(_) => {
                self.mark_labels(of, query.range, ctx, marker)?;
            }
            ListingOf::Series | ListingOf::Cardinality => {
                self.mark_all(query.range, ctx, marker)?;
            }
        }
        Ok(true)
    }

    /// Adds what labels without a selector depend on: the labels of local sets, and those of common sets whose strips may
    /// have samples within `range`.
    fn mark_labels(
        &self,
        of: ListingOf<'_>,
        range: TimeRange,
        ctx: &Context,
        marker: &mut Marker,
    ) -> Result<(), StorageError> {
        let index = self.index();
        let (strips, changes) = (index.strips(), index.changes());
        let changed = [index.sets(), index.commons()].map(|table| match of {
            ListingOf::Values(name) => table.values_changed(name),
            _ => table.names_changed(),
        });
        drop(index);
        // Samples that were in the head still are, or in a block, which changes the mark.
        let known = *self.all_listed.lock().whole();
        let covers = |known: &AllListed| {
            let AllListed { samples, .. } = *known;
            known.changes == changes && samples.hull(range) == range
        };
        if known.as_ref().is_some_and(covers) {
            marker.add(1);
            changed.into_iter().for_each(|changed| marker.add(changed));
            return Ok(());
        }
        let mut pace = ctx.stop.pace();
        let (mut all, mut listed) = (true, Vec::with_capacity(strips.len()));
        let mut samples = None;
        for strip in strips.iter() {
            pace.spend(STRIP_WORK)?;
            let newest_ms = strip.max_ms();
            let is_listed = is_listed(strip, strip.snapshot(), range);
            all &= is_listed;
            if is_listed {
                listed.push(strip);
                let newest = TimeRange::new(newest_ms, newest_ms);
                samples = Some(samples.map_or(newest, |samples: TimeRange| samples.hull(newest)));
            }
        }
        let known = samples.filter(|samples| all && samples.hull(range) == range);
        if let Some(samples) = known {
            *self.all_listed.lock().whole() = Some(AllListed { changes, samples });
        }
        marker.add(u64::from(all));
        if listed.is_empty() {
            return Ok(());
        }
        marker.add(changed[0]);
        if all {
            marker.add(changed[1]);
            return Ok(());
        }
        // Other strips may have taken the place of some with the same labels.
        let labels = listed.iter().map(|strip| match of {
            ListingOf::Values(name) => {
                let label = strip.common.label(name);
                label.map_or(LabelHash::EMPTY, |label| label.hash()).bits()
            }
            _ => u128::from(strip.common_names),
        });
        marker.add_wide(labels.fold(0, u128::wrapping_add));
        Ok(())
    }

    /// Adds what a list of all series depends on.
    fn mark_all(
        &self,
        range: TimeRange,
        ctx: &Context,
        marker: &mut Marker,
    ) -> Result<(), StorageError> {
        let index = self.index();
        let strips = index.strips();
        marker.add(index.changes());
        drop(index);
        let mut pace = ctx.stop.pace();
        for strip in strips.iter() {
            pace.spend(STRIP_WORK)?;
            let own = strip.snapshot();
            let state = strip.lock();
            let columns = state.schema.len();
            let in_rows = shows_all(&state, own, range, columns);
            drop(state);
            if in_rows {
                continue;
            }
            let columns = (0u32..).take(columns).collect();
            let chosen = Chosen {
                strip: strip.clone(),
                columns,
            };
            marker.add(u64::from(strip.id));
            Visible::new(&chosen, own, range).mark(marker);
        }
        Ok(())
    }

    /// Adds what series that matchers select depend on.
    fn mark_selected(
        &self,
        query: &SeriesQuery,
        ctx: &Context,
        marker: &mut Marker,
    ) -> Result<bool, StorageError> {
        let mut pace = ctx.stop.pace();
        for matchers in &query.any_of {
            let Some((number, chosen)) = self.index().kept(matchers, ctx)? else {
                return Ok(false);
            };
            marker.add(number);
            for chosen in chosen.iter() {
                pace.spend(STRIP_WORK)?;
                match seen(chosen, query.range) {
                    Seen::All => {}
                    Seen::Some(visible) => {
                        marker.add(u64::from(chosen.strip.id));
                        visible.mark(marker);
                    }
                }
            }
        }
        Ok(true)
    }
}

impl HeadSnapshot {
    /// Returns strips, oldest first, each with what the snapshot shows of it.
    pub(super) fn each<'a>(
        &'a self,
        strips: &'a [Arc<Strip>],
    ) -> impl Iterator<Item = (&'a Arc<Strip>, Option<StripSnapshot>)> {
        let mut own = self.strips.iter().peekable();
        strips.iter().map(move |strip| {
            while own.next_if(|(id, _)| *id < strip.id).is_some() {}
            let own = own.peek().filter(|(id, _)| *id == strip.id);
            (strip, own.map(|(_, snapshot)| *snapshot))
        })
    }
}

/// Reports whether a strip may have samples within `range` that its snapshot shows.
///
/// Mostly its newest one is, which needs no lock: the newest row is in no block while any row is in none, and no other sample
/// is newer.
pub(super) fn is_listed(strip: &Strip, snapshot: StripSnapshot, range: TimeRange) -> bool {
    let only_rows = snapshot.rows.0 < snapshot.rows.1 && snapshot.out_of_order.1 == 0;
    let has_newest = only_rows && range.contains(strip.max_ms());
    has_newest || (!snapshot.is_empty() && overlaps(&strip.lock(), snapshot, range))
}

/// Finds out which columns a listing shows.
fn seen(chosen: &Chosen, range: TimeRange) -> Seen {
    let snapshot = chosen.strip.snapshot();
    let state = chosen.strip.lock();
    let has = |column: &u32| {
        let mut chunks = row_chunks_within(&state, snapshot, range);
        chunks.any(|chunk| chunk.has_seen(*column))
    };
    let all = chosen.columns.iter().all(has);
    drop(state);
    if all {
        Seen::All
    } else {
        Seen::Some(Visible::new(chosen, snapshot, range))
    }
}

/// Reports whether rows within `range` show all of so many columns.
fn shows_all(
    state: &StripState,
    snapshot: StripSnapshot,
    range: TimeRange,
    columns: usize,
) -> bool {
    let chunks: Vec<&RowChunk> = row_chunks_within(state, snapshot, range).collect();
    let shown = |word: usize| {
        let words = chunks.iter().filter_map(|chunk| chunk.seen.get(word));
        words.fold(0, |all, word| all | word).count_ones() as usize
    };
    !out_of_order_overlaps(state, snapshot, range)
        && (0..columns.div_ceil(64)).map(shown).sum::<usize>() == columns
}

/// Adds what is visible of a strip.
trait Mark {
    fn mark(&self, marker: &mut Marker);
}

impl Mark for Option<Visible> {
    fn mark(&self, marker: &mut Marker) {
        let Some(visible) = self else {
            return marker.add(u64::MAX);
        };
        let before = visible.columns().count() as u64;
        marker.add(before);
        visible
            .columns()
            .for_each(|column| marker.add(column.into()));
    }
}
