//! Builds targets from objects: the labels of Prometheus 3.14, name by name.
//!
//! Invariant: a group's source is the role's prefix and the object's key, whatever the object contains, so that its
//! targets are removed with it.

use std::collections::BTreeMap;

use super::objects::{
    Condition, Container, ContainerPort, ContainerStatus, EndpointAddress, EndpointPort,
    EndpointSlice, Endpoints, Ingress, Map, Meta, Node, Pod, SERVICE_NAME_LABEL, Service,
    SliceEndpoint, SlicePort, TargetRef, key,
};
use super::resource::Stores;
use crate::config::Role;
use crate::dns::join_host_port;
use crate::group::{ADDRESS_LABEL, LabelMap, TargetGroup};

const PREFIX: &str = "__meta_kubernetes_";
/// Set on an object truncated at 1000 addresses.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Builds the group of a main object; an empty one if the object is gone.
///
/// Returns `None` if there is nothing to report: the previous group stays.
pub(super) fn group(stores: &Stores, key: &str) -> Option<TargetGroup> {
    let prefix = match stores.role {
        Role::Service => "svc",
        role => role.name(),
    };
    let built = match stores.role {
        Role::Pod => stores.pods.get(key).map(|pod| pod_group(stores, pod)),
        Role::Service => stores.services.get(key).map(|s| service_group(stores, s)),
        Role::Ingress => stores.ingresses.get(key).map(|i| ingress_group(stores, i)),
        Role::Endpoints => stores
            .endpoints
            .get(key)
            .map(|e| endpoints_group(stores, e)),
        Role::EndpointSlice => stores
            .slices
            .get(key)
            .map(|slice| slice_group(stores, slice)),
        Role::Node => match stores.nodes.get(key).map(node_group) {
            Some(None) => {
                tracing::warn!(node = key, "No node address found.");
                return None;
            }
            found => found.flatten(),
        },
    };
    Some(TargetGroup {
        source: format!("{prefix}/{key}"),
        ..built.unwrap_or_default()
    })
}

/// Collects labels; later values replace earlier ones of the same name.
#[derive(Debug, Default, Clone)]
struct Labels(LabelMap);

impl Labels {
    /// Returns the labels of a main object's group: its own, and those of its namespace.
    fn of(stores: &Stores, meta: &Meta, resource: &str) -> Self {
        let mut labels = Self::default();
        labels.set("namespace", meta.namespace.as_str());
        labels.object(meta, resource);
        if stores.attach.namespace
            && let Some(found) = stores.namespaces.get(&meta.namespace)
        {
            labels.metadata(&found.metadata, "namespace");
        }
        labels
    }

    /// Sets a label with the prefix `__meta_kubernetes_`.
    fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(format!("{PREFIX}{name}"), value.into());
    }

    fn set_some(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.set(name, value.to_string());
        }
    }

    fn address(mut self, address: String) -> Self {
        self.0.insert(ADDRESS_LABEL.to_owned(), address);
        self
    }

    /// Sets the labels and annotations of an object, each also with a `present` label.
    fn metadata(&mut self, meta: &Meta, resource: &str) {
        self.each(&meta.labels, resource, "label");
        self.each(&meta.annotations, resource, "annotation");
    }

    fn each(&mut self, map: &Map, resource: &str, kind: &str) {
        for (name, value) in map {
            let name = sanitize(name);
            self.set(&format!("{resource}_{kind}_{name}"), value.as_str());
            self.set(&format!("{resource}_{kind}present_{name}"), "true");
        }
    }

    fn object(&mut self, meta: &Meta, resource: &str) {
        self.set(&format!("{resource}_name"), meta.name.as_str());
        self.metadata(meta, resource);
    }

    fn reference(&mut self, reference: Option<&TargetRef>, resource: &str) {
        if let Some(TargetRef { kind, name, .. }) = reference {
            self.set(&format!("{resource}_address_target_kind"), kind.as_str());
            self.set(&format!("{resource}_address_target_name"), name.as_str());
        }
    }

    fn node_metadata(&mut self, stores: &Stores, name: Option<&String>) {
        if stores.attach.node
            && let Some(node) = name.and_then(|name| stores.nodes.get(name))
        {
            self.object(&node.metadata, "node");
        }
    }
}

