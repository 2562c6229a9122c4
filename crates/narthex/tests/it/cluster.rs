//! A cluster on loopback: an API server and the targets it lists, each served at its own address.
//!
//! **Invariant:** page `n` of a target contains `n`, which rises by one with every page from 1: the samples show a page
//! that was not stored or was fetched twice.

use crate::fake_kubernetes::Fake;
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
const SERVICES: &str = "/api/v1/services";
const ENDPOINTS: &str = "/api/v1/endpoints";

/// Number of objects of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Nodes; each is scraped by two jobs.
    pub(crate) nodes: usize,
    /// Pods annotated for scraping.
    pub(crate) pods: usize,
    /// Services annotated for scraping and probing.
    pub(crate) services: usize,
    /// Pods behind each service.
    pub(crate) behind: usize,
    /// Pods that are replaced in every round.
    pub(crate) batch: usize,
    /// Targets outside the API.
    pub(crate) others: usize,
}

impl Size {
    /// Returns the number of targets in [`jobs`], without the pods that are replaced.
    pub(crate) fn targets(self) -> usize {
        2 * self.nodes + self.pods + self.services * (self.behind + 1) + 1
    }
}

/// One served target.
#[derive(Clone)]
pub(crate) struct Served {
    /// `127.x.y.z:port`.
    pub(crate) address: String,
    connections: Arc<AtomicUsize>,
}

impl Served {
    /// Returns the number of connections made to it.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn ip(&self) -> &str {
        self.address.split(':').next().unwrap()
    }

    fn port(&self) -> u16 {
        self.address.rsplit(':').next().unwrap().parse().unwrap()
    }
}

/// A running cluster.
pub(crate) struct Cluster {
    pub(crate) api: Fake,
    pub(crate) size: Size,
    pub(crate) nodes: Vec<Served>,
    pub(crate) pods: Vec<Served>,
    pub(crate) behind: Vec<Served>,
    /// Addresses under which services are probed.
    fronts: Vec<Served>,
    pub(crate) batch: Vec<Served>,
    pub(crate) others: Vec<Served>,
    /// Runs all servers; they stop with the cluster.
    _runtime: Runtime,
}

