//! One origin's parser: bodies in, frames out.
//!
//! The first body is taken apart line by line; its series become columns of a schema and its line order becomes a
//! hint. Later bodies run along the hint, comparing bytes and reading values. A line that is not the expected one
//! is looked up by the hash of its text, then, if need be, taken apart; behind it the run goes on. When more than
//! one line in ten missed, or a series is new, the order of this body becomes the next hint.
//!
//! **Invariant:** a body with an error changes nothing but counters: schema, hint and last frame stay as they were.

use super::{
    hint::{Hint, Learner, hash},
    lex::{Cursor, Memo},
    pass::{Pass, skip_other},
    resolve::Resolver,
    tables::Tables,
};
use crate::error::ParseError;
use narthex_model::{ColumnId, Family, Frame, LabelSet, Schema, bits::BitSet};

/// How bodies are parsed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ParseOptions {
    /// Whether samples keep the timestamps that lines carry.
    pub honor_timestamps: bool,
    /// Whether series with timestamps of their own get staleness markers like all others.
    pub track_timestamps_staleness: bool,
    /// Most series of one body; a body with more is refused whole.
    pub series_limit: usize,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self {
            honor_timestamps: true,
            track_timestamps_staleness: false,
            series_limit: usize::MAX,
        }
    }
}

/// What a body gave.
#[derive(Debug)]
pub struct Round<'a> {
    /// The samples; its schema is the parser's, in a newer version when series came.
    pub frame: &'a mut Frame,
    /// Counts.
    pub stats: RoundStats,
}

/// Counts of one body.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RoundStats {
    /// Sample lines.
    pub lines: usize,
    /// Lines that came as expected: only their values were parsed.
    pub expected: usize,
    /// Lines found by the hash of their text.
    pub found: usize,
    /// Series seen for the first time.
    pub added: usize,
    /// Series that the round before did not have, new ones included.
    pub appeared: usize,
    /// Lines of dropped series.
    pub dropped: usize,
    /// Lines that repeat a series of the same body; the first one counts.
    pub repeated: usize,
}

/// Columns absent for this many rounds count as dead.
const DEAD_ROUNDS: u8 = 20;
/// A schema is started anew when dead columns outnumber the live ones and are at least this many.
const DEAD_COLUMNS: usize = 64;
/// Tables for unexpected lines are dropped after this many rounds without any.
const CALM_ROUNDS: u8 = 8;

/// Parses the bodies of one origin.
#[derive(Debug)]
pub struct TextParser {
    pub(super) options: ParseOptions,
    pub(super) schema: Schema,
    frame: Frame,
    pub(super) hint: Hint,
    pub(super) tables: Option<Tables>,
    absent_rounds: Vec<u8>,
    calm_rounds: u8,
    pub(super) values: Vec<f64>,
    pub(super) present: BitSet,
    /// Columns of the last round.
    came: BitSet,
    /// Those of them that end when they do not come again.
    reported: BitSet,
    /// Columns at the front that belong to the caller.
    reserved: usize,
}

impl TextParser {
    /// Returns a parser for an origin whose series all carry `common`.
    #[must_use]
    pub fn new(common: LabelSet, options: ParseOptions) -> Self {
        Self::with_reserved(common, options, &[])
    }

    /// Returns a parser whose first columns belong to the caller, who sets them in every round's frame.
    #[must_use]
    pub fn with_reserved(
        common: LabelSet,
        options: ParseOptions,
        reserved: &[(LabelSet, Family)],
    ) -> Self {
        let mut edit = Schema::new(common).edit();
        for (set, family) in reserved {
            let family = edit.family(family.clone());
            edit.push(set, family);
        }
        let schema = edit.finish();
        Self {
            options,
            frame: Frame::new(schema.clone(), 0),
            schema,
            hint: Hint::default(),
            tables: None,
            absent_rounds: Vec::new(),
            calm_rounds: 0,
            values: Vec::new(),
            present: BitSet::default(),
            came: BitSet::default(),
            reported: BitSet::default(),
            reserved: reserved.len(),
        }
    }

    /// Returns the schema of everything seen so far.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the frame of the last round.
    pub fn frame_mut(&mut self) -> &mut Frame {
        &mut self.frame
    }

