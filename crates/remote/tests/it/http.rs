//! The handler over a real connection: headers, statuses, limits.

use crate::support::NOW_MS;
use narthex_model::{MemStore, storage::Budget};
use narthex_net::{Server, ServerConfig, Stopper};
use narthex_remote::{Message, Receiver, ReceiverConfig, ReceiverMemory, disabled_routes, routes};
use narthex_testkit::{
    http::{self, Response},
    remote_write::{self, Request, Series, snappy},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

/// A server whose tasks end when it is dropped.
struct Rig {
    url: String,
    _runtime: tokio::runtime::Runtime,
    _stopper: Stopper,
}

impl Rig {
    fn start(config: Option<ReceiverConfig>) -> Self {
        Self::with_clock(config, Arc::new(|| NOW_MS))
    }

    fn with_clock(
        config: Option<ReceiverConfig>,
        now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    ) -> Self {
        let receiver = Receiver::new(Arc::new(MemStore::new()), now_ms);
        Self::of(config.map(|config| (receiver, config)))
    }

    /// Starts a receiver whose requests lease from `requests`.
    fn within(requests: &Budget) -> Self {
        let memory = ReceiverMemory {
            requests: requests.clone(),
            ..ReceiverMemory::default()
        };
        let store = Arc::new(MemStore::new());
        let receiver = Receiver::within(store, Arc::new(|| NOW_MS), &memory);
        Self::of(Some((receiver, ReceiverConfig::default())))
    }

    fn of(receiver: Option<(Receiver, ReceiverConfig)>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (stopper, stop) = Stopper::new();
        let server = runtime
            .block_on(Server::bind(&["127.0.0.1:0"], ServerConfig::default()))
            .unwrap();
        let url = format!("http://{}", server.local_addrs()[0]);
        let router = match receiver {
            Some((receiver, config)) => routes(receiver, config),
            None => disabled_routes(),
        };
        runtime.spawn(server.serve(router, stop));
        Self {
            url,
            _runtime: runtime,
            _stopper: stopper,
        }
    }

    /// Begins a request that announces `length` bytes, and sends the first of them.
    fn begin(&self, length: usize, first: &[u8]) -> TcpStream {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let head =
            format!("POST /api/v1/write HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(first).unwrap();
        stream
    }

    fn post(&self, headers: &[(&str, &str)], body: &[u8]) -> Response {
        http::request("POST", &format!("{}/api/v1/write", self.url), headers, body).unwrap()
    }
}

fn request() -> Request {
    Request {
        series: vec![Series::new(&[("__name__", "m")], &[(NOW_MS, 1.0)])],
        ..Request::default()
    }
}

const V2: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";

#[test]
fn both_versions_are_answered_as_prometheus_answers() {
    let rig = Rig::start(Some(ReceiverConfig::default()));
    let answer = request().send(&rig.url).unwrap();
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    assert_eq!(
        answer.header("x-prometheus-remote-write-samples-written"),
        None
    );
    let answer = remote_write::send(&rig.url, V2, &snappy(&request().v2())).unwrap();
    assert_eq!(answer.status, 204);
    for (name, count) in [("samples", "1"), ("histograms", "0"), ("exemplars", "0")] {
        let header = format!("x-prometheus-remote-write-{name}-written");
        assert_eq!(answer.header(&header), Some(count), "{header}");
    }
    // A body without an encoding is treated as snappy.
    assert_eq!(rig.post(&[], &snappy(&request().v1())).status, 204);
    assert_eq!(
        http::get(&format!("{}/api/v1/write", rig.url))
            .unwrap()
            .status,
        405
    );
}

#[test]
fn refusals_have_their_status_and_text() {
    let rig = Rig::start(Some(ReceiverConfig {
        messages: vec![Message::V1],
        body_limit_bytes: 1000,
        ..ReceiverConfig::default()
    }));
    let told = |headers: &[(&str, &str)], body: &[u8]| {
        let answer = rig.post(headers, body);
        assert_eq!(
            answer.header("content-type"),
            Some("text/plain; charset=utf-8")
        );
        (answer.status, answer.text())
    };
    let text = |text: &str| format!("{text}\n");
    assert_eq!(
        told(&[("Content-Type", V2)], &snappy(&request().v2())),
        (
            415,
            text(
                "io.prometheus.write.v2.Request protobuf message is not accepted by this server; only accepts prometheus.WriteRequest"
            )
        )
    );
    assert_eq!(
        told(&[("Content-Encoding", "gzip")], b"x"),
        (
            415,
            text(
                "gzip encoding (compression) is not accepted by this server; only snappy is acceptable"
            )
        )
    );
    assert_eq!(
        told(&[], &[0; 1001]),
        (413, text("request body exceeds the 1000 bytes limit"))
    );
    let long = [0xe9, 0x07, 0x00];
    assert_eq!(
        told(&[], &long),
        (400, text("decoded size exceeds the 1000 bytes limit"))
    );
    assert_eq!(told(&[], b"nonsense"), (400, text("snappy: corrupt input")));
    assert_eq!(
        told(&[], &snappy(&[0x0a, 0x05])),
        (400, text("unexpected EOF"))
    );
    let mut twice = request();
    twice.series[0].samples = vec![(NOW_MS, 1.0), (NOW_MS, 2.0)];
    assert_eq!(
        told(&[], &snappy(&twice.v1())),
        (400, text("duplicate sample for timestamp"))
    );
}

#[test]
fn without_the_flag_it_says_how_to_switch_it_on() {
    let rig = Rig::start(None);
    let answer = request().send(&rig.url).unwrap();
    assert_eq!(answer.status, 404);
    assert_eq!(
        answer.text(),
        "remote write receiver needs to be enabled with --web.enable-remote-write-receiver\n"
    );
}

/// Eight senders that announced 32 MiB each, and sent none of it, blocked all others: what a request announced was
/// granted to it before it was read.
#[test]
fn slow_senders_do_not_hold_what_they_only_announce() {
    let rig = Rig::start(Some(ReceiverConfig {
        body_limit_bytes: 1 << 20,
        reading_limit_bytes: 1 << 20,
        ..ReceiverConfig::default()
    }));
    let _slow: Vec<TcpStream> = (0..8).map(|_| rig.begin(1 << 20, b"x")).collect();
    for _ in 0..3 {
        assert_eq!(request().send(&rig.url).unwrap().status, 204);
    }
}

/// Bodies that arrive and never end are charged for what arrived; a sender that finds no memory is asked to retry.
#[test]
fn a_sender_that_finds_no_memory_is_told_to_come_back() {
    let rig = Rig::start(Some(ReceiverConfig {
        body_limit_bytes: 1 << 20,
        reading_limit_bytes: 1 << 20,
        reading_wait: Duration::from_millis(20),
        ..ReceiverConfig::default()
    }));
    let mut body = vec![b'x'; 1 << 20];
    body.pop();
    let holding = rig.begin(1 << 20, &body);
    // The connection is read as bytes arrive: until all have, others find memory.
    let answers = || (0..100_000).map(|_| request().send(&rig.url).unwrap());
    let answer = answers().find(|answer| answer.status != 204).unwrap();
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.header("retry-after"), Some("5"));
    drop(holding);
    assert!(answers().any(|answer| answer.status == 204));
}

/// Waits until `accept` accepts the bytes leased from a budget.
fn until_used(budget: &Budget, accept: impl Fn(u64) -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !accept(budget.used_bytes()) {
        assert!(Instant::now() < end, "{budget:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_body_is_leased_as_it_arrives_and_until_it_is_dealt_with() {
    const SENT: u64 = 900_000;
    let requests = Budget::new("requests", 64 << 20);
    let rig = Rig::within(&requests);
    let body = vec![b'x'; usize::try_from(SENT).unwrap()];
    let holding = rig.begin(20 << 20, &body);
    until_used(&requests, |bytes| bytes >= SENT);
    assert!(requests.used_bytes() <= 2 * SENT, "not what is announced");
    drop(holding);
    until_used(&requests, |bytes| bytes == 0);
    assert!(requests.peak_bytes() <= 4 * SENT, "{requests:?}");
    assert_eq!(request().send(&rig.url).unwrap().status, 204);
    until_used(&requests, |bytes| bytes == 0);
}

#[test]
fn a_body_there_is_no_memory_for_is_to_be_sent_again() {
    // What a small request takes, and less than twice as much.
    const LIMIT: usize = 700_000;
    let requests = Budget::new("requests", LIMIT as u64);
    let rig = Rig::within(&requests);
    let plain = request().v1();
    assert_eq!(rig.post(&[], &snappy(&plain)).status, 204);
    // As sent; and sixteen times as long once it is decompressed. Neither is ever looked into.
    let mut packed = vec![0x80, 0x80, 0x40];
    packed.resize(60_000, 0);
    for body in [vec![b'x'; 2 * LIMIT], packed] {
        let answer = rig.post(&[], &body);
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert_eq!(answer.header("retry-after"), Some("5"));
        assert!(answer.text().contains("requests"), "{}", answer.text());
        until_used(&requests, |bytes| bytes == 0);
    }
    assert_eq!(rig.post(&[], &snappy(&plain)).status, 204);
}

/// A panic of ours used to be answered with 400, which makes a sender drop its data.
#[test]
fn a_panic_is_not_the_senders_fault() {
    let bug = || panic!("a bug");
    let rig = Rig::with_clock(Some(ReceiverConfig::default()), Arc::new(bug));
    let before = narthex_net::panics_total("remote_write");
    let answer = request().send(&rig.url).unwrap();
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (500, "internal error\n")
    );
    assert_eq!(narthex_net::panics_total("remote_write"), before + 1);
}

#[test]
fn a_body_that_breaks_off_stores_nothing() {
    let rig = Rig::start(Some(ReceiverConfig::default()));
    let mut stream = rig.begin(100, b"x");
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
}