/// Escapes a name for use within a label's name.
fn sanitize(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect()
}

fn group_of(labels: Labels, targets: Vec<LabelMap>) -> TargetGroup {
    TargetGroup {
        source: String::new(),
        labels: labels.0,
        targets,
    }
}

fn pod_group(stores: &Stores, pod: &Pod) -> TargetGroup {
    let ip = &pod.status.pod_ip;
    // A pod that is starting or was evicted has no IP. A pod on an unknown node was excluded by selectors.
    let node_known = stores.nodes.contains_key(&pod.spec.node_name);
    if ip.is_empty() || (stores.attach.node && !node_known) {
        return TargetGroup::default();
    }
    let mut labels = Labels::of(stores, &pod.metadata, "pod");
    pod_labels(stores, pod, &mut labels);
    labels.node_metadata(stores, Some(&pod.spec.node_name));
    let mut targets = Vec::new();
    for (container, is_init) in containers(pod) {
        let statuses = if is_init {
            &pod.status.init_container_statuses
        } else {
            &pod.status.container_statuses
        };
        let mut target = Labels::default();
        target.set("pod_container_name", container.name.as_str());
        target.set("pod_container_id", container_id(statuses, &container.name));
        target.set("pod_container_image", container.image.as_str());
        target.set("pod_container_init", is_init.to_string());
        if container.ports.is_empty() {
            // Without a port, which users add by relabelling.
            targets.push(target.clone().address(ip.clone()).0);
        }
        for port in &container.ports {
            let mut target = target.clone();
            container_labels(container, port, is_init, &mut target);
            targets.push(target.address(join_host_port(ip, port.container_port)).0);
        }
    }
    group_of(labels, targets)
}

/// Returns the containers, then the init containers; `true` marks the latter.
fn containers(pod: &Pod) -> impl Iterator<Item = (&Container, bool)> {
    let main = pod.spec.containers.iter().map(|c| (c, false));
    main.chain(pod.spec.init_containers.iter().map(|c| (c, true)))
}

fn container_id(statuses: &[ContainerStatus], name: &str) -> String {
    let status = statuses.iter().find(|status| status.name == name);
    status.map_or_else(String::new, |status| status.container_id.clone())
}

fn pod_labels(stores: &Stores, pod: &Pod, labels: &mut Labels) {
    labels.set("pod_ip", pod.status.pod_ip.as_str());
    labels.set("pod_ready", ready(&pod.status.conditions));
    labels.set("pod_phase", pod.status.phase.as_str());
    labels.set("pod_node_name", pod.spec.node_name.as_str());
    labels.set("pod_host_ip", pod.status.host_ip.as_str());
    labels.set("pod_uid", pod.metadata.uid.as_str());
    labels.object(&pod.metadata, "pod");
    let Some(owner) = pod.metadata.controller() else {
        return;
    };
    if !owner.kind.is_empty() {
        labels.set("pod_controller_kind", owner.kind.as_str());
    }
    if !owner.name.is_empty() {
        labels.set("pod_controller_name", owner.name.as_str());
    }
    let of = key(&pod.metadata.namespace, &owner.name);
    let attach = stores.attach;
    match owner.kind.as_str() {
        "ReplicaSet" if attach.deployment => {
            let found = stores.replica_sets.get(&of);
            let above = found.and_then(|found| found.metadata.controller());
            if let Some(above) = above.filter(|above| above.kind == "Deployment") {
                labels.set("pod_deployment_name", above.name.as_str());
            }
        }
        "Job" => {
            if attach.job {
                labels.set("pod_job_name", owner.name.as_str());
            }
            let found = stores.jobs.get(&of).filter(|_| attach.cronjob);
            let above = found.and_then(|found| found.metadata.controller());
            if let Some(above) = above.filter(|above| above.kind == "CronJob") {
                labels.set("pod_cronjob_name", above.name.as_str());
            }
        }
        _ => {}
    }
}

