//! `kubernetes_sd_configs`: targets from a cluster's objects, as its API reports their changes.
//!
//! It uses our own HTTP client and a few structures with the fields that matter: a client library would decode every
//! field of every object, and need memory for them.
//!
//! Invariant: nothing is reported before every required list has arrived once; afterwards an object's group is rebuilt
//! exactly when something it is built from has changed.

pub(crate) mod access;
pub(crate) mod api;
mod build;
mod cluster_state;
pub(crate) mod objects;
mod resource;
pub(crate) mod selector;

use std::sync::Arc;

use narthex_net::{StopToken, keep_running};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::config::{AttachMetadata, KubernetesSdConfig, Role, Selector};
use crate::discoverer::{Discoverer, Options, Run, TASK, Updates};
use crate::error::{DiscoveryError, invalid};
use api::{Api, Query, follow};
use cluster_state::{ClusterState, Event};
use objects::{EndpointSlice, Endpoints, Ingress, Job, Namespace, Node, Pod, ReplicaSet, Service};
use resource::Resource;

/// Capacity of the queue of changes.
const QUEUE: usize = 256;
/// Maximum changes processed together.
const BATCH: usize = 1024;

#[derive(Debug)]
pub(crate) struct KubernetesDiscovery {
    api: Arc<Api>,
    role: Role,
    namespaces: Vec<String>,
    selectors: Vec<Selector>,
    attach: AttachMetadata,
}

impl KubernetesDiscovery {
    pub(crate) fn new(
        config: &KubernetesSdConfig,
        options: &Options,
    ) -> Result<Self, DiscoveryError> {
        let role = config.role.ok_or_else(|| {
            invalid("role missing (one of: pod, service, endpoints, endpointslice, node, ingress)")
        })?;
        let (api, own_namespace) = access::connect(config, options)?;
        let mut namespaces = config.namespaces.names.clone();
        namespaces.extend(own_namespace);
        namespaces.sort_unstable();
        namespaces.dedup();
        if namespaces.is_empty() {
            // An empty name means all namespaces.
            namespaces.push(String::new());
        }
        Ok(Self {
            api: Arc::new(api),
            role,
            namespaces,
            selectors: config.selectors.clone(),
            attach: config.attach_metadata,
        })
    }

    /// Starts following each kind of object the role needs; returns the number of lists.
    fn follow_all(&self, informers: &mut Informers) {
        let attach = self.attach;
        if self.role != Role::Node {
            if attach.node && !matches!(self.role, Role::Service | Role::Ingress) {
                informers.follow::<Node>(self, "");
            }
            if attach.namespace {
                informers.follow::<Namespace>(self, "");
            }
        }
        for namespace in &self.namespaces {
            match self.role {
                Role::Node => {
                    // Nodes have no namespace.
                    informers.follow::<Node>(self, "");
                    return;
                }
                Role::Service => informers.follow::<Service>(self, namespace),
                Role::Ingress => informers.follow::<Ingress>(self, namespace),
                Role::Pod => informers.follow::<Pod>(self, namespace),
                Role::Endpoints => informers.follow::<Endpoints>(self, namespace),
                Role::EndpointSlice => informers.follow::<EndpointSlice>(self, namespace),
            }
            if matches!(self.role, Role::Endpoints | Role::EndpointSlice) {
                informers.follow::<Service>(self, namespace);
                informers.follow::<Pod>(self, namespace);
            }
            if matches!(self.role, Role::Pod | Role::Endpoints | Role::EndpointSlice) {
                if attach.deployment {
                    informers.follow::<ReplicaSet>(self, namespace);
                }
                if attach.job || attach.cronjob {
                    informers.follow::<Job>(self, namespace);
                }
            }
        }
    }

    async fn watch(self, updates: Updates, stop: StopToken) {
        let (sender, mut receiver) = mpsc::channel(QUEUE);
        let mut informers = Informers {
            tasks: JoinSet::new(),
            sender,
            stop: stop.clone(),
            started: 0,
        };
        self.follow_all(&mut informers);
        let mut cluster = ClusterState::new(self.role, self.attach, informers.started);
        // Dropping the set ends every informer.
        let Informers { tasks: _tasks, .. } = informers;
        loop {
            let Some(Some(event)) = stop.run(receiver.recv()).await else {
                return;
            };
            event(&mut cluster);
            for _more in 1..BATCH {
                match receiver.try_recv() {
                    Ok(event) => event(&mut cluster),
                    Err(_none) => break,
                }
            }
            if let Some(groups) = cluster.changed() {
                updates.send(groups);
            }
        }
    }

    fn selector(&self, role: Option<Role>) -> (String, String) {
        let matching = self.selectors.iter().find(|s| Some(s.role) == role);
        matching
            .map(|s| (s.label.clone(), s.field.clone()))
            .unwrap_or_default()
    }
}

struct Informers {
    tasks: JoinSet<()>,
    sender: mpsc::Sender<Event>,
    stop: StopToken,
    started: usize,
}

impl Informers {
    fn follow<K: Resource>(&mut self, discovery: &KubernetesDiscovery, namespace: &str) {
        let (labels, fields) = discovery.selector(K::ROLE);
        let query = Query {
            path: resource::path::<K>(namespace),
            namespace: namespace.to_owned(),
            labels,
            fields,
        };
        let (api, sender) = (Arc::clone(&discovery.api), self.sender.clone());
        let stop = self.stop.clone();
        // After a panic, everything is listed again.
        self.tasks.spawn(async move {
            let begin = || follow::<K>(Arc::clone(&api), query.clone(), sender.clone());
            keep_running(TASK, &stop, begin).await;
        });
        self.started += 1;
    }
}

impl Discoverer for KubernetesDiscovery {
    fn run(self: Box<Self>, updates: Updates, stop: StopToken) -> Run {
        Box::pin(self.watch(updates, stop))
    }
}

#[cfg(test)]
mod tests;
