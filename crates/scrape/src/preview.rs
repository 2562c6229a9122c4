//! Preview of a job's relabelling of discovered groups, without scraping.
//!
//! **Invariant:** a pool does the same with the same groups.

use crate::{
    config::JobConfig,
    target::{Populated, Target},
};
use narthex_discovery::TargetGroup;
use narthex_model::LabelSet;

/// Relabelling result of one discovered target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Preview {
    /// Labels before relabelling.
    pub discovered: LabelSet,
    /// Labels after it, including those that begin with `__`; empty if dropped or invalid.
    pub labels: LabelSet,
    /// Why the labels are invalid.
    pub error: Option<String>,
}

impl JobConfig {
    /// Returns the result for each target of a group, in the group's order.
    #[must_use]
    pub fn preview(&self, group: &TargetGroup) -> Vec<Preview> {
        let preview = |own| {
            let (discovered, labels, error) = match Target::populate(self, own, &group.labels) {
                Ok(Populated::Kept(target)) => (target.discovered, target.all, None),
                Ok(Populated::Dropped(dropped)) => (dropped.discovered, LabelSet::empty(), None),
                Err(failed) => (failed.discovered, LabelSet::empty(), Some(failed.reason)),
            };
            Preview {
                discovered,
                labels,
                error,
            }
        };
        group.targets.iter().map(preview).collect()
    }
}
