//! Programs that count with every client library: their switches, and a memory file system that is full.

use crate::{
    disk::Tmpfs,
    segments::{config, total},
    support::{self, PATIENCE, Running, until},
};
use narthex_client::{
    Counter, CounterVec, Histogram, Registry,
    segment::{Publisher, SegmentOptions},
};
use narthex_testkit::{
    TempDir, go_example, http,
    process::{Server, Spawn},
    tool, workspace_root,
};
use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

/// Name the directory, the log and the number of further series of the worker that uses the Rust client.
const DIR: &str = "NARTHEX_TEST_WRITER_DIR";
const LOG: &str = "NARTHEX_TEST_WRITER_LOG";
const SERIES: &str = "NARTHEX_TEST_WRITER_SERIES";

/// A program that counts `pool_requests_total` as an application named after its library.
pub(crate) struct Library {
    pub(crate) app: &'static str,
    program: PathBuf,
    /// Arguments before the directory of the segments and the log.
    before: Vec<PathBuf>,
    /// An argument between them.
    between: Option<&'static str>,
}

impl Library {
    /// Starts a worker that makes `series` more series, says `refused N` and then writes a byte for each count.
    pub(crate) fn start(&self, segments: &Path, log: &Path, series: u32) -> Server {
        let spawn = Spawn::new(&self.program)
            .env(DIR, segments)
            .env(LOG, log)
            .env(SERIES, series.to_string())
            .args(&self.before);
        if self.app == "rust" {
            return spawn.start();
        }
        self.between
            .iter()
            .fold(spawn.arg(segments), |spawn, between| spawn.arg(between))
            .arg(log)
            .arg(series.to_string())
            .start()
    }
}

/// Returns a program for each library, built in a directory where that is needed.
pub(crate) fn libraries(dir: &TempDir) -> Vec<Library> {
    let clients = workspace_root().join("clients");
    let compiled = |compiler, language| {
        let program = dir.join(format!("count-{compiler}"));
        let mut command = Command::new(compiler);
        let command = command.args([
            "-O2",
            "-x",
            language,
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-o",
        ]);
        let command = command.arg(&program).arg(clients.join("c/tests/count.c"));
        assert!(command.status().expect("it is installed").success());
        program
    };
    let library = |app, program, before: Vec<PathBuf>| Library {
        app,
        program,
        before,
        between: (app == "go").then_some("count"),
    };
    let rust = [
        "--exact",
        "segment_writers::worker",
        "--nocapture",
        "--ignored",
    ];
    vec![
        library("c", compiled("cc", "c"), Vec::new()),
        library("cpp", compiled("c++", "c++"), Vec::new()),
        library("go", go_example("segment"), Vec::new()),
        library(
            "lua",
            tool("luajit", "luajit2"),
            vec![clients.join("lua/tests/count.lua")],
        ),
        library(
            "python",
            "/usr/bin/python3".into(),
            vec!["-B".into(), clients.join("python/tests/count.py")],
        ),
        library(
            "rust",
            std::env::current_exe().unwrap(),
            rust.map(PathBuf::from).into(),
        ),
    ]
}

pub(crate) fn length(log: &Path) -> u64 {
    fs::metadata(log).map_or(0, |metadata| metadata.len())
}

static COUNTED: CounterVec<1> = CounterVec::new("pool_requests_total", "Requests.", &["path"]);
static SECONDS: Histogram = Histogram::new("pool_seconds", "Times.", &[0.5, 1.5]);
static FILLER: CounterVec<1> =
    CounterVec::new("filler_total", "Takes room.", &["number"]).with_cap(50_000);
static FAILURES: Counter = Counter::new("segment_failures_total", "Segments not created.");

/// Counts until it is killed.
#[test]
#[ignore = "a program that other tests start"]
fn worker() {
    let text = |name| std::env::var(name).expect("set by the test");
    let mut log = OpenOptions::new();
    let mut log = log.append(true).create(true).open(text(LOG)).unwrap();
    let registry = Registry::new();
    registry
        .register_all(&[&COUNTED, &SECONDS, &FILLER, &FAILURES])
        .unwrap();
    for path in 0..7 {
        COUNTED.with(&[&path.to_string()]).add(0.0);
    }
    // Without a segment the program goes on: its registry is as good as before.
    let mut publisher = Publisher::create(&SegmentOptions::new(text(DIR), "rust"))
        .inspect_err(|error| {
            eprintln!("{error}");
            FAILURES.inc();
        })
        .ok();
    let mut publish = || {
        let published = publisher.as_mut().map(|own| own.publish(&registry));
        published.transpose().unwrap();
        publisher.as_ref().map_or(1, Publisher::refused)
    };
    publish();
    for number in 0..text(SERIES).parse().unwrap() {
        let number: u32 = number;
        FILLER.with(&[&number.to_string()]).inc();
    }
    println!("refused {}", publish());
    for round in 0_u64.. {
        COUNTED.with(&[&(round % 7).to_string()]).inc();
        SECONDS.observe(1.0);
        publish();
        log.write_all(b".").unwrap();
        thread::sleep(Duration::from_micros(500));
    }
}

/// A worker of a library, with what it has certainly counted.
struct Counting {
    app: &'static str,
    process: Server,
    log: PathBuf,
}

impl Counting {
    fn start(library: &Library, dir: &TempDir, segments: &Path, series: u32) -> Self {
        let log = dir.join(format!("log-{}", library.app));
        let mut process = library.start(segments, &log, series);
        process.wait_for("refused ", PATIENCE);
        let app = library.app;
        Self { app, process, log }
    }

    fn counted(&self) -> u64 {
        length(&self.log)
    }

