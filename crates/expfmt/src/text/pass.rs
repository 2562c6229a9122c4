//! One walk over one body of lines: along the template while lines are as expected, line by line otherwise.
//!
//! **Invariant:** a walk changes only the tables of the memory.

use super::{
    lex::{Comment, Cursor, Dialect, Memo, Tail, exemplar, skip_other},
    line_template::{Learner, LineTemplate, Place, Reading, Rich, Run},
    memory::{LineMemory, Walked},
    tables::Tables,
};
use crate::{
    body_builder::BodyBuilder,
    error::{ParseError, ParseErrorKind},
    families::About,
    hash::hash,
};

/// Unexpected lines between two requests for memory.
const LINES_AT_ONCE: usize = 1024;

/// Walks a body from its first byte to its last.
///
/// # Errors
/// Fails with the position of the first offending byte.
pub(crate) fn walk(
    memory: &mut LineMemory,
    body: &[u8],
    builder: &mut BodyBuilder<'_>,
) -> Result<Walked, ParseError> {
    let first = memory.template.len() == 0;
    let mut pass = Pass {
        body,
        dialect: memory.dialect,
        template: &memory.template,
        tables: &mut memory.tables,
        builder,
        learner: first.then(Learner::default),
        memo: Memo::default(),
        rich: Vec::new(),
        unexpected: 0,
        walked: Walked::default(),
        ended: false,
        recalled: 0,
    };
    pass.run()?;
    Ok(pass.walked)
}

struct Pass<'a, 'b, 'i> {
    body: &'b [u8],
    dialect: Dialect,
    template: &'a LineTemplate,
    tables: &'a mut Option<Tables>,
    builder: &'a mut BodyBuilder<'i>,
    /// Filled while the first body is parsed, so that it is read once.
    learner: Option<Learner>,
    memo: Memo,
    rich: Vec<Rich>,
    /// Number of lines that the template did not foresee.
    unexpected: usize,
    walked: Walked,
    /// Whether the end mark was read.
    ended: bool,
    /// Up to here all comments were applied, expected ones included.
    recalled: usize,
}

/// Offsets of an unexpected line and of the line after it.
struct Next {
    start: usize,
    at: usize,
}

