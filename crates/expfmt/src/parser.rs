//! One origin's parser: bodies in, frames out.
//!
//! The first body is parsed piece by piece; its series become columns of a schema and its order becomes a template.
//! Later bodies run along the template, comparing bytes and reading values. An unexpected piece is looked up by the hash
//! of its bytes, then parsed if necessary; after it the run continues. Formats may change from body to body: the
//! columns stay.
//!
//! **Invariant:** a body with an error changes only counters: schema, template and the caller's round stay as they were.

use crate::{
    body_builder::{BodyBuilder, Collected},
    cells::Cells,
    error::{ParseError, ParseErrorKind},
    exemplars::ExemplarCache,
    format::Format,
    groups::Groups,
    proto::{self, MessageMemory},
    resolve::Resolver,
    round::{ParseOptions, Round, RoundStats},
    text::{self, CommonLabels, Dialect, LineMemory},
};
use hashbrown::HashTable;
use narthex_model::{ColumnId, Family, Frame, LabelHash, LabelSet, Schema, bits::BitSet};

/// A body replaces the previous one if it lacks most of at least this many series.
const REPLACED_COLUMNS: usize = 64;
/// Columns absent for this many rounds count as dead.
const DEAD_ROUNDS: u8 = 20;
/// A new schema is started when dead columns outnumber the live ones and are at least this many.
const DEAD_COLUMNS: usize = 64;

/// Parses the bodies of one origin.
#[derive(Debug)]
pub struct Parser {
    options: ParseOptions,
    schema: Schema,
    lines: LineMemory,
    messages: MessageMemory,
    /// Columns by local set, while bodies have series to look up.
    columns: Option<HashTable<u32>>,
    cells: Cells,
    groups: Groups,
    exemplars: ExemplarCache,
    stats: RoundStats,
    absent_rounds: Vec<u8>,
    /// Rounds in which most hidden cells stayed empty.
    sparse_rounds: u8,
    /// Columns in the last successful round.
    came: BitSet,
    /// Columns that end when absent from the next round.
    reported: BitSet,
    /// Columns at the front that belong to the caller.
    reserved: usize,
    /// Labels of the schema's common set that every line has.
    in_lines: LabelSet,
}

impl Parser {
    /// Returns a parser for an origin whose series all carry `common`.
    #[must_use]
    pub fn new(common: LabelSet, options: ParseOptions) -> Self {
        Self::with_reserved(common, options, &[])
    }

