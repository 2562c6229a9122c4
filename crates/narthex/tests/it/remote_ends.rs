//! Samples sent on: to another server of ours (2.0 and frames) and Debian's Prometheus (1.0), through outages and
//! `kill -9`.
//!
//! What a remote end has is compared with what the sender's own storage has.

use crate::{
    client::{self, Matrix},
    known, support,
    support::{PATIENCE, Running, until},
    target::{Target, now_ms},
};
use narthex_testkit::{
    TempDir, http,
    process::Spawn,
    remote_write::{Exemplar, Histogram, Request, Series},
    tool,
};
use serde_json::Value;
use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

pub(crate) const V2: &str = "io.prometheus.write.v2.Request";
const INTERVAL: &str = "50ms";

/// Writes a sender's configuration: `entries` of `remote_write`, and the job of known pages.
pub(crate) fn configure(path: &Path, entries: &[String], targets: &[Target]) {
    let addresses: Vec<&str> = targets.iter().map(|one| one.address.as_str()).collect();
    let text = format!(
        "global: {{scrape_interval: {INTERVAL}, scrape_timeout: {INTERVAL}, external_labels: {{replica: r1}}}}\n\
remote_write: [{}]\n\
scrape_configs:\n- job_name: known\n  static_configs: [{{targets: {addresses:?}}}]\n",
        entries.join(", ")
    );
    fs::write(path, text).unwrap();
}

/// Returns an entry of `remote_write` that sends at once.
pub(crate) fn entry(name: &str, url: &str, message: &str, more: &str) -> String {
    format!(
        "{{name: {name}, url: '{url}/api/v1/write', protobuf_message: {message}, send_exemplars: true, send_native_histograms: true, \
queue_config: {{batch_send_deadline: 20ms, max_backoff: 100ms}}, metadata_config: {{send_interval: 1s}}{more}}}"
    )
}

/// A directory with a sender's configuration.
pub(crate) struct Rig {
    pub(crate) dir: TempDir,
    pub(crate) config: PathBuf,
    pub(crate) targets: Vec<Target>,
}

impl Rig {
    pub(crate) fn new(label: &str) -> Self {
        Self::of(label, known::targets(2))
    }

    fn of(label: &str, targets: Vec<Target>) -> Self {
        let dir = TempDir::new(label);
        let config = dir.join("sender.yml");
        Self {
            dir,
            config,
            targets,
        }
    }

    fn sender(&self) -> Spawn {
        support::server_in(&self.dir.join("sender"))
            .arg(support::config_flag(&self.config))
            .args([
                "--web.enable-lifecycle",
                "--web.enable-remote-write-receiver",
            ])
    }

    /// Starts a server of ours that takes remote write.
    fn receiver(&self) -> Running {
        let idle = support::config(&self.dir, "1h", &[]);
        Running::of(
            support::server_in(&self.dir.join("receiver"))
                .arg(support::config_flag(&idle))
                .arg("--web.enable-remote-write-receiver"),
        )
    }

    /// Waits until each target was scraped so many times more.
    pub(crate) fn wait_pages(&self, more: u64) {
        for target in &self.targets {
            let enough = target.count() + more;
            until("more scrapes", || (target.count() >= enough).then_some(()));
        }
    }

    /// Ends a sender and returns what its storage has.
    fn stored_by(&self, sender: Running) -> Matrix {
        sender.stop();
        configure(&self.config, &[], &[]);
        let reader = Running::of(self.sender());
        let stored = known::stored(&reader.url, "1d");
        reader.stop();
        stored
    }
}

/// Returns what a remote end has of the known pages, without the external label.
fn sent(url: &str) -> Matrix {
    let all = client::matrix(url, "{replica=\"r1\",job=\"known\",__name__=~\".+\"}[1d]");
    all.into_iter()
        .map(|(series, samples)| (series.replace(",replica=\"r1\"", ""), samples))
        .collect()
}