impl Pass<'_, '_, '_> {
    fn run(&mut self) -> Result<(), ParseError> {
        let (mut at, mut place, mut previous) = (0, Place::default(), 0);
        loop {
            let run = self.along_the_template(at, previous, place)?;
            (at, place, previous) = (run.at, run.place, run.previous);
            let rest = &self.body[at..];
            // The last body ended with its end mark.
            if place.entry > 0
                && place.entry == self.template.len()
                && self.template.ends_with(rest)
            {
                break;
            }
            if rest.is_empty() {
                self.check_end(at)?;
                break;
            }
            let (next, found) = self.unexpected(at)?;
            at = next.at;
            if let Some(found) = found {
                self.walked.after_absent += usize::from(found.entry > place.entry);
                (place, previous) = (found, next.start);
            }
        }
        if let Some(learner) = self.learner.take() {
            self.walked.learned = Some(learner.finish(self.body));
        }
        Ok(())
    }

    fn check_end(&self, at: usize) -> Result<(), ParseError> {
        if self.dialect == Dialect::OpenMetrics && !self.ended {
            return Err(ParseError::at(self.body, at, ParseErrorKind::MissingEof));
        }
        Ok(())
    }

    fn along_the_template(
        &mut self,
        at: usize,
        previous: usize,
        place: Place,
    ) -> Result<Run, ParseError> {
        let mut into = Reading {
            dialect: self.dialect,
            cells: &mut *self.builder.cells,
            rich: &mut self.rich,
        };
        let run = self.template.run(self.body, at, previous, place, &mut into);
        let lines = run.place.entry - place.entry;
        self.builder.stats.lines += lines;
        self.builder.stats.expected += lines;
        if !self.rich.is_empty() {
            let mut rich = std::mem::take(&mut self.rich);
            for line in &rich {
                self.beside(line.target, line.is_first, &line.tail)?;
            }
            rich.clear();
            self.rich = rich;
        }
        Ok(run)
    }

    /// Stores a line's time and exemplar.
    fn beside(&mut self, target: u32, is_first: bool, tail: &Tail) -> Result<(), ParseError> {
        self.builder.at(target, tail.value, is_first, tail.time_ms);
        if let Some(span) = &tail.exemplar {
            let bytes = &self.body[span.clone()];
            let read = || exemplar(self.body, span.clone());
            self.builder.exemplar(target, bytes, read)?;
        }
        Ok(())
    }

    /// Handles unexpected lines: comments up to the next sample line, and that line.
    fn unexpected(&mut self, at: usize) -> Result<(Next, Option<Place>), ParseError> {
        let mut cursor = Cursor::new(self.body, at, self.dialect);
        while let Some(byte) = cursor.peek() {
            match skip_other(&mut cursor, byte)? {
                Some(comment) => self.comment(comment),
                None => break,
            }
        }
        let start = cursor.at;
        if start >= self.body.len() {
            return Ok((Next { start, at: start }, None));
        }
        self.make_room(start)?;
        // A malformed line does not count.
        if let Some((place, value_at)) = self.look_up(start) {
            cursor.at = value_at;
            let tail = cursor.tail()?;
            self.builder.stats.lines += 1;
            let target = self.template.target_before(place);
            self.store_unexpected(target, &tail)?;
            self.builder.stats.found += 1;
            let at = tail.end;
            return Ok((Next { start, at }, Some(place)));
        }
        cursor.read_series(&mut self.memo)?;
        let parsed = self
            .builder
            .own_labels(self.memo.labels())
            .ok_or_else(|| ParseError::at(self.body, start, ParseErrorKind::LacksCommonLabel))?;
        cursor.skip_to_value();
        let value_at = cursor.at;
        let tail = cursor.tail()?;
        self.builder.stats.lines += 1;
        self.builder.blank.clear();
        self.builder.blank.extend(self.memo.blank());
        if self.learner.is_none() && !self.builder.knows_family_of(&parsed) {
            self.recall(start);
        }
        let target = self.builder.target_of(&parsed).map_err(|reason| {
            ParseError::at(self.body, start, ParseErrorKind::Refused { reason })
        })?;
        self.store_unexpected(target, &tail)?;
        let at = tail.end;
        match &mut self.learner {
            Some(learner) => {
                learner.line(self.body, start, value_at, at, target);
            }
            None => {
                let hash = hash(&self.body[start..value_at]);
                self.walked.unknown.push((hash, target));
            }
        }
        Ok((Next { start, at }, None))
    }

    /// Applies the comments before a line that were passed over because they were expected: one of them may declare the
    /// family of a series that was not there when they were read.
    fn recall(&mut self, end: usize) {
        let from = std::mem::replace(&mut self.recalled, end);
        let mut cursor = Cursor::new(self.body, from, self.dialect);
        while let Some(byte) = cursor.peek().filter(|_| cursor.at < end) {
            let line = cursor.at;
            // They were read without a mistake before, so what is none is no comment.
            if let Ok(Some(comment)) = skip_other(&mut cursor, byte) {
                self.comment(comment);
                continue;
            }
            let rest = self.body.get(line..end).unwrap_or_default();
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            cursor.at = line + length;
        }
    }

    /// Requests memory for a line that takes some, as those after it may.
    fn make_room(&mut self, start: usize) -> Result<(), ParseError> {
        if self.unexpected.is_multiple_of(LINES_AT_ONCE) {
            let room = self.builder.room_for_lines(LINES_AT_ONCE);
            room.map_err(|reason| {
                ParseError::at(self.body, start, ParseErrorKind::Refused { reason })
            })?;
        }
        self.unexpected += 1;
        Ok(())
    }

    fn comment(&mut self, comment: Comment<'_>) {
        match comment {
            Comment::Help(name, help) => self.builder.about(&name, About::Help(help)),
            Comment::Type(name, metric_type) => self.builder.about(&name, About::Type(metric_type)),
            Comment::Unit(name, unit) => self.builder.about(&name, About::Unit(unit)),
            Comment::Eof => self.ended = true,
            Comment::Other => {}
        }
    }

    fn store_unexpected(&mut self, target: u32, tail: &Tail) -> Result<(), ParseError> {
        let stored = self.store(target, tail);
        // A line with a malformed exemplar does not count either.
        self.builder.stats.lines -= usize::from(stored.is_err());
        stored
    }

    fn store(&mut self, target: u32, tail: &Tail) -> Result<(), ParseError> {
        let is_first = self.builder.cells.insert(target, tail.value);
        self.beside(target, is_first, tail)
    }

    /// Finds a line by its text; returns the position after its entry and the offset of its value.
    fn look_up(&mut self, start: usize) -> Option<(Place, usize)> {
        if self.template.len() == 0 {
            return None;
        }
        let tables = self
            .tables
            .get_or_insert_with(|| Tables::new(self.template));
        tables.look_up(self.body, start)
    }
}
