//! One origin's parser: bodies in, frames out.
//!
//! The first body is taken apart line by line; its series become columns of a schema and its line order becomes a
//! hint. Later bodies run along the hint, comparing bytes and reading values. A line that is not the expected one
//! is looked up by the hash of its text, then, if need be, taken apart; behind it the run goes on. When more than
//! one line in ten missed, or a series is new, the order of this body becomes the next hint.
//!
//! **Invariant:** a body with an error changes nothing but counters: schema, hint and last frame stay as they were.

use super::{
    hint::{Cells, ColumnIdOrSkip, Hint, Learner, Place, Run, SKIP, hash},
    lex::{Comment, Cursor, Memo},
    resolve::Resolver,
};
use crate::error::{ParseError, ParseErrorKind};
use hashbrown::HashTable;
use narthex_model::{
    ColumnId, Family, FamilyId, Frame, LabelSet, MetricType, Schema, SchemaEdit, bits::BitSet,
};

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
    options: ParseOptions,
    schema: Schema,
    frame: Frame,
    hint: Hint,
    tables: Option<Tables>,
    absent_rounds: Vec<u8>,
    calm_rounds: u8,
    values: Vec<f64>,
    present: BitSet,
    /// Columns of the last round.
    came: BitSet,
    /// Those of them that end when they do not come again.
    reported: BitSet,
    /// Columns at the front that belong to the caller.
    reserved: usize,
}

/// Look-ups for lines that are not the expected ones.
#[derive(Debug)]
struct Tables {
    /// Hash of series text → entry of `places`.
    lines: HashTable<u32>,
    places: Vec<(u64, Place)>,
    /// Local label set → column.
    columns: HashTable<u32>,
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

/// One walk over one body.
struct Pass<'a, 'b> {
    body: &'b [u8],
    options: ParseOptions,
    resolver: &'a mut dyn Resolver,
    schema: &'a Schema,
    hint: &'a Hint,
    tables: &'a mut Option<Tables>,
    values: &'a mut Vec<f64>,
    present: &'a mut BitSet,
    edit: Option<SchemaEdit>,
    /// Columns appended in this pass, by local set: not in the tables yet.
    appended: Vec<LabelSet>,
    times_ms: Vec<(ColumnId, i64)>,
    families: Families,
    families_changed: bool,
    /// Filled while the first body is taken apart, so that it is read once.
    learner: Option<Learner>,
    learned: Option<Hint>,
    memo: Memo,
    /// Series taken apart in this pass: hash of their text and their column.
    unknown: Vec<(u64, u32)>,
    stats: RoundStats,
}

/// The family that lines of the body belong to.
#[derive(Default)]
struct Families {
    name: String,
    metric_type: MetricType,
    help: String,
    id: Option<FamilyId>,
}

impl<'a, 'b> Pass<'a, 'b> {
    fn new(parser: &'a mut TextParser, body: &'b [u8], resolver: &'a mut dyn Resolver) -> Self {
        let first = parser.hint.len() == 0;
        Self {
            body,
            options: parser.options,
            resolver,
            schema: &parser.schema,
            hint: &parser.hint,
            tables: &mut parser.tables,
            values: &mut parser.values,
            present: &mut parser.present,
            edit: None,
            appended: Vec::new(),
            times_ms: Vec::new(),
            families: Families::default(),
            families_changed: false,
            learner: first.then(Learner::default),
            learned: None,
            memo: Memo::default(),
            unknown: Vec::new(),
            stats: RoundStats::default(),
        }
    }

    fn run(&mut self) -> Result<(), ParseError> {
        let (mut at, mut place, mut previous) = (0, Place::default(), 0);
        loop {
            let run = self.along_the_hint(at, previous, place);
            (at, place, previous) = (run.at, run.place, run.previous);
            let rest = &self.body[at..];
            if rest.is_empty() || (place.entry == self.hint.len() && self.hint.ends_with(rest)) {
                break;
            }
            let (next, found) = self.unexpected(at)?;
            at = next.at;
            if let Some(found) = found {
                (place, previous) = (found, next.start);
            }
        }
        if let Some(learner) = self.learner.take() {
            self.learned = Some(learner.finish(self.body));
        }
        Ok(())
    }

    fn along_the_hint(&mut self, at: usize, previous: usize, place: Place) -> Run {
        let mut cells = Cells {
            values: self.values,
            present: self.present,
            skipped: 0,
            repeated: 0,
        };
        let run = self.hint.run(self.body, at, previous, place, &mut cells);
        let lines = run.place.entry - place.entry;
        self.stats.lines += lines;
        self.stats.expected += lines;
        self.stats.dropped += cells.skipped;
        self.stats.repeated += cells.repeated;
        run
    }

