//! Every role against a fake API server.

mod fake;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use narthex_net::{StopToken, Stopper};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::config::{Namespaces, Selector};
use crate::group::{ADDRESS_LABEL, TargetGroup};
use fake::Fake;

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
const SERVICES: &str = "/api/v1/services";
const ENDPOINTS: &str = "/api/v1/endpoints";
const NAMESPACES: &str = "/api/v1/namespaces";
const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/ingresses";
const REPLICA_SETS: &str = "/apis/apps/v1/replicasets";
const JOBS: &str = "/apis/batch/v1/jobs";

/// Longer than anything under test takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

type Groups = BTreeMap<String, TargetGroup>;

/// A running discovery, and its last reported groups.
struct Running {
    groups: watch::Receiver<Groups>,
    _stopper: Stopper,
}

fn run(fake: &Fake, role: Role, change: impl FnOnce(&mut KubernetesSdConfig)) -> Running {
    let mut config = KubernetesSdConfig {
        role: Some(role),
        api_server: Some(fake.url.clone()),
        ..KubernetesSdConfig::default()
    };
    change(&mut config);
    let discovery = KubernetesDiscovery::new(&config, &Options::default()).expect("usable");
    let (stopper, stop): (Stopper, StopToken) = Stopper::new();
    let (sender, groups) = watch::channel(Groups::new());
    let updates = Updates::to(move |groups| {
        sender.send_modify(|known| {
            for group in groups {
                known.insert(group.source.clone(), group);
            }
        });
    });
    tokio::spawn(Box::new(discovery).run(updates, stop));
    Running {
        groups,
        _stopper: stopper,
    }
}

impl Running {
    /// Waits until the reported groups satisfy `wanted`.
    async fn until(&mut self, wanted: impl Fn(&Groups) -> bool) -> Groups {
        let mut seen = self.groups.clone();
        let waiting = seen.wait_for(|groups| wanted(groups));
        let found = tokio::time::timeout(PATIENCE, waiting).await;
        match found {
            Ok(groups) => groups.expect("the discovery runs").clone(),
            Err(_elapsed) => panic!("still {:#?}", *self.groups.borrow()),
        }
    }

    /// Waits until there are `count` targets.
    async fn targets(&mut self, count: usize) -> Groups {
        let total = |groups: &Groups| groups.values().map(|g| g.targets.len()).sum::<usize>();
        self.until(|groups| total(groups) == count).await
    }
}

fn addresses(group: &TargetGroup) -> Vec<&str> {
    let targets = group.targets.iter();
    targets
        .map(|target| target[ADDRESS_LABEL].as_str())
        .collect()
}

/// Returns labels without the common prefix, as JSON, to compare with literals.
fn short(labels: &BTreeMap<String, String>) -> Value {
    let short = |name: &str| name.trim_start_matches("__meta_kubernetes_").to_owned();
    let map = labels
        .iter()
        .map(|(name, value)| (short(name), json!(value)));
    Value::Object(map.collect())
}

fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "labels": { "app.io/name": "web" }, "annotations": null,
            "managedFields": [{ "manager": "kubelet" }],
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [
                { "name": "web", "image": "web:1",
                  "ports": [{ "name": "http", "containerPort": 80, "protocol": "TCP" }] },
                { "name": "bare", "image": "bare:1" },
            ],
            "initContainers": [{ "name": "init", "image": "init:1", "ports": [] }],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.1.0.1",
            "conditions": [{ "type": "Ready", "status": "True", "lastProbeTime": null }],
            "containerStatuses": [{ "name": "web", "containerID": "docker://a1" }],
        },
    });
    change(&mut pod);
    pod
}

