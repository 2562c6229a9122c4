//! Which labels of a page belong to its target as a whole, and when a page is another one than before.
//!
//! Programs that write pod, node or version into every line would have each series pay for them. What all lines of a
//! page share joins the target's own labels in the schema's common set, so that the local sets are those of every
//! other target of the kind.
//!
//! **Invariant:** series get the labels they would get without this; only where a label is kept changes.

use crate::plan::Plan;
use narthex_expfmt::{Format, common_labels};
use narthex_model::LabelSet;

/// A page with fewer lines or names gains too little, and may just not have shown yet what its labels are.
const LEAST_LINES: usize = 32;
const LEAST_NAMES: usize = 8;
/// Schemas begun anew in a row, after which pages that change their labels share one.
const MOST_RESTARTS: u8 = 4;
/// Rounds that earn another restart.
const ROUNDS_PER_RESTART: u8 = 10;

/// How often a target's schema may begin anew: an address behind which several programs answer in turn would do so
/// in every round.
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

    /// Reports whether a restart is left.
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

/// Returns the labels of a page that its schema can have in common.
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
        let special = ["le", "quantile"].contains(&name) || name.starts_with("exported_");
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
