//! What a job would make of discovered groups, without scraping anything.
//!
//! **Invariant:** it is what a pool does with the same groups.

use crate::{
    JobConfig, Target,
    target::{Failed, Populated},
};
use narthex_discovery::TargetGroup;
use narthex_model::LabelSet;

/// What becomes of one discovered target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Preview {
    /// The labels before relabelling.
    pub discovered: LabelSet,
    /// The labels after it, those that begin with `__` included; empty for what is dropped or fails.
    pub labels: LabelSet,
    /// Why the labels make no target.
    pub error: Option<String>,
}

impl JobConfig {
    /// Returns what becomes of each target of a group, in the group's order.
    #[must_use]
    pub fn preview(&self, group: &TargetGroup) -> Vec<Preview> {
        let preview = |own| match Target::populate(self, own, &group.labels) {
            Ok(Populated::Kept(target)) => Preview {
                discovered: target.discovered,
                labels: target.all,
                error: None,
            },
            Ok(Populated::Dropped(dropped)) => Preview {
                discovered: dropped.discovered,
                labels: LabelSet::empty(),
                error: None,
            },
            Err(Failed { discovered, reason }) => Preview {
                discovered,
                labels: LabelSet::empty(),
                error: Some(reason),
            },
        };
        group.targets.iter().map(preview).collect()
    }
}
