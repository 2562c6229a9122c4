//! Matching of series for binary operators between vectors.
//!
//! **Invariant:** partners have equal hashes of the matching labels; on the "one" side a match group has at most one
//! series at a step; results with equal labels at one step are an error.

use super::{
    Block, GroupKeys, META_LABELS, Outcome, Series, float_pairs,
    operation::{Groups, Operation},
    pairing::Pairing,
    sets,
};
use crate::{ast::Cardinality, plan::Steps};
use narthex_model::{LabelHash, storage::Grouping};
use std::collections::HashMap;

/// Memory for grouping a row: its group number, a table entry, the marks of a step.
const GROUP_BYTES: usize = 80;

/// Work of finding a series' match group, in samples read.
const KEY_WORK: usize = 32;

impl Operation<'_> {
    pub(super) fn run(&self, lhs: &Block, rhs: &Block, steps: Steps) -> Outcome<Block> {
        let rows = lhs.len() + rhs.len();
        let _groups = self.eval.memory.acquire(0, (rows * GROUP_BYTES) as u64)?;
        let groups = self.groups(lhs, rhs)?;
        if self.op.is_set() {
            return sets::run(self, lhs, rhs, &groups, steps.count);
        }
        // Swap the sides, so that the right side is always the "one" side.
        if self.matching.cardinality == Cardinality::OneToMany {
            let swapped = Groups {
                lhs: groups.rhs,
                rhs: groups.lhs,
                count: groups.count,
            };
            return self.pair(rhs, lhs, &swapped, steps);
        }
        self.pair(lhs, rhs, &groups, steps)
    }

    fn pair(&self, many: &Block, one: &Block, groups: &Groups, steps: Steps) -> Outcome<Block> {
        match float_pairs::run(self, many, one, groups)? {
            Some(block) => Ok(block),
            None => Pairing::new(self, many, one, groups).run(steps),
        }
    }

    fn groups(&self, lhs: &Block, rhs: &Block) -> Outcome<Groups> {
        let names = self.matching.labels.iter();
        let mut names: Vec<Box<str>> = names.map(|name| name.as_str().into()).collect();
        if !self.matching.on {
            names.extend(META_LABELS.map(Box::from));
        }
        names.sort_unstable();
        names.dedup();
        let keys = GroupKeys::new(Grouping {
            without: !self.matching.on,
            names,
        });
        let mut numbers: HashMap<LabelHash, usize, foldhash::fast::RandomState> =
            HashMap::default();
        numbers.reserve(lhs.len().max(rhs.len()));
        let mut pace = self.eval.ctx.stop.pace();
        let mut number = |series: &Series| {
            pace.spend(KEY_WORK)?;
            let next = numbers.len();
            Ok(*numbers.entry(series.group_key(&keys)).or_insert(next))
        };
        let left = lhs.series.iter().map(&mut number).collect::<Outcome<_>>()?;
        let right = rhs.series.iter().map(&mut number).collect::<Outcome<_>>()?;
        let count = numbers.len();
        Ok(Groups {
            lhs: left,
            rhs: right,
            count,
        })
    }
}
