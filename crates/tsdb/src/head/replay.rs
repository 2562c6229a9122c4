//! Rebuilding the head from the log: rows are handed to strips by copy, nothing is decoded.
//!
//! **Invariant:** a strip's rows after a gap are taken again from the next key row on, never before: a row is only
//! meaningful behind the row it was encoded after. What blocks already hold is counted but not kept.

use super::{
    Head,
    exemplars::Entry,
    extended,
    loose::{LooseSample, Value},
    segment::pages_of,
    strip::{Strip, StripState},
};
use crate::wal::{
    FileMarks, ReplayTo, StripMark,
    record::{LooseRecord, Pages, Record, RowHead, StripHead},
};
use narthex_chunks::histogram::decode_histogram;
use narthex_model::{ColumnId, LabelSet};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError},
};

/// Puts the log's records into a head.
pub(crate) struct HeadReplay<'h> {
    head: &'h Head,
    /// What blocks hold of each strip.
    flushed: HashMap<u32, StripMark>,
    strips: BTreeMap<u32, Replaying>,
    marks: HashMap<u32, StripMark>,
    window_ms: i64,
    /// Rows and samples that could not be placed.
    pub(crate) dropped: u64,
    now_ms: i64,
}

struct Replaying {
    strip: Arc<Strip>,
    flushed: StripMark,
    /// The number of the next row.
    next_row: u64,
    step_ms: i64,
    /// Nothing is taken before the next key row.
    gap: bool,
    /// Columns that the current file has told; `None` when some of them were lost.
    told: Option<usize>,
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
            dropped: 0,
            now_ms,
        }
    }

    /// Ends the replay: strips are whole, nobody writes to them yet, those that blocks hold altogether are gone.
    pub(crate) fn finish(self) {
        let mut empty = Vec::new();
        for (id, replaying) in self.strips {
            self.head.skip_strips_to(id + 1);
            let strip = &replaying.strip;
            let mut state = strip.lock();
            state.seal();
            strip.publish(&state, replaying.max_ms, self.now_ms);
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

    fn strip(&mut self, head: StripHead, common: &LabelSet) -> Result<(), &'static str> {
        let flushed = self.flushed.get(&head.strip).copied().unwrap_or_default();
        if let Some(known) = self.strips.get_mut(&head.strip) {
            if known.strip.common != *common {
                return Err("a strip with other labels than before");
            }
            known.gap = true;
            known.next_row = head.rows;
            known.told = Some(0);
            known.in_file = true;
        } else {
            let start = StripMark {
                rows: head.rows.max(flushed.rows),
                loose: head.loose.max(flushed.loose),
            };
            let strip = Arc::new(Strip::new(head.strip, common.clone(), start));
            self.head.index_mut().add_strip(&strip);
            let replaying = Replaying {
                strip,
                flushed,
                next_row: head.rows,
                step_ms: 0,
                gap: true,
                told: Some(0),
                in_file: true,
                max_ms: i64::MIN,
            };
            self.strips.insert(head.strip, replaying);
        }
        self.mark(
            head.strip,
            StripMark {
                rows: head.rows,
                loose: head.loose,
            },
        );
        Ok(())
    }

    fn mark(&mut self, strip: u32, mark: StripMark) {
        let known = self.marks.entry(strip).or_default();
        known.rows = known.rows.max(mark.rows);
        known.loose = known.loose.max(mark.loose);
    }

    fn grow(&mut self, strip: u32, from: u64, sets: &[LabelSet]) -> Result<(), &'static str> {
        let head = self.head;
        let known = find(&mut self.strips, strip)?;
        if known.told.map(|told| told as u64) != Some(from) {
            known.told = None;
            return Err("columns of a strip that is not whole");
        }
        let from = from as usize;
        let mut state = known.strip.lock();
        let have = state.schema.len();
        let old = have.saturating_sub(from).min(sets.len());
        let same = |(at, set): (usize, &LabelSet)| {
            state.schema.column(ColumnId((from + at) as u32)).set == *set
        };
        if !sets[..old].iter().enumerate().all(same) {
            return Err("columns that differ from an earlier file's");
        }
        known.told = Some(from + sets.len());
        let fresh = &sets[old..];
        if fresh.is_empty() {
            return Ok(());
        }
        let mut index = None;
        let overlaps = |set: &LabelSet| {
            set.iter()
                .any(|label| known.strip.common.label(label.name()).is_some())
        };
        let mut seen: HashMap<&LabelSet, ()> = HashMap::new();
        let repeated = fresh.iter().any(|set| seen.insert(set, ()).is_some());
        let taken = |set: &LabelSet| {
            let index = index.get_or_insert_with(|| head.index());
            index
                .find_in(strip, known.strip.common.hash() + set.hash())
                .is_some()
        };
        if repeated || fresh.iter().any(overlaps) || fresh.iter().any(taken) {
            known.told = None;
            return Err("a column that exists");
        }
        drop(index);
        state.schema = extended(&state.schema, fresh);
        drop(state);
        let shared = head.index_mut().add_columns(strip, fresh);
        for (column, owners) in shared {
            for (other, other_column) in owners {
                known.strip.share(column, &other, other_column);
                other.share(other_column, &known.strip, column);
            }
        }
        Ok(())
    }

    fn row(&mut self, strip: u32, head: RowHead, pages: Pages<'_>) -> Result<(), &'static str> {
        let window_ms = self.window_ms;
        let known = find(&mut self.strips, strip)?;
        let mut state = known.strip.lock();
        let time_ms = match head {
            RowHead::Key { row, time_ms } => {
                known.gap = false;
                known.next_row = row;
                known.step_ms = 0;
                time_ms
            }
            RowHead::Next {
                sequence,
                step_change_ms,
            } => {
                known.gap |= sequence != (known.next_row & 0xff) as u8;
                known.step_ms = known.step_ms.wrapping_add(step_change_ms);
                state.last_row_ms.wrapping_add(known.step_ms)
            }
        };
        let columns = known.told.filter(|told| pages.count() == pages_of(*told));
        let Some(columns) = columns.filter(|_| !known.gap) else {
            known.gap = true;
            self.dropped += 1;
            return Ok(());
        };
        let row = known.next_row;
        known.next_row += 1;
        known.max_ms = known.max_ms.max(time_ms);
        let key = matches!(head, RowHead::Key { .. });
        if time_ms <= state.last_row_ms {
            known.gap = true;
            return Err("a row that is not newer than the one before");
        }
        if row >= known.flushed.rows {
            let open = state.open.published();
            let follows = open.time_range().is_some_and(|(first_ms, _)| {
                first_ms.div_euclid(window_ms) == time_ms.div_euclid(window_ms)
            });
            let joins = follows && state.open.takes_time(time_ms);
            if !key && !joins {
                known.gap = true;
                self.dropped += 1;
                if row == known.flushed.rows && open.rows() == 0 {
                    // Its segment went into a block without it: its append failed after it was written.
                    return Ok(());
                }
                return Err("a row without the one it follows");
            }
            if key {
                state.seal_to(row);
            }
            for (page, bytes) in pages.enumerate() {
                state.open.stage_bytes(page, bytes);
            }
            let columns_before = state.open.published().columns;
            state.open.publish(time_ms, columns);
            // Which columns it has is not known without decoding: all count as seen.
            if columns != columns_before {
                state.open.note_seen(full_words(columns));
            }
        }
        state.last_row_ms = time_ms;
        drop(state);
        self.mark(
            strip,
            StripMark {
                rows: row + 1,
                loose: 0,
            },
        );
        Ok(())
    }

    fn loose(
        &mut self,
        strip: u32,
        first: u64,
        samples: Vec<LooseRecord<'_>>,
    ) -> Result<(), &'static str> {
        let known = find(&mut self.strips, strip)?;
        let Some(columns) = known.told else {
            self.dropped += samples.len() as u64;
            return Ok(());
        };
        let mut state = known.strip.lock();
        state.loose.start_at(first);
        let mut end = first;
        for sample in samples {
            if sample.column as usize >= columns {
                return Err("a sample of a column that does not exist");
            }
            let flushed = end < known.flushed.loose;
            end += 1;
            if flushed {
                continue;
            }
            known.max_ms = known.max_ms.max(sample.time_ms);
            put_loose(&mut state, &sample)?;
        }
        state.loose.start_at(end);
        drop(state);
        self.mark(
            strip,
            StripMark {
                rows: 0,
                loose: end,
            },
        );
        Ok(())
    }

    fn starts(&mut self, strip: u32, row: u64, starts: &[(u32, i64)]) -> Result<(), &'static str> {
        let known = find(&mut self.strips, strip)?;
        let mut state = known.strip.lock();
        let columns = known.told.unwrap_or_default();
        if starts.iter().any(|(column, _)| *column as usize >= columns) {
            return Err("a start time of a column that does not exist");
        }
        state.starts.apply(row, starts);
        Ok(())
    }
}

