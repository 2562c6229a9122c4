//! Kubernetes objects, reduced to the fields that become labels.
//!
//! Invariant: two objects are equal if they produce the same labels: versions, timestamps and heartbeats are not among
//! the fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Label that names an endpoint slice's service.
pub(super) const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// Deserialises `null` as the default: Kubernetes writes it for empty values.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Defines structures whose fields may all be missing or null.
macro_rules! objects {
    ($($(#[$meta:meta])* struct $name:ident { $($(#[$of:meta])* $field:ident: $kind:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
            #[serde(default, rename_all = "camelCase")]
            pub(crate) struct $name {
                $($(#[$of])* #[serde(deserialize_with = "or_default")] pub(crate) $field: $kind,)*
            }
        )*
    };
}

pub(crate) type Map = BTreeMap<String, String>;

objects! {
    struct Meta {
        name: String,
        namespace: String,
        uid: String,
        labels: Map,
        annotations: Map,
        owner_references: Vec<Owner>,
    }
    struct Owner {
        kind: String,
        name: String,
        controller: bool,
    }
    struct Pod {
        metadata: Meta,
        spec: PodSpec,
        status: PodStatus,
    }
    struct PodSpec {
        node_name: String,
        containers: Vec<Container>,
        init_containers: Vec<Container>,
    }
    struct Container {
        name: String,
        image: String,
        ports: Vec<ContainerPort>,
    }
    struct ContainerPort {
        name: String,
        container_port: i64,
        protocol: String,
    }
    struct PodStatus {
        phase: String,
        #[serde(rename = "podIP")]
        pod_ip: String,
        #[serde(rename = "hostIP")]
        host_ip: String,
        conditions: Vec<Condition>,
        container_statuses: Vec<ContainerStatus>,
        init_container_statuses: Vec<ContainerStatus>,
    }
    struct Condition {
        #[serde(rename = "type")]
        kind: String,
        status: String,
    }
    struct ContainerStatus {
        name: String,
        #[serde(rename = "containerID")]
        container_id: String,
    }
    struct Node {
        metadata: Meta,
        spec: NodeSpec,
        status: NodeStatus,
    }
    struct NodeSpec {
        #[serde(rename = "providerID")]
        provider_id: String,
    }
    struct NodeStatus {
        conditions: Vec<Condition>,
        addresses: Vec<NodeAddress>,
        daemon_endpoints: DaemonEndpoints,
    }
    struct NodeAddress {
        #[serde(rename = "type")]
        kind: String,
        address: String,
    }
    struct DaemonEndpoints {
        kubelet_endpoint: KubeletEndpoint,
    }
    struct KubeletEndpoint {
        #[serde(rename = "Port")]
        port: i64,
    }
    struct Service {
        metadata: Meta,
        spec: ServiceSpec,
        status: ServiceStatus,
    }
    struct ServiceSpec {
        #[serde(rename = "type")]
        kind: String,
        ports: Vec<ServicePort>,
        #[serde(rename = "clusterIP")]
        cluster_ip: String,
        external_name: String,
        #[serde(rename = "loadBalancerIP")]
        load_balancer_ip: String,
        ip_families: Vec<String>,
        ip_family_policy: String,
    }
    struct ServicePort {
        name: String,
        port: i64,
        protocol: String,
    }
    struct ServiceStatus {
        load_balancer: LoadBalancer,
    }
    struct LoadBalancer {
        ingress: Vec<LoadBalancerAddress>,
    }
    struct LoadBalancerAddress {
        ip: String,
    }
    struct Endpoints {
        metadata: Meta,
        subsets: Vec<Subset>,
    }
    struct Subset {
        addresses: Vec<EndpointAddress>,
        not_ready_addresses: Vec<EndpointAddress>,
        ports: Vec<EndpointPort>,
    }
    struct EndpointAddress {
        ip: String,
        hostname: String,
        node_name: Option<String>,
        target_ref: Option<TargetRef>,
    }
    struct EndpointPort {
        name: String,
        port: i64,
        protocol: String,
    }
    struct TargetRef {
        kind: String,
        namespace: String,
        name: String,
    }
    struct EndpointSlice {
        metadata: Meta,
        address_type: String,
        endpoints: Vec<SliceEndpoint>,
        ports: Vec<SlicePort>,
    }
    struct SliceEndpoint {
        addresses: Vec<String>,
        conditions: SliceConditions,
        hostname: Option<String>,
        target_ref: Option<TargetRef>,
        deprecated_topology: Map,
        node_name: Option<String>,
        zone: Option<String>,
    }
    struct SliceConditions {
        ready: Option<bool>,
        serving: Option<bool>,
        terminating: Option<bool>,
    }
    struct SlicePort {
        name: Option<String>,
        port: Option<i64>,
        protocol: Option<String>,
        app_protocol: Option<String>,
    }
    struct Ingress {
        metadata: Meta,
        spec: IngressSpec,
    }
    struct IngressSpec {
        ingress_class_name: Option<String>,
        rules: Vec<IngressRule>,
        tls: Vec<IngressTls>,
    }
    struct IngressRule {
        host: String,
        http: Option<IngressHttp>,
    }
    struct IngressHttp {
        paths: Vec<IngressPath>,
    }
    struct IngressPath {
        path: String,
    }
    struct IngressTls {
        hosts: Vec<String>,
    }
    struct Namespace {
        metadata: Meta,
    }
    struct ReplicaSet {
        metadata: Meta,
    }
    struct Job {
        metadata: Meta,
    }
}

impl Meta {
    /// Returns `namespace/name`, or just the name of an object without a namespace.
    pub(crate) fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }

    /// Returns the owner that creates and removes this object.
    pub(crate) fn controller(&self) -> Option<&Owner> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}