fn ready(conditions: &[Condition]) -> String {
    let ready = conditions
        .iter()
        .find(|condition| condition.kind == "Ready");
    ready.map_or_else(
        || "unknown".to_owned(),
        |condition| condition.status.to_lowercase(),
    )
}

fn node_group(node: &Node) -> Option<TargetGroup> {
    let mut labels = Labels::default();
    labels.set("node_provider_id", node.spec.provider_id.as_str());
    for condition in &node.status.conditions {
        let name = sanitize(&condition.kind.to_lowercase());
        let status = condition.status.to_lowercase();
        labels.set(&format!("node_condition_{name}"), status);
    }
    labels.object(&node.metadata, "node");

    let mut addresses: BTreeMap<&str, &str> = BTreeMap::new();
    for address in &node.status.addresses {
        addresses
            .entry(&address.kind)
            .or_insert(address.address.as_str());
    }
    let preferred = [
        "InternalIP",
        "InternalDNS",
        "ExternalIP",
        "ExternalDNS",
        "LegacyHostIP",
        "Hostname",
    ];
    let host = preferred.iter().find_map(|kind| addresses.get(kind))?;
    let mut target = Labels::default();
    for (kind, address) in &addresses {
        target.set(&format!("node_address_{}", sanitize(kind)), *address);
    }
    let name = node.metadata.name.clone();
    target.0.insert("instance".to_owned(), name);
    let port = node.status.daemon_endpoints.kubelet_endpoint.port;
    let target = target.address(join_host_port(host, port));
    Some(group_of(labels, vec![target.0]))
}

fn service_group(stores: &Stores, service: &Service) -> TargetGroup {
    let labels = Labels::of(stores, &service.metadata, "service");
    let spec = &service.spec;
    let host = format!(
        "{}.{}.svc",
        service.metadata.name, service.metadata.namespace
    );
    let target = |port: &super::objects::ServicePort| {
        let mut target = Labels::default();
        target.set("service_port_name", port.name.as_str());
        target.set("service_port_number", port.port.to_string());
        target.set("service_port_protocol", port.protocol.as_str());
        target.set("service_type", spec.kind.as_str());
        if spec.kind == "ExternalName" {
            target.set("service_external_name", spec.external_name.as_str());
        } else {
            target.set("service_cluster_ip", spec.cluster_ip.as_str());
        }
        if spec.kind == "LoadBalancer" {
            target.set("service_loadbalancer_ip", load_balancer_ips(service));
        }
        target.address(join_host_port(&host, port.port)).0
    };
    let targets = spec.ports.iter().map(target).collect();
    group_of(labels, targets)
}

/// Returns the load balancer's assigned addresses, or else the requested one.
fn load_balancer_ips(service: &Service) -> String {
    let ingress = &service.status.load_balancer.ingress;
    let ips: Vec<&str> = ingress
        .iter()
        .map(|address| address.ip.as_str())
        .filter(|ip| !ip.is_empty())
        .collect();
    if ips.is_empty() {
        service.spec.load_balancer_ip.clone()
    } else {
        ips.join(",")
    }
}

fn ingress_group(stores: &Stores, ingress: &Ingress) -> TargetGroup {
    let mut labels = Labels::of(stores, &ingress.metadata, "ingress");
    let class = ingress.spec.ingress_class_name.as_ref();
    labels.set_some("ingress_class_name", class);
    let mut targets = Vec::new();
    for rule in &ingress.spec.rules {
        let mut encrypted = ingress.spec.tls.iter().flat_map(|tls| &tls.hosts);
        let secure = encrypted.any(|pattern| host_matches(pattern, &rule.host));
        let paths: Vec<&str> = match &rule.http {
            None => vec!["/"],
            Some(http) => http.paths.iter().map(|path| path.path.as_str()).collect(),
        };
        for path in paths {
            let mut target = Labels::default();
            target.set("ingress_scheme", if secure { "https" } else { "http" });
            target.set("ingress_host", rule.host.as_str());
            target.set("ingress_path", if path.is_empty() { "/" } else { path });
            targets.push(target.address(rule.host.clone()).0);
        }
    }
    group_of(labels, targets)
}