#[tokio::test]
async fn pods_come_change_and_go() {
    let fake = Fake::start().await;
    for name in ["p1", "p2", "p3", "p4", "p5"] {
        fake.put_object(PODS, pod(name, |_| {}));
    }
    let mut running = run(&fake, Role::Pod, |_| {});
    let groups = running.targets(15).await;
    let group = &groups["pod/ns/p1"];
    assert_eq!(addresses(group), ["10.0.0.1:80", "10.0.0.1", "10.0.0.1"]);
    assert_eq!(
        short(&group.labels),
        json!({
            "namespace": "ns", "pod_name": "p1", "pod_uid": "uid-p1", "pod_ip": "10.0.0.1",
            "pod_ready": "true", "pod_phase": "Running", "pod_node_name": "node-1",
            "pod_host_ip": "10.1.0.1", "pod_label_app_io_name": "web",
            "pod_labelpresent_app_io_name": "true",
        })
    );
    assert_eq!(
        short(&group.targets[0]),
        json!({
            "__address__": "10.0.0.1:80", "pod_container_name": "web",
            "pod_container_id": "docker://a1", "pod_container_image": "web:1",
            "pod_container_init": "false", "pod_container_port_name": "http",
            "pod_container_port_number": "80", "pod_container_port_protocol": "TCP",
        })
    );
    assert_eq!(
        short(&group.targets[2]),
        json!({
            "__address__": "10.0.0.1", "pod_container_name": "init", "pod_container_id": "",
            "pod_container_image": "init:1", "pod_container_init": "true",
        })
    );
    assert_eq!(fake.lists(), 1, "pages of one list");

    fake.put_object(PODS, pod("p6", |_| {}));
    running.targets(18).await;
    fake.delete(PODS, "ns/p6");
    running.targets(15).await;
    // A pod that is starting has no address, so no targets either.
    fake.put_object(PODS, pod("p1", |pod| pod["status"]["podIP"] = Value::Null));
    running.targets(12).await;
    // A new version with the same labels is not reported.
    fake.put_object(
        PODS,
        pod("p2", |pod| pod["status"]["startTime"] = "now".into()),
    );
    fake.put_object(
        PODS,
        pod("p3", |pod| pod["status"]["phase"] = "Failed".into()),
    );
    let phase =
        |groups: &Groups, name: &str| groups[name].labels["__meta_kubernetes_pod_phase"].clone();
    running
        .until(|groups| phase(groups, "pod/ns/p3") == "Failed")
        .await;
    assert_eq!(fake.lists(), 1, "everything after it was watched");
}

#[tokio::test]
async fn a_watch_goes_on_where_the_last_one_ended() {
    let fake = Fake::start().await;
    fake.put_object(PODS, pod("p1", |_| {}));
    let mut running = run(&fake, Role::Pod, |_| {});
    running.targets(3).await;
    // The bookmark carries no pod, only a version: the API may now forget older ones.
    fake.bookmark(PODS);
    fake.hang_up();
    fake.put_object(PODS, pod("p2", |_| {}));
    running.targets(6).await;
    assert_eq!(fake.lists(), 1);
    let asked = fake.asked();
    assert!(asked[1].contains("allowWatchBookmarks=true"), "{asked:?}");
    assert!(asked[0].contains("limit=500"), "{asked:?}");
}

#[tokio::test]
async fn forgotten_versions_are_made_up_for_by_a_list() {
    let fake = Fake::start().await;
    for name in ["p1", "p2", "p3"] {
        fake.put_object(PODS, pod(name, |_| {}));
    }
    let mut running = run(&fake, Role::Pod, |_| {});
    running.targets(9).await;
    fake.delete(PODS, "ns/p2");
    fake.forget();
    fake.put_object(
        PODS,
        pod("p4", |pod| pod["spec"]["initContainers"] = Value::Null),
    );
    fake.forget();
    fake.hang_up();
    let groups = running.until(|groups| {
        let gone = groups
            .get("pod/ns/p2")
            .is_some_and(|g| g.targets.is_empty());
        gone && groups.contains_key("pod/ns/p4")
    });
    let groups = groups.await;
    assert_eq!(addresses(&groups["pod/ns/p4"]), ["10.0.0.1:80", "10.0.0.1"]);
    // The same if the watch itself reports it, and if it reports something unintelligible.
    fake.send(
        PODS,
        json!({ "type": "ERROR", "object": { "code": 410, "message": "too old" } }),
    );
    fake.put_object(PODS, pod("p5", |_| {}));
    running
        .until(|groups| groups.contains_key("pod/ns/p5"))
        .await;
    fake.send(
        PODS,
        json!({ "type": "ADDED", "object": { "metadata": { "name": 5 } } }),
    );
    fake.put_object(PODS, pod("p6", |_| {}));
    running
        .until(|groups| groups.contains_key("pod/ns/p6"))
        .await;
    assert!(fake.lists() >= 3, "{:?}", fake.asked());
}

