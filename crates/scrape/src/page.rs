//! Labels that a whole page shares, and when a page counts as a different one.
//!
//! Programs that write pod, node or version into every line would otherwise pay for them in each series. Labels that
//! all lines share join the target's own in the schema's common set, so that the local sets are the same as those of
//! similar targets.
//!
//! **Invariant:** this changes where a label is kept, never which labels a series gets.

use crate::plan::Plan;
use narthex_expfmt::{Format, common_labels};
use narthex_model::LabelSet;

/// Pages with fewer lines or names gain too little, and may not have shown their labels yet.
const LEAST_LINES: usize = 32;
const LEAST_NAMES: usize = 8;
/// Consecutive new schemas, after which pages with changing labels share one.
const MOST_RESTARTS: u8 = 4;
/// Rounds that earn another restart.
const ROUNDS_PER_RESTART: u8 = 10;

/// Limits how often a target's schema may restart: with several programs behind one address, it would in every round.
#[derive(Debug)]
pub(crate) struct Restarts {
    left: u8,
    rounds: u8,
}

impl Default for Restarts {
    fn default() -> Self {
        Self {
            left: MOST_RESTARTS,
            rounds: 0,
        }
    }
}

impl Restarts {
    /// Counts a round.
    pub(crate) fn count_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= ROUNDS_PER_RESTART {
            self.rounds = 0;
            self.left = (self.left + 1).min(MOST_RESTARTS);
        }
    }

    /// Reports whether any restart is left.
    pub(crate) fn are_left(&self) -> bool {
        self.left > 0
    }

    /// Uses up a restart; reports whether one was left.
    pub(crate) fn use_up(&mut self) -> bool {
        let left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        left
    }
}

/// Returns the labels of a page that can be common to its schema.
pub(crate) fn labels_of(plan: &Plan, format: Format, body: &[u8]) -> LabelSet {
    if !plan.labels_are_common() {
        return LabelSet::empty();
    }
    let found = common_labels(format, body);
    if found.lines < LEAST_LINES || found.names < LEAST_NAMES {
        return LabelSet::empty();
    }
    let own = found.labels.iter().filter(|label| {
        let name = label.name();
        // These are renamed or rewritten line by line.
        let special = ["le", "quantile", "__type__", "__unit__"].contains(&name)
            || name.starts_with("exported_");
        !special && plan.labels.label(name).is_none() && plan.names.allows_label(name)
    });
    let labels = LabelSet::from_labels(own.cloned());
    if plan.rules_may_touch(&labels) {
        return LabelSet::empty();
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_used_up_and_earned_again() {
        let mut restarts = Restarts::default();
        for _ in 0..MOST_RESTARTS {
            assert!(restarts.are_left() && restarts.use_up());
        }
        assert!(!restarts.are_left() && !restarts.use_up());
        (0..ROUNDS_PER_RESTART).for_each(|_| restarts.count_round());
        assert!(restarts.use_up() && !restarts.use_up());
    }
}
