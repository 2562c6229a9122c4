//! Sending, tested from outside: a sink on one side, a remote end that misbehaves on request on the other.

mod frames;
mod remote;

use narthex_model::{
    ColumnId, Exemplar, Frame, LabelSet, NameScheme, Schema, cell,
    metadata::{Family, MetricType},
    relabel::{Action, RelabelConfig, Rule},
    storage::{
        Binding, BoundRound, Outcome, SeriesSample, Sink, StorageError, Store as _, SyncToken,
    },
};
use narthex_net::{ClientConfig, Url};
use narthex_remote::{
    Message, RemoteStorage, RemoteStorageOptions, RemoteWriteConfig, register_send_metrics,
};
use narthex_testkit::TempDir;
use remote::{Answer, Remote};
use std::{
    any::Any,
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

const NOW_MS: i64 = 1_700_000_000_000;

/// Reads the samples of a request of version 1.0: series, time, value.
fn samples_of(body: &[u8]) -> Vec<(String, i64, String)> {
    let mut found = Vec::new();
    for (field, series) in fields(body) {
        if field != 1 {
            continue;
        }
        let mut labels = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        for (field, message) in fields(series) {
            match field {
                1 => {
                    let pair: Vec<String> = fields(message)
                        .iter()
                        .map(|(_, bytes)| text(bytes))
                        .collect();
                    labels.push((pair[0].clone(), pair[1].clone()));
                }
                2 => {
                    let set = LabelSet::new(labels.iter().map(|(name, value)| (&**name, &**value)));
                    let (mut value, mut time_ms) = (0.0, 0);
                    for (field, bytes) in fields(message) {
                        match field {
                            1 => value = f64::from_le_bytes(bytes.try_into().unwrap()),
                            _ => time_ms = varint(bytes).0.cast_signed(),
                        }
                    }
                    let shown = if cell::is_stale(value) {
                        "stale".to_owned()
                    } else {
                        value.to_string()
                    };
                    found.push((set.to_string(), time_ms, shown));
                }
                _ => {}
            }
        }
    }
    found
}

/// Splits a message into its fields; an integer is the bytes of its varint.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let (tag, len) = varint(message);
        message = &message[len..];
        let len = match tag & 7 {
            0 => varint(message).1,
            1 => 8,
            _ => {
                let (len, taken) = varint(message);
                message = &message[taken..];
                len as usize
            }
        };
        found.push((tag >> 3, &message[..len]));
        message = &message[len..];
    }
    found
}

fn varint(bytes: &[u8]) -> (u64, usize) {
    let len = 1 + bytes.iter().position(|byte| *byte < 0x80).unwrap();
    let value = bytes[..len]
        .iter()
        .rev()
        .fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
    (value, len)
}

/// A storage with its directory and runtime.
struct Rig {
    storage: Arc<RemoteStorage>,
    now_ms: Arc<AtomicI64>,
    runtime: Runtime,
}

impl Rig {
    fn new(dir: &Path) -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| register_send_metrics(narthex_client::global()).unwrap());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let now_ms = Arc::new(AtomicI64::new(NOW_MS));
        let storage = RemoteStorage::new(RemoteStorageOptions {
            dir: dir.to_owned(),
            runtime: runtime.handle().clone(),
            client: ClientConfig::default(),
            now_ms: {
                let now_ms = Arc::clone(&now_ms);
                Arc::new(move || now_ms.load(Ordering::Relaxed))
            },
        });
        Self {
            storage,
            now_ms,
            runtime,
        }
    }

    fn apply(&self, configs: &[RemoteWriteConfig]) {
        self.storage.apply(configs, &LabelSet::empty()).unwrap();
    }

    /// Ends as `kill -9` would: nothing more is sent or saved.
    fn kill(self) {
        self.runtime.shutdown_background();
        // Its threads find their tasks gone, and end; the lock is gone with the storage.
        self.storage.stop(Duration::ZERO);
    }
}

