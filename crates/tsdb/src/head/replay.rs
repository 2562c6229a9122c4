//! Rebuilding the head from the WAL: rows are copied into strips, and decoded only if something is lost.
//!
//! **Invariant:** a row is only meaningful after the row it was encoded against, or before the key row it led to:
//! rows after a gap wait for such a key row. Rows that blocks already hold are counted but not kept.

mod orphans;

use super::{
    Head, extended,
    index::Resolved,
    out_of_order::{OutOfOrderSample, Value},
    row_chunk::pages_of,
    share,
    strip::{Strip, StripState},
};
use crate::block::SeriesExemplar;
use crate::wal::{
    FileEnd, FileMarks, ReplayTo, StripMark,
    record::{Pages, Record, RowHead, SampleRecord, StripHead},
};
use narthex_chunks::histogram::decode_histogram;
use narthex_model::{ColumnId, LabelSet};
use orphans::Orphans;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Adds the WAL's records to a head.
pub(crate) struct HeadReplay<'h> {
    head: &'h Head,
    /// How far each strip is in blocks.
    flushed: HashMap<u32, StripMark>,
    strips: BTreeMap<u32, Replaying>,
    marks: HashMap<u32, StripMark>,
    window_ms: i64,
    /// Whether part of the current file was lost: dangling references to it are not further damage.
    lossy: bool,
    /// Rows and samples that could not be placed.
    dropped: u64,
    /// Rows and samples that, by a file's account, precede it and that no earlier file had.
    missing: u64,
    /// Whether rows after a gap can be undone from a key row: version 2 or a later one wrote the file.
    undoable: bool,
    now_ms: i64,
}

struct Replaying {
    strip: Arc<Strip>,
    flushed: StripMark,
    /// Number of the next row.
    next_row: u64,
    step_ms: i64,
    /// Whether no row is accepted before the next key row.
    gap: bool,
    /// Rows since the gap.
    orphans: Orphans,
    /// Number of columns that the current file has defined; `None` if some of them were lost.
    defined: Option<usize>,
    in_file: bool,
    max_ms: i64,
}

impl<'h> HeadReplay<'h> {
    pub(crate) fn new(
        head: &'h Head,
        flushed: HashMap<u32, StripMark>,
        window_ms: i64,
        now_ms: i64,
    ) -> Self {
        let strips = BTreeMap::new();
        Self {
            head,
            flushed,
            strips,
            marks: HashMap::new(),
            window_ms,
            lossy: false,
            dropped: 0,
            missing: 0,
            undoable: false,
            now_ms,
        }
    }

    /// Ends the replay: strips are complete and unbound, and those that blocks hold completely are removed.
    pub(crate) fn finish(self) {
        let mut empty = Vec::new();
        for (id, replaying) in self.strips {
            self.head.skip_strips_to(id + 1);
            let strip = &replaying.strip;
            let mut state = strip.lock();
            state.seal();
            strip.set_max_ms(replaying.max_ms);
            strip.show(state.end(), self.now_ms);
            drop(state);
            if strip.try_retire() {
                empty.push(Arc::clone(strip));
            }
        }
        if let Some(last) = self.flushed.keys().max() {
            self.head.skip_strips_to(last + 1);
        }
        self.head.remove_strips(&empty);
    }

    /// Returns the bytes of all rows and samples.
    pub(crate) fn heap_bytes(&self) -> usize {
        let strips = self.strips.values();
        strips
            .map(|replaying| replaying.strip.lock().heap_bytes())
            .sum()
    }

    /// Returns the strips with data that no further record can extend: sealed row chunks and out-of-order samples.
    pub(crate) fn whole(&self) -> Vec<Arc<Strip>> {
        let strips = self.strips.values().map(|replaying| &replaying.strip);
        let whole = strips.filter(|strip| {
            let state = strip.lock();
            !state.sealed.is_empty() || state.out_of_order.held() > 0
        });
        whole.cloned().collect()
    }