/// Reports whether a pattern such as `*.example.com` matches a host; a star matches one part.
fn host_matches(pattern: &str, host: &str) -> bool {
    if pattern == host {
        return true;
    }
    let after_star = pattern.strip_prefix("*.");
    let after_first = host.split_once('.').map(|(_first, rest)| rest);
    after_star.is_some() && after_star == after_first
}

/// Pods with the ports for which an endpoint was seen.
type Seen<'a> = BTreeMap<String, (&'a Pod, Vec<i64>)>;

/// Adds the labels of the pod that an endpoint refers to, if any, and those of the container with the port; `protocol`
/// replaces the container's where the endpoint's is exposed.
fn add_pod<'a>(
    stores: &'a Stores,
    reference: Option<&TargetRef>,
    port: Option<i64>,
    protocol: Option<&str>,
    seen: &mut Seen<'a>,
    target: &mut Labels,
) {
    let reference = reference.filter(|reference| reference.kind == "Pod");
    let pod = reference.and_then(|pod| stores.pods.get(&key(&pod.namespace, &pod.name)));
    let Some(pod) = pod else {
        return;
    };
    let seen = seen.entry(pod.metadata.key());
    seen.or_insert((pod, Vec::new())).1.extend(port);
    pod_labels(stores, pod, target);
    for (container, is_init) in containers(pod) {
        let same = |p: &&ContainerPort| Some(p.container_port) == port;
        if let Some(found) = container.ports.iter().find(same) {
            container_labels(container, found, is_init, target);
            if let Some(protocol) = protocol {
                target.set("pod_container_port_protocol", protocol);
            }
        }
    }
}

fn container_labels(
    container: &Container,
    port: &ContainerPort,
    is_init: bool,
    target: &mut Labels,
) {
    target.set("pod_container_name", container.name.as_str());
    target.set("pod_container_image", container.image.as_str());
    target.set("pod_container_port_name", port.name.as_str());
    target.set("pod_container_port_number", port.container_port.to_string());
    target.set("pod_container_port_protocol", port.protocol.as_str());
    target.set("pod_container_init", is_init.to_string());
}

/// Adds targets for the ports of seen pods that have no endpoint.
fn add_other_ports(stores: &Stores, seen: &Seen<'_>, targets: &mut Vec<LabelMap>) {
    for (pod, ports) in seen.values() {
        let ip = &pod.status.pod_ip;
        if ip.is_empty() {
            continue;
        }
        for (container, is_init) in containers(pod) {
            for port in &container.ports {
                if ports.contains(&port.container_port) {
                    continue;
                }
                let mut target = Labels::default();
                container_labels(container, port, is_init, &mut target);
                pod_labels(stores, pod, &mut target);
                targets.push(target.address(join_host_port(ip, port.container_port)).0);
            }
        }
    }
}

fn endpoints_group(stores: &Stores, endpoints: &Endpoints) -> TargetGroup {
    let meta = &endpoints.metadata;
    let mut labels = Labels::of(stores, meta, "endpoints");
    if let Some(service) = stores.services.get(&meta.key()) {
        labels.object(&service.metadata, "service");
    }
    if let Some(cut @ ("truncated" | "warning")) =
        meta.labels.get(OVER_CAPACITY).map(String::as_str)
    {
        tracing::warn!(
            endpoint = meta.name,
            capacity = cut,
            "Endpoints object exceeds 1000 addresses, please use \"role: endpointslice\" instead."
        );
    }
    let mut seen = Seen::new();
    let mut targets = Vec::new();
    for subset in &endpoints.subsets {
        for port in &subset.ports {
            let ready = subset.addresses.iter().map(|a| (a, "true"));
            let unready = subset.not_ready_addresses.iter().map(|a| (a, "false"));
            for (address, ready) in ready.chain(unready) {
                targets.push(endpoint_target(stores, address, port, ready, &mut seen));
            }
        }
    }
    add_other_ports(stores, &seen, &mut targets);
    group_of(labels, targets)
}

