//! Groups whose evaluations the caller times: for tests of rules and for the past.
//!
//! **Invariant:** an evaluation is the same as in a server; only nothing waits, and no two groups run at once.

use super::{
    EvalOptions, RuleSet,
    alerts::AlertState,
    group::Groups,
    manager::{Replaced, replace},
    query::{Settings, Tools},
    rule::LiveRule,
};
use crate::file::Texts;
use narthex_model::{
    LabelSet,
    storage::{Sink, Store},
};
use std::{collections::HashSet, sync::Arc, time::Duration};

/// Groups that are evaluated when asked.
pub struct OfflineGroups {
    tools: Tools,
    groups: Groups,
}

/// A pending or firing alert.
#[derive(Clone, Debug, PartialEq)]
pub struct OfflineAlert {
    /// Its labels, `alertname` included.
    pub labels: LabelSet,
    /// Its annotations.
    pub annotations: Texts,
    /// Whether it fires.
    pub is_firing: bool,
    /// Since when it is active, in milliseconds since the epoch.
    pub active_at_ms: i64,
    /// The element's value.
    pub value: f64,
}

impl OfflineGroups {
    /// Returns the groups of a configuration; `restores` if their alerts may have been active before.
    #[must_use]
    pub fn new(
        options: EvalOptions,
        store: Arc<dyn Store>,
        sink: Arc<dyn Sink>,
        rules: &RuleSet,
        restores: bool,
    ) -> Self {
        let settings = Settings::new(options);
        settings.follow(rules);
        Self {
            groups: replace(&Groups::new(), rules, restores, &|_| ()).groups,
            tools: Tools {
                store,
                sink,
                settings: Arc::new(settings),
            },
        }
    }

    /// Goes on with the groups of another configuration, whose series end at `time_ms` where it has them no more.
    pub fn apply(&mut self, rules: &RuleSet, time_ms: i64) {
        self.tools.settings.follow(rules);
        let Replaced {
            groups, removed, ..
        } = replace(&self.groups, rules, false, &|group| group.stop());
        self.groups = groups;
        let live: HashSet<LabelSet> = self
            .groups
            .values()
            .flat_map(|group| group.live())
            .collect();
        for group in removed {
            group.end(group.take_outputs(), &self.tools, time_ms, &live);
        }
    }

    /// As [`Manager::evaluate_at_once`](super::Manager::evaluate_at_once).
    pub fn evaluate_at_once(&self, most: usize, worth: Duration) {
        self.tools.settings.permits.set(most, worth);
    }

    /// Lists the groups by file and name.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let places = self.groups.keys();
        places.map(|(file, name)| (&**file, &**name))
    }

    /// Evaluates the group `name` of `file` as of `time_ms`, if there is one.
    pub fn evaluate(&self, file: &str, name: &str, time_ms: i64) {
        if let Some(group) = self.groups.get(&(file.to_owned(), name.to_owned())) {
            group.iterate(&self.tools, time_ms);
        }
    }

    /// Returns how long each rule of a group took the last time.
    #[must_use]
    pub fn durations(&self, file: &str, name: &str) -> Vec<(String, Duration)> {
        let group = self.groups.get(&(file.to_owned(), name.to_owned()));
        let rules = group.into_iter().flat_map(|group| &group.rules);
        rules
            .map(|rule| (rule.name.clone(), rule.status().duration))
            .collect()
    }

    /// Returns the names of rules whose last evaluation failed, with their errors.
    #[must_use]
    pub fn errors(&self) -> Vec<(String, String)> {
        let rules = self.groups.values().flat_map(|group| &group.rules);
        let failed = rules.filter_map(|rule| Some((rule.name.clone(), rule.status().last_error?)));
        failed.collect()
    }

    /// Returns the pending and firing alerts of all rules, or of those called `name`.
    #[must_use]
    pub fn alerts(&self, name: Option<&str>) -> Vec<OfflineAlert> {
        let rules = self.groups.values().flat_map(|group| &group.rules);
        let mut found = Vec::new();
        let is_asked = |rule: &&LiveRule| name.is_none_or(|name| rule.name == name);
        for rule in rules.filter(|rule| rule.is_alerting()).filter(is_asked) {
            for (labels, alert) in &*rule.alerts() {
                if alert.state != AlertState::Inactive {
                    found.push(OfflineAlert {
                        labels: labels.clone(),
                        annotations: Texts::clone(&alert.annotations),
                        is_firing: alert.state == AlertState::Firing,
                        active_at_ms: alert.active_at_ms,
                        value: alert.value,
                    });
                }
            }
        }
        found
    }
}