#[tokio::test]
async fn an_api_that_refuses_keeps_the_targets() {
    let fake = Fake::start().await;
    fake.refuse(Some(403));
    let mut running = run(&fake, Role::Pod, |_| {});
    fake.put_object(PODS, pod("p1", |_| {}));
    fake.refuse(None);
    running.targets(3).await;
    fake.refuse(Some(500));
    fake.hang_up();
    fake.put_object(PODS, pod("p2", |_| {}));
    fake.refuse(None);
    running.targets(6).await;
}

#[tokio::test]
async fn pods_get_labels_of_what_is_around_them() {
    let fake = Fake::start().await;
    let owner =
        |kind: &str, name: &str| json!([{ "kind": kind, "name": name, "controller": true }]);
    let owned = |name: &str, owner: Value| json!({ "metadata": { "name": name, "namespace": "ns", "ownerReferences": owner } });
    let node = |zone: &str| json!({ "metadata": { "name": "node-1", "labels": { "zone": zone } }, "status": {} });
    fake.put_object(NODES, node("a"));
    fake.put_object(
        NAMESPACES,
        json!({ "metadata": { "name": "ns", "annotations": { "team": "x" } } }),
    );
    fake.put_object(REPLICA_SETS, owned("web-7", owner("Deployment", "web")));
    fake.put_object(JOBS, owned("night-1", owner("CronJob", "night")));
    fake.put_object(
        PODS,
        pod("web", |pod| {
            pod["metadata"]["ownerReferences"] = owner("ReplicaSet", "web-7");
        }),
    );
    fake.put_object(
        PODS,
        pod("night", |pod| {
            pod["metadata"]["ownerReferences"] = owner("Job", "night-1");
        }),
    );
    fake.put_object(
        PODS,
        pod("elsewhere", |pod| pod["spec"]["nodeName"] = "node-2".into()),
    );
    let mut running = run(&fake, Role::Pod, |config| {
        config.attach_metadata = AttachMetadata {
            node: true,
            namespace: true,
            deployment: true,
            job: true,
            cronjob: true,
        };
    });
    let groups = running.targets(6).await;
    let label = |groups: &Groups, pod: &str, name: &str| {
        let labels = &groups[&format!("pod/ns/{pod}")].labels;
        labels.get(&format!("__meta_kubernetes_{name}")).cloned()
    };
    for (pod, name, want) in [
        ("web", "pod_controller_kind", Some("ReplicaSet")),
        ("web", "pod_controller_name", Some("web-7")),
        ("web", "pod_deployment_name", Some("web")),
        ("web", "pod_job_name", None),
        ("web", "node_name", Some("node-1")),
        ("web", "node_label_zone", Some("a")),
        ("web", "node_labelpresent_zone", Some("true")),
        ("web", "namespace_annotation_team", Some("x")),
        ("web", "namespace_annotationpresent_team", Some("true")),
        ("night", "pod_job_name", Some("night-1")),
        ("night", "pod_cronjob_name", Some("night")),
        ("night", "pod_deployment_name", None),
    ] {
        assert_eq!(label(&groups, pod, name).as_deref(), want, "{pod} {name}");
    }
    assert!(
        groups["pod/ns/elsewhere"].targets.is_empty(),
        "an unknown node"
    );
    fake.put_object(NODES, node("b"));
    let moved = |groups: &Groups| label(groups, "web", "node_label_zone").as_deref() == Some("b");
    running.until(moved).await;
    fake.delete(NODES, "node-1");
    running.targets(0).await;
}

