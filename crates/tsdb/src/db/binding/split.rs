//! Strips for the samples of a round that share a time of their own.
//!
//! A page like cAdvisor's has lines of many containers, and all lines of a container have the time at which it was
//! looked at. As rows need one time, each such group of columns has a strip. Groups are made from the times of the round
//! that brings the columns, before any strip has them; a group that does not hold together is divided once or twice more,
//! and then goes back to the origin's other columns, so that no page makes strips without end.
//!
//! **Invariant:** how columns are divided changes nothing that can be read: a part gets each of its samples with the time
//! it has. Where columns are moved, all columns leave the strip, so that none is in two strips for long.

use super::part::{Part, Writes};
use crate::db::Inner;
use crate::error::TsdbError;
use crate::head::admission::ALWAYS_TAKEN;
use narthex_model::{ColumnId, Frame, Schema, cell::Cell, metadata::Family};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of the part with the columns that are in no group.
const MAIN: u32 = 0;
/// Number of no part, for slots that no round has had a sample of.
const UNPLACED: u32 = u32::MAX;
/// Rounds in a row whose times do not fit a group, before it is divided: less would divide it because of one odd round.
const STRIKES: u8 = 3;
/// Most times that a column is moved to another strip because of its times.
const MOST_MOVES: u8 = 2;

/// The parts of an origin whose series have several strips.
pub(super) struct Split {
    /// By slot of the origin's schema.
    places: Vec<Place>,
    /// Part `n + 1` is the group at `n`.
    groups: Vec<Group>,
    /// How often columns of the main part were moved.
    main_moves: u8,
    least: usize,
    /// What the current round has for each part.
    tallies: Vec<Tally>,
    /// Slots of the current round that have no place.
    unplaced: Vec<u32>,
}

/// A column of a part.
#[derive(Clone, Copy, Debug)]
struct Place {
    part: u32,
    column: u32,
}

const NO_PLACE: Place = Place {
    part: UNPLACED,
    column: 0,
};

/// Columns that share their times.
struct Group {
    part: Part,
    /// How often its columns were moved.
    moves: u8,
    strikes: u8,
}

/// What a round has for one part.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Time of the part's frame.
    time_ms: i64,
    samples: u32,
    /// Samples of another time.
    odd: u32,
    /// Whether there are markers or exemplars.
    has_others: bool,
}

/// Slots that share a time, in order of their first.
struct Timed {
    time_ms: i64,
    slots: Vec<u32>,
}

/// Reports whether enough samples of a round share a time that is not the round's.
pub(super) fn has_group(frame: &Frame, least: usize) -> bool {
    let mut counts: HashMap<i64, usize, foldhash::fast::RandomState> = HashMap::default();
    let mut times = own_times(frame);
    times.any(|(_, time_ms)| {
        let count = counts.entry(time_ms).or_default();
        *count += 1;
        *count >= least
    })
}

/// Lists the samples whose time is not the round's.
fn own_times(frame: &Frame) -> impl Iterator<Item = (u32, i64)> + '_ {
    let times = frame.times_ms();
    let slots = frame
        .present()
        .iter()
        .take(if times.is_empty() { 0 } else { usize::MAX });
    let times = slots.map(|slot| (slot as u32, times[slot]));
    times.filter(|(_, time_ms)| *time_ms != frame.time_ms())
}

impl Split {
    pub(super) fn new(least: usize) -> Self {
        Self {
            places: Vec::new(),
            groups: Vec::new(),
            main_moves: 0,
            least,
            tallies: Vec::new(),
            unplaced: Vec::new(),
        }
    }