    /// Handles what the hint did not foresee: comments up to the next sample line, and that line.
    fn unexpected(&mut self, at: usize) -> Result<(Next, Option<Place>), ParseError> {
        let mut cursor = Cursor::new(self.body, at);
        while let Some(byte) = cursor.peek() {
            match skip_other(&mut cursor, byte)? {
                Some(Comment::Help(name, help)) => self.family_head(&name, None, Some(help)),
                Some(Comment::Type(name, metric_type)) => {
                    self.family_head(&name, Some(metric_type), None);
                }
                Some(Comment::Other) => {}
                None => break,
            }
        }
        let start = cursor.at;
        if start >= self.body.len() {
            return Ok((Next { start, at: start }, None));
        }
        self.stats.lines += 1;
        if let Some((place, value_at)) = self.look_up(start) {
            cursor.at = value_at;
            let tail = cursor.tail()?;
            let column = self.hint.column_before(place);
            self.put(column, tail.value, tail.time_ms);
            self.stats.found += 1;
            return Ok((
                Next {
                    start,
                    at: tail.end,
                },
                Some(place),
            ));
        }
        let parsed = cursor.series(&mut self.memo)?;
        cursor.skip_blanks();
        let value_at = cursor.at;
        let tail = cursor.tail()?;
        let column = self.column_for(&parsed, start)?;
        self.put(column.0, tail.value, tail.time_ms);
        if self.learner.is_none() {
            self.unknown
                .push((hash(&self.body[start..value_at]), column.0));
        }
        if let Some(learner) = &mut self.learner {
            learner.line(self.body, start, value_at, tail.end, column);
        }
        Ok((
            Next {
                start,
                at: tail.end,
            },
            None,
        ))
    }

    fn put(&mut self, column: u32, value: f64, time_ms: Option<i64>) {
        let mut cells = Cells {
            values: self.values,
            present: self.present,
            skipped: 0,
            repeated: 0,
        };
        let fresh = cells.put(column, value);
        self.stats.dropped += cells.skipped;
        self.stats.repeated += cells.repeated;
        if let (true, Some(time_ms), true) = (fresh, time_ms, self.options.honor_timestamps) {
            self.times_ms.push((ColumnId(column), time_ms));
        }
    }

    /// Finds a line by its text; returns the place behind its entry and where its value starts.
    fn look_up(&mut self, start: usize) -> Option<(Place, usize)> {
        if self.hint.len() == 0 {
            return None;
        }
        let tables = self
            .tables
            .get_or_insert_with(|| Tables::of(self.hint, self.schema));
        tables.look_up(self.body, start)
    }

    /// Returns the column of a series, appending one when it is new.
    fn column_for(
        &mut self,
        parsed: &LabelSet,
        start: usize,
    ) -> Result<ColumnIdOrSkip, ParseError> {
        let resolved = self.resolver.resolve(parsed, self.schema.common());
        let refused = |reason| ParseError::at(self.body, start, ParseErrorKind::Refused { reason });
        let Some(local) = resolved.map_err(refused)? else {
            return Ok(ColumnIdOrSkip(SKIP));
        };
        let (known, hash) = (self.schema.len(), local.hash().low());
        let tables = self
            .tables
            .get_or_insert_with(|| Tables::of(self.hint, self.schema));
        let same = |at: &u32| *set_of(self.schema, &self.appended, *at) == local;
        if let Some(found) = tables.columns.find(hash, same) {
            return Ok(ColumnIdOrSkip(*found));
        }
        if known + self.appended.len() >= self.options.series_limit {
            let kind = ParseErrorKind::TooManySeries {
                limit: self.options.series_limit,
            };
            return Err(ParseError::at(self.body, start, kind));
        }
        let family = self.family_of(parsed.metric_name());
        let edit = self.edit.get_or_insert_with(|| self.schema.edit());
        let column = edit.push(&local, family);
        self.appended.push(local);
        let rehash = |at: &u32| set_of(self.schema, &self.appended, *at).hash().low();
        if let Some(tables) = self.tables {
            tables.columns.insert_unique(hash, column.0, rehash);
        }
        self.present.resize(column.index() + 1);
        self.values.resize(column.index() + 1, 0.0);
        self.stats.added += 1;
        Ok(column.0.into())
    }

