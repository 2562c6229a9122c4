//! State of a cluster, and which targets a change affects.
//!
//! Invariant: each main object (an object of the role) is indexed under everything it refers to, so that a change costs
//! time proportional to its dependents, not to the cluster.

use std::collections::{BTreeSet, HashMap};

use super::build;
use super::objects::{EndpointSlice, Endpoints, Pod, SERVICE_NAME_LABEL, TargetRef, key};
use super::resource::{Change, Event, Resource};
use super::stores::{Store, Stores};
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

/// An object that a main object's labels come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Reference {
    Pod(String),
    Node(String),
    Service(String),
    Namespace(String),
    ReplicaSet(String),
    Job(String),
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

    /// Applies a change.
    pub(crate) fn apply(&mut self, event: Event) {
        match event {
            Event::Pod(change) => {
                let touched = self.store(change, |s| &mut s.pods);
                self.touched(Role::Pod, touched, Reference::Pod, |s, key| {
                    s.pods.get(key).map(of_pod)
                });
            }
            Event::Node(change) => {
                let touched = self.store(change, |s| &mut s.nodes);
                self.touched(Role::Node, touched, Reference::Node, |s, key| {
                    s.nodes.contains_key(key).then(Vec::new)
                });
            }
            Event::Service(change) => {
                let touched = self.store(change, |s| &mut s.services);
                self.touched(Role::Service, touched, Reference::Service, |s, key| {
                    s.services.get(key).map(of_namespace)
                });
            }
            Event::Ingress(change) => {
                let touched = self.store(change, |s| &mut s.ingresses);
                self.main(Role::Ingress, touched, |s, key| {
                    s.ingresses.get(key).map(of_namespace)
                });
            }
            Event::Endpoints(change) => {
                let touched = self.store(change, |s| &mut s.endpoints);
                self.main(Role::Endpoints, touched, |s, key| {
                    s.endpoints.get(key).map(of_endpoints)
                });
            }
            Event::EndpointSlice(change) => {
                let touched = self.store(change, |s| &mut s.slices);
                self.main(Role::EndpointSlice, touched, |s, key| {
                    s.slices.get(key).map(of_slice)
                });
            }
            Event::Namespace(change) => {
                let touched = self.store(change, |s| &mut s.namespaces);
                self.side(&touched, Reference::Namespace);
            }
            Event::ReplicaSet(change) => {
                let touched = self.store(change, |s| &mut s.replica_sets);
                self.side(&touched, Reference::ReplicaSet);
            }
            Event::Job(change) => {
                let touched = self.store(change, |s| &mut s.jobs);
                self.side(&touched, Reference::Job);
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
    fn store<K: Resource>(
        &mut self,
        change: Change<K>,
        store: fn(&mut Stores) -> &mut Store<K>,
    ) -> Vec<(String, Effect)> {
        let known = store(&mut self.stores);
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

    /// Handles changes to objects that may be main objects, or others' references.
    fn touched(
        &mut self,
        role: Role,
        touched: Vec<(String, Effect)>,
        reference: fn(String) -> Reference,
        references: fn(&Stores, &str) -> Option<Vec<Reference>>,
    ) {
        if self.stores.role == role {
            self.main(role, touched, references);
            return;
        }
        for (_key, effect) in &touched {
            count(role, *effect);
        }
        self.side(&touched, reference);
    }

    /// Handles changes to main objects.
    fn main(
        &mut self,
        role: Role,
        touched: Vec<(String, Effect)>,
        references: fn(&Stores, &str) -> Option<Vec<Reference>>,
    ) {
        for (key, effect) in touched {
            count(role, effect);
            if effect == Effect::Untouched {
                continue;
            }
            for old in self.references.remove(&key).unwrap_or_default() {
                if let Some(referrers) = self.referrers.get_mut(&old) {
                    referrers.remove(&key);
                    if referrers.is_empty() {
                        self.referrers.remove(&old);
                    }
                }
            }
            if let Some(found) = references(&self.stores, &key) {
                for reference in &found {
                    let referrers = self.referrers.entry(reference.clone()).or_default();
                    referrers.insert(key.clone());
                }
                self.references.insert(key.clone(), found);
            }
            self.dirty.insert(key);
        }
    }

    /// Handles changes to objects that others refer to.
    fn side(&mut self, touched: &[(String, Effect)], reference: fn(String) -> Reference) {
        for (key, effect) in touched {
            if *effect == Effect::Untouched {
                continue;
            }
            if let Some(referrers) = self.referrers.get(&reference(key.clone())) {
                self.dirty.extend(referrers.iter().cloned());
            }
        }
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

fn of_namespace<K: Resource>(object: &K) -> Vec<Reference> {
    vec![Reference::Namespace(object.meta().namespace.clone())]
}

fn of_pod(pod: &Pod) -> Vec<Reference> {
    let mut found = of_namespace(pod);
    found.push(Reference::Node(pod.spec.node_name.clone()));
    if let Some(owner) = pod.metadata.controller() {
        let of = key(&pod.metadata.namespace, &owner.name);
        match owner.kind.as_str() {
            "ReplicaSet" => found.push(Reference::ReplicaSet(of)),
            "Job" => found.push(Reference::Job(of)),
            _ => {}
        }
    }
    found
}

fn of_endpoints(endpoints: &Endpoints) -> Vec<Reference> {
    let mut found = of_namespace(endpoints);
    found.push(Reference::Service(endpoints.metadata.key()));
    for subset in &endpoints.subsets {
        for address in subset.addresses.iter().chain(&subset.not_ready_addresses) {
            found.extend(address.node_name.clone().map(Reference::Node));
            found.extend(address.target_ref.as_ref().and_then(of_target));
        }
    }
    found
}

fn of_slice(slice: &EndpointSlice) -> Vec<Reference> {
    let mut found = of_namespace(slice);
    if let Some(service) = slice.metadata.labels.get(SERVICE_NAME_LABEL) {
        let of = key(&slice.metadata.namespace, service);
        found.push(Reference::Service(of));
    }
    for endpoint in &slice.endpoints {
        found.extend(endpoint.node_name.clone().map(Reference::Node));
        found.extend(endpoint.target_ref.as_ref().and_then(of_target));
    }
    found
}

fn of_target(target: &TargetRef) -> Option<Reference> {
    match target.kind.as_str() {
        "Pod" => Some(Reference::Pod(key(&target.namespace, &target.name))),
        "Node" => Some(Reference::Node(target.name.clone())),
        _ => None,
    }
}