fn endpoint_target<'a>(
    stores: &'a Stores,
    address: &EndpointAddress,
    port: &EndpointPort,
    ready: &str,
    seen: &mut Seen<'a>,
) -> LabelMap {
    let mut target = Labels::default();
    target.set("endpoint_port_name", port.name.as_str());
    target.set("endpoint_port_protocol", port.protocol.as_str());
    target.set("endpoint_ready", ready);
    let reference = address.target_ref.as_ref();
    target.reference(reference, "endpoint");
    target.set_some("endpoint_node_name", address.node_name.as_ref());
    if !address.hostname.is_empty() {
        target.set("endpoint_hostname", address.hostname.as_str());
    }
    let of_node = reference.filter(|r| r.kind == "Node").map(|r| &r.name);
    target.node_metadata(stores, address.node_name.as_ref().or(of_node));
    let (number, protocol) = (Some(port.port), Some(&*port.protocol));
    add_pod(stores, reference, number, protocol, seen, &mut target);
    target.address(join_host_port(&address.ip, port.port)).0
}

fn slice_group(stores: &Stores, slice: &EndpointSlice) -> TargetGroup {
    let meta = &slice.metadata;
    let mut labels = Labels::of(stores, meta, "endpointslice");
    labels.set("endpointslice_address_type", slice.address_type.as_str());
    let service = meta.labels.get(SERVICE_NAME_LABEL).and_then(|name| {
        let of = key(&meta.namespace, name);
        stores.services.get(&of)
    });
    if let Some(service) = service {
        labels.object(&service.metadata, "service");
    }
    if service.is_some_and(|service| is_second_family(service, slice)) {
        return group_of(labels, Vec::new());
    }
    let mut seen = Seen::new();
    let mut targets = Vec::new();
    for endpoint in &slice.endpoints {
        for port in &slice.ports {
            for address in &endpoint.addresses {
                targets.push(slice_target(stores, address, endpoint, port, &mut seen));
            }
        }
    }
    add_other_ports(stores, &seen, &mut targets);
    group_of(labels, targets)
}

/// Reports whether the slice duplicates the first one with the other address family.
fn is_second_family(service: &Service, slice: &EndpointSlice) -> bool {
    let spec = &service.spec;
    let dual = matches!(
        spec.ip_family_policy.as_str(),
        "PreferDualStack" | "RequireDualStack"
    );
    let first = spec.ip_families.first();
    dual && first.is_some_and(|first| *first != slice.address_type)
}

fn slice_target<'a>(
    stores: &'a Stores,
    address: &str,
    endpoint: &SliceEndpoint,
    port: &SlicePort,
    seen: &mut Seen<'a>,
) -> LabelMap {
    let mut target = Labels::default();
    target.set_some("endpointslice_port_name", port.name.as_ref());
    target.set_some("endpointslice_port_protocol", port.protocol.as_ref());
    target.set_some("endpointslice_port", port.port);
    target.set_some(
        "endpointslice_port_app_protocol",
        port.app_protocol.as_ref(),
    );
    let conditions = &endpoint.conditions;
    for (name, value) in [
        ("ready", conditions.ready),
        ("serving", conditions.serving),
        ("terminating", conditions.terminating),
    ] {
        target.set_some(&format!("endpointslice_endpoint_conditions_{name}"), value);
    }
    target.set_some(
        "endpointslice_endpoint_hostname",
        endpoint.hostname.as_ref(),
    );
    let reference = endpoint.target_ref.as_ref();
    target.reference(reference, "endpointslice");
    target.set_some(
        "endpointslice_endpoint_node_name",
        endpoint.node_name.as_ref(),
    );
    target.set_some("endpointslice_endpoint_zone", endpoint.zone.as_ref());
    for (name, value) in &endpoint.deprecated_topology {
        let topology = |what| format!("endpointslice_endpoint_topology_{what}{}", sanitize(name));
        target.set(&topology(""), value.as_str());
        target.set(&topology("present_"), "true");
    }
    let of_node = reference.filter(|r| r.kind == "Node").map(|r| &r.name);
    target.node_metadata(stores, of_node.or(endpoint.node_name.as_ref()));
    add_pod(stores, reference, port.port, None, seen, &mut target);
    let address = match port.port {
        Some(port) => join_host_port(address, port),
        None => address.to_owned(),
    };
    target.address(address).0
}