    /// Binds the parts of a schema's first round: those that an earlier process or binding left.
    pub(super) fn begin(
        &mut self,
        inner: &Inner,
        schema: &Schema,
        main: &mut Part,
        former: &[Vec<ColumnId>],
    ) {
        self.places.resize(schema.len(), NO_PLACE);
        main.schema = Schema::new(schema.common().clone());
        // What tells of the origin itself comes first.
        let is_main = |slots: &&Vec<ColumnId>| slots.contains(&ColumnId(0));
        if let Some(slots) = former.iter().find(is_main) {
            let slots: Vec<u32> = slots.iter().map(|slot| slot.0).collect();
            main.schema = self.extend(schema, &main.schema, MAIN, &slots);
        }
        let now_ms = inner.context.clock.now_ms();
        main.begin(inner.head.bind(&main.schema, now_ms));
        for slots in former.iter().filter(|slots| !is_main(slots)) {
            let slots: Vec<u32> = slots.iter().map(|slot| slot.0).collect();
            self.add_group(inner, schema, &slots, 0);
        }
    }

    /// Takes over a strip that has had all series of the origin.
    pub(super) fn take_over(
        &mut self,
        inner: &Inner,
        schema: &Schema,
        main: &mut Part,
    ) -> Result<(), TsdbError> {
        self.places.resize(schema.len(), NO_PLACE);
        let Some(bound) = &main.bound else {
            return Ok(());
        };
        let index = inner.head.index();
        let is_known = |id: &ColumnId| {
            let identity = schema.identity(*id);
            !schema.is_retired(*id) && index.find_in(bound.strip.id, identity).is_some()
        };
        let ids = schema.columns().map(|(id, _)| id);
        let known: Vec<u32> = ids.filter(is_known).map(|id| id.0).collect();
        drop(index);
        let empty = Schema::new(schema.common().clone());
        let own = self.extend(schema, &empty, MAIN, &known);
        main.follow(inner, own)
    }

    /// Retires columns; a group without any other leaves its strip.
    pub(super) fn retire(
        &mut self,
        inner: &Inner,
        main: &mut Part,
        retired: &[ColumnId],
    ) -> Result<(), TsdbError> {
        let mut of_part: HashMap<u32, Vec<ColumnId>> = HashMap::new();
        for id in retired {
            let place = self.places.get(id.index()).copied().unwrap_or(NO_PLACE);
            let columns = of_part.entry(place.part).or_default();
            columns.push(ColumnId(place.column));
        }
        of_part.remove(&UNPLACED);
        for (number, columns) in of_part {
            let part = match number.checked_sub(1) {
                None => &mut *main,
                Some(at) => &mut self.groups[at as usize].part,
            };
            let mut edit = part.schema.edit();
            columns.iter().for_each(|column| edit.retire(*column));
            let schema = edit.finish();
            if schema.live() == 0 && number != MAIN {
                part.leave();
            } else {
                part.follow(inner, schema)?;
            }
        }
        self.remove_left();
        Ok(())
    }

    /// Finds places for the samples of a round that have none, and divides groups that do not hold together.
    ///
    /// `is_timed` says whether its times are those of a page, `regroups` whether to look for groups in the main part.
    pub(super) fn divide(
        &mut self,
        inner: &Inner,
        main: &mut Part,
        frame: &Frame,
        is_timed: bool,
        regroups: bool,
    ) -> Result<(), TsdbError> {
        self.places.resize(frame.schema().len(), NO_PLACE);
        self.tally(frame);
        let mut is_changed = false;
        if !self.unplaced.is_empty() {
            let slots = std::mem::take(&mut self.unplaced);
            self.place(inner, main, frame, &slots, is_timed.then_some(0))?;
            is_changed = true;
        }
        if is_timed {
            is_changed |= self.divide_odd(inner, main, frame)?;
            if regroups {
                is_changed |= self.move_from_main(inner, main, frame)?;
            }
        }
        if is_changed {
            self.tally(frame);
        }
        if !self.unplaced.is_empty() {
            // Markers of a group that was divided.
            let slots = std::mem::take(&mut self.unplaced);
            self.place(inner, main, frame, &slots, None)?;
            self.tally(frame);
        }
        Ok(())
    }

