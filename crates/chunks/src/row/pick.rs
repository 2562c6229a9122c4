//! Decoders of a few columns that skip what is not of these: forwards from a key row and backwards from the encoder's state.
//!
//! Invariant: a pick's state equals what the full decoder would hold for its column; picks are in the order of their positions.

use narthex_model::cell::{self, ABSENT, STALE};

use super::blocks::{Block, Blocks};
use super::histograms::HistogramColumns;
use super::order::difference;
use super::state::RowState;
use super::walk::step;
use super::wire::{HistogramList, Known, PlainRow, RowView};
use super::{BLOCK_COLUMNS, MAX_COLUMNS};
use crate::decimal::to_float;
use crate::error::ChunkError;
use crate::histogram::HistogramState;

/// Decodes chosen columns forwards from a key row.
#[derive(Clone, Debug)]
pub struct ColumnPick {
    picks: Picks,
    /// Number of the strip's columns; `None` before the first row.
    columns: Option<usize>,
}

impl ColumnPick {
    /// Returns a decoder of `columns`, in any order; its first row must be a key row.
    #[must_use]
    pub fn new(columns: &[u32]) -> Self {
        Self {
            picks: Picks::new(columns),
            columns: None,
        }
    }

    /// Steps to the row at the front of `bytes`; returns the number of bytes used.
    ///
    /// # Errors
    /// Fails on malformed bytes; the decoder must not be used afterwards.
    pub fn step(&mut self, bytes: &[u8]) -> Result<usize, ChunkError> {
        self.step_with(bytes, |_, _| {})
    }

    /// Steps like [`ColumnPick::step`] and passes on requested histograms with their index among the requested columns.
    ///
    /// # Errors
    /// Fails on malformed bytes; the decoder must not be used afterwards.
    pub fn step_with(
        &mut self,
        bytes: &[u8],
        histogram: impl FnMut(usize, &HistogramState),
    ) -> Result<usize, ChunkError> {
        if let Some(columns) = self.columns
            && let Some(row) = PlainRow::parse(bytes)?
        {
            self.picks.pass_time(row.step_change_ms);
            let len = self.picks.add_plain::<false>(&row, columns)?;
            self.picks.write_floats();
            self.picks
                .write_histograms(row.histograms, columns, histogram)?;
            return Ok(row.offset + len);
        }
        let view = RowView::parse(bytes, self.columns.map_or(Known::Nothing, Known::Before))?;
        if let (None, Some(snapshot)) = (self.columns, view.snapshot()) {
            let wanted = is_wanted(&self.picks.by_column);
            let state = RowState::from_snapshot(snapshot, wanted)?;
            self.picks.start(&state);
        }
        self.columns = Some(view.columns);
        self.picks.apply(&view)?;
        self.picks.write_cells(&view, histogram)?;
        Ok(view.len)
    }

    /// Returns the time of the current row, ms.
    #[must_use]
    pub fn time_ms(&self) -> i64 {
        self.picks.time_ms
    }

    /// Returns one cell per requested column; cells that refer to histograms hold the index among those columns.
    #[must_use]
    pub fn cells(&self) -> &[f64] {
        &self.picks.cells
    }
}

/// Decodes chosen columns backwards, newest row first.
pub struct PickBack<'r> {
    picks: Picks,
    columns: usize,
    current: Option<Current<'r>>,
}