/// Fails unless both have the same samples.
fn assert_same(sent: &Matrix, stored: &Matrix) {
    assert_all_sent(sent, stored);
    assert!(sent == stored, "the remote end has what was never stored");
}

/// Fails unless all that is stored was sent.
fn assert_all_sent(sent: &Matrix, stored: &Matrix) {
    for (series, samples) in stored {
        let there = sent.get(series);
        let missing = samples
            .iter()
            .find(|(time_ms, bits)| there.and_then(|there| there.get(time_ms)) != Some(bits));
        assert_eq!(
            missing,
            None,
            "{series} lacks a sample of {}",
            samples.len()
        );
    }
    assert!(stored.len() > 20, "{} series", stored.len());
}

/// Returns how the sender's remote ends do, by name.
fn status(sender: &Running, name: &str) -> Value {
    let all = sender.data("/api/v1/status/remote_write", &[]);
    let mut all = all.as_array().unwrap().iter();
    let one = all.find(|one| one["name"] == name);
    one.unwrap_or_else(|| panic!("no {name}")).clone()
}

fn reload(sender: &Running) {
    let answer = http::post(&format!("{}/-/reload", sender.url), "text/plain", b"").unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// A request with a series of each kind.
pub(crate) fn request(time_ms: i64) -> Request {
    let mut counted = Series::new(&[("__name__", "b_total"), ("job", "j")], &[(time_ms, 5.0)]);
    counted.exemplars.push(Exemplar {
        labels: vec![("trace_id".to_owned(), "abc".to_owned())],
        value: 0.25,
        time_ms,
    });
    let mut native = Series::new(&[("__name__", "n_seconds"), ("job", "j")], &[]);
    native.histograms.push(Histogram {
        time_ms,
        integer: true,
        count: 3.0,
        sum: 1.5,
        positive_spans: vec![(0, 2)],
        positive: vec![1.0, 2.0],
        ..Histogram::default()
    });
    Request {
        series: vec![counted, native],
        families: Vec::new(),
    }
}

/// Everything that is stored goes to another server: scrapes, received writes with histograms and exemplars,
/// staleness markers; and what waits at the end goes with the end.
#[test]
fn a_server_of_ours_gets_all_that_is_stored() {
    let rig = Rig::new("remote-ends-ours");
    let receiver = rig.receiver();
    configure(
        &rig.config,
        &[entry("second", &receiver.url, V2, ", disable_frames: true")],
        &rig.targets,
    );
    let sender = Running::of(rig.sender());
    let answer = request(now_ms()).send(&sender.url).unwrap();
    assert_eq!(answer.status, 204, "{}", answer.text());
    rig.wait_pages(30);
    let of = |query: &str| receiver.wait_vector(query, |found| !found.is_empty());
    let received = of("b_total{replica=\"r1\"}");
    assert_eq!(received.values().next().unwrap().1, 5.0);
    let sum = of("histogram_sum(n_seconds{replica=\"r1\"})");
    assert_eq!(sum.values().next().unwrap().1, 1.5);
    let params = [("query", "b_total"), ("start", "0"), ("end", "99999999999")];
    let exemplars = until("the exemplar", || {
        let found = receiver.data("/api/v1/query_exemplars", &params);
        found[0]["exemplars"][0]["labels"]["trace_id"]
            .as_str()
            .map(str::to_owned)
    });
    assert_eq!(exemplars, "abc");
    let stale: Vec<String> = known::stored(&sender.url, "1d")
        .into_iter()
        .find(|(series, _)| series.starts_with("served_total"))
        .map(|(_, samples)| samples.into_keys().map(crate::pair::seconds).collect())
        .unwrap();

    let second = status(&sender, "second");
    assert_eq!(second["message"], V2, "{second}");
    assert_eq!(second["lastError"], Value::Null, "{second}");
    let labels = format!(
        "{{remote_name=\"second\",url=\"{}/api/v1/write\"}}",
        receiver.url
    );
    let metric = |name: &str| sender.metric(&format!("prometheus_remote_storage_{name}{labels}"));
    assert!(metric("samples_total") > Some(300.0));
    assert!(metric("histograms_total") == Some(1.0));
    assert_eq!(metric("samples_failed_total"), Some(0.0));
    assert_eq!(metric("shards"), Some(1.0));

    let flapping = |url: &str, time: &String| {
        let found = client::vector(url, "flapping", Some(time));
        found.len()
    };
    let here: Vec<usize> = stale
        .iter()
        .map(|time| flapping(&sender.url, time))
        .collect();
    assert!(here.contains(&1) || here.contains(&2), "{here:?}");
    let stored = rig.stored_by(sender);
    assert_same(&sent(&receiver.url), &stored);
    let there: Vec<usize> = stale
        .iter()
        .map(|time| flapping(&receiver.url, time))
        .collect();
    assert_eq!(here, there, "a series that is gone is gone there");
    receiver.stop();
}

/// Debian's Prometheus, in messages of version 1.0.
#[test]
fn prometheus_gets_all_that_is_stored() {
    let rig = Rig::new("remote-ends-debian");
    let idle = support::config(&rig.dir, "1h", &[]);
    let flags = ["--web.enable-remote-write-receiver"];
    let receiver = Running::prometheus(&rig.dir.join("debian"), &idle, &flags);
    let v1 = entry("debian", &receiver.url, "prometheus.WriteRequest", "");
    configure(&rig.config, &[v1], &rig.targets);
    let sender = Running::of(rig.sender());
    rig.wait_pages(30);
    let stored = rig.stored_by(sender);
    assert_same(&sent(&receiver.url), &stored);
    receiver.stop();
}

/// Debian's VictoriaMetrics, which looks at no content type: it is never sent frames, and has every page.
#[test]
fn victoria_metrics_gets_every_page() {
    let rig = Rig::new("remote-ends-victoria");
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let url = format!("http://{address}");
    let program = tool("victoria-metrics", "victoria-metrics");
    let mut peer = Spawn::new(program)
        .arg(format!("-httpListenAddr={address}"))
        .arg(format!(
            "-storageDataPath={}",
            rig.dir.join("victoria").display()
        ))
        .start();
    peer.wait_url(&format!("{url}/health"), PATIENCE);
    configure(
        &rig.config,
        &[entry("victoria", &url, V2, "")],
        &rig.targets,
    );
    let sender = Running::of(rig.sender());
    rig.wait_pages(20);
    until("samples to be taken", || {
        (status(&sender, "victoria")["newestSent"] != Value::Null).then_some(())
    });
    let stored = rig.stored_by(sender);
    let counters = stored
        .iter()
        .filter(|(series, _)| series.starts_with("served_total"));
    let stored: u64 = counters.map(|(_, samples)| samples.len() as u64).sum();
    assert!(stored > 30, "{stored} pages");
    let export = format!("{url}/api/v1/export?match%5B%5D=served_total");
    // Samples are found some time after they came.
    until("every page", || {
        let lines = client::get(&export).text();
        let counts = lines.lines().map(|line| {
            let series: Value = serde_json::from_str(line).unwrap();
            let values = series["values"].as_array().unwrap().clone();
            let values: Vec<f64> = values.iter().filter_map(Value::as_f64).collect();
            assert!(
                values.windows(2).all(|pair| pair[0] < pair[1]),
                "{values:?}"
            );
            values.len() as u64
        });
        let pages: u64 = counts.sum();
        (pages == stored).then_some(())
    });
    peer.terminate(PATIENCE);
}

/// Debian's Prometheus sends to a server of ours, in messages of version 1.0.
#[test]
fn a_prometheus_sends_to_us() {
    let rig = Rig::new("remote-ends-sender");
    let receiver = rig.receiver();
    let addresses: Vec<&str> = rig.targets.iter().map(|one| one.address.as_str()).collect();
    let text = format!(
        "global: {{scrape_interval: {INTERVAL}, scrape_timeout: {INTERVAL}, external_labels: {{replica: r1}}}}\n\
remote_write:\n- url: {}/api/v1/write\n  queue_config: {{batch_send_deadline: 50ms}}\n\
scrape_configs:\n- job_name: known\n  static_configs: [{{targets: {addresses:?}}}]\n",
        receiver.url
    );
    fs::write(&rig.config, text).unwrap();
    let sender = Running::prometheus(&rig.dir.join("debian"), &rig.config, &[]);
    rig.wait_pages(20);
    // Its messages have no sign of a zero, so that not everything is as it was served.
    until("pages here", || {
        let pages = sent(&receiver.url);
        let counts = pages
            .iter()
            .filter(|(series, _)| series.starts_with("served_total"));
        let pages: Vec<Vec<u64>> = counts
            .map(|(_, samples)| samples.values().map(|bits| known::number(*bits)).collect())
            .collect();
        for target in &pages {
            assert!(
                target.windows(2).all(|pair| pair[0] < pair[1]),
                "{target:?}"
            );
        }
        (pages.len() == 2 && pages.iter().all(|pages| pages.len() >= 10)).then_some(())
    });
    sender.stop();
    let requests = total(
        &receiver,
        "narthex_remote_write_requests_total",
        "version=\"1\"",
    );
    assert!(requests > 0.0);
    receiver.stop();
}

/// A remote end that never answers delays nothing and keeps no other from its samples; a reload that mends its address
/// keeps what waits for it.
#[test]
fn a_dead_remote_end_hurts_nobody_and_gets_all_later() {
    let rig = Rig::new("remote-ends-dead");
    let receivers = [rig.receiver(), {
        let idle = support::config(&rig.dir, "1h", &[]);
        let spawn = support::server_in(&rig.dir.join("other"));
        let spawn = spawn.arg(support::config_flag(&idle));
        Running::of(spawn.arg("--web.enable-remote-write-receiver"))
    }];
    // It takes connections, and no more.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("http://{}", silent.local_addr().unwrap());
    let live = entry("live", &receivers[0].url, V2, "");
    let mended = entry("mended", &receivers[1].url, V2, "");
    let broken = entry("mended", &dead, V2, ", remote_timeout: 200ms");
    configure(&rig.config, &[live.clone(), broken], &rig.targets);
    let sender = Running::of(rig.sender());
    rig.wait_pages(30);
    until("an error of the dead one", || {
        status(&sender, "mended")["lastError"]
            .as_str()
            .map(str::to_owned)
    });
    until("samples at the live one", || {
        let pages = sent(&receivers[0].url);
        let served = pages
            .iter()
            .find(|(series, _)| series.starts_with("served"));
        served.filter(|(_, samples)| samples.len() > 20).map(|_| ())
    });
    let waiting = status(&sender, "mended");
    assert!(waiting["pendingSamples"].as_u64() > Some(300), "{waiting}");
    assert!(waiting["queueBytes"].as_u64() > Some(1000), "{waiting}");
    assert!(waiting["failingSince"].is_string(), "{waiting}");
    assert_eq!(waiting["sentSamples"], 0, "{waiting}");
    assert!(status(&sender, "live")["sentSamples"].as_u64() > Some(300));

    let taken = |name: &str| {
        let requests = status(&sender, name);
        requests["newestSent"].as_str().map(str::to_owned)
    };
    assert_eq!(taken("mended"), None);
    configure(&rig.config, &[live, mended], &rig.targets);
    reload(&sender);
    until("samples at the mended one", || taken("mended"));
    rig.wait_pages(5);
    let stored = rig.stored_by(sender);
    for receiver in receivers {
        assert_same(&sent(&receiver.url), &stored);
        receiver.stop();
    }
}

/// Passes connections on while it is open; cuts them off while it is not.
pub(crate) struct Relay {
    pub(crate) url: String,
    to: Arc<Mutex<String>>,
    is_open: Arc<AtomicBool>,
}

impl Relay {
    pub(crate) fn start(to: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let is_open = Arc::new(AtomicBool::new(true));
        let to = Arc::new(Mutex::new(to.to_owned()));
        let (address, open) = (Arc::clone(&to), Arc::clone(&is_open));
        thread::spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                if !open.load(Ordering::Acquire) {
                    continue;
                }
                let to = address.lock().unwrap().clone();
                let Ok(to) = TcpStream::connect(to) else {
                    continue;
                };
                for (from, to) in [(&from, &to), (&to, &from)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let open = Arc::clone(&open);
                    thread::spawn(move || {
                        // A connection that ends is what this is about.
                        let _ = pass(&from, &to, &open);
                        let _ = from.shutdown(Shutdown::Both);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { url, to, is_open }
    }

    /// Passes connections from now on to another address.
    fn lead(&self, to: &str) {
        to.clone_into(&mut self.to.lock().unwrap());
    }

    pub(crate) fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Release);
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, open: &AtomicBool) -> io::Result<()> {
    let mut piece = [0; 4096];
    loop {
        let len = from.read(&mut piece)?;
        if len == 0 || !open.load(Ordering::Acquire) {
            return Ok(());
        }
        to.write_all(&piece[..len])?;
    }
}

/// The remote end is away, the sender is killed twice: all that its storage has arrives, and no more is sent twice than
/// what was under way when it was killed.
#[test]
fn an_outage_and_two_kills_lose_nothing() {
    // Nothing comes and goes, so that there are no staleness markers: all that is received can be counted.
    let steady = |n: u64| -> String { (0..40).map(|at| format!("steady_{at} {n}\n")).collect() };
    let targets = vec![Target::start(steady), Target::start(steady)];
    let rig = Rig::of("remote-ends-outage", targets);
    let receiver = rig.receiver();
    let relay = Relay::start(receiver.address());
    let through = entry("far", &relay.url, V2, "");
    let through = through.replace(
        "queue_config: {",
        "queue_config: {max_samples_per_send: 20, ",
    );
    configure(&rig.config, &[through], &rig.targets);
    let came = |url: &str| {
        until("samples there", || {
            let pages = sent(url);
            (pages.len() > 20).then_some(pages)
        })
    };
    // It lives, and is killed while samples are on their way.
    let mut sender = Running::of(rig.sender());
    came(&receiver.url);
    rig.wait_pages(10);
    sender.process.kill9();
    sender.process.wait_exit(PATIENCE);
    // It is killed in the middle of an outage.
    relay.set_open(false);
    let mut sender = Running::of(rig.sender());
    rig.wait_pages(30);
    until("an error", || {
        status(&sender, "far")["lastError"]
            .as_str()
            .map(str::to_owned)
    });
    sender.process.kill9();
    sender.process.wait_exit(PATIENCE);
    let sender = Running::of(rig.sender());
    rig.wait_pages(10);
    assert!(status(&sender, "far")["pendingSamples"].as_u64() > Some(600));
    relay.set_open(true);
    until("everything to be sent", || {
        let far = status(&sender, "far");
        (far["pendingSamples"].as_u64() < Some(60)).then_some(())
    });
    let stored = rig.stored_by(sender);
    let there = sent(&receiver.url);
    assert_all_sent(&there, &stored);
    // The round that was under way when the sender was killed may be in the queue alone.
    for (series, samples) in &there {
        let lost = samples.len() - stored[series].len();
        assert!(lost <= 2, "storage lacks {lost} samples of {series}");
    }
    let distinct: usize = there.values().map(|samples| samples.len()).sum();
    let received = receiver.metric("narthex_remote_write_received_total{kind=\"samples\"}");
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count"
    )]
    let received = received.unwrap() as usize;
    let twice = received - distinct;
    println!("{distinct} samples sent, {twice} of them twice");
    // One request was under way when the sender was killed, one when the connection was cut. A request of frames has ten
    // times the samples of others.
    assert!(twice <= 2 * 200, "{twice} of {distinct} sent twice");
    receiver.stop();
}

/// Adds up a server's series of a name whose labels contain a text.
fn total(server: &Running, name: &str, label: &str) -> f64 {
    let page = client::get(&format!("{}/metrics", server.url)).text();
    let begin = format!("{name}{{");
    let lines = page.lines().filter(|line| line.starts_with(&begin));
    let values = lines
        .filter(|line| line.contains(label))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// An agent sends frames to a server; both are killed in turn. Nothing that was scraped is missing, and a killed receiver
/// costs a session, not a sample.
#[test]
fn frames_arrive_through_kills_of_both_ends() {
    let rig = Rig::new("remote-frames");
    let mut receiver = rig.receiver();
    let relay = Relay::start(receiver.address());
    configure(
        &rig.config,
        &[entry("frames", &relay.url, V2, "")],
        &rig.targets,
    );
    let start = || Running::of(agent(&rig, support::narthex().arg("agent")));
    let requests = |receiver: &Running, version: &str| {
        let version = format!("version=\"{version}\"");
        total(receiver, "narthex_remote_write_requests_total", &version)
    };
    let mut agent = start();
    let mut kills = 0;
    for _ in 0..2 {
        until("frames", || {
            (requests(&receiver, "frames") > 5.0).then_some(())
        });
        rig.wait_pages(5);
        receiver.process.kill9();
        receiver.process.wait_exit(PATIENCE);
        rig.wait_pages(3);
        receiver = rig.receiver();
        relay.lead(receiver.address());
        until("another session", || {
            let lost = total(&agent, "narthex_remote_write_sessions_lost_total", "");
            (lost >= 1.0).then_some(())
        });
        until("frames again", || {
            (requests(&receiver, "frames") > 5.0).then_some(())
        });
        assert_eq!(
            requests(&receiver, "2"),
            0.0,
            "the agent went on with frames"
        );
        agent.process.kill9();
        agent.process.wait_exit(PATIENCE);
        kills += 1;
        agent = start();
        rig.wait_pages(5);
    }
    until("everything to be sent", || {
        let one = status(&agent, "frames");
        (one["pendingSamples"].as_u64() < Some(60)).then_some(())
    });
    agent.stop();
    let there = sent(&receiver.url);
    let pages = known::assert_true(&there, &rig.targets);
    let served: u64 = rig.targets.iter().map(Target::count).sum();
    let ups = there.iter().filter(|(series, _)| series.starts_with("up{"));
    let failed = ups.map(|(_, samples)| samples.values().filter(|bits| **bits == 0).count());
    // Scrapes that were under way at each kill and at the end may have been cut off, others may have taken too long.
    let cut_off = rig.targets.len() * (kills + 1) + failed.sum::<usize>();
    assert!(
        pages + cut_off >= served as usize,
        "{pages} of {served} pages"
    );
    receiver.stop();
}

/// Adds an agent's address, data directory and configuration to a command line.
pub(crate) fn agent(rig: &Rig, spawn: Spawn) -> Spawn {
    spawn
        .arg("--web.listen-address=127.0.0.1:0")
        .arg(format!(
            "--storage.agent.path={}",
            rig.dir.join("agent").display()
        ))
        .arg(support::config_flag(&rig.config))
}

/// Sends what it scrapes, receives, is pushed and reads from files; answers about itself and its targets, and not queries.
#[test]
fn an_agent_sends_everything_and_stores_nothing() {
    let rig = Rig::new("agent");
    let receiver = rig.receiver();
    configure(
        &rig.config,
        &[entry("second", &receiver.url, V2, "")],
        &rig.targets,
    );
    rig.dir.write("dump.prom", "dumped 7\n");
    let dump = "files: [{job_name: dump, paths: [dump.prom], interval: 100ms}]\n";
    let text = fs::read_to_string(&rig.config).unwrap() + dump;
    fs::write(&rig.config, text).unwrap();
    let spawn = agent(&rig, support::narthex().arg("agent"));
    let spawn = spawn.args([
        "--web.enable-remote-write-receiver",
        "--web.enable-push-receiver",
    ]);
    let agent = Running::of(spawn);
    let answer = request(now_ms()).send(&agent.url).unwrap();
    assert_eq!(answer.status, 204, "{}", answer.text());
    let group = format!("{}/metrics/job/batch", agent.url);
    let pushed = http::post(&group, "text/plain", b"pushed 3\n").unwrap();
    assert_eq!(pushed.status, 200, "{}", pushed.text());
    rig.wait_pages(20);
    let targets = agent.data("/api/v1/targets", &[("state", "active")]);
    assert_eq!(targets["activeTargets"].as_array().unwrap().len(), 2);
    assert_eq!(status(&agent, "second")["lastError"], Value::Null);
    let yaml = agent.data("/api/v1/status/config", &[]);
    assert!(yaml["yaml"].as_str().unwrap().contains("remote_write:"));
    let query = client::get(&format!("{}/api/v1/query?query=up", agent.url));
    assert_eq!(query.status, 422);
    assert!(query.text().contains("unavailable with Prometheus Agent"));
    // Sampling costs memory, so it begins when somebody wants to see it.
    let heap = || http::get(&format!("{}/debug/pprof/heap", agent.url)).unwrap();
    assert!(heap().text().contains("sampled from this request on"));
    assert_eq!(heap().status, 200);
    assert!(agent.metric("prometheus_remote_storage_samples_in_total ") > Some(300.0));
    let dumped = "dumped{job=\"dump\",replica=\"r1\"} == 7";
    receiver.wait_vector(dumped, |found| found.len() == 1);
    let pushed = "pushed{job=\"batch\",replica=\"r1\"} == 3";
    receiver.wait_vector(pushed, |found| found.len() == 1);
    agent.stop();

    let received = client::vector(&receiver.url, "b_total{replica=\"r1\"}", None);
    assert_eq!(received.values().next().unwrap().1, 5.0);
    let pages = known::assert_true(&sent(&receiver.url), &rig.targets);
    let served: u64 = rig.targets.iter().map(Target::count).sum();
    // The last scrape of each target may have been cut off by the end.
    assert!(pages as u64 + 2 >= served, "{pages} of {served} pages");
    let mut left: Vec<_> = fs::read_dir(rig.dir.join("agent"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["push", "remote"]);
    receiver.stop();
}

/// Called as Prometheus with its agent's flags, and sending to Prometheus.
#[test]
fn the_command_line_of_prometheus_agent_works() {
    let rig = Rig::new("agent-drop-in");
    let idle = support::config(&rig.dir, "1h", &[]);
    let flags = ["--web.enable-remote-write-receiver"];
    let receiver = Running::prometheus(&rig.dir.join("debian"), &idle, &flags);
    let v1 = entry("debian", &receiver.url, "prometheus.WriteRequest", "");
    configure(&rig.config, &[v1], &rig.targets);
    let agent = Running::of(agent(&rig, support::narthex().arg0("prometheus")).args([
        "--agent",
        "--storage.agent.retention.max-time=4h",
        "--storage.remote.flush-deadline=10s",
    ]));
    rig.wait_pages(10);
    let query = client::get(&format!("{}/api/v1/query?query=up", agent.url));
    assert_eq!(query.status, 422, "{}", query.text());
    let log = agent.stop();
    assert!(
        log.contains("flag=storage.agent.retention.max-time"),
        "{log}"
    );
    known::assert_true(&sent(&receiver.url), &rig.targets);
    receiver.stop();
}
