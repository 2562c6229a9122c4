//! One walk over one body: along the hint while lines come as expected, line by line where they do not.
//!
//! **Invariant:** nothing of the origin's state but its scratch and its tables changes before the walk has succeeded.

use super::{
    hint::{Cells, ColumnIdOrSkip, Hint, Learner, Place, Run, SKIP, hash},
    lex::{Comment, Cursor, Memo},
    parser::{ParseOptions, RoundStats, TextParser},
    resolve::Resolver,
    tables::Tables,
};
use crate::error::{ParseError, ParseErrorKind};
use narthex_model::{
    ColumnId, Family, FamilyId, LabelSet, MetricType, Schema, SchemaEdit, bits::BitSet,
};

/// One walk over one body.
pub(super) struct Pass<'a, 'b> {
    body: &'b [u8],
    options: ParseOptions,
    resolver: &'a mut dyn Resolver,
    schema: &'a Schema,
    hint: &'a Hint,
    tables: &'a mut Option<Tables>,
    values: &'a mut Vec<f64>,
    present: &'a mut BitSet,
    pub(super) edit: Option<SchemaEdit>,
    /// Columns appended in this pass, by local set: not in the tables yet.
    appended: Vec<LabelSet>,
    pub(super) times_ms: Vec<(ColumnId, i64)>,
    families: Families,
    pub(super) families_changed: bool,
    /// Filled while the first body is taken apart, so that it is read once.
    learner: Option<Learner>,
    pub(super) learned: Option<Hint>,
    memo: Memo,
    /// Series taken apart in this pass: hash of their text and their column.
    pub(super) unknown: Vec<(u64, u32)>,
    pub(super) stats: RoundStats,
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
    pub(super) fn new(
        parser: &'a mut TextParser,
        body: &'b [u8],
        resolver: &'a mut dyn Resolver,
    ) -> Self {
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

    /// Walks the body from its first byte to its last.
    pub(super) fn run(&mut self) -> Result<(), ParseError> {
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

/// Skips a blank or comment line; `None` when a sample line starts here.
pub(super) fn skip_other<'b>(
    cursor: &mut Cursor<'b>,
    first: u8,
) -> Result<Option<Comment<'b>>, ParseError> {
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
