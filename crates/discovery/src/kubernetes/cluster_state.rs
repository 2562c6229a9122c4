//! State of a cluster, and which targets a change affects.
//!
//! Invariant: each main object (an object of the role) is indexed under everything it refers to, so that a change costs
//! time proportional to its dependents, not to the cluster.

use std::collections::{BTreeSet, HashMap};

use super::build;
use super::resource::{Change, Reference, Resource, Store, Stores, reference};
use crate::config::{AttachMetadata, Role};
use crate::group::TargetGroup;
use crate::metrics;

#[derive(Debug)]
pub(crate) struct ClusterState {
    stores: Stores,
    /// Keys of the main objects that refer to an object.
    referrers: HashMap<Reference, BTreeSet<String>>,
    references: HashMap<String, Vec<Reference>>,
    dirty: BTreeSet<String>,
    /// Number of lists that have not arrived yet.
    missing: usize,
}

/// A change, sent to the state that applies it.
pub(crate) type Event = Box<dyn FnOnce(&mut ClusterState) + Send>;

/// Returns a change as an event.
pub(crate) fn event<K: Resource>(change: Change<K>) -> Event {
    Box::new(move |cluster: &mut ClusterState| cluster.apply(change))
}

/// Effect of a change on one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Added,
    Updated,
    /// A newer version that produces the same labels.
    Untouched,
    Removed,
}

impl ClusterState {
    pub(crate) fn new(role: Role, attach: AttachMetadata, lists: usize) -> Self {
        Self {
            stores: Stores::new(role, attach),
            referrers: HashMap::new(),
            references: HashMap::new(),
            dirty: BTreeSet::new(),
            missing: lists,
        }
    }

    /// Applies a change to main objects, or to objects that they refer to.
    fn apply<K: Resource>(&mut self, change: Change<K>) {
        for (key, effect) in self.store(change) {
            if let Some(role) = K::ROLE {
                count(role, effect);
            }
            if effect == Effect::Untouched {
                continue;
            }
            if K::ROLE == Some(self.stores.role) {
                self.refer::<K>(&key);
                self.dirty.insert(key);
            } else if let Some(referrers) = self.referrers.get(&reference::<K>(key)) {
                self.dirty.extend(referrers.iter().cloned());
            }
        }
    }

    /// Returns the groups to report, if every list has arrived and there are any.
    pub(crate) fn changed(&mut self) -> Option<Vec<TargetGroup>> {
        if self.missing > 0 {
            return None;
        }
        let dirty = std::mem::take(&mut self.dirty);
        let groups: Vec<_> = dirty
            .iter()
            .filter_map(|key| build::group(&self.stores, key))
            .collect();
        (!groups.is_empty()).then_some(groups)
    }

    /// Stores a change; returns the affected keys.
    fn store<K: Resource>(&mut self, change: Change<K>) -> Vec<(String, Effect)> {
        let known = K::store(&mut self.stores);
        let mut touched = Vec::new();
        match change {
            Change::Applied(object) => touched.push(upsert(known, object)),
            Change::Deleted(key) => {
                if known.remove(&key).is_some() {
                    touched.push((key, Effect::Removed));
                }
            }
            Change::Replaced { namespace, objects } => {
                let listed: BTreeSet<_> = objects.iter().map(|o| o.meta().key()).collect();
                let gone: Vec<_> = known
                    .iter()
                    .filter(|(key, object)| {
                        let inside = namespace.is_empty() || object.meta().namespace == namespace;
                        inside && !listed.contains(*key)
                    })
                    .map(|(key, _)| key.clone())
                    .collect();
                for key in gone {
                    known.remove(&key);
                    touched.push((key, Effect::Removed));
                }
                touched.extend(objects.into_iter().map(|object| upsert(known, object)));
                self.missing = self.missing.saturating_sub(1);
            }
        }
        touched
    }

    /// Indexes a main object under what it refers to, instead of what it did before.
    fn refer<K: Resource>(&mut self, key: &str) {
        for old in self.references.remove(key).unwrap_or_default() {
            if let Some(referrers) = self.referrers.get_mut(&old) {
                referrers.remove(key);
                if referrers.is_empty() {
                    self.referrers.remove(&old);
                }
            }
        }
        let Some(object) = K::store(&mut self.stores).get(key) else {
            return;
        };
        let found = object.references();
        for reference in &found {
            let referrers = self.referrers.entry(reference.clone()).or_default();
            referrers.insert(key.to_owned());
        }
        self.references.insert(key.to_owned(), found);
    }
}

fn upsert<K: Resource>(store: &mut Store<K>, object: K) -> (String, Effect) {
    let key = object.meta().key();
    let effect = match store.get(&key) {
        None => Effect::Added,
        Some(old) if *old == object => Effect::Untouched,
        Some(_old) => Effect::Updated,
    };
    store.insert(key.clone(), object);
    (key, effect)
}

fn count(role: Role, effect: Effect) {
    let event = match effect {
        Effect::Added => "add",
        Effect::Updated | Effect::Untouched => "update",
        Effect::Removed => "delete",
    };
    metrics::KUBERNETES_EVENTS.update(&[event, role.name()], |c| c.inc());
}
