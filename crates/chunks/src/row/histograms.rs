//! The histograms of a row's columns, as changes of the columns' last ones.
//!
//! Invariant: columns are ascending. A decoder of some columns knows of the others only that they have a histogram.

use super::wire::{HistogramList, walk};
use crate::bits::{Reader, put_sized, put_varint};
use crate::error::ChunkError;
use crate::histogram::{
    HistogramState,
    change::{apply, exists, put_change},
    decode_histogram, encode_histogram,
};
use narthex_model::Histogram;

/// Columns that have had a histogram and have not ended since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistogramColumns(Vec<HistogramColumn>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct HistogramColumn {
    column: u16,
    /// The last one; `None` when the column is not decoded.
    state: Option<HistogramState>,
}

impl HistogramColumns {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether histograms are decoded, of any column.
    pub(crate) fn has_any(&self) -> bool {
        self.0.iter().any(|column| column.state.is_some())
    }

    /// Returns the heap bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let states = self.0.iter().filter_map(|column| column.state.as_ref());
        let held: usize = states.map(HistogramState::heap_bytes).sum();
        self.0.capacity() * size_of::<HistogramColumn>() + held
    }

    /// Returns the same columns, with the histograms of those that are `wanted`.
    pub(crate) fn pick(&self, wanted: impl Fn(usize) -> bool) -> Self {
        let pick = |column: &HistogramColumn| HistogramColumn {
            column: column.column,
            state: column
                .state
                .as_ref()
                .filter(|_| wanted(usize::from(column.column)))
                .cloned(),
        };
        Self(self.0.iter().map(pick).collect())
    }

    /// Appends the changes to a row's histograms, and to none for columns that end, both ascending, which become the
    /// last ones. Returns whether they are of all columns that have had one; `None` when there are no changes.
    pub(crate) fn put_changes(
        &mut self,
        now: &[(u32, &Histogram)],
        ends: &[u32],
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        let has_ended = |column: &&u32| self.find(**column as usize).is_ok();
        let ended: Vec<u32> = ends.iter().filter(has_ended).copied().collect();
        if now.is_empty() && ended.is_empty() {
            return None;
        }
        let known = self.0.iter().map(|column| u32::from(column.column));
        let same = ended.is_empty() && known.eq(now.iter().map(|(column, _)| *column));
        let (mut list, mut change) = (Vec::new(), Vec::new());
        if !same {
            put_varint(&mut list, (now.len() + ended.len()) as u64);
        }
        let ends = ended.into_iter().map(|column| (column, None));
        let mut all: Vec<_> = now
            .iter()
            .map(|(column, now)| (*column, Some(*now)))
            .chain(ends)
            .collect();
        all.sort_unstable_by_key(|(column, _)| *column);
        let mut next = 0;
        for (column, now) in all {
            if !same {
                put_varint(&mut list, u64::from(column - next));
                next = column + 1;
            }
            change.clear();
            let place = self.find(column as usize);
            let mut state = place.ok().and_then(|at| self.0[at].state.take());
            put_change(&mut state, now, &mut change);
            self.set(column as usize, place, state);
            put_sized(&change, &mut list);
        }
        put_sized(&list, out);
        Some(same)
    }

    /// Takes the changes of a row of `columns` columns, forwards or back.
    ///
    /// # Errors
    /// Fails on malformed bytes.
    pub(crate) fn change<const BACK: bool>(
        &mut self,
        list: &HistogramList<'_>,
        columns: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<(), ChunkError> {
        let mut r = match list {
            HistogramList::Whole(_) => return Ok(()),
            HistogramList::Changes(bytes) => Reader::new(bytes),
            HistogramList::SameColumns(bytes) => return self.change_all::<BACK>(bytes),
        };
        walk(&mut r, columns, |column, change| {
            let place = self.find(column);
            if wanted(column) {
                let mut state = place.ok().and_then(|at| self.0[at].state.take());
                apply::<BACK>(&mut state, change)?;
                self.set(column, place, state);
            } else {
                match (exists::<BACK>(change), place) {
                    (true, Err(at)) => self.insert(at, column, None),
                    (false, Ok(at)) => drop(self.0.remove(at)),
                    _ => {}
                }
            }
            Ok(())
        })?;
        r.end()
    }

    /// Takes a change of each column.
    fn change_all<const BACK: bool>(&mut self, bytes: &[u8]) -> Result<(), ChunkError> {
        let mut r = Reader::new(bytes);
        for HistogramColumn { state, .. } in &mut self.0 {
            let change = r.sized()?;
            if state.is_some() {
                apply::<BACK>(state, change)?;
                if state.is_none() {
                    return Err(r.malformed("histogram change"));
                }
            }
        }
        r.end()
    }

    /// Passes each histogram of a row, after it was taken, that is `wanted`, with its column.
    ///
    /// # Errors
    /// Fails on malformed bytes.
    pub(crate) fn each(
        &self,
        list: &HistogramList<'_>,
        columns: usize,
        wanted: impl Fn(usize) -> bool,
        mut each: impl FnMut(usize, &HistogramState),
    ) -> Result<(), ChunkError> {
        let mut pass = |HistogramColumn { column, state }: &HistogramColumn| {
            if let Some(state) = state {
                each(usize::from(*column), state);
            }
        };
        match list {
            HistogramList::SameColumns(_) => {
                self.0.iter().for_each(pass);
                Ok(())
            }
            HistogramList::Changes(bytes) => walk(&mut Reader::new(bytes), columns, |column, _| {
                if let Ok(at) = self.find(column) {
                    pass(&self.0[at]);
                }
                Ok(())
            }),
            HistogramList::Whole(bytes) => {
                walk(&mut Reader::new(bytes), columns, |column, bytes| {
                    if wanted(column) {
                        each(column, &HistogramState::new(&decode_histogram(bytes)?));
                    }
                    Ok(())
                })
            }
        }
    }

    /// Appends all of them by themselves.
    pub(crate) fn put_all(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        let (mut next, mut bytes) = (0, Vec::new());
        for HistogramColumn { column, state } in &self.0 {
            put_varint(out, u64::from(column - next));
            next = column + 1;
            bytes.clear();
            if let Some(state) = state {
                encode_histogram(&state.to_histogram(), &mut bytes);
            }
            put_sized(&bytes, out);
        }
    }

    /// Reads what [`HistogramColumns::put_all`] writes of a strip of `columns` columns; decodes the wanted ones.
    pub(crate) fn read_all(
        r: &mut Reader<'_>,
        columns: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Self, ChunkError> {
        let mut all = Vec::new();
        walk(r, columns, |column, bytes| {
            let decode = |bytes| decode_histogram(bytes).map(|own| HistogramState::new(&own));
            all.push(HistogramColumn {
                column: column as u16,
                state: wanted(column).then(|| decode(bytes)).transpose()?,
            });
            Ok(())
        })?;
        Ok(Self(all))
    }

    fn find(&self, column: usize) -> Result<usize, usize> {
        self.0
            .binary_search_by_key(&column, |own| usize::from(own.column))
    }

    /// Sets a column's last histogram, or that it has none; `place` is where the column was found.
    fn set(&mut self, column: usize, place: Result<usize, usize>, state: Option<HistogramState>) {
        match (place, state) {
            (Ok(at), Some(state)) => self.0[at].state = Some(state),
            (Ok(at), None) => drop(self.0.remove(at)),
            (Err(at), Some(state)) => self.insert(at, column, Some(state)),
            (Err(_), None) => {}
        }
    }

    fn insert(&mut self, at: usize, column: usize, state: Option<HistogramState>) {
        let column = column as u16;
        self.0.insert(at, HistogramColumn { column, state });
    }
}
