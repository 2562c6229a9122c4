//! The types of objects that the API lists and watches, the changes it reports, and where the objects are kept.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::objects::{
    EndpointSlice, Endpoints, Ingress, Job, Meta, Namespace, Node, Pod, ReplicaSet,
    SERVICE_NAME_LABEL, Service, TargetRef, key,
};
use crate::config::{AttachMetadata, Role};

/// An object type that the API lists and watches.
pub(crate) trait Resource: DeserializeOwned + Clone + PartialEq + Send + 'static {
    /// The API group's path and the plural name.
    const PATH: (&'static str, &'static str);
    /// Role whose selector restricts it.
    const ROLE: Option<Role>;

    fn meta(&self) -> &Meta;
    fn store(stores: &mut Stores) -> &mut Store<Self>;
    /// Returns what the labels of its targets come from, beside itself.
    fn references(&self) -> Vec<Reference>;
}

/// An object that a main object's labels come from: the plural name of its type, and its key.
pub(crate) type Reference = (&'static str, String);

/// Returns the reference to an object.
pub(crate) fn reference<K: Resource>(key: String) -> Reference {
    (K::PATH.1, key)
}

/// Objects of one kind, by key.
pub(crate) type Store<K> = BTreeMap<String, K>;

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

macro_rules! resources {
    ($($kind:ident in $store:ident: $group:literal $plural:literal, role $role:expr, refers by $references:expr;)*) => {
        /// All objects that targets are built from, with the settings that say which of their labels targets get.
        #[derive(Debug)]
        pub(crate) struct Stores {
            pub(crate) role: Role,
            pub(crate) attach: AttachMetadata,
            $(pub(crate) $store: Store<$kind>,)*
        }

        impl Stores {
            pub(crate) fn new(role: Role, attach: AttachMetadata) -> Self {
                Self { role, attach, $($store: Store::new(),)* }
            }
        }

        $(
            impl Resource for $kind {
                const PATH: (&'static str, &'static str) = ($group, $plural);
                const ROLE: Option<Role> = $role;

                fn meta(&self) -> &Meta {
                    &self.metadata
                }

                fn store(stores: &mut Stores) -> &mut Store<Self> {
                    &mut stores.$store
                }

                fn references(&self) -> Vec<Reference> {
                    $references(self)
                }
            }
        )*
    };
}

resources! {
    Pod in pods: "/api/v1" "pods", role Some(Role::Pod), refers by of_pod;
    Node in nodes: "/api/v1" "nodes", role Some(Role::Node), refers by of_nothing;
    Service in services: "/api/v1" "services", role Some(Role::Service), refers by of_namespace;
    Endpoints in endpoints: "/api/v1" "endpoints", role Some(Role::Endpoints), refers by of_endpoints;
    EndpointSlice in slices: "/apis/discovery.k8s.io/v1" "endpointslices", role Some(Role::EndpointSlice), refers by of_slice;
    Ingress in ingresses: "/apis/networking.k8s.io/v1" "ingresses", role Some(Role::Ingress), refers by of_namespace;
    Namespace in namespaces: "/api/v1" "namespaces", role None, refers by of_nothing;
    ReplicaSet in replica_sets: "/apis/apps/v1" "replicasets", role None, refers by of_nothing;
    Job in jobs: "/apis/batch/v1" "jobs", role None, refers by of_nothing;
}

fn of_nothing<K>(_: &K) -> Vec<Reference> {
    Vec::new()
}

fn of_namespace<K: Resource>(object: &K) -> Vec<Reference> {
    vec![reference::<Namespace>(object.meta().namespace.clone())]
}

fn of_pod(pod: &Pod) -> Vec<Reference> {
    let mut found = of_namespace(pod);
    found.push(reference::<Node>(pod.spec.node_name.clone()));
    if let Some(owner) = pod.metadata.controller() {
        let of = key(&pod.metadata.namespace, &owner.name);
        match owner.kind.as_str() {
            "ReplicaSet" => found.push(reference::<ReplicaSet>(of)),
            "Job" => found.push(reference::<Job>(of)),
            _ => {}
        }
    }
    found
}

fn of_endpoints(endpoints: &Endpoints) -> Vec<Reference> {
    let mut found = of_namespace(endpoints);
    found.push(reference::<Service>(endpoints.metadata.key()));
    for subset in &endpoints.subsets {
        for address in subset.addresses.iter().chain(&subset.not_ready_addresses) {
            found.extend(address.node_name.clone().map(reference::<Node>));
            found.extend(address.target_ref.as_ref().and_then(of_target));
        }
    }
    found
}

fn of_slice(slice: &EndpointSlice) -> Vec<Reference> {
    let mut found = of_namespace(slice);
    if let Some(service) = slice.metadata.labels.get(SERVICE_NAME_LABEL) {
        let of = key(&slice.metadata.namespace, service);
        found.push(reference::<Service>(of));
    }
    for endpoint in &slice.endpoints {
        found.extend(endpoint.node_name.clone().map(reference::<Node>));
        found.extend(endpoint.target_ref.as_ref().and_then(of_target));
    }
    found
}

fn of_target(target: &TargetRef) -> Option<Reference> {
    match target.kind.as_str() {
        "Pod" => Some(reference::<Pod>(key(&target.namespace, &target.name))),
        "Node" => Some(reference::<Node>(target.name.clone())),
        _ => None,
    }
}