#[tokio::test]
async fn nodes_are_reached_at_their_best_address() {
    let fake = Fake::start().await;
    let node = |name: &str, addresses: Value| {
        json!({
            "metadata": { "name": name, "labels": { "a/b": "c" } },
            "spec": { "providerID": "cloud://1" },
            "status": {
                "addresses": addresses,
                "conditions": [{ "type": "Ready", "status": "True" }],
                "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            },
        })
    };
    let address = |kind: &str, address: &str| json!({ "type": kind, "address": address });
    let both = json!([
        address("Hostname", "n1.example"),
        address("InternalIP", "10.0.0.9")
    ]);
    fake.put_object(NODES, node("n1", both));
    fake.put_object(NODES, node("n2", json!([address("ExternalIP", "fe80::1")])));
    fake.put_object(NODES, node("n3", Value::Null));
    let mut running = run(&fake, Role::Node, |_| {});
    let groups = running.targets(2).await;
    assert_eq!(
        short(&groups["node/n1"].labels),
        json!({
            "node_name": "n1", "node_provider_id": "cloud://1", "node_condition_ready": "true",
            "node_label_a_b": "c", "node_labelpresent_a_b": "true",
        })
    );
    assert_eq!(
        short(&groups["node/n1"].targets[0]),
        json!({
            "__address__": "10.0.0.9:10250", "instance": "n1",
            "node_address_InternalIP": "10.0.0.9", "node_address_Hostname": "n1.example",
        })
    );
    assert_eq!(addresses(&groups["node/n2"]), ["[fe80::1]:10250"]);
    assert!(!groups.contains_key("node/n3"), "nothing is known of it");
}

fn service(name: &str, spec: Value) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "ns", "labels": { "app": name } },
        "spec": spec,
        "status": { "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }, { "hostname": "x" }, { "ip": "1.2.3.5" }] } },
    })
}

#[tokio::test]
async fn services_say_how_they_are_reached() {
    let fake = Fake::start().await;
    let ports = json!([{ "name": "http", "port": 80, "protocol": "TCP" }]);
    for (name, kind) in [
        ("c", "ClusterIP"),
        ("e", "ExternalName"),
        ("l", "LoadBalancer"),
    ] {
        let spec = json!({
            "type": kind, "ports": ports, "clusterIP": "10.3.0.1", "externalName": "ext.example",
        });
        fake.put_object(SERVICES, service(name, spec));
    }
    let mut running = run(&fake, Role::Service, |_| {});
    let groups = running.targets(3).await;
    assert_eq!(
        short(&groups["svc/ns/c"].labels),
        json!({
            "namespace": "ns", "service_name": "c", "service_label_app": "c",
            "service_labelpresent_app": "true",
        })
    );
    assert_eq!(
        short(&groups["svc/ns/l"].targets[0]),
        json!({
            "__address__": "l.ns.svc:80", "service_port_name": "http",
            "service_port_number": "80", "service_port_protocol": "TCP",
            "service_type": "LoadBalancer", "service_cluster_ip": "10.3.0.1",
            "service_loadbalancer_ip": "1.2.3.4,1.2.3.5",
        })
    );
    let external = short(&groups["svc/ns/e"].targets[0]);
    assert_eq!(external["service_external_name"], "ext.example");
    assert!(external.get("service_cluster_ip").is_none());
}

