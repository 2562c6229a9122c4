//! Cost of a sample from a sender's sink to a receiver's storage, by what it is sent as: frames, 2.0, 1.0.
//!
//! `cargo bench -p narthex-remote --bench frames [-- targets rounds]` runs both ends in this process, over HTTP, one
//! way of sending after the other. CPU time is that of the threads of each end, by their names.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench prints its figures and has nobody to report errors to"
)]

use narthex_model::{ColumnId, Family, Frame, LabelSet, METRIC_NAME, Schema, storage::Binding};
use narthex_net::{ClientConfig, Server, ServerConfig, Stopper, Url};
use narthex_remote::{
    Message, Receiver, ReceiverConfig, RemoteStorage, RemoteStorageOptions, RemoteWriteConfig,
    register_send_metrics, routes,
};
use narthex_testkit::{TempDir, fleet::Target};
use narthex_tsdb::{Db, DbOptions, ManualClock, RealIo};
use std::{
    fs,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

const SERIES: usize = 588;
const START_MS: i64 = 1_767_225_600_000;
const STEP_MS: i64 = 15_000;
/// Rounds before those that are measured: definitions, and the first answer.
const FIRST: usize = 3;

fn main() {
    let args: Vec<usize> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let targets = args.first().copied().unwrap_or(100);
    let rounds = args.get(1).copied().unwrap_or(40);
    register_send_metrics(narthex_client::global()).unwrap();
    println!(
        "| sent as | samples | bytes/sample | sender ns/sample | receiver ns/sample | of it appending to the queue |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, message, frames) in [
        ("1.0", Message::V1, false),
        ("2.0", Message::V2, false),
        ("frames", Message::V2, true),
    ] {
        measure(name, message, frames, targets, rounds);
    }
}

fn runtime(name: &str) -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(name)
        .enable_all()
        .build()
        .unwrap()
}

/// A target's schema, its binding at the sender's sink, and its values.
struct Source {
    target: Target,
    schema: Schema,
    binding: Box<dyn Binding>,
}

impl Source {
    fn new(number: usize, remote: &Arc<RemoteStorage>) -> Self {
        let target = Target::new(number, 0, SERIES);
        let instance = format!("10.0.{}.{}:8080", number / 250, number % 250);
        let common = [("instance", &*instance), ("job", "fleet")];
        let mut edit = Schema::new(LabelSet::new(common)).edit();
        for prefix in target.prefixes() {
            let line = prefix.lines().last().unwrap();
            let (name, rest) = line.split_once('{').unwrap();
            let inner = rest.trim_end().trim_end_matches('}');
            let pairs = inner.split("\",").map(|pair| {
                let (name, value) = pair.split_once("=\"").unwrap();
                (name, value.trim_end_matches('"'))
            });
            let labels = pairs.chain([(METRIC_NAME, name)]);
            let family = edit.family(Family {
                name: name.into(),
                ..Family::default()
            });
            edit.push(&LabelSet::new(labels), family);
        }
        let schema = edit.finish();
        let binding = remote.sink(None).bind(&schema).unwrap();
        Self {
            target,
            schema,
            binding,
        }
    }

    fn append(&mut self, time_ms: i64) {
        self.target.step();
        let mut frame = Frame::new(self.schema.clone(), time_ms);
        for (at, value) in self.target.values().iter().enumerate() {
            frame.set(ColumnId(at as u32), *value);
        }
        self.binding.append(&frame).unwrap();
    }
}

fn measure(name: &str, message: Message, frames: bool, targets: usize, rounds: usize) {
    let dir = TempDir::new("bench-frames");
    let receiving = runtime("recv");
    let mut options = DbOptions::new(dir.join("db"));
    options.tuning.future_limit_ms = None;
    let clock = Arc::new(ManualClock::new(START_MS));
    let db = Db::open(Arc::new(RealIo), options, clock).unwrap();
    let receiver = Receiver::new(Arc::new(db.clone()), Arc::new(|| i64::MAX / 2));
    let (_stopper, stop) = Stopper::new();
    let bound = Server::bind(&["127.0.0.1:0"], ServerConfig::default());
    let server = receiving.block_on(bound).unwrap();
    let url = format!("http://{}/api/v1/write", server.local_addrs()[0]);
    receiving.spawn(server.serve(routes(receiver, ReceiverConfig::default()), stop));

    let sending = runtime("send");
    let remote = RemoteStorage::new(RemoteStorageOptions {
        dir: dir.join("queue"),
        runtime: sending.handle().clone(),
        client: ClientConfig::default(),
        now_ms: Arc::new(|| START_MS),
    });
    let mut config = RemoteWriteConfig::new(Url::parse(&url).unwrap());
    config.name = name.to_owned();
    config.message = message;
    config.frames = frames;
    config.queue.batch_send_deadline = Duration::from_millis(100);
    config.queue.max_shards = 1;
    remote.apply(&[config], &LabelSet::empty()).unwrap();
    let mut sources: Vec<Source> = (0..targets).map(|at| Source::new(at, &remote)).collect();

    let mut appending = Duration::ZERO;
    let mut before = None;
    for round in 0..FIRST + rounds {
        if round == FIRST {
            before = Some((Figures::read(), bytes(name)));
            appending = Duration::ZERO;
        }
        let begun = Instant::now();
        let time_ms = START_MS + round as i64 * STEP_MS;
        for (at, source) in sources.iter_mut().enumerate() {
            source.append(time_ms + (at as i64 * 7919) % STEP_MS);
        }
        appending += begun.elapsed();
        let late = Instant::now() + Duration::from_mins(2);
        while remote.status()[0]["pendingSamples"] != 0 {
            assert!(Instant::now() < late, "{:?}", remote.status());
            thread::sleep(Duration::from_millis(5));
        }
    }
    let (figures, first_bytes) = before.unwrap();
    let now = Figures::read();
    let samples = (targets * SERIES * rounds) as f64;
    println!(
        "| {name} | {samples} | {:.2} | {:.0} | {:.0} | {:.0} |",
        (bytes(name) - first_bytes) / samples,
        (now.sender - figures.sender) / samples,
        (now.receiver - figures.receiver) / samples,
        appending.as_nanos() as f64 / samples,
    );
    remote.stop(Duration::from_secs(5));
    drop((sources, db));
}

/// CPU time of both ends' threads, ns.
struct Figures {
    sender: f64,
    receiver: f64,
}

impl Figures {
    fn read() -> Self {
        let mut figures = Self {
            sender: 0.0,
            receiver: 0.0,
        };
        for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let (name, times) = (read("comm"), read("schedstat"));
            let nanos = times.split(' ').next().and_then(|text| text.parse().ok());
            let nanos: f64 = nanos.unwrap_or(0.0);
            match name.trim() {
                "recv" => figures.receiver += nanos,
                "send" | "narthex-remote" => figures.sender += nanos,
                _ => {}
            }
        }
        figures
    }
}

/// Returns how many bytes a remote end was sent.
fn bytes(remote_name: &str) -> f64 {
    let mut text = Vec::new();
    narthex_client::global().encode_text(&mut text);
    let text = String::from_utf8(text).unwrap();
    let wanted = format!("remote_name=\"{remote_name}\"");
    text.lines()
        .filter(|line| line.starts_with("prometheus_remote_storage_bytes_total{"))
        .find(|line| line.contains(&wanted))
        .and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or(0.0)
}