    fn strip(&mut self, head: StripHead, common: Option<LabelSet>) -> Result<(), &'static str> {
        let Some(common) = common else {
            // Rows of a strip whose labels are lost may still be placed if an earlier file defined them.
            return self.lossy_or("the number of a set that is not defined");
        };
        if head.rows > MOST || head.out_of_order > MOST {
            return Err("a strip that nothing leads to");
        }
        let flushed = self.flushed.get(&head.strip).copied().unwrap_or_default();
        if let Some(known) = self.strips.get_mut(&head.strip) {
            if known.strip.common != common {
                return Err("a strip with other labels than before");
            }
            let out_of_order = known.strip.lock().out_of_order.arrived();
            self.missing += head.rows.saturating_sub(known.next_row)
                + head.out_of_order.saturating_sub(out_of_order);
            known.gap = true;
            known.next_row = head.rows;
            known.defined = Some(0);
            known.in_file = true;
        } else {
            let start = StripMark {
                rows: head.rows.max(flushed.rows),
                out_of_order: head.out_of_order.max(flushed.out_of_order),
            };
            let strip = Arc::new(Strip::new(head.strip, common, start));
            self.head.index_mut().add_strip(&strip);
            let replaying = Replaying {
                strip,
                flushed,
                next_row: head.rows,
                step_ms: 0,
                gap: true,
                orphans: Orphans::default(),
                defined: Some(0),
                in_file: true,
                max_ms: i64::MIN,
            };
            self.strips.insert(head.strip, replaying);
        }
        self.mark(
            head.strip,
            StripMark {
                rows: head.rows,
                out_of_order: head.out_of_order,
            },
        );
        Ok(())
    }

    /// Counts an unplaceable record as a consequence of an earlier loss, or as damage if there was none.
    fn lossy_or(&mut self, what: &'static str) -> Result<(), &'static str> {
        self.dropped += 1;
        if self.lossy { Ok(()) } else { Err(what) }
    }

    /// Finds a strip that this file has introduced, or an earlier one if the introduction may be lost.
    fn find(&mut self, strip: u32) -> Option<&mut Replaying> {
        let known = self.strips.get_mut(&strip)?;
        if !known.in_file {
            if !self.lossy {
                return None;
            }
            known.in_file = true;
            known.gap = true;
            known.defined = Some(known.strip.lock().schema.len());
        }
        Some(known)
    }

    fn mark(&mut self, strip: u32, mark: StripMark) {
        let known = self.marks.entry(strip).or_default();
        known.rows = known.rows.max(mark.rows);
        known.out_of_order = known.out_of_order.max(mark.out_of_order);
    }

    fn grow(
        &mut self,
        strip: u32,
        from: u64,
        sets: Vec<Option<LabelSet>>,
    ) -> Result<(), &'static str> {
        let head = self.head;
        let lossy = self.lossy;
        let Some(known) = self.find(strip) else {
            return self.lossy_or(UNKNOWN);
        };
        let whole = known.defined.is_some_and(|defined| from <= defined as u64);
        let expected = known.defined.is_some_and(|defined| from == defined as u64);
        if !whole || !(expected || lossy) {
            known.defined = None;
            return self.lossy_or("columns of a strip that is not whole");
        }
        let from = from as usize;
        let mut state = known.strip.lock();
        let old = state.schema.len().saturating_sub(from).min(sets.len());
        let same = |(at, set): (usize, &Option<LabelSet>)| {
            set.as_ref()
                .is_none_or(|set| state.schema.column(ColumnId((from + at) as u32)).set == *set)
        };
        let differs = !sets[..old].iter().enumerate().all(same);
        let fresh: Option<Vec<LabelSet>> = sets[old..].iter().cloned().collect();
        let fresh = fresh.filter(|_| !differs);
        let Some(fresh) = fresh else {
            drop(state);
            known.defined = None;
            return self.lossy_or("columns that are not defined, or differ from an earlier file's");
        };
        known.defined = Some(known.defined.unwrap_or_default().max(from + sets.len()));
        if fresh.is_empty() {
            return Ok(());
        }
        let overlaps = |set: &LabelSet| {
            set.iter()
                .any(|label| known.strip.common.label(label.name()).is_some())
        };
        let mut index = head.index_mut();
        index.reserve(strip, fresh.len());
        let mut shared = Vec::new();
        let mut new = 0;
        for set in &fresh {
            let resolved = if overlaps(set) {
                None
            } else {
                index.resolve(strip, set, true, &mut shared)
            };
            if !matches!(resolved, Some(Resolved::Fresh(_))) {
                break;
            }
            new += 1;
        }
        drop(index);
        state.schema = extended(&state.schema, &fresh[..new]);
        drop(state);
        share(&known.strip, shared);
        if new < fresh.len() {
            known.defined = None;
            return Err("a column that exists");
        }
        Ok(())
    }

    fn row(&mut self, strip: u32, head: RowHead, pages: Pages<'_>) -> Result<(), &'static str> {
        let (window_ms, undoable) = (self.window_ms, self.undoable);
        let Some(known) = self.find(strip) else {
            return self.lossy_or(UNKNOWN);
        };
        let mut given_up = 0;
        match head {
            RowHead::Key { row, .. } if undoable => {
                given_up += known.rebuild(row, pages, window_ms);
            }
            RowHead::Key { .. } => given_up += known.orphans.give_up(),
            RowHead::Next { .. } => {}
        }
        let end = known.row(head, pages, window_ms, &mut given_up)?;
        self.dropped += given_up;
        if let Some(rows) = end {
            self.mark(
                strip,
                StripMark {
                    rows,
                    out_of_order: 0,
                },
            );
        }
        Ok(())
    }

    fn out_of_order(
        &mut self,
        strip: u32,
        first: u64,
        samples: Vec<SampleRecord<'_>>,
    ) -> Result<(), &'static str> {
        let Some(known) = self.find(strip) else {
            return self.lossy_or(UNKNOWN);
        };
        let count = samples.len() as u64;
        match known.out_of_order(first, samples)? {
            Some(end) => self.mark(
                strip,
                StripMark {
                    rows: 0,
                    out_of_order: end,
                },
            ),
            None => self.dropped += count,
        }
        Ok(())
    }

    fn starts(&mut self, strip: u32, row: u64, starts: &[(u32, i64)]) -> Result<(), &'static str> {
        let Some(known) = self.find(strip) else {
            return self.lossy_or(UNKNOWN);
        };
        let mut state = known.strip.lock();
        let columns = known.defined.unwrap_or_default();
        if starts.iter().any(|(column, _)| *column as usize >= columns) {
            return Err("a start time of a column that does not exist");
        }
        state.starts.apply(row, starts);
        Ok(())
    }
}