#[tokio::test]
async fn ingresses_have_a_target_for_each_path() {
    let fake = Fake::start().await;
    fake.put_object(
        INGRESSES,
        json!({
            "metadata": { "name": "i", "namespace": "ns" },
            "spec": {
                "ingressClassName": "nginx",
                "tls": [{ "hosts": ["*.example.com"] }],
                "rules": [
                    { "host": "a.example.com", "http": { "paths": [{ "path": "/x" }, {}] } },
                    { "host": "b.a.example.com" },
                    { "host": "none.example", "http": { "paths": [] } },
                ],
            },
        }),
    );
    let mut running = run(&fake, Role::Ingress, |_| {});
    let groups = running.targets(3).await;
    let group = &groups["ingress/ns/i"];
    assert_eq!(
        short(&group.labels),
        json!({ "namespace": "ns", "ingress_name": "i", "ingress_class_name": "nginx" })
    );
    let told: Vec<_> = group.targets.iter().map(short).collect();
    let target = |scheme: &str, host: &str, path: &str| {
        json!({
            "__address__": host, "ingress_scheme": scheme, "ingress_host": host,
            "ingress_path": path,
        })
    };
    assert_eq!(
        told,
        [
            target("https", "a.example.com", "/x"),
            target("https", "a.example.com", "/"),
            target("http", "b.a.example.com", "/"),
        ]
    );
}

fn endpoints() -> Value {
    let reference =
        |kind: &str, name: &str| json!({ "kind": kind, "namespace": "ns", "name": name });
    json!({
        "metadata": { "name": "web", "namespace": "ns", "labels": { "l": "v" } },
        "subsets": [{
            "addresses": [
                { "ip": "10.0.0.1", "nodeName": "node-1", "targetRef": reference("Pod", "p1") },
                { "ip": "10.0.0.8", "hostname": "h" },
            ],
            "notReadyAddresses": [{ "ip": "10.0.0.9", "targetRef": reference("Node", "node-1") }],
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }],
        }],
    })
}

/// Returns a pod with a port of its own beside the service's.
fn two_ports(name: &str) -> Value {
    pod(name, |pod| {
        pod["spec"]["containers"][1]["ports"] =
            json!([{ "name": "admin", "containerPort": 8080, "protocol": "TCP" }]);
        pod["spec"]["initContainers"] = Value::Null;
    })
}

#[tokio::test]
async fn endpoints_are_joined_with_their_pods_and_services() {
    let fake = Fake::start().await;
    fake.put_object(ENDPOINTS, endpoints());
    fake.put_object(SERVICES, service("web", json!({ "type": "ClusterIP" })));
    fake.put_object(PODS, two_ports("p1"));
    let mut running = run(&fake, Role::Endpoints, |_| {});
    let groups = running.targets(4).await;
    let group = &groups["endpoints/ns/web"];
    assert_eq!(
        short(&group.labels),
        json!({
            "namespace": "ns", "service_name": "web", "service_label_app": "web",
            "service_labelpresent_app": "true", "endpoints_name": "web",
            "endpoints_label_l": "v", "endpoints_labelpresent_l": "true",
        })
    );
    let all = ["10.0.0.1:80", "10.0.0.8:80", "10.0.0.9:80", "10.0.0.1:8080"];
    assert_eq!(addresses(group), all);
    let first = short(&group.targets[0]);
    for (name, want) in [
        ("endpoint_ready", "true"),
        ("endpoint_port_name", "http"),
        ("endpoint_port_protocol", "TCP"),
        ("endpoint_address_target_kind", "Pod"),
        ("endpoint_address_target_name", "p1"),
        ("endpoint_node_name", "node-1"),
        ("pod_name", "p1"),
        ("pod_container_name", "web"),
        ("pod_container_port_name", "http"),
        ("pod_container_init", "false"),
    ] {
        assert_eq!(first[name], want, "{name}");
    }
    assert_eq!(
        short(&group.targets[1]),
        json!({
            "__address__": "10.0.0.8:80", "endpoint_port_name": "http",
            "endpoint_port_protocol": "TCP", "endpoint_ready": "true", "endpoint_hostname": "h",
        })
    );
    assert_eq!(short(&group.targets[2])["endpoint_ready"], "false");
    let other = short(&group.targets[3]);
    assert_eq!(other["pod_container_port_name"], "admin");
    assert!(other.get("endpoint_ready").is_none());
    // The pod's phase changes while the endpoints stay the same.
    let failed = |mut pod: Value| {
        pod["status"]["phase"] = "Failed".into();
        pod
    };
    fake.put_object(PODS, failed(two_ports("p1")));
    let phase = "__meta_kubernetes_pod_phase";
    running
        .until(|groups| groups["endpoints/ns/web"].targets[0][phase] == "Failed")
        .await;
    fake.delete(SERVICES, "ns/web");
    let label = "__meta_kubernetes_service_name";
    running
        .until(|groups| !groups["endpoints/ns/web"].labels.contains_key(label))
        .await;
    fake.delete(ENDPOINTS, "ns/web");
    running.targets(0).await;
}