    /// Returns a parser of bodies in which every line has the labels `in_lines`: they join the common set, and series
    /// are resolved without them. A body with a line that lacks one is refused.
    #[must_use]
    pub fn with_common_lines(common: &LabelSet, in_lines: LabelSet, options: ParseOptions) -> Self {
        let mut parser = Self::new(common.union(&in_lines), options);
        parser.in_lines = in_lines;
        parser
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
            schema,
            lines: LineMemory::default(),
            messages: MessageMemory::default(),
            columns: None,
            cells: Cells::default(),
            groups: Groups::default(),
            exemplars: ExemplarCache::default(),
            stats: RoundStats::default(),
            absent_rounds: Vec::new(),
            sparse_rounds: 0,
            came: BitSet::default(),
            reported: BitSet::default(),
            reserved: reserved.len(),
            in_lines: LabelSet::empty(),
        }
    }

    /// Returns the labels that every line is expected to have.
    #[must_use]
    pub fn in_lines(&self) -> &LabelSet {
        &self.in_lines
    }

    /// Returns the schema of everything seen so far.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the counts of the last body, up to the error if it failed.
    #[must_use]
    pub fn stats(&self) -> RoundStats {
        self.stats
    }

    /// Returns the bytes this parser holds on the heap, without schema and frame.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.lines.heap_bytes()
            + self.messages.heap_bytes()
            + self.cells.values.capacity() * 8
            + self.absent_rounds.capacity()
    }

    /// Forgets how series are resolved: every series of the next body is resolved again.
    ///
    /// Series that resolve to the same labels keep their columns.
    pub fn forget(&mut self) {
        self.lines.clear();
        self.messages.clear();
        self.groups.clear();
        self.exemplars.clear();
        self.columns = None;
        self.cells.hidden.clear();
        self.cells.hidden_present.resize(0);
    }

    /// Changes the options from the next body on; forgets how series are resolved if that depends on them.
    pub fn set_options(&mut self, options: ParseOptions) {
        let shapes = |options: &ParseOptions| {
            (
                options.native_histograms,
                options.classic_histograms,
                options.custom_buckets,
                options.start_times,
            )
        };
        if shapes(&options) != shapes(&self.options) {
            self.forget();
        }
        self.options = options;
    }

    /// Reports whether no body has given a series yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.schema.len() == self.reserved
    }

    /// Iterates over the identities of the series that the last body had.
    pub fn reported(&self) -> impl Iterator<Item = LabelHash> + '_ {
        let columns = self.came.iter().map(ColumnId::at);
        columns.map(|column| self.schema.identity(column))
    }

    /// Parses a body sampled at `time_ms` into a new round, for bodies that come once.
    ///
    /// # Errors
    /// As [`Parser::parse_into`].
    pub fn parse(
        &mut self,
        format: Format,
        body: &[u8],
        time_ms: i64,
        resolver: &mut dyn Resolver,
    ) -> Result<Round, ParseError> {
        let mut round = Round::default();
        self.parse_into(&mut round, format, body, time_ms, resolver)?;
        Ok(round)
    }

    /// Parses a body sampled at `time_ms`; replaces the contents of `round`, whatever they were.
    ///
    /// # Errors
    /// Fails with the position of the first offending byte; nothing of the body is then kept, and `round` is as before.
    pub fn parse_into(
        &mut self,
        round: &mut Round,
        format: Format,
        body: &[u8],
        time_ms: i64,
        resolver: &mut dyn Resolver,
    ) -> Result<(), ParseError> {
        let mut builder = BodyBuilder::new(
            self.options,
            (&self.schema, &self.in_lines),
            resolver,
            &mut self.columns,
            &mut self.cells,
            &mut self.groups,
            &mut self.exemplars,
        );
        let walked = match format {
            Format::Protobuf => {
                proto::walk(&mut self.messages, body, &mut builder).map(Walked::Messages)
            }
            Format::Text | Format::OpenMetrics => {
                self.lines.speak(match format {
                    Format::OpenMetrics => Dialect::OpenMetrics,
                    _ => Dialect::Text,
                });
                text::walk(&mut self.lines, body, &mut builder).map(Walked::Lines)
            }
        };
        let came = &self.came;
        let outcome = walked.and_then(|walked| {
            let limits = builder.finish();
            limits.map_err(|kind| ParseError::at(body, body.len(), kind))?;
            if builder.options.refuse_replacement && builder.replaces(came, REPLACED_COLUMNS) {
                return Err(ParseError::at(body, 0, ParseErrorKind::Replaced));
            }
            Ok(walked)
        });
        builder.count();
        let (collected, families_changed) = (
            std::mem::take(&mut builder.collected),
            builder.families.changed,
        );
        self.stats = builder.stats;
        let walked = match outcome {
            Ok(walked) => walked,
            Err(error) => {
                self.undo();
                return Err(error);
            }
        };
        self.commit(round, time_ms, collected);
        match walked {
            Walked::Lines(walked) => {
                self.lines
                    .remember(body, self.stats, families_changed, walked)?;
            }
            Walked::Messages(walked) => self.messages.remember(walked),
        }
        if self.lines.is_stable() || self.messages.is_stable() {
            self.columns = None;
        }
        self.age(round);
        round.stats = self.stats;
        Ok(())
    }

    /// Drops the results of a failed walk.
    fn undo(&mut self) {
        // The table may name columns that were to be appended.
        self.columns = None;
        if self.groups.changed {
            self.forget();
        }
    }

    /// Moves the results of a successful walk into schema and round.
    fn commit(&mut self, round: &mut Round, time_ms: i64, collected: Collected) {
        if let Some(edit) = collected.edit {
            self.schema = edit.finish();
        }
        round.more = collected.more;
        let frame = &mut round.frame;
        frame.restart(&self.schema, time_ms);
        let (values, present) = frame.cells_mut();
        values.copy_from_slice(&self.cells.values);
        present.clone_from(&self.cells.present);
        for (column, histogram) in collected.histograms {
            frame.set_histogram(column, histogram);
        }
        self.stats.appeared = self.cells.present.difference(&self.came).count();
        self.came.clone_from(&self.cells.present);
        self.end_absent_series(frame);
        for (column, time_ms) in collected.times_ms {
            frame.set_time(column, time_ms);
            if !self.options.track_timestamps_staleness {
                self.reported.remove(column.index());
            }
        }
        for (column, exemplar) in collected.exemplars {
            frame.push_exemplar(column, exemplar);
        }
        for (column, time_ms) in collected.starts {
            frame.set_start_time(column, time_ms);
        }
    }

    /// Makes `round` one without a body: every series of the previous round ends.
    pub fn no_body(&mut self, round: &mut Round, time_ms: i64) {
        round.more.clear();
        round.frame.restart(&self.schema, time_ms);
        self.cells.restart(self.schema.len());
        self.end_absent_series(&mut round.frame);
    }

    /// Marks series that the last round reported and this one does not.
    fn end_absent_series(&mut self, frame: &mut Frame) {
        for column in self.reported.difference(&self.cells.present) {
            frame.mark_stale(ColumnId::at(column));
        }
        self.reported.clone_from(&self.cells.present);
    }

    /// Counts absent rounds; starts a new schema without the dead columns when those prevail.
    fn age(&mut self, round: &mut Round) {
        let hidden = self.cells.hidden.len();
        let sparse = hidden >= DEAD_COLUMNS && self.cells.hidden_present.count() * 2 < hidden;
        self.sparse_rounds = if sparse { self.sparse_rounds + 1 } else { 0 };
        if self.sparse_rounds >= DEAD_ROUNDS {
            self.sparse_rounds = 0;
            self.forget();
        }
        self.absent_rounds.resize(self.schema.len(), 0);
        if self.cells.present.count() == self.schema.len() - self.reserved {
            if self.absent_rounds.iter().any(|rounds| *rounds > 0) {
                self.absent_rounds.fill(0);
            }
            return;
        }
        let mut dead = 0;
        for (at, rounds) in self.absent_rounds.iter_mut().enumerate() {
            *rounds = if self.cells.present.contains(at) || at < self.reserved {
                0
            } else {
                rounds.saturating_add(1)
            };
            dead += usize::from(*rounds >= DEAD_ROUNDS);
        }
        if dead >= DEAD_COLUMNS && dead * 2 > self.schema.len() {
            self.start_over(round);
        }
    }

    /// Moves the live columns to a new lineage; the next body is learned again.
    fn start_over(&mut self, round: &mut Round) {
        let mut edit = Schema::new(self.schema.common().clone()).edit();
        let mut moved: Vec<Option<ColumnId>> = vec![None; self.schema.len()];
        for (id, column) in self.schema.columns() {
            if self.absent_rounds[id.index()] < DEAD_ROUNDS {
                let family = edit.family(self.schema.family(id).clone());
                moved[id.index()] = Some(edit.push(&column.set, family));
            }
        }
        let schema = edit.finish();
        let pairs: Vec<(ColumnId, ColumnId)> = (0..moved.len())
            .filter_map(|at| Some((ColumnId::at(at), moved[at]?)))
            .collect();
        round.frame = moved_frame(&round.frame, &schema, &pairs);
        let kept = |bits: &BitSet| {
            let mut kept = BitSet::new(schema.len());
            for (old, new) in pairs.iter().filter(|(old, _)| bits.contains(old.index())) {
                debug_assert!(new.0 <= old.0, "columns only move to the front");
                kept.insert(new.index());
            }
            kept
        };
        self.came = kept(&self.came);
        self.reported = kept(&self.reported);
        self.absent_rounds = pairs
            .iter()
            .map(|(old, _)| self.absent_rounds[old.index()])
            .collect();
        for sample in &mut round.more {
            let column = moved[sample.column.index()];
            sample.column = column.expect("a column with a sample is not dead");
        }
        self.schema = schema;
        self.forget();
    }
}

