//! Segments of worker processes that are killed, read by a server that is killed too, and a memory file system that is
//! full.

use crate::{
    client,
    disk::Tmpfs,
    support::{self, PATIENCE, Running, until},
};
use narthex_client::{
    CounterVec, Histogram, Registry,
    segment::{Publisher, SegmentOptions},
};
use narthex_testkit::{
    TempDir, http,
    process::{SIGHUP, SIGKILL, Server, Spawn},
    rng::SplitMix64,
    scaled,
};
use serde_json::Value;
use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Names the directory of a worker's segment, and the file whose bytes are its publications.
const WORKER_DIR: &str = "NARTHEX_TEST_SEGMENTS";
const WORKER_LOG: &str = "NARTHEX_TEST_SEGMENTS_LOG";
const WORKERS: usize = 6;

static COUNTED: CounterVec<1> = CounterVec::new("pool_requests_total", "Requests.", &["path"]);
static SECONDS: Histogram = Histogram::new("pool_seconds", "Times.", &[0.5, 1.5]);

/// Counts until it is killed.
#[test]
#[ignore = "a program that other tests start"]
fn worker() {
    let dir = std::env::var_os(WORKER_DIR).expect("set by the test");
    let log = std::env::var_os(WORKER_LOG).expect("set by the test");
    let mut log = OpenOptions::new()
        .append(true)
        .create(true)
        .open(log)
        .unwrap();
    let registry = Registry::new();
    registry.register_all(&[&COUNTED, &SECONDS]).unwrap();
    let options = SegmentOptions::new(PathBuf::from(dir), "pool");
    let mut publisher = Publisher::create(&options).unwrap();
    for round in 0_u64.. {
        COUNTED.with(&[&(round % 7).to_string()]).inc();
        SECONDS.observe(1.0);
        publisher.publish(&registry).unwrap();
        log.write_all(b".").unwrap();
    }
}

/// Worker processes, and what each has certainly counted.
struct Workers {
    dir: TempDir,
    running: Vec<Server>,
    started: usize,
}

impl Workers {
    fn new() -> Self {
        Self {
            dir: TempDir::new("segments"),
            running: Vec::new(),
            started: 0,
        }
    }

    fn segments(&self) -> PathBuf {
        self.dir.join("segments")
    }

    fn start(&mut self) {
        let log = self.dir.join(format!("log-{}", self.started));
        self.started += 1;
        let spawn = Spawn::new(std::env::current_exe().unwrap())
            .args(["--exact", "segments::worker", "--nocapture", "--ignored"])
            .env(WORKER_DIR, self.segments())
            .env(WORKER_LOG, log);
        self.running.push(spawn.start());
    }

    fn kill(&mut self, at: usize) {
        self.running.swap_remove(at).kill9();
    }

    fn publications(&self) -> u64 {
        let logs = (0..self.started).map(|at| self.dir.join(format!("log-{at}")));
        logs.map(|log| fs::metadata(log).map_or(0, |metadata| metadata.len()))
            .sum()
    }
}

/// Writes a configuration that reads a directory of segments, with further keys of the section.
pub(crate) fn config(dir: &TempDir, segments: &Path, more: &str) -> PathBuf {
    let text = format!(
        "segments:\n  dir: {}\n  interval: 30ms\n{more}",
        segments.display()
    );
    dir.write("prometheus.yml", text)
}

/// Returns the value of a query's first series.
pub(crate) fn total(server: &Running, query: &str) -> Option<f64> {
    let vector = client::vector(&server.url, query, None);
    vector.values().next().map(|(_, value)| *value)
}

#[test]
fn killed_workers_and_servers_lose_and_repeat_nothing() {
    let mut rng = support::rng(0x5e9);
    let data = TempDir::new("segments-data");
    let mut workers = Workers::new();
    let config = config(&data, &workers.segments(), "");
    let mut server = Running::start(data.path(), &config);
    let kills = scaled(40);
    let mut last = 0.0;
    for round in 0..kills {
        while workers.running.len() < WORKERS {
            workers.start();
        }
        live_a_while(&mut rng, &server, &mut last);
        let at = rng.index(WORKERS);
        workers.kill(at);
        if round % 10 == 9 {
            server.process.kill9();
            // Some end while nobody looks.
            workers.kill(rng.index(workers.running.len()));
            server = Running::start(data.path(), &config);
        }
    }
    while !workers.running.is_empty() {
        workers.kill(0);
    }
    let segments = workers.segments();
    until("all segments are taken over", || {
        support::files_below(&segments, ".segment")
            .is_empty()
            .then_some(())
    });
    let published = workers.publications() as f64;
    let most = published + workers.started as f64;
    assert!(published > 1000.0, "{published}");
    let is_right = |value: &f64| (published..=most).contains(value);
    // A round before the last one may have read a worker that had published the one and not yet the other.
    for query in ["sum(pool_requests_total)", "pool_seconds_count"] {
        until(&format!("{query} is from {published} to {most}"), || {
            total(&server, query).filter(is_right)
        });
    }
    for query in [
        "sum(resets(pool_requests_total[1h]))",
        "sum(resets(pool_seconds_bucket[1h]))",
    ] {
        assert_eq!(total(&server, query), Some(0.0), "{query}");
    }
    server.stop();
}