impl Cluster {
    /// Starts all servers and fills the API server.
    pub(crate) fn start(size: Size) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let mut next = 0;
        let mut serve = |count: usize| -> Vec<Served> {
            let from = next;
            next += count;
            let address = |at: usize| format!("127.1.{}.{}:0", at / 250, at % 250 + 1);
            (from..next)
                .map(|at| runtime.block_on(serve(&address(at))))
                .collect()
        };
        let nodes = serve(size.nodes);
        let pods = serve(size.pods);
        // One more for the API server's own page.
        let behind = serve(size.services * size.behind + 1);
        let (fronts, batch, others) = (serve(size.services), serve(size.batch), serve(size.others));
        let api = runtime.block_on(Fake::start());
        let cluster = Self {
            api,
            size,
            nodes,
            pods,
            behind,
            fronts,
            batch,
            others,
            _runtime: runtime,
        };
        cluster.tell();
        cluster
    }

    fn tell(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            self.api.put_object(
                NODES,
                json!({
                    "metadata": { "name": node_name(at), "labels": { "zone": format!("z{}", at % 3) } },
                    "status": {
                        "addresses": [{ "type": "InternalIP", "address": node.ip() }],
                        "daemonEndpoints": { "kubeletEndpoint": { "Port": node.port() } },
                    },
                }),
            );
        }
        for (at, pod) in self.pods.iter().enumerate() {
            let app = format!("app-{}", at % 17);
            self.api.put_object(
                PODS,
                self.pod("default", at, &app, pod, at.is_multiple_of(2)),
            );
        }
        for service in 0..self.size.services {
            self.tell_service(service);
        }
        let api = &self.behind[self.size.services * self.size.behind];
        let metadata = json!({ "name": "kubernetes", "namespace": "default" });
        let spec = json!({ "type": "ClusterIP", "clusterIP": api.ip(), "ports": [] });
        self.api
            .put_object(SERVICES, json!({ "metadata": metadata, "spec": spec }));
        self.api.put_object(
            ENDPOINTS,
            json!({
                "metadata": metadata,
                "subsets": [{
                    "addresses": [{ "ip": api.ip() }],
                    "ports": [{ "name": "https", "port": api.port(), "protocol": "TCP" }],
                }],
            }),
        );
    }

    fn tell_service(&self, service: usize) {
        let name = format!("service-{service}");
        let from = service * self.size.behind;
        let behind = &self.behind[from..from + self.size.behind];
        let annotations = json!({
            "prometheus.io/scrape": "true", "prometheus.io/probe": "true",
            "prometheus.io/path": "/metrics",
        });
        let metadata = json!({
            "name": name, "namespace": "default", "annotations": annotations,
            "labels": { "app": name },
        });
        let front = &self.fronts[service];
        self.api.put_object(
            SERVICES,
            json!({
                "metadata": metadata,
                "spec": {
                    "type": "ClusterIP", "clusterIP": front.ip(),
                    "ports": [{ "name": "http", "port": front.port(), "protocol": "TCP" }],
                },
            }),
        );
        let mut subsets = Vec::new();
        for (at, served) in behind.iter().enumerate() {
            let at = self.size.pods + from + at;
            // A pod behind a service, without annotations of its own.
            let mut pod = self.pod("default", at, &name, served, false);
            pod["metadata"]["annotations"] = json!({});
            self.api.put_object(PODS, pod);
            subsets.push(json!({
                "addresses": [{
                    "ip": served.ip(), "nodeName": self.node_of(at),
                    "targetRef": { "kind": "Pod", "name": format!("{name}-{at}"), "namespace": "default" },
                }],
                "ports": [{ "name": "http", "port": served.port(), "protocol": "TCP" }],
            }));
        }
        self.api.put_object(
            ENDPOINTS,
            json!({ "metadata": metadata, "subsets": subsets }),
        );
    }

    fn node_of(&self, pod: usize) -> String {
        node_name(pod % self.size.nodes)
    }

    /// Returns a pod. If its port is annotated, nothing listens on its container port.
    fn pod(
        &self,
        namespace: &str,
        at: usize,
        app: &str,
        served: &Served,
        annotated: bool,
    ) -> Value {
        let mut annotations = json!({ "prometheus.io/scrape": "true" });
        let mut port = served.port();
        if annotated {
            annotations["prometheus.io/port"] = port.to_string().into();
            annotations["prometheus.io/path"] = "/metrics".into();
            port = 1;
        }
        json!({
            "metadata": {
                "name": format!("{app}-{at}"), "namespace": namespace, "uid": format!("uid-{at}"),
                "labels": { "app": app, "pod-template-hash": format!("{:x}", at * 7919) },
                "annotations": annotations,
            },
            "spec": {
                "nodeName": self.node_of(at),
                "containers": [{
                    "name": "main", "image": format!("{app}:1"),
                    "ports": [{ "name": "http", "containerPort": port, "protocol": "TCP" }],
                }],
            },
            "status": {
                "phase": "Running", "podIP": served.ip(), "hostIP": "127.0.0.1",
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        })
    }

    /// Replaces the pods of the batch by those of `round`.
    pub(crate) fn churn(&self, round: usize) {
        for (at, served) in self.batch.iter().enumerate() {
            if round > 0 {
                self.api
                    .delete(PODS, &format!("batch/run-{}-{at}", round - 1));
            }
            let app = format!("run-{round}");
            let pod = self.pod("batch", at, &app, served, true);
            self.api.put_object(PODS, pod);
        }
    }
}

fn node_name(at: usize) -> String {
    format!("node-{at:02}")
}

async fn serve(address: &str) -> Served {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let pages = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(answer_all(stream, Arc::clone(&pages)));
        }
    });
    Served {
        address,
        connections,
    }
}