/// Returns a configuration that does not wait.
fn config(url: &str) -> RemoteWriteConfig {
    let mut config = RemoteWriteConfig::new(Url::parse(url).unwrap());
    config.queue.batch_send_deadline = Duration::from_millis(20);
    config.queue.min_backoff = Duration::from_millis(2);
    config.queue.max_backoff = Duration::from_millis(20);
    config.metadata.send = false;
    config
}

/// A source of rounds of counters, which knows what it said.
struct Target {
    binding: Box<dyn Binding>,
    schema: Schema,
    said: BTreeMap<String, Vec<(i64, String)>>,
}

impl Target {
    fn new(sink: &Arc<dyn Sink>, instance: &str, columns: usize) -> Self {
        let common = LabelSet::new([("instance", instance), ("job", "j")]);
        let mut edit = Schema::new(common).edit();
        let family = edit.family(Family {
            name: "c".into(),
            metric_type: MetricType::Counter,
            help: "Help.".into(),
            ..Family::default()
        });
        for at in 0..columns {
            edit.push(&LabelSet::new([("__name__", &*format!("c{at}"))]), family);
        }
        let schema = edit.finish();
        Self {
            binding: sink.bind(&schema).unwrap(),
            schema,
            said: BTreeMap::new(),
        }
    }

    /// Adds a column.
    fn grow(&mut self) {
        let name = format!("c{}", self.schema.len());
        let mut edit = self.schema.edit();
        let family = edit.family(self.schema.family(ColumnId(0)).clone());
        edit.push(&LabelSet::new([("__name__", &*name)]), family);
        self.schema = edit.finish();
    }

    /// Appends a round with values that tell it from others.
    fn round(&mut self, time_ms: i64) {
        let frame = self.frame(time_ms);
        self.binding.append(&frame).unwrap();
    }

