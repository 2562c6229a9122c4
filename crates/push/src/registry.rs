//! Consistency among groups: a family has one type, a series is in one group.
//!
//! **Invariant:** a change costs what it changes, not what is stored. A rejected change has no effect.

use crate::{decode::collected, family::Shape};
use narthex_model::{LabelSet, METRIC_NAME, MetricType, sync::Whole as _};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// Shards of the map of series, so that pushes to many groups do not wait for each other.
const SHARDS: usize = 16;

/// Unique number of a group in this process.
pub(crate) type GroupId = u64;

/// The names and series of all groups.
#[derive(Debug)]
pub(crate) struct Registry {
    families: Mutex<HashMap<Arc<str>, Held>>,
    series: [Mutex<HashMap<u128, GroupId>>; SHARDS],
}

/// A family's type, and the number of groups that have it.
#[derive(Debug)]
struct Held {
    metric_type: MetricType,
    groups: usize,
}

/// Families added to and removed from a group.
#[derive(Debug, Default)]
pub(crate) struct Change<'a> {
    pub(crate) removed: Vec<&'a Shape>,
    pub(crate) added: Vec<&'a Shape>,
}

impl Registry {
    /// Returns a registry that knows the types of the gateway's own families.
    pub(crate) fn new(own: impl IntoIterator<Item = (String, MetricType)>) -> Self {
        let held = own.into_iter().map(|(name, metric_type)| {
            let groups = 1;
            (
                Arc::from(name),
                Held {
                    metric_type,
                    groups,
                },
            )
        });
        Self {
            families: Mutex::new(held.collect()),
            series: std::array::from_fn(|_| Mutex::default()),
        }
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
        // One lock for all names, since colliding names may differ and would be in different shards.
        let mut families = self.families.lock().whole();
        for shape in &change.removed {
            release(&mut families, shape);
        }
        let mut outcome = Ok(());
        let mut taken = 0;
        for shape in &change.added {
            outcome = hold(&mut families, shape, common);
            if outcome.is_err() {
                break;
            }
            taken += 1;
        }
        if outcome.is_ok() {
            outcome = self.exchange(group, common, change);
        }
        if outcome.is_err() {
            for shape in &change.added[..taken] {
                release(&mut families, shape);
            }
            for shape in &change.removed {
                let held = families.entry(Arc::clone(&shape.name)).or_insert(Held {
                    metric_type: shape.metric_type,
                    groups: 0,
                });
                held.groups += 1;
            }
        }
        outcome
    }

    /// Replaces a group's series.
    fn exchange(
        &self,
        group: GroupId,
        common: &LabelSet,
        change: &Change<'_>,
    ) -> Result<(), String> {
        let identities = |shapes: &[&Shape]| -> Vec<u128> {
            let each = shapes.iter().flat_map(|shape| {
                let common = common.hash();
                shape
                    .metrics
                    .iter()
                    .map(move |metric| shape.identity(metric, common))
            });
            each.collect()
        };
        let (removed, added) = (identities(&change.removed), identities(&change.added));
        self.forget(group, &removed);
        for (at, identity) in added.iter().enumerate() {
            let mut shard = self.shard(*identity).lock().whole();
            if shard.insert(*identity, group).is_some_and(|other| {
                shard.insert(*identity, other);
                true
            }) {
                drop(shard);
                self.forget(group, &added[..at]);
                for identity in removed {
                    self.shard(identity).lock().whole().insert(identity, group);
                }
                return Err(twice(&change.added, at, common));
            }
        }
        Ok(())
    }

    fn forget(&self, group: GroupId, identities: &[u128]) {
        for identity in identities {
            let mut shard = self.shard(*identity).lock().whole();
            if shard.get(identity) == Some(&group) {
                shard.remove(identity);
            }
        }
    }

    fn shard(&self, identity: u128) -> &Mutex<HashMap<u128, GroupId>> {
        // The shard uses the upper half of the hash, the maps the rest.
        &self.series[(identity >> 64) as usize % SHARDS]
    }
}

fn release(families: &mut HashMap<Arc<str>, Held>, shape: &Shape) {
    if let Some(held) = families.get_mut(&shape.name) {
        held.groups -= 1;
        if held.groups == 0 {
            families.remove(&shape.name);
        }
    }
}

fn hold(
    families: &mut HashMap<Arc<str>, Held>,
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
    let held = Held {
        metric_type: shape.metric_type,
        groups: 1,
    };
    families.insert(Arc::clone(&shape.name), held);
    Ok(())
}

/// Fails if a series of the family could also be another family's series with a suffix.
fn collision(families: &HashMap<Arc<str>, Held>, shape: &Shape) -> Result<(), String> {
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
