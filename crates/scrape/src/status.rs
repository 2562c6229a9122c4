//! Status of targets, for people and for the API.

use crate::target::{Dropped, Failed, Target};
use narthex_model::sync::Whole as _;
use narthex_model::{LabelSet, Schema, relabel::Rule};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// Result of a target's last scrape.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Health {
    /// Not scraped yet.
    #[default]
    Unknown,
    /// Succeeded.
    Up,
    /// Failed.
    Down,
}

impl Health {
    /// Returns the word the API uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// Status of a target's last scrape.
#[derive(Clone, Debug, Default)]
pub struct TargetStatus {
    /// Whether it succeeded.
    pub health: Health,
    /// Why it failed, or empty.
    pub last_error: String,
    /// When it started, if ever.
    pub last_scrape_ms: Option<i64>,
    /// How long it took.
    pub last_duration: Duration,
    /// Decompressed size of the body.
    pub body_bytes: usize,
    /// Samples in the body.
    pub samples: usize,
}

/// A target that is being scraped.
#[derive(Debug)]
pub(crate) struct ActiveTarget {
    pub(crate) pool: String,
    pub(crate) target: Target,
    /// State that may change while the target stays the same.
    found: Mutex<Found>,
    status: Mutex<TargetStatus>,
    /// Schema of the last round, and how many of its families are synthetic.
    schema: Mutex<Option<(Schema, usize)>>,
    /// Whether its loop has ended and cannot continue.
    ended: Mutex<bool>,
}

/// How a target was last discovered.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Labels before relabelling.
    pub(crate) discovered: LabelSet,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
}

impl Found {
    fn from_target(target: &Target) -> Self {
        Self {
            discovered: target.discovered.clone(),
            interval: target.interval,
            timeout: target.timeout,
        }
    }
}

impl ActiveTarget {
    pub(crate) fn new(pool: &str, target: Target) -> Self {
        Self {
            pool: pool.to_owned(),
            found: Mutex::new(Found::from_target(&target)),
            target,
            status: Mutex::default(),
            schema: Mutex::default(),
            ended: Mutex::default(),
        }
    }

    /// Ends the target for good if `gone` still holds; reports whether it did.
    pub(crate) fn end_if(&self, gone: impl FnOnce() -> bool) -> bool {
        let mut ended = self.ended.lock().whole();
        *ended |= gone();
        *ended
    }

    /// Runs `go_on` unless the loop has ended; reports whether it ran.
    pub(crate) fn unless_ended(&self, go_on: impl FnOnce()) -> bool {
        let ended = self.ended.lock().whole();
        if !*ended {
            go_on();
        }
        !*ended
    }

    pub(crate) fn status(&self) -> TargetStatus {
        self.status.lock().whole().clone()
    }

    pub(crate) fn set_status(&self, status: TargetStatus) {
        *self.status.lock().whole() = status;
    }

    /// Returns how the target was last discovered.
    pub(crate) fn found(&self) -> Found {
        self.found.lock().whole().clone()
    }

    /// Records how the same target was discovered again.
    pub(crate) fn find(&self, target: &Target) {
        *self.found.lock().whole() = Found::from_target(target);
    }

    /// Returns the schema of the last round, and how many of its families are synthetic.
    pub(crate) fn schema(&self) -> Option<(Schema, usize)> {
        self.schema.lock().whole().clone()
    }

    /// Stores the schema of a round; cheap if it is unchanged.
    pub(crate) fn set_schema(&self, schema: &Schema, synthetic: usize) {
        let mut kept = self.schema.lock().whole();
        if !kept.as_ref().is_some_and(|(known, _)| known.same(schema)) {
            *kept = Some((schema.clone(), synthetic));
        }
    }
}

/// Status of one pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolStatus {
    pub(crate) name: String,
    pub(crate) active: Vec<Arc<ActiveTarget>>,
    pub(crate) unscraped: Arc<Unscraped>,
    /// Rules that drop targets.
    pub(crate) rules: Vec<Rule>,
}

/// Discovered but unscraped targets; counts are complete, lists are capped by `keep_dropped_targets`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unscraped {
    /// Targets that relabelling dropped.
    pub(crate) dropped: Vec<Dropped>,
    /// Number of targets each rule dropped.
    pub(crate) drops_by_rule: Vec<usize>,
    /// Invalid targets.
    pub(crate) failed: Vec<Failed>,
    pub(crate) failed_count: usize,
}

impl Unscraped {
    /// Returns the number of targets that relabelling dropped.
    pub(crate) fn dropped_count(&self) -> usize {
        self.drops_by_rule.iter().sum()
    }

    /// Returns the heap memory of the lists.
    pub(crate) fn heap_bytes(&self) -> usize {
        let dropped = self.dropped.iter().map(|found| &found.discovered);
        let failed = self.failed.iter();
        let reasons: usize = failed.clone().map(|found| found.reason.capacity()).sum();
        let sets = dropped.chain(failed.map(|found| &found.discovered));
        let sets: usize = sets.map(LabelSet::heap_bytes).sum();
        let lists = self.dropped.capacity() * size_of::<Dropped>()
            + self.failed.capacity() * size_of::<Failed>();
        lists + sets + reasons
    }
}