    /// Returns a round with values that tell it from others.
    fn frame(&mut self, time_ms: i64) -> Frame {
        let mut frame = Frame::new(self.schema.clone(), time_ms);
        for at in 0..self.schema.len() as u32 {
            let value = (time_ms - NOW_MS) as f64 + f64::from(at) / 8.0;
            frame.set(ColumnId(at), value);
            let said = self
                .said
                .entry(self.schema.labels(ColumnId(at)).to_string());
            said.or_default().push((time_ms, value.to_string()));
        }
        frame
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns a counter's value for a destination, by the beginning of its name.
fn metric(name: &str, remote_name: &str) -> f64 {
    let mut text = Vec::new();
    narthex_client::global().encode_text(&mut text);
    let text = String::from_utf8(text).unwrap();
    let mark = format!("remote_name=\"{remote_name}\"");
    text.lines()
        .filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(&mark))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

fn named(name: &str, config: RemoteWriteConfig) -> RemoteWriteConfig {
    RemoteWriteConfig {
        name: name.to_owned(),
        ..config
    }
}

/// Drops repetitions of the sample before.
fn without_repetitions(
    taken: &BTreeMap<String, Vec<(i64, String)>>,
) -> BTreeMap<String, Vec<(i64, String)>> {
    let mut taken = taken.clone();
    for samples in taken.values_mut() {
        samples.dedup();
    }
    taken
}

#[test]
fn everything_arrives_in_order_from_all_shards() {
    let (dir, remote) = (TempDir::new("send-all"), Remote::start());
    let rig = Rig::new(dir.path());
    let mut config = named("all", config(&remote.url));
    config.queue.min_shards = 4;
    config.queue.max_samples_per_send = 7;
    rig.apply(&[config]);
    let sink = rig.storage.sink(None);
    let mut targets: Vec<Target> = (0..3)
        .map(|at| Target::new(&sink, &format!("i{at}"), 20))
        .collect();
    for round in 0..50 {
        for target in &mut targets {
            target.round(NOW_MS + round);
        }
    }
    until("sending", || remote.samples() >= 3000);
    let said: BTreeMap<_, _> = targets
        .iter()
        .flat_map(|target| target.said.clone())
        .collect();
    assert!(remote.state().taken == said);
    let state = remote.state();
    assert!(state.came.len() > 400, "{}", state.came.len());
    let first = &state.came[0].headers;
    assert_eq!(first["content-type"], "application/x-protobuf");
    assert_eq!(first["x-prometheus-remote-write-version"], "0.1.0");
    assert!(!first.contains_key("retry-attempt"));
    drop(state);
    until("the cursor", || {
        rig.storage.status()[0]["pendingSamples"] == 0
    });
    assert_eq!(rig.storage.status()[0]["shards"], 4);
    assert_eq!(
        metric("prometheus_remote_storage_samples_total", "all"),
        3000.0
    );
    assert_eq!(
        metric("prometheus_remote_storage_samples_failed_total", "all"),
        0.0
    );
    assert_eq!(
        metric(
            "prometheus_remote_storage_queue_highest_sent_timestamp_seconds",
            "all"
        ),
        (NOW_MS + 49) as f64 / 1000.0
    );
    rig.storage.stop(Duration::from_secs(5));
}

/// A storage that notes how many rounds it was handed at once.
#[derive(Default)]
struct Noting(Arc<Mutex<Vec<usize>>>);

struct NotingBinding;

impl Sink for Noting {
    fn bind(&self, _: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        Ok(Box::new(NotingBinding))
    }

    fn append_together(&self, rounds: &mut [BoundRound<'_>]) -> Result<Outcome, StorageError> {
        let all = rounds.iter_mut().all(|round| {
            let binding: &mut dyn Any = round.binding;
            binding.is::<NotingBinding>()
        });
        assert!(all, "storage sees its own bindings");
        self.0.lock().unwrap().push(rounds.len());
        BoundRound::append_each(rounds)
    }

    fn append_samples(&self, _: &[SeriesSample]) -> Result<Outcome, StorageError> {
        Ok(Outcome::default())
    }

    fn sync(&self, _: SyncToken) -> Result<(), StorageError> {
        Ok(())
    }
}

impl Binding for NotingBinding {
    fn rebind(&mut self, _: &Schema) -> Result<(), StorageError> {
        Ok(())
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        Ok(Outcome {
            accepted: frame.present().count() as u64,
            ..Outcome::default()
        })
    }
}

#[test]
fn rounds_appended_together_reach_storage_at_once_and_the_queue() {
    let (dir, remote) = (TempDir::new("send-together"), Remote::start());
    let rig = Rig::new(dir.path());
    rig.apply(&[named("together", config(&remote.url))]);
    let noting = Noting::default();
    let noted = Arc::clone(&noting.0);
    let sink = rig.storage.sink(Some(Arc::new(noting)));
    let mut targets: Vec<Target> = (0..2)
        .map(|at| Target::new(&sink, &format!("i{at}"), 3))
        .collect();
    for round in 0..5 {
        // A source may go on to another schema with any round.
        if round == 3 {
            targets[0].grow();
        }
        let frames: Vec<Frame> = targets
            .iter_mut()
            .map(|target| target.frame(NOW_MS + round))
            .collect();
        let rounds = targets.iter_mut().zip(&frames);
        let mut rounds: Vec<BoundRound<'_>> = rounds
            .map(|(target, frame)| BoundRound::new(&mut *target.binding, frame))
            .collect();
        let outcome = sink.append_together(&mut rounds).unwrap();
        assert_eq!(outcome.accepted, if round < 3 { 6 } else { 7 });
    }
    assert_eq!(*noted.lock().unwrap(), [2; 5]);
    until("sending", || remote.samples() >= 32);
    let said: BTreeMap<_, _> = targets
        .iter()
        .flat_map(|target| target.said.clone())
        .collect();
    assert_eq!(remote.state().taken, said);
    rig.storage.stop(Duration::from_secs(5));
}

/// A storage that notes how many samples wait for a remote end when it is handed some.
struct Waiting {
    remote: Arc<RemoteStorage>,
    noted: Arc<Mutex<Vec<u64>>>,
}

impl Waiting {
    fn note(&self) {
        let waiting = self.remote.status()[0]["pendingSamples"].as_u64().unwrap();
        self.noted.lock().unwrap().push(waiting);
    }
}

impl Sink for Waiting {
    fn bind(&self, _: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        Ok(Box::new(Self {
            remote: Arc::clone(&self.remote),
            noted: Arc::clone(&self.noted),
        }))
    }

    fn append_samples(&self, _: &[SeriesSample]) -> Result<Outcome, StorageError> {
        self.note();
        Ok(Outcome::default())
    }

    fn sync(&self, _: SyncToken) -> Result<(), StorageError> {
        Ok(())
    }
}

impl Binding for Waiting {
    fn rebind(&mut self, _: &Schema) -> Result<(), StorageError> {
        Ok(())
    }

    fn append(&mut self, _: &Frame) -> Result<Outcome, StorageError> {
        self.note();
        Ok(Outcome::default())
    }
}

/// What is stored would never be sent after a crash between the two.
#[test]
fn the_queue_has_everything_before_storage() {
    let dir = TempDir::new("send-before");
    let rig = Rig::new(dir.path());
    rig.apply(&[named("before", config("http://127.0.0.1:1"))]);
    let noted = Arc::default();
    let sink = rig.storage.sink(Some(Arc::new(Waiting {
        remote: Arc::clone(&rig.storage),
        noted: Arc::clone(&noted),
    })));
    let mut target = Target::new(&sink, "i", 3);
    target.round(NOW_MS);
    let frame = target.frame(NOW_MS + 1);
    let mut rounds = [BoundRound::new(&mut *target.binding, &frame)];
    sink.append_together(&mut rounds).unwrap();
    let sample = SeriesSample::float(LabelSet::new([("__name__", "one")]), NOW_MS, 1.0);
    sink.append_samples(&[sample]).unwrap();
    assert_eq!(*noted.lock().unwrap(), [3, 6, 7]);
    rig.storage.stop(Duration::ZERO);
}

/// It was the age of the epoch.
#[test]
fn a_destination_that_took_nothing_yet_is_behind_since_the_start() {
    let dir = TempDir::new("send-behind");
    let rig = Rig::new(dir.path());
    // A port that nobody listens at.
    rig.apply(&[named("behind", config("http://127.0.0.1:1/"))]);
    let sink = rig.storage.sink(None);
    let behind = || rig.storage.status()[0]["behindSeconds"].as_f64().unwrap();
    assert!(behind().abs() < f64::EPSILON);
    Target::new(&sink, "i", 1).round(NOW_MS + 5000);
    assert!((behind() - 5.0).abs() < f64::EPSILON, "{}", behind());
    drop(sink);
    rig.kill();
    // A later process knows when something was last answered; here its clock was never that far.
    let rig = Rig::new(dir.path());
    rig.now_ms.store(NOW_MS + 60_000, Ordering::Relaxed);
    rig.apply(&[named("behind", config("http://127.0.0.1:1/"))]);
    let sink = rig.storage.sink(None);
    Target::new(&sink, "i", 1).round(NOW_MS + 61_000);
    let behind = rig.storage.status()[0]["behindSeconds"].as_f64().unwrap();
    assert!((behind - 1.0).abs() < f64::EPSILON, "{behind}");
    rig.storage.stop(Duration::ZERO);
}

/// The end took five seconds more than the last attempt.
#[test]
fn an_attempt_that_fails_during_the_end_is_the_end() {
    let (dir, remote) = (TempDir::new("send-dead-end"), Remote::start());
    remote.state().otherwise = Some(Answer {
        after: Duration::from_millis(300),
        ..Answer::status(503)
    });
    let rig = Rig::new(dir.path());
    rig.apply(&[named("dead-end", config(&remote.url))]);
    Target::new(&rig.storage.sink(None), "i", 1).round(NOW_MS);
    until("an error", || {
        rig.storage.status()[0]["lastError"].is_string()
    });
    // It is answered later.
    let came = remote.state().came.len();
    until("a request", || remote.state().came.len() > came);
    let begin = Instant::now();
    rig.storage.stop(Duration::from_mins(1));
    assert!(begin.elapsed() < Duration::from_secs(4));
    assert_eq!(rig.storage.status()[0]["pendingSamples"], 1);
}

#[test]
fn a_message_of_version_2_says_more() {
    let (dir, remote) = (TempDir::new("send-v2"), Remote::start());
    let rig = Rig::new(dir.path());
    let mut config = config(&remote.url);
    config.message = Message::V2;
    config.send_exemplars = true;
    config.headers = vec![("X-Scope-OrgID".to_owned(), "me".to_owned())];
    rig.storage
        .apply(&[config], &LabelSet::new([("replica", "r")]))
        .unwrap();
    let sink = rig.storage.sink(None);
    let mut target = Target::new(&sink, "i", 2);
    let mut frame = Frame::new(target.schema.clone(), NOW_MS);
    frame.set(ColumnId(0), 1.0);
    frame.set_start_time(ColumnId(0), NOW_MS - 1000);
    frame.mark_stale(ColumnId(1));
    frame.push_exemplar(
        ColumnId(0),
        Exemplar {
            labels: LabelSet::new([("trace_id", "t")]),
            value: 2.0,
            time_ms: None,
        },
    );
    target.binding.append(&frame).unwrap();
    sink.append_samples(&[SeriesSample::float(
        LabelSet::new([("__name__", "single")]),
        NOW_MS,
        3.0,
    )])
    .unwrap();
    until("sending", || !remote.state().came.is_empty());
    rig.storage.stop(Duration::from_secs(5));
    let state = remote.state();
    let all: Vec<u8> = state
        .came
        .iter()
        .flat_map(|came| came.body.clone())
        .collect();
    assert!(state.came.iter().all(|came| came.message == Message::V2));
    let headers = &state.came[0].headers;
    assert_eq!(headers["x-scope-orgid"], "me");
    assert_eq!(headers["x-prometheus-remote-write-version"], "2.0.0");
    for text in ["Help.", "trace_id", "replica", "single", "instance"] {
        assert!(
            all.windows(text.len())
                .any(|bytes| bytes == text.as_bytes()),
            "{text}"
        );
    }
    assert_eq!(state.store.time_range().unwrap().max_ms, NOW_MS);
}

#[test]
fn what_may_pass_is_tried_again_and_what_may_not_is_dropped() {
    let (dir, remote) = (TempDir::new("send-fail"), Remote::start());
    let retry_after = |status| Answer {
        headers: vec![("retry-after", "1".to_owned())],
        ..Answer::status(status)
    };
    remote.state().answers = [
        Answer::status(500),
        retry_after(503),
        Answer::status(400),
        Answer::status(429),
    ]
    .into();
    let rig = Rig::new(dir.path());
    let mut config = named("fail", config(&remote.url));
    config.queue.max_samples_per_send = 2;
    rig.apply(std::slice::from_ref(&config));
    let sink = rig.storage.sink(None);
    let mut target = Target::new(&sink, "i", 2);
    let begin = Instant::now();
    for round in 0..3 {
        target.round(NOW_MS + round);
    }
    until("sending", || remote.samples() == 2);
    assert!(
        begin.elapsed() >= Duration::from_secs(1),
        "Retry-After is kept"
    );
    let statuses: Vec<u16> = remote.state().came.iter().map(|came| came.status).collect();
    assert_eq!(statuses, [500, 503, 400, 429, 204]);
    let attempts: Vec<Option<String>> = remote
        .state()
        .came
        .iter()
        .map(|came| came.headers.get("retry-attempt").cloned())
        .collect();
    assert_eq!(
        attempts,
        [None, Some("1".to_owned()), Some("2".to_owned()), None, None]
    );
    assert_eq!(
        metric("prometheus_remote_storage_samples_failed_total", "fail"),
        4.0
    );
    assert_eq!(
        metric("prometheus_remote_storage_samples_retried_total", "fail"),
        4.0
    );
    let status = rig.storage.status();
    assert_eq!(
        status[0]["lastError"],
        "server returned HTTP status 429 Too Many Requests: because"
    );

    // With the setting, 429 is tried again.
    config.queue.retry_on_http_429 = true;
    rig.apply(&[config]);
    remote.state().answers = [Answer::status(429)].into();
    target.round(NOW_MS + 3);
    until("sending", || remote.samples() == 4);
    rig.storage.stop(Duration::from_secs(5));
}

#[test]
fn an_outage_and_restarts_lose_nothing() {
    let (dir, remote) = (TempDir::new("send-outage"), Remote::start());
    remote.state().otherwise = Some(Answer::status(503));
    let mut config = named("outage", config(&remote.url));
    config.queue.min_shards = 3;
    config.queue.max_samples_per_send = 10;
    let mut said: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
    let mut now = NOW_MS;
    for life in 0..5 {
        let rig = Rig::new(dir.path());
        rig.apply(std::slice::from_ref(&config));
        let sink = rig.storage.sink(None);
        let mut target = Target::new(&sink, "i", 23);
        if life == 3 {
            remote.state().otherwise = None;
        }
        for _ in 0..40 {
            target.round(now);
            now += 1;
        }
        for (series, samples) in target.said {
            said.entry(series).or_default().extend(samples);
        }
        match life {
            // It dies while it fails, while it makes up for it, and then ends cleanly.
            0..3 => until("an attempt", || !remote.state().came.is_empty()),
            3 => until("some samples", || remote.samples() > 300),
            _ => until("all samples", || {
                rig.storage.status()[0]["pendingSamples"] == 0
            }),
        }
        drop(sink);
        if life < 4 {
            rig.kill();
        } else {
            rig.storage.stop(Duration::from_secs(5));
        }
    }
    let taken = remote.state().taken.clone();
    let total: usize = taken.values().map(Vec::len).sum();
    // Each shard may have repeated the request that was under way when the sender died.
    assert!(total - 23 * 200 <= 30, "{} repeated", total - 23 * 200);
    for (series, samples) in &said {
        let mut times: Vec<&(i64, String)> = taken[series].iter().collect();
        times.dedup();
        // Repetitions are of the last request only: in order, but for one step back.
        let steps_back = times
            .windows(2)
            .filter(|pair| pair[1].0 < pair[0].0)
            .count();
        assert!(steps_back <= 1, "{series}");
        times.sort();
        times.dedup();
        assert!(times.into_iter().eq(samples), "{series}");
    }
}

#[test]
fn a_reload_leaves_alone_what_is_the_same_and_keeps_queues() {
    let (dir, first, second) = (
        TempDir::new("send-reload"),
        Remote::start(),
        Remote::start(),
    );
    second.state().otherwise = Some(Answer::status(500));
    let rig = Rig::new(dir.path());
    let one = named("same", config(&first.url));
    let mut other = named("other", config(&second.url));
    rig.apply(&[one.clone(), other.clone()]);
    let sink = rig.storage.sink(None);
    let mut target = Target::new(&sink, "i", 5);
    target.round(NOW_MS);
    until("the first", || first.samples() == 5);
    until("an attempt", || !second.state().came.is_empty());

    // Another URL for the same name: what waits goes there.
    let third = Remote::start();
    other.url = Url::parse(&third.url).unwrap();
    rig.apply(&[one.clone(), other.clone()]);
    target.round(NOW_MS + 1);
    until("the others", || {
        first.samples() == 10 && third.samples() == 10
    });
    assert!(without_repetitions(&third.state().taken) == target.said);
    assert_eq!(first.state().came.len(), 2, "it was not started over");

    // Without the destination its metrics are gone, and its queue is kept.
    third.state().otherwise = Some(Answer::status(500));
    target.round(NOW_MS + 2);
    until("the first again", || first.samples() == 15);
    rig.apply(std::slice::from_ref(&one));
    target.round(NOW_MS + 3);
    assert_eq!(rig.storage.status().len(), 1);
    until("metrics", || {
        metric("prometheus_remote_storage_shards", "other") == 0.0
    });
    third.state().otherwise = None;
    rig.apply(&[one, other]);
    until("what waited", || third.samples() == 15);
    target.round(NOW_MS + 4);
    until("all", || first.samples() == 25 && third.samples() == 20);
    rig.storage.stop(Duration::from_secs(5));
}

#[test]
fn a_receiver_that_says_so_gets_something_simpler_or_better() {
    let (dir, remote) = (TempDir::new("send-protocol"), Remote::start());
    remote.state().only_v1 = true;
    let rig = Rig::new(dir.path());
    let mut config = config(&remote.url);
    config.message = Message::V2;
    config.queue.max_samples_per_send = 5;
    rig.apply(&[config]);
    let sink = rig.storage.sink(None);
    let mut target = Target::new(&sink, "i", 5);
    let mut now = NOW_MS;
    let mut send = |target: &mut Target| {
        target.round(now);
        now += 1;
        let expected = target.said.values().map(Vec::len).sum::<usize>();
        until("sending", || remote.samples() == expected);
        // The next request is made with what this answer said.
        until("the answer", || {
            rig.storage.status()[0]["pendingSamples"] == 0
        });
    };
    send(&mut target);
    let statuses: Vec<u16> = remote.state().came.iter().map(|came| came.status).collect();
    assert_eq!(statuses, [415, 204], "2.0 is refused, 1.0 is taken");
    // The receiver offers zstd, and later takes it back.
    remote.state().answers.push_back(Answer {
        headers: vec![("accept-encoding", "snappy, zstd".to_owned())],
        stores: true,
        ..Answer::status(204)
    });
    send(&mut target);
    send(&mut target);
    remote.state().answers.push_back(Answer::status(415));
    send(&mut target);
    send(&mut target);
    let encodings: Vec<String> = remote
        .state()
        .came
        .iter()
        .map(|came| came.headers["content-encoding"].clone())
        .collect();
    assert_eq!(
        encodings,
        [
            "snappy", "snappy", "snappy", "zstd", "zstd", "snappy", "snappy"
        ]
    );
    assert!(remote.state().taken == target.said);
    rig.storage.stop(Duration::from_secs(5));
}

#[test]
fn a_receiver_that_does_not_tell_what_it_wrote_gets_version_1() {
    let (dir, remote) = (TempDir::new("send-unconfirmed"), Remote::start());
    // As an old receiver does that does not look at the content type.
    remote.state().answers.push_back(Answer::status(200));
    let rig = Rig::new(dir.path());
    let mut config = config(&remote.url);
    config.message = Message::V2;
    rig.apply(&[config]);
    let sink = rig.storage.sink(None);
    let mut target = Target::new(&sink, "i", 5);
    target.round(NOW_MS);
    until("sending", || remote.samples() == 5);
    let messages: Vec<Message> = remote
        .state()
        .came
        .iter()
        .map(|came| came.message)
        .collect();
    assert_eq!(messages, [Message::V2, Message::V1]);
    rig.storage.stop(Duration::from_secs(5));
}

#[test]
fn old_samples_are_dropped_before_and_while_they_wait() {
    let (dir, remote) = (TempDir::new("send-age"), Remote::start());
    let rig = Rig::new(dir.path());
    let mut config = named("age", config(&remote.url));
    config.queue.sample_age_limit = Duration::from_secs(60);
    rig.apply(&[config]);
    let sink = rig.storage.sink(None);
    let mut target = Target::new(&sink, "i", 3);
    target.round(NOW_MS - 61_000);
    target.round(NOW_MS);
    until("sending", || remote.samples() == 3);
    assert_eq!(
        metric("prometheus_remote_storage_samples_dropped_total", "age"),
        3.0
    );
    // Those that wait become too old meanwhile.
    remote.state().otherwise = Some(Answer::status(500));
    target.round(NOW_MS + 1);
    until("attempts", || remote.state().came.len() > 3);
    rig.now_ms.store(NOW_MS + 61_002, Ordering::Relaxed);
    until("dropping", || {
        metric("prometheus_remote_storage_samples_dropped_total", "age") == 6.0
    });
    remote.state().otherwise = None;
    target.round(NOW_MS + 61_000);
    until("sending", || remote.samples() == 6);
    rig.storage.stop(Duration::from_secs(5));
}

#[test]
fn after_an_outage_new_samples_may_come_first() {
    let (dir, remote) = (TempDir::new("send-fresh"), Remote::start());
    remote.state().otherwise = Some(Answer::status(503));
    let rig = Rig::new(dir.path());
    let mut config = named("fresh", config(&remote.url));
    config.queue.fresh_first = true;
    config.queue.max_samples_per_send = 2;
    rig.apply(&[config]);
    let sink = rig.storage.sink(None);
    let mut target = Target::new(&sink, "i", 2);
    for round in 0..300 {
        target.round(NOW_MS + round);
    }
    until("an attempt", || {
        rig.storage.status()[0]["failingSince"].is_string()
    });
    rig.now_ms.store(NOW_MS + 30_000, Ordering::Relaxed);
    // It comes back, but slowly.
    remote.state().otherwise = Some(Answer {
        stores: true,
        after: Duration::from_millis(5),
        ..Answer::status(204)
    });
    until("a second worker", || rig.storage.status()[0]["shards"] == 2);
    target.round(NOW_MS + 30_000);
    until("the new one", || {
        let state = remote.state();
        let taken = state.taken.values().next();
        taken.is_some_and(|taken| taken.iter().any(|(time_ms, _)| *time_ms == NOW_MS + 30_000))
    });
    assert!(
        remote.samples() < 602,
        "{} are taken already",
        remote.samples()
    );
    until("all", || remote.samples() == 602);
    until("one worker", || rig.storage.status()[0]["shards"] == 1);
    assert_eq!(rig.storage.status()[0]["pendingSamples"], 0);
    let mut taken = remote.state().taken.clone();
    taken.values_mut().for_each(|samples| samples.sort());
    assert!(taken == target.said);
    rig.storage.stop(Duration::from_secs(5));
}

#[test]
fn metadata_and_rules_are_the_destinations() {
    let (dir, remote) = (TempDir::new("send-metadata"), Remote::start());
    let rig = Rig::new(dir.path());
    let mut config = config(&remote.url);
    config.metadata.send = true;
    config.metadata.send_interval = Duration::from_millis(20);
    let rule = RelabelConfig {
        source_labels: vec!["__name__".into()],
        regex: Some("c1".into()),
        action: Some(Action::Drop),
        ..RelabelConfig::default()
    };
    config.write_relabel_configs = vec![Rule::new(rule, NameScheme::Utf8).unwrap()];
    rig.apply(&[config]);
    let sink = rig.storage.sink(None);
    let mut target = Target::new(&sink, "i", 2);
    target.round(NOW_MS);
    until("metadata", || {
        target.round(NOW_MS);
        let state = remote.state();
        let is_metadata = |body: &[u8]| fields(body).iter().any(|(field, _)| *field == 3);
        !state.taken.is_empty() && state.came.iter().any(|came| is_metadata(&came.body))
    });
    let state = remote.state();
    let series: Vec<&String> = state.taken.keys().collect();
    assert_eq!(series, [r#"c0{instance="i", job="j"}"#]);
    drop(state);
    rig.storage.stop(Duration::from_secs(5));
}

#[test]
fn queues_belong_to_one_process_and_settings_are_checked() {
    let dir = TempDir::new("send-lock");
    let (first, second) = (Rig::new(dir.path()), Rig::new(dir.path()));
    let config = config("http://127.0.0.1:9/w");
    first.apply(std::slice::from_ref(&config));
    let refused = |rig: &Rig, configs: &[RemoteWriteConfig]| {
        let error = rig.storage.apply(configs, &LabelSet::empty());
        error.unwrap_err().to_string()
    };
    let text = refused(&second, std::slice::from_ref(&config));
    assert!(text.ends_with("is in use by another process"), "{text}");
    assert_eq!(
        refused(&first, &[config.clone(), config.clone()]),
        "duplicate remote write configs are not allowed, found duplicate for URL: http://127.0.0.1:9/w"
    );
    let mut odd = config;
    odd.headers = vec![("no name".to_owned(), "v".to_owned())];
    let text = refused(&first, &[odd]);
    assert!(text.contains("header \"no name\""), "{text}");
    first.storage.stop(Duration::ZERO);
}