impl Replaying {
    /// Reads a row's header: whether it is a key row, whether it continues from the previous row, its time.
    fn read_head(
        &mut self,
        head: RowHead,
        last_row_ms: i64,
    ) -> Result<(bool, bool, i64), &'static str> {
        match head {
            RowHead::Key { row, .. } if row > MOST => Err("a row that nothing leads to"),
            RowHead::Key {
                row,
                time_ms,
                goes_on,
            } => {
                let goes_on = goes_on && !self.gap && row == self.next_row;
                self.gap = false;
                self.next_row = row;
                self.step_ms = 0;
                Ok((true, goes_on, time_ms))
            }
            RowHead::Next {
                sequence,
                step_change_ms,
            } => {
                self.gap |= sequence != (self.next_row & 0xff) as u8;
                self.step_ms = self.step_ms.wrapping_add(step_change_ms);
                Ok((false, false, last_row_ms.wrapping_add(self.step_ms)))
            }
        }
    }

    /// Places a row; returns the next row's number, or `None` when it follows no known row. Adds the number of
    /// rows that never will be placed to `given_up`.
    fn row(
        &mut self,
        head: RowHead,
        pages: Pages<'_>,
        window_ms: i64,
        given_up: &mut u64,
    ) -> Result<Option<u64>, &'static str> {
        let strip = Arc::clone(&self.strip);
        let mut state = strip.lock();
        let (key, goes_on, time_ms) = self.read_head(head, state.last_row_ms)?;
        let columns = self
            .defined
            .filter(|defined| pages.count() == pages_of(*defined) && !self.gap);
        let Some(columns) = columns else {
            self.gap = true;
            match head {
                RowHead::Next { sequence, .. } => {
                    *given_up += self.orphans.push(sequence, pages, self.next_row);
                }
                RowHead::Key { .. } => *given_up += 1 + self.orphans.give_up(),
            }
            return Ok(None);
        };
        if time_ms <= state.last_row_ms {
            self.gap = true;
            return Err("a row that is not newer than the one before");
        }
        let row = self.next_row;
        if row >= self.flushed.rows {
            let open = state.open.published();
            let joins = state.joins(time_ms, window_ms);
            if !key && !joins {
                self.gap = true;
                // A row chunk that went into a block without its last row, whose append failed after its write.
                let unacknowledged = row == self.flushed.rows && open.rows() == 0;
                return if unacknowledged {
                    *given_up += 1;
                    Ok(None)
                } else {
                    Err("a row without the one it follows")
                };
            }
            if key && !(goes_on && joins) {
                state.seal_to(row);
            }
            state.place_row(time_ms, pages, columns);
        }
        state.last_row_ms = time_ms;
        self.next_row += 1;
        self.max_ms = self.max_ms.max(time_ms);
        Ok(Some(self.next_row))
    }

    /// Places the rows after a gap that directly precede a key row numbered `row`; returns how many cannot be placed.
    fn rebuild(&mut self, row: u64, key: Pages<'_>, window_ms: i64) -> u64 {
        let count = self.orphans.len() as u64;
        let first = row.checked_sub(count).filter(|first| {
            let own = *first >= self.orphans.from() && row <= MOST;
            own && self.defined.is_some()
        });
        let rebuilt = first.and_then(|_| self.orphans.rebuild(row, key));
        let given_up = self.orphans.give_up();
        let (Some(first), Some(rebuilt)) = (first, rebuilt) else {
            return given_up;
        };
        let defined = self.defined.unwrap_or_default();
        let mut state = self.strip.lock();
        let follows = rebuilt
            .first()
            .is_some_and(|row| row.time_ms > state.last_row_ms);
        if !follows || rebuilt.iter().any(|row| row.columns > defined) {
            return given_up;
        }
        // Blocks hold whole runs of rows, so a waiting run is needed completely or not at all.
        let needed = first >= self.flushed.rows;
        if needed {
            state.seal_to(first);
        }
        for (at, row) in (first..).zip(&rebuilt) {
            if needed {
                if at > first && !state.joins(row.time_ms, window_ms) {
                    return given_up - (at - first);
                }
                state.place_row(
                    row.time_ms,
                    row.pages.iter().map(Vec::as_slice),
                    row.columns,
                );
                state.open.note_rebuilt();
            }
            state.last_row_ms = row.time_ms;
            self.max_ms = self.max_ms.max(row.time_ms);
        }
        self.next_row = row;
        0
    }

    /// Places out-of-order samples; returns the place after the last, or `None` when their columns are lost.
    fn out_of_order(
        &mut self,
        first: u64,
        samples: Vec<SampleRecord<'_>>,
    ) -> Result<Option<u64>, &'static str> {
        let Some(columns) = self.defined else {
            return Ok(None);
        };
        let mut state = self.strip.lock();
        let end = first.saturating_add(samples.len() as u64);
        if end > MOST || !state.out_of_order.reaches(end) {
            return Err("a place that nothing leads to");
        }
        state.out_of_order.start_at(first);
        let mut end = first;
        for sample in samples {
            if sample.column as usize >= columns {
                return Err("a sample of a column that does not exist");
            }
            let flushed = end < self.flushed.out_of_order;
            state.out_of_order.start_at(end);
            end += 1;
            if flushed {
                continue;
            }
            self.max_ms = self.max_ms.max(sample.time_ms);
            write_out_of_order(&mut state, &sample)?;
        }
        state.out_of_order.start_at(end);
        Ok(Some(end))
    }
}