    /// Returns the bytes this parser holds on the heap, without schema and frame.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.hint.heap_bytes() + self.values.capacity() * 8 + self.absent_rounds.capacity()
    }

    /// Parses a body sampled at `time_ms`.
    ///
    /// # Errors
    /// Fails with the position of the first offending byte; nothing of the body is kept then.
    pub fn parse(
        &mut self,
        body: &[u8],
        time_ms: i64,
        resolver: &mut dyn Resolver,
    ) -> Result<Round<'_>, ParseError> {
        self.present.resize(self.schema.len());
        self.present.clear();
        self.values.resize(self.schema.len(), 0.0);
        let mut pass = Pass::new(self, body, resolver);
        let outcome = pass.run();
        let Pass {
            mut stats,
            edit,
            times_ms,
            families_changed,
            learned,
            unknown,
            ..
        } = pass;
        if let Err(error) = outcome {
            // The tables may name columns that were to be appended.
            self.tables = None;
            return Err(error);
        }
        if let Some(edit) = edit {
            self.schema = edit.finish();
        }
        self.frame.restart(&self.schema, time_ms);
        let (values, present) = self.frame.cells_mut();
        values.copy_from_slice(&self.values);
        present.clone_from(&self.present);
        stats.appeared = self.end_absent_series();
        for (column, time_ms) in times_ms {
            self.frame.set_time(column, time_ms);
            if !self.options.track_timestamps_staleness {
                self.reported.remove(column.index());
            }
        }
        self.remember(body, stats, families_changed, learned, unknown)?;
        self.age();
        Ok(Round {
            frame: &mut self.frame,
            stats,
        })
    }

    /// Returns the frame of a round without a body: every series of the round before ends.
    pub fn no_body(&mut self, time_ms: i64) -> &mut Frame {
        self.frame.restart(&self.schema, time_ms);
        self.present.resize(self.schema.len());
        self.present.clear();
        self.end_absent_series();
        &mut self.frame
    }

    /// Marks what the last round reported and this one does not; returns how many came that it lacked.
    fn end_absent_series(&mut self) -> usize {
        let appeared = self
            .present
            .iter()
            .filter(|at| !self.came.contains(*at))
            .count();
        for at in self.reported.iter() {
            if !self.present.contains(at) {
                self.frame.mark_stale(column_id(at));
            }
        }
        self.came.clone_from(&self.present);
        self.reported.clone_from(&self.present);
        appeared
    }

    /// Decides whether this body's order becomes the hint, and whether the tables are still worth their memory.
    fn remember(
        &mut self,
        body: &[u8],
        stats: RoundStats,
        families_changed: bool,
        learned: Option<Hint>,
        unknown: Vec<(u64, u32)>,
    ) -> Result<(), ParseError> {
        let unexpected = stats.lines - stats.expected;
        let relearn = families_changed || stats.added > 0 || unexpected * 10 > stats.lines;
        if let Some(hint) = learned {
            self.hint = hint;
            self.tables = None;
        } else if relearn {
            self.learn(body, unknown)?;
        }
        self.calm_rounds = if unexpected > 0 {
            0
        } else {
            self.calm_rounds.saturating_add(1)
        };
        if self.calm_rounds >= CALM_ROUNDS {
            self.tables = None;
        }
        Ok(())
    }

    /// Takes the body's order as the next hint; `unknown` are the lines of this body the tables do not know.
    fn learn(&mut self, body: &[u8], mut unknown: Vec<(u64, u32)>) -> Result<(), ParseError> {
        unknown.sort_unstable();
        let tables = self
            .tables
            .take()
            .unwrap_or_else(|| Tables::of(&self.hint, &self.schema));
        let mut learner = Learner::with_capacity(self.hint.len());
        let mut memo = Memo::default();
        let mut cursor = Cursor::new(body, 0);
        while let Some(byte) = cursor.peek() {
            if skip_other(&mut cursor, byte)?.is_some() {
                continue;
            }
            let start = cursor.at;
            let known = tables.look_up(body, start);
            let (column, value_at) = match known {
                Some((place, value_at)) => (Some(self.hint.column_before(place)), value_at),
                None => {
                    cursor.series(&mut memo)?;
                    cursor.skip_blanks();
                    let hash = hash(&body[start..cursor.at]);
                    let at = unknown.binary_search_by_key(&hash, |(hash, _)| *hash).ok();
                    (at.map(|at| unknown[at].1), cursor.at)
                }
            };
            cursor.at = value_at;
            let tail = cursor.tail()?;
            if let Some(column) = column {
                // A line with a timestamp never runs along the hint; it is found by its hash all the same.
                learner.line(body, start, value_at, tail.end, column.into());
            }
        }
        self.hint = learner.finish(body);
        Ok(())
    }

    /// Counts absent rounds; starts a new schema without the dead columns when they prevail.
    fn age(&mut self) {
        self.absent_rounds.resize(self.schema.len(), 0);
        if self.present.count() == self.schema.len() - self.reserved {
            if self.absent_rounds.iter().any(|rounds| *rounds > 0) {
                self.absent_rounds.fill(0);
            }
            return;
        }
        let mut dead = 0;
        for (at, rounds) in self.absent_rounds.iter_mut().enumerate() {
            *rounds = if self.present.contains(at) || at < self.reserved {
                0
            } else {
                rounds.saturating_add(1)
            };
            dead += usize::from(*rounds >= DEAD_ROUNDS);
        }
        if dead >= DEAD_COLUMNS && dead * 2 > self.schema.len() {
            self.start_over();
        }
    }

    /// Moves the live columns to a new lineage; the next body is learned afresh.
    fn start_over(&mut self) {
        let mut edit = Schema::new(self.schema.common().clone()).edit();
        let mut moved = Vec::new();
        for (id, column) in self.schema.columns() {
            if self.absent_rounds[id.index()] < DEAD_ROUNDS {
                let family = edit.family(self.schema.family(id).clone());
                moved.push((id, edit.push(&column.set, family)));
            }
        }
        let schema = edit.finish();
        let mut frame = Frame::new(schema.clone(), self.frame.time_ms());
        for (old, new) in &moved {
            if self.frame.present().contains(old.index()) {
                frame.set(*new, self.frame.values()[old.index()]);
                if !self.frame.times_ms().is_empty() {
                    frame.set_time(*new, self.frame.time_of(*old));
                }
            }
        }
        let mut came = BitSet::new(schema.len());
        let mut reported = BitSet::new(schema.len());
        for (old, new) in &moved {
            if self.came.contains(old.index()) {
                came.insert(new.index());
            }
            if self.reported.contains(old.index()) {
                reported.insert(new.index());
            }
            if self.frame.stale().contains(old) {
                frame.mark_stale(*new);
            }
        }
        self.came = came;
        self.reported = reported;
        self.absent_rounds = moved
            .iter()
            .map(|(old, _)| self.absent_rounds[old.index()])
            .collect();
        self.schema = schema;
        self.frame = frame;
        self.hint = Hint::default();
        self.tables = None;
    }
}

fn column_id(at: usize) -> ColumnId {
    ColumnId(u32::try_from(at).expect("a schema has fewer than 2^32 slots"))
}
