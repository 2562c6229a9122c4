//! The objects of a cluster that targets are built from.

use std::collections::BTreeMap;

use super::objects::{
    EndpointSlice, Endpoints, Ingress, Job, Namespace, Node, Pod, ReplicaSet, Service,
};
use crate::config::{AttachMetadata, Role};

/// Objects of one kind, by key.
pub(crate) type Store<K> = BTreeMap<String, K>;

/// All objects, with the settings that say which of their labels targets get.
#[derive(Debug)]
pub(crate) struct Stores {
    pub(crate) role: Role,
    pub(crate) attach: AttachMetadata,
    pub(crate) pods: Store<Pod>,
    pub(crate) nodes: Store<Node>,
    pub(crate) services: Store<Service>,
    pub(crate) endpoints: Store<Endpoints>,
    pub(crate) slices: Store<EndpointSlice>,
    pub(crate) ingresses: Store<Ingress>,
    pub(crate) namespaces: Store<Namespace>,
    pub(crate) replica_sets: Store<ReplicaSet>,
    pub(crate) jobs: Store<Job>,
}

impl Stores {
    pub(crate) fn new(role: Role, attach: AttachMetadata) -> Self {
        Self {
            role,
            attach,
            pods: Store::new(),
            nodes: Store::new(),
            services: Store::new(),
            endpoints: Store::new(),
            slices: Store::new(),
            ingresses: Store::new(),
            namespaces: Store::new(),
            replica_sets: Store::new(),
            jobs: Store::new(),
        }
    }
}