    /// Counts what a round has for each part.
    fn tally(&mut self, frame: &Frame) {
        self.tallies.clear();
        self.tallies.resize(self.groups.len() + 1, Tally::default());
        self.tallies[0].time_ms = frame.time_ms();
        self.unplaced.clear();
        let times = frame.times_ms();
        for slot in frame.present().iter() {
            let part = self.places[slot].part;
            let Some(tally) = self.tallies.get_mut(part as usize) else {
                self.unplaced.push(slot as u32);
                continue;
            };
            let time_ms = times.get(slot).copied().unwrap_or(frame.time_ms());
            if tally.samples == 0 && part != MAIN {
                tally.time_ms = time_ms;
            }
            tally.samples += 1;
            tally.odd += u32::from(time_ms != tally.time_ms);
        }
        let marked = frame.stale().iter();
        let others = marked.chain(frame.exemplars().iter().map(|(column, _)| column));
        for column in others {
            let part = self.places[column.index()].part;
            let Some(tally) = self.tallies.get_mut(part as usize) else {
                self.unplaced.push(column.0);
                continue;
            };
            if tally.samples == 0 && !tally.has_others && part != MAIN {
                tally.time_ms = frame.time_of(*column);
            }
            tally.has_others = true;
        }
        if !self.unplaced.is_empty() {
            self.unplaced.sort_unstable();
            self.unplaced.dedup();
        }
    }

    /// Gives slots their places: those that share a time in a group, which has been moved so often, the others in the
    /// main part. Without `moves`, all of them there.
    fn place(
        &mut self,
        inner: &Inner,
        main: &mut Part,
        frame: &Frame,
        slots: &[u32],
        moves: Option<u8>,
    ) -> Result<(), TsdbError> {
        let moves = moves.filter(|moves| *moves <= MOST_MOVES);
        let (grouped, mut left) = match moves {
            Some(_) => by_time(frame, slots),
            None => (Vec::new(), slots.to_vec()),
        };
        for Timed { time_ms, slots } in grouped {
            let is_one = slots.len() < self.least;
            if is_one && let Some(at) = self.group_at(time_ms) {
                let old = self.groups[at].part.schema.clone();
                let schema = self.extend(frame.schema(), &old, at as u32 + 1, &slots);
                self.groups[at].part.follow(inner, schema)?;
            } else if is_one
                || !self.add_group(inner, frame.schema(), &slots, moves.unwrap_or_default())
            {
                left.extend(slots);
            }
        }
        if !left.is_empty() {
            left.sort_unstable();
            let old = main.schema.clone();
            let schema = self.extend(frame.schema(), &old, MAIN, &left);
            let first = self.places.iter().take(ALWAYS_TAKEN);
            if let Some(bound) = &mut main.bound {
                bound.always_taken = first.filter(|place| place.part == MAIN).count();
            }
            main.follow(inner, schema)?;
        }
        Ok(())
    }

    /// Returns a group whose samples in this round all have this time.
    fn group_at(&self, time_ms: i64) -> Option<usize> {
        let mut groups = self.tallies.iter().skip(1);
        groups.position(|tally| tally.samples > 0 && tally.odd == 0 && tally.time_ms == time_ms)
    }

    /// Adds a group of slots; fails when memory for another strip is short.
    fn add_group(&mut self, inner: &Inner, schema: &Schema, slots: &[u32], moves: u8) -> bool {
        let own = extended(schema, &Schema::new(schema.common().clone()), slots);
        let now_ms = inner.context.clock.now_ms();
        // Moved columns must not come back to the strip they were moved from.
        let Some(bound) = inner.head.bind_part(&own, now_ms, moves == 0) else {
            return false;
        };
        self.groups.push(Group {
            part: Part::new(own, Some(bound)),
            moves,
            strikes: 0,
        });
        self.set_places(self.groups.len() as u32, 0, slots);
        true
    }

    /// Adds columns to a part's schema, where the slots then have their places.
    fn extend(&mut self, from: &Schema, schema: &Schema, part: u32, slots: &[u32]) -> Schema {
        self.set_places(part, schema.len() as u32, slots);
        extended(from, schema, slots)
    }

    fn set_places(&mut self, part: u32, first: u32, slots: &[u32]) {
        for (column, slot) in (first..).zip(slots) {
            self.places[*slot as usize] = Place { part, column };
        }
    }