/// Watches the counter grow for a random time.
fn live_a_while(rng: &mut SplitMix64, server: &Running, last: &mut f64) {
    let end = Instant::now() + Duration::from_millis(rng.below(150));
    while Instant::now() < end {
        // A new series may be missing in the first rounds.
        let now = total(server, "sum(pool_requests_total)").unwrap_or(*last);
        assert!(now >= *last, "{now} after {last}");
        *last = now;
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn workers_are_listed_kept_apart_and_switched_off() {
    let data = TempDir::new("segments-data");
    let mut workers = Workers::new();
    let apart = config(
        &data,
        &workers.segments(),
        "  merge: false\n  job_name: shop\n",
    );
    let server = Running::start(data.path(), &apart);
    workers.start();
    workers.start();
    let by_worker = "count by (job, app) (sum by (job, app, worker) (pool_requests_total))";
    server.wait_vector(by_worker, |vector| {
        vector.iter().any(|(series, (_, value))| {
            *value == 2.0 && series.contains("app=\"pool\"") && series.contains("job=\"shop\"")
        })
    });
    let dir = format!("--dir={}", workers.segments().display());
    let segment = |args: &[&str]| {
        let run = support::narthex().arg("segment").arg(args[0]).arg(&dir);
        run.args(&args[1..]).run(PATIENCE)
    };
    let listed = segment(&["ls"]);
    assert_eq!(
        listed
            .stdout
            .lines()
            .filter(|line| line.contains("live"))
            .count(),
        2,
        "{listed:?}"
    );
    let dumped = segment(&["dump"]);
    assert!(
        dumped.stdout.contains("# TYPE pool_seconds histogram"),
        "{dumped:?}"
    );
    assert!(
        dumped
            .stdout
            .contains("pool_requests_total{app=\"pool\",path=\"3\"}"),
        "{dumped:?}"
    );
    let watched = segment(&["watch", "--interval=10ms", "--tables=3", "--rows=2"]);
    let series = watched.stdout.lines().filter(|line| line.contains("pool_"));
    assert_eq!(series.count(), 6, "{watched:?}");
    let switched = segment(&["switch", "pool", "pool_requests_total", "off"]);
    assert_eq!(
        switched.stdout,
        "pool_requests_total is off in 2 segments\n"
    );
    server.wait_vector("count(pool_requests_total)", |vector| vector.is_empty());
    segment(&["switch", "pool", "pool_requests_total", "on"]);
    server.wait_vector("count(pool_requests_total)", |vector| !vector.is_empty());
    let unknown = segment(&["switch", "pool", "nothing", "off"]);
    assert_eq!(unknown.exit.code, Some(1));

    reloads_are_followed(&server, &data, &workers);
    server.process.signal(SIGKILL);
}

/// Returns the state of the API's list of segments: each one's file, state and metrics that are off.
fn listed(server: &Running) -> Vec<(String, bool)> {
    let body = client::get(&format!("{}/api/v1/segments", server.url));
    let body: Value = serde_json::from_str(&body.text()).expect("JSON");
    let segments = body["data"]["segments"].as_array().expect("a list");
    let one = |segment: &Value| {
        let metrics = segment["metrics"].as_array().expect("a list");
        let off = metrics.iter().any(|metric| metric["isOn"] == false);
        (
            segment["state"].as_str().unwrap_or_default().to_owned(),
            off,
        )
    };
    segments.iter().map(one).collect()
}

#[test]
fn the_api_lists_segments_and_switches_where_it_may_reload() {
    let data = TempDir::new("segments-data");
    let mut workers = Workers::new();
    let segments = workers.segments();
    let config = config(&data, &segments, "");
    let spawn = support::server_in(data.path()).arg(support::config_flag(&config));
    let server = Running::of(spawn.arg("--web.enable-lifecycle"));
    workers.start();
    server.wait_vector("pool_requests_total", |v| !v.is_empty());
    fs::write(segments.join("torn.segment"), "torn").unwrap();
    let alive = |off| ("alive".to_owned(), off);
    let broken = ("broken".to_owned(), false);
    assert_eq!(listed(&server), [alive(false), broken.clone()]);
    let switch = |server: &Running, query: &str, headers: &[(&str, &str)]| {
        let url = format!("{}/api/v1/segments/switch?{query}", server.url);
        http::request("POST", &url, headers, b"").unwrap().status
    };
    let off = "app=pool&metric=pool_requests_total&state=off";
    let foreign = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Origin", "http://x.example"),
    ];
    assert_eq!(switch(&server, off, &foreign), 403);
    let url = format!("{}/api/v1/segments/switch?{off}", server.url);
    assert_eq!(http::get(&url).unwrap().status, 405);
    for bad in [
        "app=pool&metric=x&state=off",
        "app=pool&metric=x&state=maybe",
    ] {
        assert_eq!(switch(&server, bad, &[]), 400, "{bad}");
    }
    assert_eq!(listed(&server)[0], alive(false));
    assert_eq!(switch(&server, off, &[]), 200);
    assert_eq!(listed(&server), [alive(true), broken]);
    server.wait_vector("pool_requests_total", |v| v.is_empty());
    server.stop();
    let server = Running::start(data.path(), &config);
    assert_eq!(switch(&server, &off.replace("off", "on"), &[]), 403);
    server.wait_vector("pool_seconds_count", |v| !v.is_empty());
    assert_eq!(listed(&server)[0], alive(true));
    server.stop();
}

#[test]
fn a_user_may_fill_no_more_than_a_share_of_the_directory() {
    let data = TempDir::new("segments-data");
    let mut workers = Workers::new();
    let segments = workers.segments();
    let server = Running::start(data.path(), &config(&data, &segments, ""));
    let over = || server.metric("narthex_segments_users_over_limit");
    workers.start();
    server.wait_vector("pool_requests_total", |v| !v.is_empty());
    assert_eq!(over(), Some(0.0));
    config(&data, &segments, "  max_bytes_per_user: 1KB\n");
    server.process.signal(SIGHUP);
    until("the user has too much", || {
        over().filter(|users| *users == 1.0)
    });
    server.wait_vector("pool_requests_total", |v| v.is_empty());
    assert_eq!(server.metric("narthex_segments_unread"), Some(1.0));
    let log = server.stop();
    assert!(log.contains("use more than 1024 bytes"), "{log}");
}

/// A reload ended the host's metrics with the segments when both sections named one job.
#[test]
fn a_reload_of_the_segments_leaves_the_host_alone() {
    let data = TempDir::new("segments-data");
    let mut workers = Workers::new();
    let segments = workers.segments();
    let host = "host:\n  job_name: both\n  interval: 100ms\n";
    let merged = format!("  job_name: both\n{host}");
    let server = Running::start(data.path(), &config(&data, &segments, &merged));
    workers.start();
    server.wait_vector("pool_requests_total{job='both'}", |v| !v.is_empty());
    server.wait_vector("node_load1{job='both'}", |v| !v.is_empty());
    let apart = format!("  job_name: both\n  merge: false\n{host}");
    config(&data, &segments, &apart);
    server.process.signal(SIGHUP);
    server.wait_vector("pool_requests_total{worker!=''}", |v| !v.is_empty());
    let rounds = "count_over_time(node_load1{job='both'}[1h])";
    let seen = total(&server, rounds).expect("the host is read");
    until("the host is still read", || {
        total(&server, rounds).filter(|rounds| *rounds > seen + 3.0)
    });
    server.stop();
}

/// Other settings take effect with a reload, and what nobody reads ends.
fn reloads_are_followed(server: &Running, data: &TempDir, workers: &Workers) {
    for (job, gone) in [("shop", "{worker!=''}"), ("other", "{job='shop'}")] {
        let more = format!("  job_name: {job}\n");
        config(data, &workers.segments(), &more);
        server.process.signal(SIGHUP);
        server.wait_vector(gone, |vector| vector.is_empty());
        let there = format!("pool_requests_total{{job='{job}'}}");
        server.wait_vector(&there, |vector| !vector.is_empty());
    }
}

#[test]
fn a_full_memory_file_system_is_an_error_and_no_signal() {
    static MANY: CounterVec<1> =
        CounterVec::new("many_total", "Many.", &["number"]).with_cap(50_000);
    let registry = Registry::new();
    registry.register(&MANY).unwrap();
    let dir = TempDir::new("segments");
    let small = Tmpfs::mount(dir.join("small"), "size=100k");
    let options = SegmentOptions::new(small.path(), "pool");
    let error = Publisher::create(&options).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(
        support::files_below(small.path(), ".segment"),
        [""; 0].map(PathBuf::from)
    );
    let larger = Tmpfs::mount(dir.join("larger"), "size=700k");
    let options = SegmentOptions::new(larger.path(), "pool");
    let mut publisher = Publisher::create(&options).unwrap();
    for number in 0..50_000 {
        MANY.with(&[&number.to_string()]).inc();
    }
    publisher.publish(&registry).unwrap();
    let dir = format!("--dir={}", larger.path().display());
    let dumped = support::narthex()
        .args(["segment", "dump"])
        .arg(dir)
        .run(PATIENCE);
    let lines = dumped
        .stdout
        .lines()
        .filter(|line| line.starts_with("many_total{"))
        .count();
    assert!((1_000..49_000).contains(&lines), "{lines}");
}