fn put_loose(state: &mut StripState, sample: &LooseRecord<'_>) -> Result<(), &'static str> {
    let value = match &sample.histogram {
        None => Value::Cell(sample.cell),
        Some(bytes) => Value::Histogram(Arc::new(
            decode_histogram(bytes).map_err(|_| "a histogram")?,
        )),
    };
    if state
        .loose
        .value_at(sample.column, sample.time_ms)
        .is_some()
    {
        return Err("a second sample at one time");
    }
    let LooseRecord {
        column,
        time_ms,
        start_time_ms,
        ..
    } = *sample;
    state.loose.insert(LooseSample {
        column,
        time_ms,
        value,
        start_time_ms,
    });
    Ok(())
}

fn full_words(columns: usize) -> impl Iterator<Item = u64> {
    (0..columns.div_ceil(64)).map(move |word| match columns - word * 64 {
        left @ 0..64 => (1 << left) - 1,
        _ => u64::MAX,
    })
}

fn find(strips: &mut BTreeMap<u32, Replaying>, strip: u32) -> Result<&mut Replaying, &'static str> {
    strips
        .get_mut(&strip)
        .filter(|known| known.in_file)
        .ok_or("a strip that this file has not introduced")
}

impl ReplayTo for HeadReplay<'_> {
    fn begin_file(&mut self) {
        self.marks.clear();
        for known in self.strips.values_mut() {
            known.in_file = false;
            known.gap = true;
        }
    }

    fn lost(&mut self, batches: u32) {
        // A batch has one row of a strip at most: with fewer lost than row numbers can tell apart, they tell.
        if batches >= 256 {
            self.strips.values_mut().for_each(|known| known.gap = true);
        }
    }

    fn record(&mut self, record: Record<'_>) -> Result<(), &'static str> {
        match record {
            Record::Family(family) => {
                self.head.learn_families(&[family]);
                Ok(())
            }
            Record::Strip { head, common } => self.strip(head, &common),
            Record::Grow { strip, from, sets } => self.grow(strip, from, &sets),
            Record::Row { strip, head, pages } => self.row(strip, head, pages),
            Record::Loose {
                strip,
                first,
                samples,
            } => self.loose(strip, first, samples),
            Record::Starts { strip, row, starts } => self.starts(strip, row, &starts),
            Record::Exemplar {
                strip,
                column,
                time_ms,
                exemplar,
            } => {
                let known = find(&mut self.strips, strip)?;
                let state = known.strip.lock();
                if column as usize >= state.schema.len() {
                    return Err("an exemplar of a column that does not exist");
                }
                let local = state.schema.column(ColumnId(column)).set.clone();
                drop(state);
                let entry = Entry {
                    common: known.strip.common.clone(),
                    local,
                    time_ms,
                    exemplar,
                };
                self.head
                    .exemplars
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(entry);
                Ok(())
            }
        }
    }

    fn end_file(&mut self) -> FileMarks {
        FileMarks {
            strips: std::mem::take(&mut self.marks),
            len_bytes: 0,
        }
    }
}