    /// Divides groups whose samples have had several times for some rounds; reports whether there was one.
    fn divide_odd(
        &mut self,
        inner: &Inner,
        main: &mut Part,
        frame: &Frame,
    ) -> Result<bool, TsdbError> {
        let mut odd: Vec<(usize, u8)> = Vec::new();
        let groups = self.groups.iter_mut().enumerate();
        for ((at, group), tally) in groups.zip(self.tallies.iter().skip(1)) {
            match (tally.samples, tally.odd) {
                (0, _) => continue,
                (_, 0) => group.strikes = 0,
                _ => group.strikes += 1,
            }
            if group.strikes >= STRIKES {
                odd.push((at, group.moves + 1));
            }
        }
        if odd.is_empty() {
            return Ok(false);
        }
        let slots_of = |at: usize| {
            let present = frame.present().iter().map(|slot| slot as u32);
            let here = |slot: &u32| self.places[*slot as usize].part == at as u32 + 1;
            present.filter(here).collect::<Vec<u32>>()
        };
        let moved: Vec<(Vec<u32>, u8)> = odd
            .iter()
            .map(|(at, moves)| (slots_of(*at), *moves))
            .collect();
        odd.iter().for_each(|(at, _)| self.groups[*at].part.leave());
        self.remove_left();
        // Nothing joins another group: it would be moved once more if that was chance.
        self.tallies.clear();
        for (slots, moves) in moved {
            self.place(inner, main, frame, &slots, Some(moves))?;
        }
        Ok(true)
    }

    /// Moves samples of the main part that share a time to groups; reports whether there were any.
    fn move_from_main(
        &mut self,
        inner: &Inner,
        main: &mut Part,
        frame: &Frame,
    ) -> Result<bool, TsdbError> {
        let moves = self.main_moves + 1;
        if moves > MOST_MOVES {
            return Ok(false);
        }
        let in_main = |slot: &u32| self.places[*slot as usize].part == MAIN;
        let slots: Vec<u32> = own_times(frame)
            .map(|(slot, _)| slot)
            .filter(in_main)
            .collect();
        let (mut grouped, _) = by_time(frame, &slots);
        grouped.retain(|group| group.slots.len() >= self.least);
        let before = self.groups.len();
        for group in &grouped {
            self.add_group(inner, frame.schema(), &group.slots, moves);
        }
        if self.groups.len() == before {
            return Ok(false);
        }
        self.main_moves = moves;
        // The rest moves too: a strip that others share series with costs both comparisons.
        let slots = (0u32..).zip(&self.places);
        let stay = slots.filter(|(_, place)| place.part == MAIN);
        let stay: Vec<u32> = stay.map(|(slot, _)| slot).collect();
        let empty = Schema::new(frame.schema().common().clone());
        main.schema = self.extend(frame.schema(), &empty, MAIN, &stay);
        let bound = main.take_bound(inner)?;
        main.bound = Some(inner.head.replace(bound, &main.schema));
        Ok(true)
    }

    /// Forgets groups that have left their strips; their slots have no places any more.
    fn remove_left(&mut self) {
        let mut next = MAIN;
        let mut numbers = vec![MAIN];
        numbers.extend(self.groups.iter().map(|group| {
            let stays = group.part.bound.is_some();
            next += u32::from(stays);
            if stays { next } else { UNPLACED }
        }));
        if next as usize == self.groups.len() {
            return;
        }
        for place in &mut self.places {
            place.part = numbers
                .get(place.part as usize)
                .copied()
                .unwrap_or(UNPLACED);
        }
        self.groups.retain(|group| group.part.bound.is_some());
    }

    /// Returns the number of groups that have strips.
    #[cfg(test)]
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Retries series that were refused for lack of memory.
    pub(super) fn ask_again(&mut self, inner: &Inner) {
        let groups = self.groups.iter_mut();
        groups.for_each(|group| group.part.ask_again(inner));
    }

