//! A fake API server of a few objects: lists in pages, watches from a version, forgets and disconnects on demand.
//!
//! Invariant: a watch sees exactly what happened after its version, in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use narthex_net::axum::extract::{Request, State};
use narthex_net::axum::response::{IntoResponse, Response};
use narthex_net::{Router, Server, ServerConfig, Stopper, body_channel};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Objects per page, whatever the client requests.
const PAGE: usize = 2;

pub(super) struct Fake {
    pub(super) url: String,
    shared: Arc<Shared>,
    _stopper: Stopper,
}

struct Shared {
    state: Mutex<Cluster>,
    /// Counts changes, to wake up watches.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Cluster {
    version: u64,
    /// By list path, then by key.
    objects: BTreeMap<String, BTreeMap<String, Value>>,
    log: Vec<(u64, String, Value)>,
    /// Older versions are forgotten.
    oldest: u64,
    /// Watches begun before this count end.
    cuts: u64,
    asked: Vec<String>,
    refuse: Option<u16>,
}

impl Fake {
    pub(super) async fn start() -> Self {
        let (changes, _receiver) = watch::channel(0);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changes,
        });
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        let server = Server::bind(&["127.0.0.1:0"], ServerConfig::default()).await;
        let server = server.expect("a free port");
        let url = format!("http://{}", server.local_addrs()[0]);
        let (stopper, stop) = Stopper::new();
        tokio::spawn(server.serve(router, stop));
        Self {
            url,
            shared,
            _stopper: stopper,
        }
    }

    /// Stores an object; `list` is its kind's path without a namespace.
    pub(super) fn put_object(&self, list: &str, mut object: Value) {
        self.change(|cluster| {
            let key = key(&object);
            object["metadata"]["resourceVersion"] = cluster.version.to_string().into();
            let known = cluster.objects.entry(list.to_owned()).or_default();
            let kind = match known.insert(key, object.clone()) {
                Some(_old) => "MODIFIED",
                None => "ADDED",
            };
            log(cluster, list, kind, object);
        });
    }

    pub(super) fn delete(&self, list: &str, key: &str) {
        self.change(|cluster| {
            let known = cluster.objects.get_mut(list);
            let object = known.and_then(|known| known.remove(key));
            log(cluster, list, "DELETED", object.expect("it was put"));
        });
    }

    /// Sends a bookmark: a version without an object.
    pub(super) fn bookmark(&self, list: &str) {
        self.change(|cluster| {
            let version = cluster.version.to_string();
            let object = json!({ "metadata": { "resourceVersion": version } });
            log(cluster, list, "BOOKMARK", object);
        });
    }

    /// Sends an arbitrary event.
    pub(super) fn send(&self, list: &str, event: Value) {
        self.change(|cluster| {
            let version = cluster.version;
            cluster.log.push((version, list.to_owned(), event));
        });
    }

    /// Forgets all past events.
    pub(super) fn forget(&self) {
        self.change(|cluster| {
            cluster.oldest = cluster.version;
            cluster.log.clear();
        });
    }

    /// Ends every watch.
    pub(super) fn hang_up(&self) {
        self.change(|cluster| cluster.cuts += 1);
    }

    /// Answers every request with this status, or normally again.
    pub(super) fn refuse(&self, status: Option<u16>) {
        self.change(|cluster| cluster.refuse = status);
    }

    /// Returns the requests so far, paths with queries.
    pub(super) fn asked(&self) -> Vec<String> {
        self.shared.state.lock().expect("no panic").asked.clone()
    }

    pub(super) fn lists(&self) -> usize {
        let asked = self.asked();
        let lists = asked.iter().filter(|asked| !asked.contains("watch=true"));
        lists.filter(|asked| !asked.contains("continue=")).count()
    }

    fn change(&self, change: impl FnOnce(&mut Cluster)) {
        let mut cluster = self.shared.state.lock().expect("no panic");
        cluster.version += 1;
        change(&mut cluster);
        drop(cluster);
        self.shared.changes.send_modify(|count| *count += 1);
    }
}

fn log(cluster: &mut Cluster, list: &str, kind: &str, mut object: Value) {
    object["metadata"]["resourceVersion"] = cluster.version.to_string().into();
    let event = json!({ "type": kind, "object": object });
    let version = cluster.version;
    cluster.log.push((version, list.to_owned(), event));
}

fn key(object: &Value) -> String {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

/// Splits a path into its list and the requested namespace.
fn split(path: &str) -> (String, Option<String>) {
    let Some((group, rest)) = path.split_once("/namespaces/") else {
        return (path.to_owned(), None);
    };
    match rest.split_once('/') {
        Some((namespace, plural)) => (format!("{group}/{plural}"), Some(namespace.to_owned())),
        None => (path.to_owned(), None),
    }
}

fn is_inside(object: &Value, namespace: Option<&String>) -> bool {
    namespace.is_none_or(|namespace| object["metadata"]["namespace"] == **namespace)
}

#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let uri = request.uri().clone();
    let query = uri.query().unwrap_or_default().to_owned();
    let parameter = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.to_owned())
    };
    let (list, namespace) = split(uri.path());
    let mut cluster = shared.state.lock().expect("no panic");
    cluster.asked.push(uri.to_string());
    if let Some(status) = cluster.refuse {
        let status = http::StatusCode::from_u16(status).expect("a status");
        let body = json!({ "code": status.as_u16(), "message": "not today" });
        return (status, body.to_string()).into_response();
    }
    if parameter("watch").is_none() {
        let from: usize = parameter("continue").map_or(0, |at| at.parse().expect("ours"));
        let known = cluster.objects.get(&list).cloned().unwrap_or_default();
        let items: Vec<_> = known
            .into_values()
            .filter(|object| is_inside(object, namespace.as_ref()))
            .collect();
        let page: Vec<_> = items.iter().skip(from).take(PAGE).collect();
        let next = from + page.len();
        let next = if next < items.len() {
            next.to_string()
        } else {
            String::new()
        };
        let version = cluster.version.to_string();
        let body = json!({
            "metadata": { "resourceVersion": version, "continue": next },
            "items": page,
        });
        return body.to_string().into_response();
    }
    let from: u64 = parameter("resourceVersion")
        .and_then(|version| version.parse().ok())
        .unwrap_or(0);
    if from < cluster.oldest {
        let status = http::StatusCode::GONE;
        return (status, json!({ "code": 410 }).to_string()).into_response();
    }
    let cuts = cluster.cuts;
    drop(cluster);
    let (sender, body) = body_channel(16);
    let mut changes = shared.changes.subscribe();
    tokio::spawn(async move {
        let mut sent = from;
        loop {
            let (events, version, cut) = {
                let cluster = shared.state.lock().expect("no panic");
                let events: Vec<_> = cluster
                    .log
                    .iter()
                    .filter(|(version, of, event)| {
                        *version > sent && *of == list && {
                            let object = &event["object"];
                            event["type"] == "BOOKMARK"
                                || object["metadata"].is_null()
                                || is_inside(object, namespace.as_ref())
                        }
                    })
                    .map(|(_, _, event)| format!("{event}\n"))
                    .collect();
                (events, cluster.version, cluster.cuts != cuts)
            };
            sent = version;
            for event in events {
                if sender.send(event.into()).await.is_err() {
                    return;
                }
            }
            if cut {
                let _gone = sender.finish().await;
                return;
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    });
    body.into_response()
}