impl StripState {
    /// Reports whether a row at `time_ms` may join the open row chunk.
    fn joins(&self, time_ms: i64, window_ms: i64) -> bool {
        let window = |time_ms: i64| time_ms.div_euclid(window_ms);
        let range = self.open.published().time_range();
        range.is_some_and(|(first_ms, _)| window(first_ms) == window(time_ms))
            && self.open.takes_time(time_ms)
    }

    /// Appends a row's bytes.
    fn place_row<'p>(
        &mut self,
        time_ms: i64,
        pages: impl Iterator<Item = &'p [u8]>,
        columns: usize,
    ) {
        for (page, bytes) in pages.enumerate() {
            self.open.copy_row(page, bytes);
        }
        let columns_before = self.open.published().columns;
        self.open.publish(time_ms, columns);
        // Without decoding, the row's columns are unknown: count all as seen.
        if columns != columns_before {
            self.open.note_seen(full_words(columns));
            self.open.show_columns();
        }
    }
}

fn write_out_of_order(
    state: &mut StripState,
    sample: &SampleRecord<'_>,
) -> Result<(), &'static str> {
    let value = match &sample.histogram {
        None => Value::Cell(sample.cell),
        Some(bytes) => Value::Histogram(Arc::new(
            decode_histogram(bytes).map_err(|_| "a histogram")?,
        )),
    };
    let SampleRecord {
        column,
        time_ms,
        start_time_ms,
        ..
    } = *sample;
    let stored = state.out_of_order.insert(OutOfOrderSample {
        column,
        time_ms,
        value,
        start_time_ms,
    });
    if stored.is_some() {
        Err("a second sample at one time")
    } else {
        Ok(())
    }
}

