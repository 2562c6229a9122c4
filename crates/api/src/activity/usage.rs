//! Which metrics are asked for, by whom and when.
//!
//! **Invariant:** a selector counts for the metrics that it names, whether or not there are any; one that names none,
//! or all, counts for none.

use super::Origin;
use narthex_model::{
    METRIC_NAME, MatchOp, Matcher,
    storage::{Lease, Selector},
};
use std::collections::HashMap;

/// Longest name or pattern that is remembered, in bytes.
const NAME_BYTES: usize = 1 << 10;
/// Memory of a name, without its text.
const NAME_ITEM_BYTES: u64 = 128;
/// Memory of a pattern, without its text: compiled ones of this length take up to this much.
const PATTERN_ITEM_BYTES: u64 = 16 << 10;
/// Most patterns that are remembered.
const MOST_PATTERNS: usize = 1000;
/// A matcher of this label, with an empty value, keeps a selector from being counted.
const IGNORED: &str = "__ignore_usage__";

#[derive(Debug)]
pub(crate) struct Usage {
    names: HashMap<Box<str>, Uses>,
    patterns: HashMap<Box<str>, (Matcher, Uses)>,
    /// Selectors for which there was no memory.
    pub(crate) forgotten: u64,
    lease: Lease,
}

/// What was counted until some moment.
#[derive(Debug)]
pub(crate) struct Counts {
    names: HashMap<Box<str>, Uses>,
    patterns: Vec<(Matcher, Uses)>,
}

impl Counts {
    /// Returns how often a metric was asked for.
    pub(crate) fn of_metric(&self, name: &str) -> Uses {
        let mut uses = self.names.get(name).copied().unwrap_or_default();
        for (matcher, more) in &self.patterns {
            if matcher.matches(name) {
                uses.add(*more);
            }
        }
        uses
    }

    /// Returns about how many steps it takes to look a name up.
    pub(crate) fn work(&self, name: &str) -> usize {
        16 + name.len() * (1 + self.patterns.len())
    }
}

/// How often something was asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Uses {
    pub(crate) queries: u64,
    pub(crate) dashboards: u64,
    pub(crate) rules: u64,
    pub(crate) last_ms: i64,
}

impl Uses {
    pub(crate) fn total(self) -> u64 {
        self.queries + self.dashboards + self.rules
    }

    fn count(&mut self, origin: &Origin, now_ms: i64) {
        let count = match origin {
            Origin::Rule { .. } => &mut self.rules,
            Origin::Http { is_dashboard, .. } if *is_dashboard => &mut self.dashboards,
            Origin::Http { .. } => &mut self.queries,
        };
        *count += 1;
        self.last_ms = self.last_ms.max(now_ms);
    }

    fn add(&mut self, other: Self) {
        self.queries += other.queries;
        self.dashboards += other.dashboards;
        self.rules += other.rules;
        self.last_ms = self.last_ms.max(other.last_ms);
    }
}

impl Usage {
    pub(crate) fn new(lease: Lease) -> Self {
        Self {
            names: HashMap::new(),
            patterns: HashMap::new(),
            forgotten: 0,
            lease,
        }
    }

    /// Counts the selectors of a query.
    pub(crate) fn count(&mut self, selectors: &[Selector], origin: &Origin, now_ms: i64) {
        for selector in selectors {
            let matchers = &selector.matchers;
            if matchers.iter().any(|one| &*one.name == IGNORED) {
                continue;
            }
            for matcher in matchers.iter().filter(|one| &*one.name == METRIC_NAME) {
                self.count_matcher(matcher, origin, now_ms);
            }
        }
    }

    fn count_matcher(&mut self, matcher: &Matcher, origin: &Origin, now_ms: i64) {
        if let Some(names) = matcher.accepted_values() {
            for name in names.into_iter().filter(|name| !name.is_empty()) {
                match self.name(name) {
                    Some(uses) => uses.count(origin, now_ms),
                    None => self.forgotten += 1,
                }
            }
        } else if matcher.op == MatchOp::Regex && !matches!(&*matcher.value, ".*" | ".+") {
            match self.pattern(matcher) {
                Some(uses) => uses.count(origin, now_ms),
                None => self.forgotten += 1,
            }
        }
    }

    fn name(&mut self, name: &str) -> Option<&mut Uses> {
        if !self.names.contains_key(name) {
            if name.len() > NAME_BYTES {
                return None;
            }
            let bytes = NAME_ITEM_BYTES + name.len() as u64;
            self.lease.grow(bytes).ok()?;
            self.names.insert(name.into(), Uses::default());
        }
        self.names.get_mut(name)
    }

    fn pattern(&mut self, matcher: &Matcher) -> Option<&mut Uses> {
        let text = &*matcher.value;
        if !self.patterns.contains_key(text) {
            if text.len() > NAME_BYTES || self.patterns.len() == MOST_PATTERNS {
                return None;
            }
            self.lease.grow(PATTERN_ITEM_BYTES).ok()?;
            let item = (matcher.clone(), Uses::default());
            self.patterns.insert(text.into(), item);
        }
        self.patterns.get_mut(text).map(|(_, uses)| uses)
    }

    /// Returns a copy to look things up in, which keeps no query waiting.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            names: self.names.clone(),
            patterns: self.patterns.values().cloned().collect(),
        }
    }

    /// Returns the number of names and patterns, and their memory in bytes.
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.names.len() + self.patterns.len(), self.lease.bytes())
    }
}
