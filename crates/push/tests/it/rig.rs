//! A gateway that stops with its rig, and helpers to push and scrape.

use narthex_client::Registry;
use narthex_net::{Server, ServerConfig, Stopper};
use narthex_push::{GatewayConfig, Limits, Status, Store, StoreConfig, routes};
use narthex_testkit::http::{self, Response};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// Initial time of a rig's clock.
pub(crate) const START_NS: i64 = 1_700_000_000_000_000_000;

pub(crate) struct Rig {
    pub(crate) url: String,
    pub(crate) store: Arc<Store>,
    clock_ns: Arc<AtomicI64>,
    _runtime: tokio::runtime::Runtime,
    _stopper: Stopper,
}

/// Returns ordinary limits.
pub(crate) fn limits() -> Limits {
    Limits {
        body_bytes: 1 << 20,
        reading_bytes: 4 << 20,
        body_timeout: Duration::from_secs(30),
        concurrency: 8,
        wait: Duration::from_secs(30),
    }
}

/// Returns the settings of a gateway with these limits.
pub(crate) fn config() -> GatewayConfig {
    GatewayConfig {
        limits: limits(),
        route_prefix: String::new(),
        telemetry_path: "/metrics".to_owned(),
        quit: None,
        enable_admin_api: true,
        status: Status::default(),
    }
}

impl Rig {
    pub(crate) fn in_memory(config: GatewayConfig) -> Self {
        Self::start(config, StoreConfig::default(), None)
    }

    pub(crate) fn start(config: GatewayConfig, store: StoreConfig, file: Option<&Path>) -> Self {
        let clock_ns = Arc::new(AtomicI64::new(START_NS));
        let read = Arc::clone(&clock_ns);
        let now_ns = Arc::new(move || read.load(Ordering::Relaxed));
        let store = Arc::new(match file {
            None => Store::in_memory(store, now_ns),
            Some(file) => Store::open(store, now_ns, file).unwrap(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (stopper, stop) = Stopper::new();
        let bound = Server::bind(&["127.0.0.1:0"], ServerConfig::default());
        let server = runtime.block_on(bound).unwrap();
        let url = format!("http://{}", server.local_addrs()[0]);
        let own: &'static Registry = Box::leak(Box::new(Registry::new()));
        runtime.spawn(server.serve(routes(Arc::clone(&store), own, config), stop));
        Self {
            url,
            store,
            clock_ns,
            _runtime: runtime,
            _stopper: stopper,
        }
    }

    /// Advances the clock.
    pub(crate) fn pass(&self, by: Duration) {
        let by_ns = i64::try_from(by.as_nanos()).unwrap();
        self.clock_ns.fetch_add(by_ns, Ordering::Relaxed);
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Response {
        http::request(method, &format!("{}{path}", self.url), &[], body.as_bytes()).unwrap()
    }

    /// Pushes, and fails unless it is stored.
    pub(crate) fn put(&self, path: &str, body: &str) {
        let answer = self.ask("PUT", path, body);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, ""),
            "{path}\n{body}"
        );
    }

    /// Returns the pushed samples of a scrape, without the gateway's own gauges.
    pub(crate) fn samples(&self) -> BTreeMap<String, String> {
        let page = self.ask("GET", "/metrics", "");
        assert_eq!(page.status, 200);
        let text = page.text();
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.contains("push_"));
        let pairs = lines.map(|line| line.rsplit_once(' ').unwrap());
        pairs
            .map(|(series, value)| (series.to_owned(), value.to_owned()))
            .collect()
    }
}
