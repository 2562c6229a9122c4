//! Related lines: a classic histogram to be converted to a native one, series with a common start time.
//!
//! **Invariant:** a group is identified by its family's name and its series' common labels; the targets of its parts
//! are decided once, and a round only reads their cells.

use crate::{
    buckets::{self, Classic, Refusal},
    cells::Cells,
    number,
    round::ParseOptions,
};
use narthex_model::{ColumnId, Histogram, LabelSet};
use std::collections::HashMap;

/// Index in the list of groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct GroupId(usize);

/// Role of a line in its group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Count,
    Sum,
    Bucket(f64),
    Created,
}

#[derive(Debug, Default)]
struct Group {
    /// Native histogram that the group's lines become; `None` if they are not converted, or it was dropped.
    histogram: Option<ColumnId>,
    count: Option<u32>,
    sum: Option<u32>,
    /// Bounds and targets.
    buckets: Vec<(f64, u32)>,
    created: Option<u32>,
    /// Columns with the group's start time.
    members: Vec<ColumnId>,
}

/// All groups of an origin.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_labels: HashMap<LabelSet, usize>,
    groups: Vec<Group>,
    /// Groups by the targets of their histograms' parts.
    owners: HashMap<u32, usize>,
    /// Whether a pass added anything, which is worthless if the pass fails.
    pub(crate) changed: bool,
}

/// Results of one round's groups.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) histograms: Vec<(ColumnId, Histogram)>,
    pub(crate) starts: Vec<(ColumnId, i64)>,
    /// Histograms made, dropped ones included.
    pub(crate) converted: usize,
    pub(crate) too_many_buckets: bool,
}

impl Groups {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the group of these labels, and whether it is new.
    pub(crate) fn group_for(&mut self, labels: &LabelSet) -> (GroupId, bool) {
        if let Some(known) = self.by_labels.get(labels) {
            return (GroupId(*known), false);
        }
        let at = self.groups.len();
        self.groups.push(Group::default());
        self.by_labels.insert(labels.clone(), at);
        self.changed = true;
        (GroupId(at), true)
    }

    pub(crate) fn set_histogram(&mut self, GroupId(at): GroupId, column: Option<ColumnId>) {
        self.groups[at].histogram = column;
    }

    /// Returns the column of the native histogram that the line with this target is part of.
    pub(crate) fn histogram_of(&self, target: u32) -> Option<ColumnId> {
        self.groups[*self.owners.get(&target)?].histogram
    }

    /// Reports whether the group has no buckets yet.
    pub(crate) fn has_no_buckets(&self, GroupId(at): GroupId) -> bool {
        self.groups[at].buckets.is_empty()
    }

    /// Returns the target that a part of the group already has.
    pub(crate) fn target(&self, GroupId(at): GroupId, part: Part) -> Option<u32> {
        let group = &self.groups[at];
        match part {
            Part::Count => group.count,
            Part::Sum => group.sum,
            Part::Created => group.created,
            Part::Bucket(bound) => {
                let same = |known: &&(f64, u32)| known.0.to_bits() == bound.to_bits();
                group.buckets.iter().find(same).map(|(_, target)| *target)
            }
        }
    }

    /// Sets the target of a part of the group.
    pub(crate) fn set_target(&mut self, GroupId(at): GroupId, part: Part, target: u32) {
        self.changed = true;
        let group = &mut self.groups[at];
        match part {
            Part::Count => group.count = Some(target),
            Part::Sum => group.sum = Some(target),
            Part::Created => group.created = Some(target),
            Part::Bucket(bound) => {
                let place = group.buckets.partition_point(|(other, _)| *other < bound);
                group.buckets.insert(place, (bound, target));
            }
        }
        if !matches!(part, Part::Created) {
            self.owners.insert(target, at);
        }
    }

    /// Adds a column with the group's start time.
    pub(crate) fn add_member(&mut self, GroupId(at): GroupId, column: ColumnId) {
        let members = &mut self.groups[at].members;
        if !members.contains(&column) {
            members.push(column);
            self.changed = true;
        }
    }

    /// Returns the histograms and start times in one round's cells.
    pub(crate) fn make(&self, cells: &Cells, options: &ParseOptions) -> Made {
        let mut made = Made::default();
        for group in &self.groups {
            if let Some(created) = group.created.and_then(|target| cells.get(target)) {
                let time_ms = number::to_ms(created);
                let present = |column: &&ColumnId| cells.get(column.0).is_some();
                let members = group.members.iter().filter(present);
                made.starts.extend(members.map(|column| (*column, time_ms)));
                made.starts
                    .extend(group.histogram.map(|column| (column, time_ms)));
            }
            let Some(histogram) = group.convert(cells) else {
                continue;
            };
            made.converted += 1;
            let Some(column) = group.histogram else {
                continue;
            };
            let limit = (options.bucket_limit, options.max_histogram_schema);
            match buckets::checked(histogram, limit.0, limit.1) {
                Ok(histogram) => made.histograms.push((column, histogram)),
                Err(Refusal::TooManyBuckets) => made.too_many_buckets = true,
                // Contradictory lines of a text yield no histogram, as in Prometheus.
                Err(Refusal::Inconsistent(_)) => made.converted -= 1,
            }
        }
        made
    }
}

impl Group {
    /// Converts the group's classic histogram; returns `None` if it is absent or contradicts itself.
    fn convert(&self, cells: &Cells) -> Option<Histogram> {
        let get = |target: Option<u32>| target.and_then(|target| cells.get(target));
        let buckets: Vec<(f64, f64)> = self
            .buckets
            .iter()
            .filter_map(|(bound, target)| Some((*bound, cells.get(*target)?)))
            .collect();
        let (count, sum) = (get(self.count), get(self.sum));
        if buckets.is_empty() && count.is_none() && sum.is_none() {
            return None;
        }
        let classic = Classic {
            count,
            sum: sum.unwrap_or(0.0),
            buckets,
        };
        classic.convert().ok()
    }
}
