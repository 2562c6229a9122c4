//! Consistency among groups: a family has one type, a series is in one group.
//!
//! **Invariant:** a change costs what it changes, not what is stored. A rejected change has no effect.

use crate::{decode::collected, family::Shape};
use hashbrown::HashTable;
use narthex_model::{LabelHash, LabelSet, METRIC_NAME, MetricType, sync::Whole as _};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// Shards of the table of series, so that no push waits until a large one has grown.
const SHARDS: usize = 16;

/// Unique number of a group in this process.
pub(crate) type GroupId = u64;

/// The names and series of all groups.
///
/// One lock for all of it: colliding names may differ, and most pushes change nothing here.
#[derive(Debug)]
pub(crate) struct Registry(Mutex<Known>);

#[derive(Debug)]
struct Known {
    families: HashMap<Arc<str>, KnownFamily>,
    series: [HashTable<Series>; SHARDS],
}

/// A series and its group. Halves of a hash take less room than the whole, which is aligned to 16 bytes.
#[derive(Debug)]
struct Series {
    low: u64,
    high: u64,
    group: GroupId,
}

impl Series {
    fn is(&self, identity: u128) -> bool {
        u128::from(self.high) << 64 | u128::from(self.low) == identity
    }
}

/// A family's type, and the number of groups that have it.
#[derive(Debug)]
struct KnownFamily {
    metric_type: MetricType,
    groups: usize,
}

/// Families added to and removed from a group.
#[derive(Debug, Default)]
pub(crate) struct Change<'a> {
    pub(crate) removed: Vec<&'a Shape>,
    pub(crate) added: Vec<&'a Shape>,
}

impl Change<'_> {
    /// Reports whether nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }
}

impl Registry {
    /// Returns a registry that knows the types of the gateway's own families.
    pub(crate) fn new(own: impl IntoIterator<Item = (String, MetricType)>) -> Self {
        let held = own.into_iter().map(|(name, metric_type)| {
            let groups = 1;
            (
                Arc::from(name),
                KnownFamily {
                    metric_type,
                    groups,
                },
            )
        });
        Self(Mutex::new(Known {
            families: held.collect(),
            series: std::array::from_fn(|_| HashTable::new()),
        }))
    }

    /// Applies a group's change.
    ///
    /// # Errors
    /// Returns a description of the contradiction; nothing has changed then.
    pub(crate) fn apply(
        &self,
        group: GroupId,
        common: &LabelSet,
        change: &Change<'_>,
    ) -> Result<(), String> {
        let known = &mut *self.0.lock().whole();
        for shape in &change.removed {
            release(&mut known.families, shape);
        }
        let mut outcome = Ok(());
        let mut taken = 0;
        for shape in &change.added {
            outcome = hold(&mut known.families, shape, common);
            if outcome.is_err() {
                break;
            }
            taken += 1;
        }
        if outcome.is_ok() {
            outcome = known.exchange(group, common, change);
        }
        if outcome.is_err() {
            for shape in &change.added[..taken] {
                release(&mut known.families, shape);
            }
            for shape in &change.removed {
                let entry = known.families.entry(Arc::clone(&shape.name));
                let held = entry.or_insert(KnownFamily {
                    metric_type: shape.metric_type,
                    groups: 0,
                });
                held.groups += 1;
            }
        }
        outcome
    }
}

impl Known {
    /// Replaces a group's series.
    fn exchange(
        &mut self,
        group: GroupId,
        common: &LabelSet,
        change: &Change<'_>,
    ) -> Result<(), String> {
        let hash = common.hash();
        for identity in identities(&change.removed, hash) {
            self.remove(group, identity);
        }
        for (at, identity) in identities(&change.added, hash).enumerate() {
            if self.insert(group, identity) {
                continue;
            }
            for identity in identities(&change.added, hash).take(at) {
                self.remove(group, identity);
            }
            for identity in identities(&change.removed, hash) {
                self.insert(group, identity);
            }
            return Err(twice(&change.added, at, common));
        }
        Ok(())
    }

    /// Adds a series of a group; returns whether no group had it.
    fn insert(&mut self, group: GroupId, identity: u128) -> bool {
        let (low, high) = (identity as u64, (identity >> 64) as u64);
        let shard = &mut self.series[high as usize % SHARDS];
        let entry = shard.entry(low, |known| known.is(identity), |known| known.low);
        let is_new = matches!(entry, hashbrown::hash_table::Entry::Vacant(_));
        entry.or_insert(Series { low, high, group });
        is_new
    }