    /// Writes a divided round into the parts' frames.
    pub(super) fn fill(&self, main: &Part, frame: &Frame, frames: &mut Vec<Frame>) {
        frames.truncate(self.tallies.len());
        let groups = self.groups.iter().map(|group| &group.part);
        for (at, (part, tally)) in std::iter::once(main)
            .chain(groups)
            .zip(&self.tallies)
            .enumerate()
        {
            match frames.get_mut(at) {
                Some(frame) => frame.restart(&part.schema, tally.time_ms),
                None => frames.push(Frame::new(part.schema.clone(), tally.time_ms)),
            }
        }
        let set_time = |own: &mut Frame, place: Place, slot: usize| {
            let time_ms = frame.time_of(ColumnId(slot as u32));
            if time_ms != own.time_ms() {
                own.set_time(ColumnId(place.column), time_ms);
            }
        };
        for slot in frame.present().iter() {
            let place = self.places[slot];
            let own = &mut frames[place.part as usize];
            let value = frame.values()[slot];
            if !frame.histograms().is_empty()
                && let Cell::Histogram(index) = Cell::decode(value)
            {
                let histogram = Arc::clone(&frame.histograms()[index as usize]);
                own.set_histogram(ColumnId(place.column), histogram);
            } else {
                let (values, present) = own.cells_mut();
                values[place.column as usize] = value;
                present.insert(place.column as usize);
            }
            if self.tallies[place.part as usize].odd > 0 {
                set_time(own, place, slot);
            }
        }
        let place_of = |column: &ColumnId| {
            let place = self.places[column.index()];
            Some(place).filter(|place| place.part != UNPLACED)
        };
        for column in frame.stale() {
            let Some(place) = place_of(column) else {
                continue;
            };
            let own = &mut frames[place.part as usize];
            own.mark_stale(ColumnId(place.column));
            set_time(own, place, column.index());
        }
        for (column, exemplar) in frame.exemplars() {
            if let Some(place) = place_of(column) {
                let own = &mut frames[place.part as usize];
                own.push_exemplar(ColumnId(place.column), exemplar.clone());
                if !frame.present().contains(column.index()) {
                    set_time(own, place, column.index());
                }
            }
        }
        for (column, start_ms) in frame.start_times_ms() {
            if let Some(place) = place_of(column) {
                let own = &mut frames[place.part as usize];
                own.set_start_time(ColumnId(place.column), *start_ms);
            }
        }
    }

    /// Adds the frames that hold something to those to be written, each with its part.
    pub(super) fn add_writes<'a>(
        &'a mut self,
        main: &'a mut Part,
        frames: &'a [Frame],
        writes: &mut Writes<'a>,
    ) {
        let groups = self.groups.iter_mut().map(|group| &mut group.part);
        let parts = std::iter::once(main).chain(groups);
        for ((part, frame), tally) in parts.zip(frames).zip(&self.tallies) {
            let families = part.bound.as_ref().map(|bound| bound.new_families.len());
            if tally.samples > 0 || tally.has_others || families != Some(0) {
                writes.push((part, frame));
            }
        }
    }
}

/// Groups samples by times other than the round's, in order of their first; also returns the other slots.
fn by_time(frame: &Frame, slots: &[u32]) -> (Vec<Timed>, Vec<u32>) {
    let mut groups: Vec<Timed> = Vec::new();
    let mut left = Vec::new();
    let mut known: HashMap<i64, usize, foldhash::fast::RandomState> = HashMap::default();
    for slot in slots {
        let time_ms = frame.time_of(ColumnId(*slot));
        if time_ms == frame.time_ms() || !frame.present().contains(*slot as usize) {
            left.push(*slot);
            continue;
        }
        let at = *known.entry(time_ms).or_insert_with(|| {
            groups.push(Timed {
                time_ms,
                slots: Vec::new(),
            });
            groups.len() - 1
        });
        groups[at].slots.push(*slot);
    }
    (groups, left)
}

/// Returns a part's schema with further columns of the origin's.
fn extended(origin: &Schema, schema: &Schema, slots: &[u32]) -> Schema {
    let mut edit = schema.edit();
    // Families are those of the origin's schema.
    let family = edit.family(Family::default());
    for id in slots.iter().map(|slot| ColumnId(*slot)) {
        let column = edit.push(&origin.column(id).set, family);
        if origin.is_retired(id) {
            edit.retire(column);
        }
    }
    edit.finish()
}