/// The current row of a decoder that goes backwards, which is undone in its next step.
enum Current<'r> {
    Plain(PlainRow<'r>),
    Any(Box<RowView<'r>>),
}

impl<'r> PickBack<'r> {
    /// Returns a decoder of `columns` whose first row is the one after which the encoder was in `state`.
    #[must_use]
    pub fn new(state: &RowState, columns: &[u32]) -> Self {
        let mut picks = Picks::new(columns);
        picks.start(state);
        Self {
            picks,
            columns: state.columns(),
            current: None,
        }
    }

    /// Steps to `row`, the predecessor of the current row, and passes on requested histograms with their index among the
    /// requested columns.
    ///
    /// # Errors
    /// Fails on malformed bytes; the decoder must not be used afterwards.
    pub fn step_with(
        &mut self,
        row: &'r [u8],
        histogram: impl FnMut(usize, &HistogramState),
    ) -> Result<(), ChunkError> {
        match self.current.take() {
            Some(Current::Plain(newer)) => {
                self.picks.add_plain::<true>(&newer, self.columns)?;
                self.picks.undo_time(newer.step_change_ms);
            }
            Some(Current::Any(newer)) => {
                self.picks.undo(&newer)?;
                self.columns = newer.columns_before;
            }
            None => {}
        }
        self.current = Some(if let Some(row) = PlainRow::parse(row)? {
            self.picks.write_floats();
            self.picks
                .write_histograms(row.histograms, self.columns, histogram)?;
            Current::Plain(row)
        } else {
            let view = RowView::parse(row, Known::After(self.columns))?;
            self.picks.write_cells(&view, histogram)?;
            Current::Any(Box::new(view))
        });
        Ok(())
    }

    /// Returns the time of the current row, ms.
    #[must_use]
    pub fn time_ms(&self) -> i64 {
        self.picks.time_ms
    }

    /// Returns one cell per requested column; cells that refer to histograms hold the index among those columns.
    #[must_use]
    pub fn cells(&self) -> &[f64] {
        &self.picks.cells
    }
}

/// The chosen columns after a row.
#[derive(Clone, Debug)]
struct Picks {
    wanted: Vec<u32>,
    /// Chosen columns with their indexes, by column.
    by_column: Vec<(u32, u32)>,
    /// Those of the chosen columns that the strip has.
    all: Vec<Pick>,
    /// Blocks that have some of them, and where in `all` the block's end.
    of_blocks: Vec<(u16, u16)>,
    present: Vec<u64>,
    /// Last histograms of the chosen columns; of others only that they have one.
    histograms: HistogramColumns,
    /// Whether they have any of a chosen column: few rows change which columns have some, and all rows ask.
    has_histograms: bool,
    cells: Vec<f64>,
    time_ms: i64,
    step_ms: i64,
}

#[derive(Clone, Copy, Debug)]
struct Pick {
    position: usize,
    /// Index among the requested columns.
    index: usize,
    last: i64,
    exp: u8,
    is_present: bool,
}

/// From so many picks on a dense block is unpacked as a whole.
const MANY_PICKS: usize = 16;

impl Pick {
    #[inline(always)]
    fn add<const BACK: bool>(&mut self, z: u64, plain: bool) {
        let d = difference(z, plain, self.exp);
        step::<BACK>(&mut self.last, self.exp, d);
    }
}

impl Picks {
    fn new(columns: &[u32]) -> Self {
        let mut by_column: Vec<(u32, u32)> = columns.iter().copied().zip(0..).collect();
        by_column.sort_unstable();
        Self {
            wanted: columns.to_vec(),
            by_column,
            all: Vec::with_capacity(columns.len()),
            of_blocks: Vec::new(),
            present: Vec::new(),
            histograms: HistogramColumns::default(),
            has_histograms: false,
            cells: vec![ABSENT; columns.len()],
            time_ms: 0,
            step_ms: 0,
        }
    }

    fn start(&mut self, state: &RowState) {
        (self.time_ms, self.step_ms) = (state.time_ms, state.step_ms);
        self.present.clone_from(&state.present);
        self.histograms = state.histograms.pick(is_wanted(&self.by_column));
        self.has_histograms = self.histograms.has_any();
        let mut position_of = vec![0; state.columns()];
        for (position, column) in state.order.iter().enumerate() {
            position_of[usize::from(*column)] = position;
        }
        for (index, column) in self.wanted.iter().enumerate() {
            let Some(position) = position_of.get(*column as usize).copied() else {
                continue;
            };
            self.all.push(Pick {
                position,
                index,
                last: state.last[position],
                exp: state.exp[position],
                is_present: state.is_present(*column as usize),
            });
        }
        self.sort();
    }

    fn sort(&mut self) {
        self.all.sort_unstable_by_key(|pick| pick.position);
        self.find_blocks();
    }

    fn find_blocks(&mut self) {
        self.of_blocks.clear();
        for (at, pick) in self.all.iter().enumerate() {
            let (block, end) = ((pick.position / BLOCK_COLUMNS) as u16, at as u16 + 1);
            match self.of_blocks.last_mut() {
                Some(last) if last.0 == block => last.1 = end,
                _ => self.of_blocks.push((block, end)),
            }
        }
    }

    /// Adds the columns from `before` on, which begin at 0 and behind all others.
    fn grow(&mut self, before: usize, columns: usize) {
        self.present.resize(columns.div_ceil(64), 0);
        for column in before..columns {
            self.present[column / 64] |= 1 << (column % 64);
        }
        for (index, column) in self.wanted.iter().enumerate() {
            let position = *column as usize;
            if (before..columns).contains(&position) {
                self.all.push(Pick {
                    position,
                    index,
                    last: 0,
                    exp: 0,
                    is_present: true,
                });
            }
        }
        self.sort();
    }

    fn flip(&mut self, view: &RowView<'_>) {
        let Some(toggles) = view.toggles() else {
            return;
        };
        toggles.flip(&mut self.present);
        let (present, wanted) = (&self.present, &self.wanted);
        for pick in &mut self.all {
            pick.is_present = is_set(present, wanted[pick.index] as usize);
        }
    }

    /// Advances from the previous row to the row `view`.
    fn apply(&mut self, view: &RowView<'_>) -> Result<(), ChunkError> {
        self.pass_time(view.step_change_ms);
        if view.columns > view.columns_before {
            self.grow(view.columns_before, view.columns);
        }
        if let Some(order) = view.order() {
            let mut moved_to = vec![0; order.len()];
            for (position, from) in order.iter().enumerate() {
                moved_to[usize::from(*from)] = position;
            }
            for pick in &mut self.all {
                pick.position = moved_to[pick.position];
            }
            self.sort();
        }
        self.flip(view);
        self.change::<false>(view.histograms(), view.columns)?;
        for switch in view.switches() {
            for pick in self.at(switch.position) {
                let base = switch.apply(pick.last).filter(|_| pick.exp == switch.old);
                (pick.last, pick.exp) = (base.ok_or(BAD_SWITCH)?, switch.new);
            }
        }
        self.add_differences::<false>(view);
        Ok(())
    }

    /// Goes back from the row `view` to its predecessor; undoes [`Picks::apply`].
    fn undo(&mut self, view: &RowView<'_>) -> Result<(), ChunkError> {
        self.add_differences::<true>(view);
        for switch in view.switches() {
            for pick in self.at(switch.position) {
                let last = switch.undo(pick.last).filter(|_| pick.exp == switch.new);
                (pick.last, pick.exp) = (last.ok_or(BAD_SWITCH)?, switch.old);
            }
        }
        self.flip(view);
        self.change::<true>(view.histograms(), view.columns)?;
        if let Some(order) = view.order() {
            for pick in &mut self.all {
                pick.position = usize::from(order[pick.position]);
            }
            self.sort();
        }
        if view.columns != view.columns_before {
            self.shrink(view.columns_before)?;
        }
        self.undo_time(view.step_change_ms);
        Ok(())
    }

    fn pass_time(&mut self, step_change_ms: i64) {
        self.step_ms = self.step_ms.wrapping_add(step_change_ms);
        self.time_ms = self.time_ms.wrapping_add(self.step_ms);
    }

    fn undo_time(&mut self, step_change_ms: i64) {
        self.time_ms = self.time_ms.wrapping_sub(self.step_ms);
        self.step_ms = self.step_ms.wrapping_sub(step_change_ms);
    }

    /// Drops the columns from `to` on, which must be behind all others.
    fn shrink(&mut self, to: usize) -> Result<(), ChunkError> {
        let (wanted, cells) = (&self.wanted, &mut self.cells);
        let is_kept = |pick: &Pick| (wanted[pick.index] as usize) < to;
        if self
            .all
            .iter()
            .any(|pick| is_kept(pick) != (pick.position < to))
        {
            return Err(ChunkError::Malformed {
                what: "column growth",
                offset: 0,
            });
        }
        self.all.retain(|pick| {
            if !is_kept(pick) {
                cells[pick.index] = ABSENT;
            }
            is_kept(pick)
        });
        self.find_blocks();
        Ok(())
    }

    fn at(&mut self, position: usize) -> impl Iterator<Item = &mut Pick> {
        let from = self.all.partition_point(|pick| pick.position < position);
        let rest = self.all[from..].iter_mut();
        rest.take_while(move |pick| pick.position == position)
    }

    fn add_differences<const BACK: bool>(&mut self, view: &RowView<'_>) {
        let mut from = 0;
        for &(index, end) in &self.of_blocks {
            let picks = &mut self.all[from..usize::from(end)];
            from = usize::from(end);
            if let Some(block) = view.blocks.find(usize::from(index)) {
                add_block::<BACK>(picks, &block);
            }
        }
    }

    /// Takes a row's changes of histograms.
    #[inline]
    fn change<const BACK: bool>(
        &mut self,
        list: Option<&HistogramList<'_>>,
        columns: usize,
    ) -> Result<(), ChunkError> {
        match list {
            // No column is decoded, and which have one stays the same.
            Some(HistogramList::SameColumns(_)) if !self.has_histograms => Ok(()),
            Some(list) => {
                let wanted = is_wanted(&self.by_column);
                self.histograms.change::<BACK>(list, columns, wanted)?;
                self.has_histograms = self.histograms.has_any();
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Adds the differences of a row of `columns` columns, and returns the length of its blocks.
    fn add_plain<const BACK: bool>(
        &mut self,
        row: &PlainRow<'_>,
        columns: usize,
    ) -> Result<usize, ChunkError> {
        self.change::<BACK>(row.histograms.as_ref(), columns)?;
        let Self { all, of_blocks, .. } = self;
        let wanted = of_blocks.iter().map(|(index, _)| usize::from(*index));
        Blocks::pass(row.blocks, row.bitmap, columns, wanted, |at, block| {
            let from = at.checked_sub(1).map_or(0, |before| of_blocks[before].1);
            let picks = usize::from(from)..usize::from(of_blocks[at].1);
            add_block::<BACK>(&mut all[picks], &block);
        })
    }

    fn write_floats(&mut self) {
        for pick in &self.all {
            self.cells[pick.index] = match pick.is_present {
                true => to_float(pick.last, pick.exp),
                false => ABSENT,
            };
        }
    }

    fn write_cells(
        &mut self,
        view: &RowView<'_>,
        histogram: impl FnMut(usize, &HistogramState),
    ) -> Result<(), ChunkError> {
        self.write_floats();
        let Some(events) = view.events() else {
            return Ok(());
        };
        let mut stale = [0u64; MAX_COLUMNS / 64];
        if let (true, Some(toggles)) = (events.gone_are_stale, view.toggles()) {
            toggles.flip(&mut stale);
        }
        for column in events.stale.iter() {
            stale[column / 64] |= 1 << (column % 64);
        }
        for (index, column) in self.wanted.iter().enumerate() {
            let column = *column as usize;
            if is_set(&stale, column) && !is_set(&self.present, column) {
                self.cells[index] = STALE;
            }
        }
        self.write_histograms(events.histograms, view.columns, histogram)
    }

    /// Writes the cells of a row's histograms, and passes these on.
    #[inline]
    fn write_histograms(
        &mut self,
        list: Option<HistogramList<'_>>,
        columns: usize,
        mut histogram: impl FnMut(usize, &HistogramState),
    ) -> Result<(), ChunkError> {
        let list = match list {
            Some(HistogramList::SameColumns(_)) if !self.has_histograms => return Ok(()),
            Some(list) => list,
            None => return Ok(()),
        };
        let Self {
            histograms,
            by_column,
            cells,
            ..
        } = self;
        histograms.each(&list, columns, is_wanted(by_column), |column, state| {
            let from = by_column.partition_point(|(own, _)| (*own as usize) < column);
            let picks = by_column[from..].iter();
            for (_, index) in picks.take_while(|(own, _)| *own as usize == column) {
                cells[*index as usize] = cell::histogram(*index);
                histogram(*index as usize, state);
            }
        })
    }
}

/// Returns whether a column is among those chosen.
fn is_wanted(by_column: &[(u32, u32)]) -> impl Fn(usize) -> bool + '_ {
    |column| {
        by_column
            .binary_search_by_key(&column, |(own, _)| *own as usize)
            .is_ok()
    }
}

/// Adds the differences of a block, or takes them back.
#[inline]
fn add_block<const BACK: bool>(picks: &mut [Pick], block: &Block<'_>) {
    if picks.len() >= MANY_PICKS && !block.sparse {
        let mut all = [0; BLOCK_COLUMNS];
        block.unpack(&mut all);
        for pick in picks {
            pick.add::<BACK>(all[pick.position % BLOCK_COLUMNS], block.plain);
        }
        return;
    }
    for pick in picks {
        if let Some(z) = block.value(pick.position % BLOCK_COLUMNS) {
            pick.add::<BACK>(z, block.plain);
        }
    }
}

fn is_set(words: &[u64], column: usize) -> bool {
    let word = words.get(column / 64);
    word.is_some_and(|word| word >> (column % 64) & 1 == 1)
}

const BAD_SWITCH: ChunkError = ChunkError::Malformed {
    what: "exponent switch",
    offset: 0,
};