fn full_words(columns: usize) -> impl Iterator<Item = u64> {
    (0..columns.div_ceil(64)).map(move |word| match columns - word * 64 {
        left @ 0..64 => (1 << left) - 1,
        _ => u64::MAX,
    })
}

/// An upper bound of the rows or samples of any strip.
const MOST: u64 = 1 << 60;

const UNKNOWN: &str = "a strip that this file has not introduced";

impl ReplayTo for HeadReplay<'_> {
    fn begin_file(&mut self, current: bool) {
        self.undoable = current;
        self.lossy = false;
        self.marks.clear();
        for known in self.strips.values_mut() {
            known.in_file = false;
            known.gap = true;
        }
    }

    fn lost(&mut self, batches: u32) {
        self.lossy = true;
        // A batch has at most one row of a strip, so row numbers suffice unless more are lost than they distinguish.
        if batches >= 256 {
            for known in self.strips.values_mut() {
                known.gap = true;
                self.dropped += known.orphans.give_up();
            }
        }
    }

    fn record(&mut self, record: Record<'_>) -> Result<(), &'static str> {
        match record {
            Record::Family(family) => {
                self.head.learn_families(&[family]);
                Ok(())
            }
            Record::Strip { head, common } => self.strip(head, common),
            Record::Grow { strip, from, sets } => self.grow(strip, from, sets),
            Record::Row { strip, head, pages } => self.row(strip, head, pages),
            Record::OutOfOrder {
                strip,
                first,
                samples,
            } => self.out_of_order(strip, first, samples),
            Record::Starts { strip, row, starts } => self.starts(strip, row, &starts),
            Record::Exemplar {
                strip,
                column,
                time_ms,
                exemplar,
            } => {
                let Some(known) = self.find(strip) else {
                    return self.lossy_or(UNKNOWN);
                };
                let state = known.strip.lock();
                if column as usize >= state.schema.len() {
                    return Err("an exemplar of a column that does not exist");
                }
                let local = state.schema.column(ColumnId(column)).set.clone();
                drop(state);
                let entry = SeriesExemplar {
                    common: known.strip.common.clone(),
                    local,
                    time_ms,
                    exemplar,
                };
                self.head.exemplars().push(entry);
                Ok(())
            }
        }
    }

    fn end_file(&mut self, last: bool) -> FileEnd {
        if last {
            let rest = self.strips.values_mut();
            self.dropped += rest.map(|known| known.orphans.give_up()).sum::<u64>();
        }
        // The next file may start from the state after these rows: until blocks hold them, this file is needed.
        for (strip, known) in self
            .strips
            .iter()
            .filter(|(_, known)| known.orphans.len() > 0)
        {
            let mark = self.marks.entry(*strip).or_default();
            mark.rows = mark
                .rows
                .max(known.next_row + known.orphans.len() as u64 + 256);
        }
        let marks = FileMarks {
            strips: std::mem::take(&mut self.marks),
            len_bytes: 0,
        };
        FileEnd {
            marks,
            dropped: std::mem::take(&mut self.dropped),
            missing: std::mem::take(&mut self.missing),
        }
    }
}
