//! Memory of an origin's lines.
//!
//! **Invariant:** everything here is a hint: without it a body yields the same result, only slower.

use super::{
    lex::{Cursor, Dialect, Memo, skip_other},
    line_template::{Learner, LineTemplate},
    pool,
    tables::Tables,
};
use crate::{error::ParseError, hash::hash, round::RoundStats};
use std::sync::Arc;

/// Tables for unexpected lines are dropped after this many rounds without any.
const STABLE_ROUNDS: u8 = 8;
/// Lines that are absent are forgotten after this many rounds that lack many of them: most come back before.
const ABSENT_ROUNDS: u8 = 20;
/// Most rounds between two that are learned for their order alone: some pages have another one each time.
const MOST_PATIENCE: u8 = 64;

/// A walk's findings about the body's lines.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// The template, if there was none before.
    pub(super) learned: Option<LineTemplate>,
    /// Series parsed in this walk: hash of their text and their target.
    pub(super) unknown: Vec<(u64, u32)>,
    /// Unexpected lines before which expected ones were absent.
    pub(super) after_absent: usize,
}

/// The expected order of an origin's lines, with tables for lines out of order.
#[derive(Debug, Default)]
pub(crate) struct LineMemory {
    pub(super) dialect: Dialect,
    pub(super) template: Arc<LineTemplate>,
    pub(super) tables: Option<Tables>,
    stable_rounds: u8,
    /// Rounds without many of the expected lines.
    absent_rounds: u8,
    /// Rounds before another order is learned, and how many there will be after the next one.
    wait: u8,
    patience: u8,
}

impl LineMemory {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets lines that were learned in another dialect.
    pub(crate) fn speak(&mut self, dialect: Dialect) {
        if self.dialect != dialect {
            self.clear();
            self.dialect = dialect;
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.template.heap_bytes()
    }

    /// Reports whether lines were as expected for so long that look-up tables are not worth their memory.
    pub(crate) fn is_stable(&self) -> bool {
        self.stable_rounds >= STABLE_ROUNDS
    }

    /// Decides whether this body's order becomes the template, and whether the tables are still worth their memory.
    pub(crate) fn remember(
        &mut self,
        body: &[u8],
        stats: RoundStats,
        families_changed: bool,
        walked: Walked,
    ) -> Result<(), ParseError> {
        let unexpected = stats.lines - stats.expected;
        if let Some(template) = walked.learned {
            self.template = pool::shared(template);
            self.tables = None;
        } else if families_changed || stats.added > 0 || self.is_outdated(stats, &walked) {
            self.absent_rounds = 0;
            self.learn(body, walked.unknown)?;
        }
        self.stable_rounds = if unexpected > 0 {
            0
        } else {
            self.stable_rounds.saturating_add(1)
        };
        if self.is_stable() {
            self.tables = None;
        }
        Ok(())
    }

    /// Decides whether the order of a body without new series is worth learning.
    fn is_outdated(&mut self, stats: RoundStats, walked: &Walked) -> bool {
        let many = |lines: usize| lines * 10 > stats.lines;
        let elsewhere = stats.lines - stats.expected - walked.after_absent;
        self.absent_rounds = match many(walked.after_absent) && !many(elsewhere) {
            true => self.absent_rounds + 1,
            false => 0,
        };
        if self.absent_rounds >= ABSENT_ROUNDS {
            return true;
        }
        if elsewhere == 0 {
            self.patience = 0;
        }
        self.wait = self.wait.saturating_sub(1);
        let is_due = self.wait == 0 && many(elsewhere);
        if is_due {
            self.patience = (self.patience * 2 + 1).min(MOST_PATIENCE);
            self.wait = self.patience;
        }
        is_due
    }

    /// Makes the body's order the next template; `unknown` are its lines that the tables lack.
    fn learn(&mut self, body: &[u8], mut unknown: Vec<(u64, u32)>) -> Result<(), ParseError> {
        unknown.sort_unstable();
        let tables = self
            .tables
            .take()
            .unwrap_or_else(|| Tables::new(&self.template));
        let mut learner = Learner::with_capacity(self.template.len());
        let mut memo = Memo::default();
        let mut cursor = Cursor::new(body, 0, self.dialect);
        while let Some(byte) = cursor.peek() {
            if skip_other(&mut cursor, byte)?.is_some() {
                continue;
            }
            let start = cursor.at;
            let (target, value_at) = match tables.look_up(body, start) {
                Some((place, value_at)) => (Some(self.template.target_before(place)), value_at),
                None => {
                    cursor.read_series(&mut memo)?;
                    cursor.skip_to_value();
                    let hash = hash(&body[start..cursor.at]);
                    let at = unknown.binary_search_by_key(&hash, |(hash, _)| *hash).ok();
                    (at.map(|at| unknown[at].1), cursor.at)
                }
            };
            cursor.at = value_at;
            let tail = cursor.tail()?;
            match target {
                Some(target) => {
                    learner.line(body, start, value_at, tail.end, target);
                }
                // It was as expected but for blanks before its value; the next body's walk finds its target.
                None => learner.pass_over(tail.end),
            }
        }
        self.template = pool::shared(learner.finish(body));
        Ok(())
    }
}