fn slice(name: &str, family: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns",
            "labels": { "kubernetes.io/service-name": "web" },
        },
        "addressType": family,
        "endpoints": [{
            "addresses": ["10.0.0.1"],
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "hostname": "h", "nodeName": "node-1", "zone": "z1",
            "targetRef": { "kind": "Pod", "namespace": "ns", "name": "p1" },
            "deprecatedTopology": { "topology/x": "y" },
        }],
        "ports": [
            { "name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http" },
            {},
        ],
    })
}

#[tokio::test]
async fn endpoint_slices_are_joined_once_for_both_families() {
    let fake = Fake::start().await;
    let dual = json!({
        "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"],
    });
    fake.put_object(SERVICES, service("web", dual));
    fake.put_object(SLICES, slice("web-4", "IPv4"));
    fake.put_object(SLICES, slice("web-6", "IPv6"));
    fake.put_object(PODS, two_ports("p1"));
    let mut running = run(&fake, Role::EndpointSlice, |_| {});
    let groups = running.targets(3).await;
    assert!(groups["endpointslice/ns/web-6"].targets.is_empty());
    let group = &groups["endpointslice/ns/web-4"];
    assert_eq!(
        addresses(group),
        ["10.0.0.1:80", "10.0.0.1", "10.0.0.1:8080"]
    );
    let labels = short(&group.labels);
    for (name, want) in [
        ("endpointslice_name", "web-4"),
        ("endpointslice_address_type", "IPv4"),
        ("endpointslice_label_kubernetes_io_service_name", "web"),
        ("service_name", "web"),
        ("namespace", "ns"),
    ] {
        assert_eq!(labels[name], want, "{name}");
    }
    let first = short(&group.targets[0]);
    for (name, want) in [
        ("endpointslice_port", "80"),
        ("endpointslice_port_name", "http"),
        ("endpointslice_port_protocol", "TCP"),
        ("endpointslice_port_app_protocol", "http"),
        ("endpointslice_endpoint_conditions_ready", "true"),
        ("endpointslice_endpoint_conditions_serving", "true"),
        ("endpointslice_endpoint_conditions_terminating", "false"),
        ("endpointslice_endpoint_hostname", "h"),
        ("endpointslice_endpoint_node_name", "node-1"),
        ("endpointslice_endpoint_zone", "z1"),
        ("endpointslice_endpoint_topology_topology_x", "y"),
        ("endpointslice_endpoint_topology_present_topology_x", "true"),
        ("endpointslice_address_target_kind", "Pod"),
        ("endpointslice_address_target_name", "p1"),
        ("pod_name", "p1"),
        ("pod_container_port_name", "http"),
    ] {
        assert_eq!(first[name], want, "{name}");
    }
    let bare = short(&group.targets[1]);
    assert!(bare.get("endpointslice_port").is_none());
    assert!(bare.get("pod_container_name").is_none());
}