    /// Removes a series if it is this group's.
    fn remove(&mut self, group: GroupId, identity: u128) {
        let shard = &mut self.series[(identity >> 64) as usize % SHARDS];
        let is = |known: &Series| known.is(identity) && known.group == group;
        if let Ok(entry) = shard.find_entry(identity as u64, is) {
            entry.remove();
        }
    }
}

/// Returns what identifies the series of these families among all groups', given the hash of the group's labels.
fn identities<'a>(shapes: &'a [&Shape], common: LabelHash) -> impl Iterator<Item = u128> + 'a {
    shapes.iter().flat_map(move |shape| {
        let all = LabelHash::of_label(METRIC_NAME, &shape.name) + common;
        shape
            .metrics
            .iter()
            .map(move |metric| (all + metric.labels.hash()).bits())
    })
}

fn release(families: &mut HashMap<Arc<str>, KnownFamily>, shape: &Shape) {
    if let Some(held) = families.get_mut(&shape.name) {
        held.groups -= 1;
        if held.groups == 0 {
            families.remove(&shape.name);
        }
    }
}

fn hold(
    families: &mut HashMap<Arc<str>, KnownFamily>,
    shape: &Shape,
    common: &LabelSet,
) -> Result<(), String> {
    if let Some(held) = families.get_mut(&shape.name) {
        if held.metric_type != shape.metric_type {
            let local = shape.metrics.first().map(|metric| metric.labels.clone());
            let local = local
                .unwrap_or_else(LabelSet::empty)
                .with(METRIC_NAME, &shape.name);
            let (metric, word) = (collected(&local, common), type_name(held.metric_type));
            return Err(format!("{metric} is not a {word}"));
        }
        held.groups += 1;
        return Ok(());
    }
    collision(families, shape)?;
    let held = KnownFamily {
        metric_type: shape.metric_type,
        groups: 1,
    };
    families.insert(Arc::clone(&shape.name), held);
    Ok(())
}

/// Fails if a series of the family could also be another family's series with a suffix.
fn collision(families: &HashMap<Arc<str>, KnownFamily>, shape: &Shape) -> Result<(), String> {
    let name = &*shape.name;
    for suffix in ["_count", "_sum", "_bucket"] {
        let base = name.strip_suffix(suffix);
        let Some((base, held)) = base.and_then(|base| families.get_key_value(base)) else {
            continue;
        };
        let word = match held.metric_type {
            MetricType::Summary if suffix != "_bucket" => "summary",
            MetricType::Histogram => "histogram",
            _ => continue,
        };
        return Err(format!(
            "collected metric named \"{name}\" collides with previously collected {word} named \"{base}\""
        ));
    }
    let (what, suffixes): (_, &[&str]) = match shape.metric_type {
        MetricType::Summary => ("histogram or summary", &["_count", "_sum"]),
        MetricType::Histogram => ("histogram or summary", &["_count", "_sum", "_bucket"]),
        _ => return Ok(()),
    };
    for suffix in suffixes {
        let other = format!("{name}{suffix}");
        if families.contains_key(other.as_str()) {
            let what = if *suffix == "_bucket" {
                "histogram"
            } else {
                what
            };
            return Err(format!(
                "collected {what} named \"{name}\" collides with previously collected metric named \"{other}\""
            ));
        }
    }
    Ok(())
}

/// Returns a type's name in the protobuf enumeration.
pub(crate) fn type_name(metric_type: MetricType) -> &'static str {
    match metric_type {
        MetricType::Counter => "COUNTER",
        MetricType::Gauge | MetricType::Info | MetricType::StateSet => "GAUGE",
        MetricType::Histogram => "HISTOGRAM",
        MetricType::GaugeHistogram => "GAUGE_HISTOGRAM",
        MetricType::Summary => "SUMMARY",
        MetricType::Unknown => "UNTYPED",
    }
}

/// Returns an error that names the metric another group has too.
fn twice(added: &[&Shape], at: usize, common: &LabelSet) -> String {
    let each = added
        .iter()
        .flat_map(|shape| shape.metrics.iter().map(move |metric| (shape, metric)));
    let local = each
        .skip(at)
        .map(|(shape, metric)| metric.labels.with(METRIC_NAME, &shape.name));
    let local = local.take(1).last().unwrap_or_else(LabelSet::empty);
    let metric = collected(&local, common);
    format!("{metric} was collected before with the same name and label values")
}
