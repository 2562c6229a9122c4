//! Arithmetic and comparisons between vectors of any samples, step by step.
//!
//! **Invariant:** at each step a match group has at most one series on the "one" side, and no two pairs have the same
//! labels; otherwise the query fails as in Prometheus.

use super::{
    Block, Meter, Outcome, Sample, Series, Value,
    arithmetic::{Combined, combine},
    operation::{Groups, Operation, execution},
    rows::Rows,
};
use crate::{ast::Cardinality, notes::Note, plan::Steps};
use narthex_model::{LabelHash, LabelSet, storage::Pace};
use std::collections::{HashMap, HashSet, hash_map::Entry};

const NOT_EXPLICIT: &str =
    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)";
const NOT_UNIQUE: &str = "multiple matches for labels: grouping labels must ensure unique matches";

/// Pairs the rows of two vectors; the right one is the "one" side.
pub(super) struct Pairing<'a> {
    operation: &'a Operation<'a>,
    many: &'a Block,
    one: &'a Block,
    groups: &'a Groups,
    rows: Rows,
    results: HashMap<(Option<usize>, Option<usize>), Paired, foldhash::fast::RandomState>,
    /// The row of the "one" side in each group, at the current step.
    one_of: Vec<Option<usize>>,
    matched: Vec<bool>,
    seen: HashSet<(usize, LabelHash), foldhash::fast::RandomState>,
    last_note: Option<Note>,
    meter: Meter,
    pace: Pace<'a>,
}

/// Work of pairing two samples, in samples read.
const PAIR_WORK: usize = 16;

/// Result series of a pair of rows.
struct Paired {
    series: Series,
    hash: LabelHash,
    /// The row of its samples, once there is one.
    row: Option<usize>,
}

impl<'a> Pairing<'a> {
    pub(super) fn new(
        operation: &'a Operation<'a>,
        many: &'a Block,
        one: &'a Block,
        groups: &'a Groups,
    ) -> Self {
        Self {
            operation,
            many,
            one,
            groups,
            rows: Rows::new(many.steps, &operation.eval.memory),
            results: HashMap::default(),
            one_of: vec![None; groups.count],
            matched: vec![false; groups.count],
            seen: HashSet::default(),
            last_note: None,
            meter: Meter::new(&operation.eval.memory),
            pace: operation.eval.ctx.stop.pace(),
        }
    }

    pub(super) fn run(mut self, steps: Steps) -> Outcome<Block> {
        let eval = self.operation.eval;
        for step in 0..steps.count {
            eval.ctx.stop.check()?;
            self.step(step)?;
            if let Some(note) = self.last_note.take() {
                eval.notes().add_at(note, steps.time_ms(step));
            }
        }
        Ok(self.rows.finish())
    }

    fn step(&mut self, step: usize) -> Outcome<()> {
        self.pace.spend(self.many.len() + self.one.len())?;
        let (fill_many, fill_one) = self.fills();
        if fill_many.is_none() && fill_one.is_none() {
            let is_empty = |block: &Block| {
                (0..block.len()).all(|row| matches!(block.sample(row, step), Sample::Absent))
            };
            // Nothing matches, and Prometheus does not check for duplicates either.
            if is_empty(self.many) || is_empty(self.one) {
                return Ok(());
            }
        }
        self.one_of.fill(None);
        self.matched.fill(false);
        self.seen.clear();
        let groups = self.groups;
        for (row, group) in groups.rhs.iter().enumerate() {
            if matches!(self.one.sample(row, step), Sample::Absent) {
                continue;
            }
            if let Some(other) = self.one_of[*group] {
                let (a, b) = (&self.one.series[row], &self.one.series[other]);
                return Err(self.operation.duplicate(a, b, self.is_swapped()));
            }
            self.one_of[*group] = Some(row);
        }
        for (row, group) in groups.lhs.iter().enumerate() {
            if matches!(self.many.sample(row, step), Sample::Absent) {
                continue;
            }
            let partner = self.one_of[*group];
            if partner.is_some() || fill_one.is_some() {
                self.pair(Some(row), partner, *group, step)?;
            }
        }
        if fill_many.is_some() {
            for (row, group) in groups.rhs.iter().enumerate() {
                let present = self.one_of[*group] == Some(row);
                // A partner that could not be combined counts as missing.
                if present && !self.matched[*group] {
                    self.pair(None, Some(row), *group, step)?;
                }
            }
        }
        Ok(())
    }