/// Answers a connection's requests until it closes.
async fn answer_all(stream: TcpStream, pages: Arc<[AtomicUsize; 2]>) {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut first = None;
    while let Ok(Some(line)) = lines.next_line().await {
        if first.is_none() {
            first = Some(line);
            continue;
        }
        if !line.is_empty() {
            continue;
        }
        // Two paths, each with its own pages; a probe requests neither.
        let asked = first.take().unwrap_or_default();
        let body = match asked.split([' ', '?']).nth(1) {
            Some("/metrics") => page(&pages[0]),
            Some("/metrics/cadvisor") => page(&pages[1]),
            _ => String::new(),
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if writer.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Returns the next page: like a service's, with about a hundred samples.
fn page(pages: &AtomicUsize) -> String {
    let number = pages.fetch_add(1, Ordering::SeqCst) + 1;
    let mut text = format!(
        "# HELP pages_total Pages served.\n# TYPE pages_total counter\npages_total {number}\n# TYPE requests_total counter\n"
    );
    for code in ["200", "404", "500"] {
        for method in ["get", "put", "post", "delete"] {
            let count = number * (code.len() + method.len());
            let _ = writeln!(
                text,
                "requests_total{{code=\"{code}\",method=\"{method}\"}} {count}"
            );
        }
    }
    text.push_str("# TYPE latency_seconds histogram\n");
    for path in ["/", "/a", "/b", "/c", "/d"] {
        for (at, le) in ["0.01", "0.05", "0.1", "0.5", "1", "5", "+Inf"]
            .iter()
            .enumerate()
        {
            let _ = writeln!(
                text,
                "latency_seconds_bucket{{path=\"{path}\",le=\"{le}\"}} {}",
                number * (at + 1)
            );
        }
        let _ = writeln!(
            text,
            "latency_seconds_sum{{path=\"{path}\"}} {}\nlatency_seconds_count{{path=\"{path}\"}} {}",
            number as f64 * 0.3,
            number * 7
        );
    }
    text.push_str("# TYPE queue_length gauge\n");
    for queue in 0..30 {
        let _ = writeln!(
            text,
            "queue_length{{queue=\"q{queue}\"}} {}",
            (number * queue) % 41
        );
    }
    text
}

/// Returns scrape jobs for a cluster, modelled on Prometheus' example for Kubernetes.
pub(crate) fn jobs(api: &str, prober: &str) -> String {
    let sd =
        |role: &str| format!("  kubernetes_sd_configs: [{{role: {role}, api_server: '{api}'}}]\n");
    let keep = |what: &str| {
        format!(
            "  - {{source_labels: [__meta_kubernetes_{what}_annotation_prometheus_io_scrape], action: keep, regex: true}}\n  \
             - {{source_labels: [__meta_kubernetes_{what}_annotation_prometheus_io_path], action: replace, target_label: __metrics_path__, regex: (.+)}}\n  \
             - {{source_labels: [__address__, __meta_kubernetes_{what}_annotation_prometheus_io_port], action: replace, regex: '([^:]+)(?::\\d+)?;(\\d+)', replacement: '$1:$2', target_label: __address__}}\n  \
             - {{action: labelmap, regex: '__meta_kubernetes_{what}_label_(.+)'}}\n  \
             - {{source_labels: [__meta_kubernetes_namespace], action: replace, target_label: namespace}}\n"
        )
    };
    let node =
        "  relabel_configs:\n  - {action: labelmap, regex: '__meta_kubernetes_node_label_(.+)'}\n";
    format!(
        "- job_name: kubernetes-apiservers\n{endpoints}  relabel_configs:\n  \
         - {{source_labels: [__meta_kubernetes_namespace, __meta_kubernetes_service_name, __meta_kubernetes_endpoint_port_name], action: keep, regex: 'default;kubernetes;https'}}\n\
         - job_name: kubernetes-nodes\n{nodes}{node}\
         - job_name: kubernetes-cadvisor\n  metrics_path: /metrics/cadvisor\n{nodes}{node}\
         - job_name: kubernetes-service-endpoints\n{endpoints}  relabel_configs:\n{of_service}  \
         - {{source_labels: [__meta_kubernetes_service_name], action: replace, target_label: service}}\n\
         - job_name: kubernetes-services\n  metrics_path: /probe\n  params: {{module: [http_2xx]}}\n{services}  relabel_configs:\n  \
         - {{source_labels: [__meta_kubernetes_service_annotation_prometheus_io_probe], action: keep, regex: true}}\n  \
         - {{source_labels: [__meta_kubernetes_service_cluster_ip, __meta_kubernetes_service_port_number], separator: ':', target_label: __param_target}}\n  \
         - {{target_label: __address__, replacement: '{prober}'}}\n  \
         - {{source_labels: [__param_target], target_label: instance}}\n  \
         - {{action: labelmap, regex: '__meta_kubernetes_service_label_(.+)'}}\n\
         - job_name: kubernetes-pods\n{pods}  relabel_configs:\n{of_pod}  \
         - {{source_labels: [__meta_kubernetes_pod_name], action: replace, target_label: pod}}\n",
        endpoints = sd("endpoints"),
        nodes = sd("node"),
        services = sd("service"),
        pods = sd("pod"),
        of_service = keep("service"),
        of_pod = keep("pod"),
    )
}
