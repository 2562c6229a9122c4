//! A query's request to a store.

use crate::matcher::Matcher;

/// A closed time interval: both ends are included.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct TimeRange {
    /// First millisecond.
    pub min_ms: i64,
    /// Last millisecond.
    pub max_ms: i64,
}

impl TimeRange {
    /// All of time.
    pub const ALL: Self = Self {
        min_ms: i64::MIN,
        max_ms: i64::MAX,
    };

    /// Returns the interval from `min_ms` to `max_ms`, both inclusive; empty when `min_ms > max_ms`.
    #[must_use]
    pub fn new(min_ms: i64, max_ms: i64) -> Self {
        Self { min_ms, max_ms }
    }

    /// Reports whether the interval is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.min_ms > self.max_ms
    }

    /// Reports whether the interval includes `time_ms`.
    #[must_use]
    pub fn contains(self, time_ms: i64) -> bool {
        (self.min_ms..=self.max_ms).contains(&time_ms)
    }

    /// Reports whether the two intervals share an instant.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        !self.intersection(other).is_empty()
    }

    /// Returns the intersection of both.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self {
            min_ms: self.min_ms.max(other.min_ms),
            max_ms: self.max_ms.min(other.max_ms),
        }
    }

    /// Returns the smallest interval that covers both.
    #[must_use]
    pub fn hull(self, other: Self) -> Self {
        Self {
            min_ms: self.min_ms.min(other.min_ms),
            max_ms: self.max_ms.max(other.max_ms),
        }
    }
}

/// Labels that an aggregation keeps or drops.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Grouping {
    /// `false`: `by`, only `names` are kept. `true`: `without`, `names` and the metric name are dropped.
    pub without: bool,
    /// The label names, sorted, distinct.
    pub names: Vec<Box<str>>,
}

/// Data needed from the selected series.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Want {
    /// Cells.
    #[default]
    Samples,
    /// Only identities.
    Labels,
    /// Only the number of samples.
    Counts,
}

/// The caller's intent; a store may use it to do less work, never to answer differently.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hints {
    /// The data needed.
    pub want: Want,
    /// The function applied first, such as `rate`, or empty.
    pub function: Box<str>,
    /// Length of the range selector's window, or 0 for an instant selector.
    pub window_ms: i64,
    /// Step between evaluations, or 0 for one.
    pub step_ms: i64,
    /// The aggregation applied next.
    pub grouping: Option<Grouping>,
    /// Whether start times of counters are needed.
    pub start_times: bool,
    /// Whether only the newest sample of each series within the selector's range is needed, if that is no staleness
    /// marker: a store may leave out series that ended.
    pub newest: bool,
    /// At most this many series are needed, any of them.
    pub limit: Option<usize>,
}

/// One selector of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    /// All must match; an empty list selects every series.
    pub matchers: Vec<Matcher>,
    /// Samples outside this range are not needed.
    pub range: TimeRange,
    /// Hints about the caller's intent.
    pub hints: Hints,
}

impl Selector {
    /// Returns a selector without hints.
    #[must_use]
    pub fn new(matchers: Vec<Matcher>, range: TimeRange) -> Self {
        Self {
            matchers,
            range,
            hints: Hints::default(),
        }
    }
}