#[tokio::test]
async fn namespaces_and_selectors_narrow_down_what_is_asked() {
    let fake = Fake::start().await;
    fake.put_object(PODS, pod("p1", |_| {}));
    fake.put_object(
        PODS,
        pod("p2", |pod| pod["metadata"]["namespace"] = "other".into()),
    );
    let mut running = run(&fake, Role::Pod, |config| {
        config.namespaces = Namespaces {
            own_namespace: false,
            names: vec!["ns".to_owned(), "third".to_owned()],
        };
        config.selectors = vec![Selector {
            role: Role::Pod,
            label: "app in (a, b)".to_owned(),
            field: "status.phase=Running".to_owned(),
        }];
    });
    let groups = running.targets(3).await;
    assert!(
        groups.contains_key("pod/ns/p1") && groups.len() == 1,
        "{groups:?}"
    );
    let asked = fake.asked();
    let wanted = "labelSelector=app%20in%20%28a%2C%20b%29&fieldSelector=status.phase%3DRunning";
    for namespace in ["ns", "third"] {
        let path = format!("/api/v1/namespaces/{namespace}/pods?limit=500&{wanted}");
        assert!(asked.contains(&path), "{path} in {asked:?}");
    }
}

#[test]
fn kubeconfigs_are_read() {
    let file = Path::new("/home/me/.kube/config");
    let text = "
apiVersion: v1
kind: Config
preferences: {}
current-context: b
contexts:
- {name: a, context: {cluster: other, user: none}}
- {name: b, context: {cluster: main, user: me, namespace: x}}
clusters:
- name: main
  cluster:
    server: https://k.example:6443/
    certificate-authority-data: Y2EtcGVt
    tls-server-name: k
users:
- name: me
  user: {client-certificate: me.crt, client-key-data: a2V5LXBlbQ==, tokenFile: token}
";
    let (server, http) = access::from_kubeconfig(text, file).expect("readable");
    assert_eq!(server, "https://k.example:6443/");
    assert_eq!(http.tls.ca, "ca-pem");
    assert_eq!(http.tls.server_name, "k");
    assert_eq!(
        http.tls.cert_file.as_deref(),
        Some(Path::new("/home/me/.kube/me.crt"))
    );
    assert_eq!(http.tls.key.expose(), "key-pem");
    let authorization = http.authorization.expect("a token's file");
    let token_file = Path::new("/home/me/.kube/token");
    assert_eq!(authorization.credentials_file.as_deref(), Some(token_file));
    for (from, to, want) in [
        (
            "current-context: b",
            "current-context: c",
            "context \"c\" does not exist",
        ),
        (
            "cluster: main",
            "cluster: x",
            "cluster \"x\" does not exist",
        ),
        ("user: me", "user: you", "user \"you\" does not exist"),
        (
            "Y2EtcGVt",
            "'%'",
            "certificate-authority-data is not base64 of PEM",
        ),
        (
            "tokenFile: token",
            "exec: {command: x}",
            "users with exec or auth-provider are not supported",
        ),
        ("https://k.example:6443/", "''", "the cluster has no server"),
    ] {
        let error = access::from_kubeconfig(&text.replace(from, to), file);
        let error = error.expect_err(to).to_string();
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn without_a_cluster_around_it_there_is_no_service_account() {
    let config = KubernetesSdConfig {
        role: Some(Role::Pod),
        ..KubernetesSdConfig::default()
    };
    let error = KubernetesDiscovery::new(&config, &Options::default()).expect_err("no cluster");
    assert_eq!(
        error.to_string(),
        "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"
    );
    let dir = narthex_testkit::TempDir::new("kubernetes");
    dir.write("token", "t");
    dir.write("namespace", "mine\n");
    let options = Options {
        service_account: dir.path().to_owned(),
        kubernetes_service: Some(("10.0.0.1".to_owned(), "443".to_owned())),
        ..Options::default()
    };
    let mut own = config;
    own.namespaces.own_namespace = true;
    let discovery = KubernetesDiscovery::new(&own, &options).expect("usable");
    assert_eq!(discovery.namespaces, ["mine"]);
    assert_eq!(discovery.api.base, "https://10.0.0.1:443");
    assert!(Arc::strong_count(&discovery.api) == 1);
}
