//! The types of objects that the API lists and watches, and the changes it reports.

use serde::de::DeserializeOwned;

use super::objects::{
    EndpointSlice, Endpoints, Ingress, Job, Meta, Namespace, Node, Pod, ReplicaSet, Service,
};
use crate::config::Role;

/// An object type that the API lists and watches.
pub(crate) trait Resource: DeserializeOwned + Clone + PartialEq + Send + 'static {
    /// The API group's path and the plural name.
    const PATH: (&'static str, &'static str);
    /// Role whose selector restricts it.
    const ROLE: Option<Role>;

    fn meta(&self) -> &Meta;
    fn event(change: Change<Self>) -> Event;
}

/// Returns the path that lists a kind, in one namespace or (with an empty one) in all.
pub(crate) fn path<K: Resource>(namespace: &str) -> String {
    let (group, plural) = K::PATH;
    if namespace.is_empty() {
        format!("{group}/{plural}")
    } else {
        format!("{group}/namespaces/{namespace}/{plural}")
    }
}

/// A change to objects of one kind.
#[derive(Debug)]
pub(crate) enum Change<K> {
    /// The complete list of this namespace (an empty name: of all).
    Replaced {
        namespace: String,
        objects: Vec<K>,
    },
    Applied(K),
    /// By key.
    Deleted(String),
}

#[derive(Debug)]
pub(crate) enum Event {
    Pod(Change<Pod>),
    Node(Change<Node>),
    Service(Change<Service>),
    Endpoints(Change<Endpoints>),
    EndpointSlice(Change<EndpointSlice>),
    Ingress(Change<Ingress>),
    Namespace(Change<Namespace>),
    ReplicaSet(Change<ReplicaSet>),
    Job(Change<Job>),
}

macro_rules! resources {
    ($($name:ident at $group:literal $plural:literal, role $role:expr;)*) => {
        $(
            impl Resource for $name {
                const PATH: (&'static str, &'static str) = ($group, $plural);
                const ROLE: Option<Role> = $role;

                fn meta(&self) -> &Meta {
                    &self.metadata
                }

                fn event(change: Change<Self>) -> Event {
                    Event::$name(change)
                }
            }
        )*
    };
}

resources! {
    Pod at "/api/v1" "pods", role Some(Role::Pod);
    Node at "/api/v1" "nodes", role Some(Role::Node);
    Service at "/api/v1" "services", role Some(Role::Service);
    Endpoints at "/api/v1" "endpoints", role Some(Role::Endpoints);
    EndpointSlice at "/apis/discovery.k8s.io/v1" "endpointslices", role Some(Role::EndpointSlice);
    Ingress at "/apis/networking.k8s.io/v1" "ingresses", role Some(Role::Ingress);
    Namespace at "/api/v1" "namespaces", role None;
    ReplicaSet at "/apis/apps/v1" "replicasets", role None;
    Job at "/apis/batch/v1" "jobs", role None;
}