    fn is_swapped(&self) -> bool {
        self.operation.matching.cardinality == Cardinality::OneToMany
    }

    /// Returns what stands for missing samples of the many and of the one.
    fn fills(&self) -> (Option<f64>, Option<f64>) {
        let matching = self.operation.matching;
        if self.is_swapped() {
            (matching.fill_right, matching.fill_left)
        } else {
            (matching.fill_left, matching.fill_right)
        }
    }

    /// Computes the sample of a pair, filling in a missing partner.
    fn pair(
        &mut self,
        many: Option<usize>,
        one: Option<usize>,
        group: usize,
        step: usize,
    ) -> Outcome<()> {
        self.pace.spend(PAIR_WORK)?;
        let fill = |value: Option<f64>| Sample::Float(value.unwrap_or_default());
        let (fill_many, fill_one) = self.fills();
        let many_sample = many.map_or(fill(fill_many), |row| self.many.sample(row, step));
        let one_sample = one.map_or(fill(fill_one), |row| self.one.sample(row, step));
        let (l, r) = if self.is_swapped() {
            (one_sample, many_sample)
        } else {
            (many_sample, one_sample)
        };
        let Combined {
            value,
            keep,
            info,
            warning,
        } = combine(self.operation.op, l, r, self.operation.span);
        if warning.is_some() || (value.is_none() && info.is_some()) {
            self.last_note = warning.or(info);
            return Ok(());
        }
        if info.is_some() {
            self.last_note = info;
        }
        self.refuse_second(many, one, group)?;
        let value = if self.operation.return_bool {
            Some(Value::Float(f64::from(keep)))
        } else {
            value.filter(|_| keep)
        };
        let Some(value) = value else { return Ok(()) };
        let paired = self.paired(many, one)?;
        let row = match paired.row {
            Some(row) => row,
            None => {
                let series = paired.series.clone();
                let row = self.rows.row(&series)?;
                self.paired(many, one)?.row = Some(row);
                row
            }
        };
        self.rows.store(row, step, value)
    }

    /// Fails if this step already had a pair with the same labels.
    fn refuse_second(
        &mut self,
        many: Option<usize>,
        one: Option<usize>,
        group: usize,
    ) -> Outcome<()> {
        let before = std::mem::replace(&mut self.matched[group], true);
        if self.operation.matching.cardinality == Cardinality::OneToOne {
            return if before {
                Err(execution(NOT_EXPLICIT))
            } else {
                Ok(())
            };
        }
        let hash = self.paired(many, one)?.hash;
        if self.seen.insert((group, hash)) {
            Ok(())
        } else {
            Err(execution(NOT_UNIQUE))
        }
    }

    fn paired(&mut self, many: Option<usize>, one: Option<usize>) -> Outcome<&mut Paired> {
        let operation = self.operation;
        let (many_side, one_side) = (self.many, self.one);
        let make = || {
            let many = many.map(|row| many_side.series[row].labels());
            let one = one.map(|row| one_side.series[row].labels());
            // A filled side has the matching labels.
            let stand_in = |other: &Option<LabelSet>| {
                other
                    .as_ref()
                    .map(|labels| operation.match_labels(labels))
                    .unwrap_or_default()
            };
            let series = operation.result(
                many.as_ref().unwrap_or(&stand_in(&one)),
                one.as_ref().unwrap_or(&stand_in(&many)),
            );
            let hash = series.hash();
            Paired {
                series,
                hash,
                row: None,
            }
        };
        match self.results.entry((many, one)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                let paired = make();
                let entry = size_of::<(Option<usize>, Option<usize>, Paired)>();
                self.meter.add(2 * entry + paired.series.heap_bytes())?;
                Ok(vacant.insert(paired))
            }
        }
    }
}
