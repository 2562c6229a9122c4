//! A log that cannot be written: on a full device, closed, or a pipe without a reader. The server keeps working.
//!
//! The subscriber used to report such a line with `eprintln!`, which panics then, and a panic that cannot be printed
//! aborts the process: a full disk with the log on it ended the server with 134.

use crate::{
    client,
    support::{self, Job, PATIENCE, Running, until},
    target::{Target, now_ms},
};
use narthex_testkit::{
    TempDir,
    process::{Exit, Server, Spawn},
    remote_write::{Request, Series},
};
use rustix::fs::{Mode, OFlags};
use std::{fs, path::Path};

/// Returns the port that a process listens on, since its log cannot be read.
fn listening_port(pid: u32) -> Option<u16> {
    const LISTEN: &str = "0A";
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let links = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let links: Vec<String> = links
        .map(|link| link.to_string_lossy().into_owned())
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).ok()?;
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let inode = format!("socket:[{}]", fields.get(9)?);
        let own = fields.get(3) == Some(&LISTEN) && links.contains(&inode);
        let (_, port) = fields.get(1)?.split_once(':')?;
        own.then(|| u16::from_str_radix(port, 16).ok())?
    })
}

/// Starts a server with output redirected by `redirection`, in shell syntax, and waits until it is ready.
fn start(dir: &TempDir, target: &Target, format: &str, redirection: &str) -> Running {
    let job = Job {
        name: "page",
        targets: vec![&target.address],
        more: "",
    };
    let config = support::config(dir, "1s", &[job]);
    let binary = std::env::var("NARTHEX_BINARY")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_narthex").to_owned());
    let mut process = Spawn::new("sh")
        .args(["-c", &format!("exec \"$0\" \"$@\" {redirection}"), &binary])
        .args(["server", "--web.listen-address=127.0.0.1:0"])
        .arg(support::path_flag(&dir.join("data")))
        .arg(support::config_flag(&config))
        .args(["--log.level=debug", "--web.enable-remote-write-receiver"])
        .arg(format!("--log.format={format}"))
        .start();
    let url = until("a port", || {
        assert!(process.is_running(), "it has ended");
        let port = listening_port(process.pid())?;
        Some(format!("http://127.0.0.1:{port}"))
    });
    process.wait_url(&format!("{url}/-/ready"), PATIENCE);
    Running { process, url }
}

/// Fails unless the server scrapes, stores, flushes and ends cleanly.
fn works(mut server: Running, target: &Target) {
    let from = target.count();
    until("two scrapes", || (target.count() >= from + 2).then_some(()));
    server.wait_vector("up", |up| up.values().any(|(_, value)| *value == 1.0));
    // Hours old, so that maintenance writes it into a block in its next round.
    let time_ms = now_ms() - 4 * 3_600_000;
    let series = (0..20).map(|at| {
        let name = format!("old_{at}");
        let labels = [("__name__", &*name), ("instance", "i"), ("job", "j")];
        Series::new(&labels, &[(time_ms, 1.0)])
    });
    let old = Request {
        series: series.collect(),
        ..Request::default()
    };
    assert_eq!(old.send(&server.url).unwrap().status, 204);
    // A refused request writes a log line.
    let malformed = narthex_testkit::http::request(
        "POST",
        &format!("{}/api/v1/write", server.url),
        &[("Content-Type", "application/x-protobuf")],
        b"no snappy",
    );
    assert_eq!(malformed.unwrap().status, 400);
    until("a block", || {
        let blocks = server.metric("prometheus_tsdb_blocks_loaded")?;
        (blocks > 0.0).then_some(())
    });
    let page = client::get(&format!("{}/metrics", server.url)).text();
    assert!(!page.contains("narthex_panics_total{"), "{page}");
    ends(&mut server.process);
}

fn ends(process: &mut Server) {
    let clean = Exit {
        code: Some(0),
        signal: None,
    };
    assert_eq!(process.terminate(PATIENCE), clean);
}

fn page() -> Target {
    Target::start(|number| format!("pages_total {number}\n"))
}

#[test]
fn a_log_on_a_full_device_stops_nothing() {
    at_once(&["logfmt", "json"], |format| {
        let (dir, target) = (TempDir::new("log-full"), page());
        works(start(&dir, &target, format, "2>/dev/full"), &target);
    });
}

#[test]
fn closed_outputs_stop_nothing() {
    at_once(&[">&- 2>&-", ">/dev/full 2>&1"], |redirection| {
        let (dir, target) = (TempDir::new("log-closed"), page());
        works(start(&dir, &target, "logfmt", redirection), &target);
    });
}

/// Without a reader a write fails with EPIPE, and SIGPIPE ends a process that does not ignore it.
#[test]
fn a_log_that_nobody_reads_any_more_stops_nothing() {
    at_once(&["logfmt", "json"], |format| {
        let (dir, target) = (TempDir::new("log-pipe"), page());
        let pipe = dir.join("pipe");
        let reader = open_pipe(&pipe);
        let redirection = format!("2>'{}'", pipe.display());
        let server = start(&dir, &target, format, &redirection);
        drop(reader);
        works(server, &target);
    });
}

/// Runs each case in its own thread, since they mostly wait.
fn at_once(cases: &[&str], run: impl Fn(&str) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| run(case));
        }
    });
}

/// Creates a named pipe and opens it for reading.
fn open_pipe(at: &Path) -> fs::File {
    let made = std::process::Command::new("mkfifo").arg(at).status();
    assert!(made.unwrap().success());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(at, flags, Mode::empty()).unwrap().into()
}