    /// Waits until it has counted so many times more; it may not have ended.
    fn go_on(&mut self, more: u64) {
        let from = self.counted();
        until(&format!("{} counts", self.app), || {
            assert!(self.process.is_running(), "{}", self.process.stderr());
            (self.counted() >= from + more).then_some(())
        });
    }

    fn refused(&self) -> u64 {
        let out = self.process.stdout();
        let number = out.split("refused ").nth(1).unwrap_or_default();
        let number = number.lines().next().unwrap_or_default();
        number.parse().expect("a number")
    }
}

/// Switches `pool_requests_total` of an application with the command, or over HTTP.
fn switch(server: &Running, segments: &Path, app: &str, state: &str, by_command: bool) {
    if by_command {
        let dir = format!("--dir={}", segments.display());
        let run = support::narthex()
            .args(["segment", "switch"])
            .arg(dir)
            .args([app, "pool_requests_total", state])
            .run(PATIENCE);
        let told = format!("pool_requests_total is {state} in 1 segments\n");
        assert_eq!(run.stdout, told, "{run:?}");
        return;
    }
    let query = format!("app={app}&metric=pool_requests_total&state={state}");
    let url = format!("{}/api/v1/segments/switch?{query}", server.url);
    assert_eq!(http::request("POST", &url, &[], b"").unwrap().status, 200);
}

#[test]
fn every_library_obeys_its_switches() {
    let dir = TempDir::new("writers");
    let segments = dir.join("segments");
    let spawn = support::server_in(&dir.join("data"));
    let spawn = spawn.arg(support::config_flag(&config(&dir, &segments, "")));
    let server = Running::of(spawn.arg("--web.enable-lifecycle"));
    let libraries = libraries(&dir);
    let start = |library| Counting::start(library, &dir, &segments, 0);
    let mut workers: Vec<Counting> = libraries.iter().map(start).collect();
    for (at, worker) in workers.iter_mut().enumerate() {
        let app = worker.app;
        let query = |name| format!("sum({name}{{app='{app}'}})");
        let requests = query("pool_requests_total");
        worker.go_on(50);
        until("it is read", || {
            total(&server, &requests).filter(|n| *n > 20.0)
        });
        let by_command = at % 2 == 0;
        let before = worker.counted();
        switch(&server, &segments, app, "off", by_command);
        until("it is gone", || {
            total(&server, &requests).is_none().then_some(())
        });
        let off = worker.counted();
        worker.go_on(200);
        assert_eq!(total(&server, &requests), None, "{app}");
        let still_off = worker.counted();
        switch(&server, &segments, app, "on", !by_command);
        let obeyed = until("it is back", || {
            total(&server, &requests).map(|_| worker.counted())
        });
        worker.go_on(300);
        worker.process.kill9();
        // What was written while the switch was being turned is on either side.
        let counted = worker.counted();
        let (least, most) = (
            counted - (obeyed + 100 - before),
            counted + 1 - (still_off - off),
        );
        let is_right = |value: &f64| (least as f64..=most as f64).contains(value);
        until(&format!("{app} counted from {least} to {most}"), || {
            total(&server, &requests).filter(is_right)
        });
        let observed = query("pool_seconds_count");
        until(&format!("{app} went on observing"), || {
            total(&server, &observed).filter(|n| *n >= counted as f64)
        });
    }
    server.stop();
}

/// The libraries beside each other: one after the other, they would take longer than any other test.
#[test]
fn no_library_is_ended_by_a_full_file_system() {
    let dir = TempDir::new("writers");
    thread::scope(|scope| {
        for library in libraries(&dir) {
            let dir = &dir;
            scope.spawn(move || fill_file_systems(&library, dir));
        }
    });
}

fn fill_file_systems(library: &Library, dir: &TempDir) {
    let app = library.app;
    // No room for a segment: that is said, counted, and nothing is left behind.
    let tiny = Tmpfs::mount(dir.join(format!("{app}-tiny")), "size=64k");
    let mut worker = Counting::start(library, dir, tiny.path(), 10);
    worker.go_on(100);
    assert!(worker.refused() > 0, "{app}");
    let said = worker.process.stderr().to_lowercase();
    assert!(said.contains("no space left on device"), "{app}: {said}");
    assert_eq!(
        support::files_below(tiny.path(), ".segment"),
        [""; 0].map(PathBuf::from),
        "{app}"
    );
    worker.process.kill9();
    fs::remove_file(&worker.log).unwrap();

    // Room for some series: they go on, the others are refused and counted.
    let small = Tmpfs::mount(dir.join(format!("{app}-small")), "size=500k");
    let mut worker = Counting::start(library, dir, small.path(), 20_000);
    worker.go_on(100);
    let refused = worker.refused();
    assert!((1000..20_000).contains(&refused), "{app}: {refused}");
    let data = TempDir::new("writers-data");
    let server = Running::start(data.path(), &config(&data, small.path(), ""));
    let requests = "sum(pool_requests_total)";
    let before = until("it is read", || total(&server, requests));
    worker.go_on(100);
    until("it counts", || {
        total(&server, requests).filter(|n| *n > before + 50.0)
    });
    let told = server.metric("narthex_segments_refused_series");
    // The Lua library first meets its histogram when it is used.
    let known = [refused as f64, refused as f64 + 1.0];
    assert!(
        told.is_some_and(|told| known.contains(&told)),
        "{app}: {told:?} of {refused}"
    );
    let filler = total(&server, "count(filler_total)").expect("some found room");
    assert!(filler >= 1000.0, "{app}: {filler}");
    worker.process.kill9();
    server.stop();
}
