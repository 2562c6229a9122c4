//! Contents of a group, as scrapes and lists see them.

use crate::family::Content;
use std::{collections::VecDeque, sync::Arc};

/// Names of the last pushes that were added to a group, oldest first.
pub(crate) type PushIds = VecDeque<String>;

/// Copies of a line's text that are kept for a series.
const LINE_FACTOR: usize = 4;
/// Bytes kept for a series beside its text, about.
const SERIES_BYTES: usize = 400;

/// Names that a group remembers.
const IDS: usize = 1000;

/// Remembers the name of a push.
pub(crate) fn remember(ids: &mut PushIds, id: String) {
    if ids.len() >= IDS {
        ids.pop_front();
    }
    ids.push_back(id);
}

/// Settings of a group that pushes change.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    /// Lifetime after the last push; `None` for ever.
    pub(crate) ttl_ms: Option<u64>,
    /// Longest expected time between pushes; `None` if pushes are not expected.
    pub(crate) interval_ms: Option<u64>,
}

/// Contents of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// Whether anything was ever pushed, successfully or not.
    pub(crate) exists: bool,
    /// Ordered by name.
    pub(crate) families: Vec<Stored>,
    /// Times of the last stored and the last refused push, in nanoseconds since the Unix epoch; 0 for never.
    pub(crate) pushed_ns: i64,
    pub(crate) failed_ns: i64,
    pub(crate) settings: Settings,
    /// Length of the last body, in bytes.
    pub(crate) body_bytes: usize,
}

/// A family and the time of its push.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) content: Arc<Content>,
    pub(crate) pushed_ns: i64,
}

impl State {
    /// Returns the index of a family, or where to insert it.
    pub(crate) fn find(&self, name: &str) -> Result<usize, usize> {
        let families = &self.families;
        families.binary_search_by(|stored| (*stored.content.shape.name).cmp(name))
    }

    /// Returns the number of series.
    pub(crate) fn series(&self) -> usize {
        self.families
            .iter()
            .map(|stored| stored.content.numbers.cells.len())
            .sum()
    }

    /// Returns about how many bytes are kept for the contents: rendered lines, the memory of bodies, which is a multiple
    /// of them, and what a sink keeps of each series.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let lines = self.families.iter();
        let lines: usize = lines.map(|stored| stored.content.lines().len()).sum();
        (LINE_FACTOR * lines + SERIES_BYTES * self.series()) as u64
    }

    /// Returns whether the last push was stored.
    pub(crate) fn is_last_push_stored(&self) -> bool {
        self.failed_ns <= self.pushed_ns
    }

    /// Returns whether pushes come as often as expected, `None` if they are not expected: the last one is not later
    /// than half an interval.
    pub(crate) fn is_up(&self, now_ns: i64) -> Option<bool> {
        let interval_ms = i64::try_from(self.settings.interval_ms?).unwrap_or(i64::MAX);
        let age_ms = now_ns.saturating_sub(self.pushed_ns) / 1_000_000;
        Some(self.pushed_ns > 0 && age_ms <= interval_ms.saturating_add(interval_ms / 2))
    }

    /// Returns whether the group has expired. One without a stored push lives from its last refused one.
    pub(crate) fn is_over(&self, now_ns: i64) -> bool {
        let last_ns = if self.pushed_ns == 0 {
            self.failed_ns
        } else {
            self.pushed_ns
        };
        let age_ms = (now_ns - last_ns) / 1_000_000;
        let ttl_ms = self.settings.ttl_ms;
        ttl_ms.is_some_and(|ttl_ms| age_ms >= i64::try_from(ttl_ms).unwrap_or(i64::MAX))
    }
}