/// Finds the labels that every line of a body has; does not look for those of protobuf messages.
#[must_use]
pub fn common_labels(format: Format, body: &[u8]) -> CommonLabels {
    match format {
        Format::Text => text::common_labels(body, Dialect::Text),
        Format::OpenMetrics => text::common_labels(body, Dialect::OpenMetrics),
        Format::Protobuf => CommonLabels::default(),
    }
}

/// A successful walk's findings about the body's order.
enum Walked {
    Lines(text::Walked),
    Messages(proto::Walked),
}

/// Returns the round of `frame` in `schema`, to whose columns `pairs` map.
fn moved_frame(frame: &Frame, schema: &Schema, pairs: &[(ColumnId, ColumnId)]) -> Frame {
    let mut moved = Frame::new(schema.clone(), frame.time_ms());
    let to = |old: ColumnId| {
        let at = pairs.binary_search_by_key(&old, |(old, _)| *old).ok()?;
        Some(pairs[at].1)
    };
    for (old, new) in pairs {
        if frame.present().contains(old.index()) {
            moved.set_from(*new, frame, *old);
            if !frame.times_ms().is_empty() {
                moved.set_time(*new, frame.time_of(*old));
            }
        }
    }
    for column in frame.stale().iter().filter_map(|old| to(*old)) {
        moved.mark_stale(column);
    }
    for (old, exemplar) in frame.exemplars() {
        if let Some(column) = to(*old) {
            moved.push_exemplar(column, exemplar.clone());
        }
    }
    for (old, time_ms) in frame.start_times_ms() {
        if let Some(column) = to(*old) {
            moved.set_start_time(column, *time_ms);
        }
    }
    moved
}
