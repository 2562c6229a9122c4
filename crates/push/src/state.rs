//! Contents of a group, as scrapes and lists see them.

use crate::layout::Contents;
use std::{collections::VecDeque, sync::Arc};

/// Names of the last pushes that were added to a group, oldest first.
pub(crate) type PushIds = VecDeque<String>;

/// Copies of a line's text that are kept for a layout.
const TEXT_FACTOR: usize = 4;
/// Bytes kept for a series of a layout beside its text, and for a series of a group, about.
const SHARED_BYTES: usize = 200;
const SERIES_BYTES: usize = 200;

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
    pub(crate) contents: Contents,
    /// When each family was pushed, unless it was with the last stored push.
    pub(crate) families_ns: Vec<i64>,
    /// Times of the last stored and the last refused push, in nanoseconds since the Unix epoch; 0 for never.
    pub(crate) pushed_ns: i64,
    pub(crate) failed_ns: i64,
    pub(crate) settings: Settings,
    /// Length of the last body, in bytes.
    pub(crate) body_bytes: usize,
}

impl State {
    /// Returns when a family was pushed, in nanoseconds since the Unix epoch.
    pub(crate) fn family_ns(&self, at: usize) -> i64 {
        self.families_ns.get(at).copied().unwrap_or(self.pushed_ns)
    }

    /// Returns the number of series.
    pub(crate) fn series(&self) -> usize {
        self.contents.layout.len()
    }

    /// Returns about how many bytes are kept for the contents: numbers, what the registry and a sink keep of each
    /// series, and the memory of bodies and text, which the groups of a layout share.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let layout = &self.contents.layout;
        let shared = TEXT_FACTOR * layout.text_bytes + SHARED_BYTES * layout.len();
        // Decoders and shelves hold the layout too: half of its holders are groups, at the least.
        let groups = (Arc::strong_count(layout) / 2).max(1);
        (shared / groups + SERIES_BYTES * layout.len()) as u64
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