    fn family_head(&mut self, name: &str, metric_type: Option<MetricType>, help: Option<String>) {
        let known = self
            .schema
            .families()
            .iter()
            .position(|family| *family.name == *name);
        if self.families.name != name {
            let family = known.map(|at| &self.schema.families()[at]);
            self.families = Families {
                name: name.to_owned(),
                metric_type: family.map(|family| family.metric_type).unwrap_or_default(),
                help: family
                    .map(|family| family.help.to_string())
                    .unwrap_or_default(),
                id: None,
            };
        }
        self.families.metric_type = metric_type.unwrap_or(self.families.metric_type);
        if let Some(help) = help {
            self.families.help = help;
        }
        if let Some(at) = known {
            let changed = self.family();
            if self.schema.families()[at] != changed {
                self.families_changed = true;
                self.edit
                    .get_or_insert_with(|| self.schema.edit())
                    .family(changed);
            }
        }
    }

    fn family(&self) -> Family {
        Family {
            name: self.families.name.as_str().into(),
            metric_type: self.families.metric_type,
            unit: "".into(),
            help: self.families.help.as_str().into(),
        }
    }

    /// Returns the family of a metric: the one whose head came last, if the name is one of its, else its own.
    fn family_of(&mut self, metric: &str) -> FamilyId {
        let belongs = !self.families.name.is_empty()
            && metric
                .strip_prefix(self.families.name.as_str())
                .is_some_and(|suffix| match self.families.metric_type {
                    MetricType::Histogram | MetricType::GaugeHistogram => {
                        matches!(suffix, "" | "_bucket" | "_sum" | "_count")
                    }
                    MetricType::Summary => matches!(suffix, "" | "_sum" | "_count"),
                    _ => suffix.is_empty(),
                });
        if !belongs {
            self.families = Families {
                name: metric.to_owned(),
                ..Families::default()
            };
        }
        if let Some(id) = self.families.id {
            return id;
        }
        let known = self
            .schema
            .families()
            .iter()
            .position(|family| *family.name == *self.families.name);
        let id = match known {
            Some(at) if !belongs => {
                FamilyId(u32::try_from(at).expect("families are fewer than 2^32"))
            }
            _ => {
                let family = self.family();
                self.edit
                    .get_or_insert_with(|| self.schema.edit())
                    .family(family)
            }
        };
        self.families.id = Some(id);
        id
    }
}

/// Where an unexpected line started and where the next one starts.
struct Next {
    start: usize,
    at: usize,
}

/// Returns the local set of a column, of the schema or appended in this pass.
fn set_of<'a>(schema: &'a Schema, appended: &'a [LabelSet], at: u32) -> &'a LabelSet {
    match (at as usize).checked_sub(schema.len()) {
        None => &schema.column(ColumnId(at)).set,
        Some(at) => &appended[at],
    }
}

impl From<u32> for ColumnIdOrSkip {
    fn from(column: u32) -> Self {
        Self(column)
    }
}

impl Tables {
    fn of(hint: &Hint, schema: &Schema) -> Self {
        let places = hint.index();
        let mut lines = HashTable::with_capacity(places.len());
        for (at, (hash, _)) in (0u32..).zip(&places) {
            lines.insert_unique(*hash, at, |at| places[*at as usize].0);
        }
        Self {
            lines,
            places,
            columns: column_table(schema),
        }
    }
}

impl Tables {
    fn look_up(&self, body: &[u8], start: usize) -> Option<(Place, usize)> {
        let rest = &body[start..];
        let at = memchr::memchr3(b'{', b' ', b'\n', rest)?;
        let len = match rest[at] {
            b'{' => at + memchr::memmem::find(&rest[at..], b"} ")? + 2,
            b' ' => at + 1,
            _ => return None,
        };
        let hash = hash(&rest[..len]);
        let same = |at: &u32| self.places[*at as usize].0 == hash;
        let found = *self.lines.find(hash, same)?;
        Some((self.places[found as usize].1, start + len))
    }
}

fn column_table(schema: &Schema) -> HashTable<u32> {
    let mut columns = HashTable::with_capacity(schema.len());
    for (id, column) in schema.columns() {
        if !schema.is_retired(id) {
            let rehash = |at: &u32| schema.column(ColumnId(*at)).set.hash().low();
            columns.insert_unique(column.set.hash().low(), id.0, rehash);
        }
    }
    columns
}

/// Skips a blank or comment line; `None` when a sample line starts here.
fn skip_other<'b>(cursor: &mut Cursor<'b>, first: u8) -> Result<Option<Comment<'b>>, ParseError> {
    match first {
        b'#' => {
            cursor.at += 1;
            cursor.comment().map(Some)
        }
        b'\n' => {
            cursor.at += 1;
            Ok(Some(Comment::Other))
        }
        b' ' | b'\t' => {
            cursor.skip_blanks();
            Ok(Some(Comment::Other))
        }
        _ => Ok(None),
    }
}
