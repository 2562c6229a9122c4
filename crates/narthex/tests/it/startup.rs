//! Start and stop: every refusal to start is one clear line and a non-zero exit code, every clean end is a zero.

use crate::{
    client,
    disk::Tmpfs,
    support::{self, Job, PATIENCE, Running},
    target::Target,
};
use narthex_testkit::{
    TempDir,
    process::{Exit, Finished, SIGTERM, Spawn},
};
use std::{
    fmt::Write as _,
    fs,
    net::TcpListener,
    os::unix::fs::symlink,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Fails unless the program printed exactly one line besides its log and exited with `code`; returns that line.
fn refusal(finished: &Finished, code: i32) -> String {
    let text = &finished.stderr;
    let said: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("time="))
        .collect();
    assert_eq!(finished.exit.code, Some(code), "{text}");
    assert_eq!(finished.stdout, "", "errors belong on standard error");
    let [line] = said.as_slice() else {
        panic!("one line, not {}: {text}", said.len());
    };
    let reason = line.strip_prefix("narthex: error: ");
    reason.unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// Runs a server that must refuse to start, and returns the reason.
fn refused(dir: &Path, arguments: &[&str], code: i32) -> String {
    refusal(&support::server_in(dir).args(arguments).run(PATIENCE), code)
}

/// Four arenas for each CPU kept ten megabytes of half-used slabs and thirty of unused pages.
#[test]
fn the_allocator_knows_its_settings() {
    let settings = "confirm_conf:true,abort_conf:true";
    let spawn = support::narthex().arg("--version");
    let finished = spawn.env("_RJEM_MALLOC_CONF", settings).run(PATIENCE);
    let text = &finished.stderr;
    assert_eq!(finished.exit.code, Some(0), "{text}");
    let known = text.contains("Set conf value: narenas_ratio:1\n");
    assert!(known, "{text}");
}

/// Around each page of the program that is touched the kernel mapped 64 KiB, and half of the program was resident.
#[test]
fn a_server_maps_its_program_in_pieces() {
    let dir = TempDir::new("pieces");
    let server = Running::of(support::server_in(dir.path()));
    let id = server.process.pid();
    let program = fs::read_link(format!("/proc/{id}/exe")).unwrap();
    let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
    let of_program = |line: &&str| line.ends_with(program.to_str().unwrap());
    let pieces = maps.lines().filter(of_program).count();
    assert!(pieces > 100, "{pieces}");
    server.stop();
}

#[test]
fn a_port_in_use_is_named() {
    let dir = TempDir::new("port");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let data = dir.join("data");
    let spawn = support::narthex().args(["server", &support::path_flag(&data)]);
    let finished = spawn
        .arg(format!("--web.listen-address={address}"))
        .run(PATIENCE);
    let line = refusal(&finished, 1);
    assert!(line.contains(&address) && line.contains("in use"), "{line}");
    assert!(!data.exists(), "the port comes before the data");
    let line = refused(&data, &["--web.listen-address=nowhere"], 1);
    assert!(
        line.contains("\"nowhere\": missing port in address"),
        "{line}"
    );
}

#[test]
fn a_bad_configuration_is_named_with_its_place() {
    let dir = TempDir::new("config");
    let data = dir.join("data");
    let missing = dir.join("missing.yml").display().to_string();
    let line = refused(&data, &["--config.file", &missing], 1);
    assert_eq!(
        line,
        format!("open {missing}: No such file or directory (os error 2)")
    );
    // Root can read every file, but not a directory.
    let folder = dir.path().display().to_string();
    let line = refused(&data, &["--config.file", &folder], 1);
    assert_eq!(line, format!("open {folder}: Is a directory (os error 21)"));

    let cases = [
        (
            "global:\n  scrape_interval: 5s\nscrape_configs:\n- job_name: x\n  static_configs: [\n",
            "line 5, column 19: unclosed bracket '['",
        ),
        (
            "scrape_configs:\n- job_name: x\n  bogus: 1\n",
            "line 3, column 3: field bogus not found in type scrape_config",
        ),
        (
            "global:\n  scrape_interval: 5x\n",
            "line 2, column 20: scrape_interval: not a valid duration string: \"5x\"",
        ),
        ("global:\n\tscrape_interval: 5s\n", "line 2, column "),
        (
            "remote_read:\n- url: http://x/\n",
            "line 1, column 1: remote_read is not supported: this version does not have it",
        ),
        (
            "scrape_configs:\n- job_name: a\n  relabel_configs:\n  - action: drp\n",
            "line 4, column 5: unknown relabel action \"drp\"",
        ),
        (
            "scrape_configs:\n- job_name: a\n  consul_sd_configs: [{server: x}]\n",
            "line 3, column 3: scrape_configs.consul_sd_configs is not supported: this version does not have it",
        ),
        (
            "scrape_configs:\n- job_name: a\n  scrape_interval: 1s\n  scrape_timeout: 2s\n",
            "line 2, column 3: scrape timeout greater than scrape interval for scrape config with job name \"a\"",
        ),
        (
            "scrape_configs:\n- job_name: a\n- job_name: a\n",
            "line 3, column 3: found multiple scrape configs with job name \"a\"",
        ),
    ];
    for (text, reason) in cases {
        let file = dir.write("bad.yml", text).display().to_string();
        let line = refused(&data, &["--config.file", &file], 1);
        let start = format!("parsing YAML file {file}: {reason}");
        assert!(
            line.starts_with(&start),
            "{line}\nshould start with\n{start}"
        );
    }
    assert!(!data.exists(), "the configuration comes before the data");
}

/// With the default limit of shells, a server with many targets and blocks ran out of descriptors.
#[test]
fn the_limit_of_open_files_is_raised() {
    let dir = TempDir::new("nofile");
    let binary = std::env::var("NARTHEX_BINARY")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_narthex").to_owned());
    let server = Running::of(
        Spawn::new("sh")
            .args(["-c", "ulimit -Sn 256; exec \"$0\" \"$@\"", &binary])
            .args(["server", "--web.listen-address=127.0.0.1:0"])
            .arg(support::path_flag(&dir.join("data")))
            .arg(support::config_flag(&support::config(&dir, "1h", &[]))),
    );
    let path = format!("/proc/{}/limits", server.process.pid());
    let limits = fs::read_to_string(path).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let fields: Vec<&str> = line.unwrap().split_whitespace().skip(3).collect();
    assert_eq!(fields[0], fields[1], "soft and hard: {limits}");
    server.stop();
}

#[test]
fn a_bad_argument_is_named() {
    let dir = TempDir::new("flags");
    let cases: [(&[&str], i32, &str); 10] = [
        (
            &["--storage.tsdb.pth=x"],
            2,
            "unknown long flag '--storage.tsdb.pth'; did you mean '--storage.tsdb.path'?",
        ),
        (
            &["--no-such-thing"],
            2,
            "unknown long flag '--no-such-thing', try --help",
        ),
        (
            &["--query.timeout=5x"],
            2,
            "flag '--query.timeout': not a valid duration string: \"5x\"",
        ),
        (
            &["--query.max-samples=-1"],
            2,
            "flag '--query.max-samples': not a whole number",
        ),
        (
            &["--web.user-assets=/x"],
            2,
            "flag '--web.user-assets' is not supported: ",
        ),
        (
            &["--query.timeout=1s", "--query.timeout=2s"],
            2,
            "flag '--query.timeout' cannot be repeated",
        ),
        (
            &["--query.timeout"],
            2,
            "expected argument for flag '--query.timeout'",
        ),
        (&["stray"], 2, "unexpected \"stray\""),
        (
            &["--log.level=loud"],
            1,
            "--log.level: unrecognized \"loud\"",
        ),
        (
            &["--web.cors.origin=("],
            1,
            "--web.cors.origin: unclosed group",
        ),
    ];
    for (arguments, code, reason) in cases {
        let line = refused(dir.path(), arguments, code);
        assert!(line.starts_with(reason), "{arguments:?}: {line}");
    }
    let line = refusal(&support::narthex().arg("serve").run(PATIENCE), 2);
    assert!(line.starts_with("unknown command \"serve\""), "{line}");
}

#[test]
fn a_data_directory_that_cannot_be_used_is_named() {
    let dir = TempDir::new("data-dir");
    let data = dir.join("data");
    let first = Running::of(support::server_in(&data));
    let line = refused(&data, &[], 1);
    assert_eq!(
        line,
        format!(
            "data directory {} is in use by another process",
            data.display()
        )
    );
    first.stop();
    // The lock is released with its owner's end.
    Running::of(support::server_in(&data)).stop();

    let file = dir.write("a-file", "");
    let line = refused(&file, &[], 1);
    assert!(line.contains(&file.display().to_string()), "{line}");

    let mount = Tmpfs::mount(dir.join("read-only"), "ro");
    for below in [mount.path().to_owned(), mount.path().join("data")] {
        let line = refused(&below, &[], 1);
        let path = mount.path().display().to_string();
        assert!(
            line.contains(&path) && line.contains("Read-only file system"),
            "{line}"
        );
    }

    let mount = Tmpfs::mount(dir.join("full"), "size=64k");
    fs::write(mount.path().join("ballast"), vec![1; 1 << 20]).unwrap_err();
    let line = refused(&mount.path().join("data"), &[], 1);
    let path = mount.path().display().to_string();
    assert!(
        line.contains(&path) && line.contains("No space left on device"),
        "{line}"
    );
}

/// Returns a page of `width` series whose values do not compress.
fn noise(n: u64, width: u64) -> String {
    let mut rng = narthex_testkit::rng::SplitMix64::new(n);
    let mut text = format!("page {n}\n");
    for series in 0..width {
        let _ = writeln!(text, "noise{{series=\"{series}\"}} {:?}", rng.unit_f64());
    }
    text
}

#[test]
fn a_disk_that_fills_up_stops_writing_but_not_reading_and_recovers() {
    let dir = TempDir::new("full");
    let mount = Tmpfs::mount(dir.join("disk"), "size=4m");
    let ballast = mount.path().join("ballast");
    fs::write(&ballast, vec![1; 3 << 20]).unwrap();
    let target = Target::start(|n| noise(n, 3000));
    let job = Job {
        name: "noise",
        targets: vec![&target.address],
        more: "",
    };
    let config = support::config(&dir, "100ms", &[job]);
    let data = mount.path().join("data");
    let mut server = Running::start(&data, &config);

    let told = server
        .process
        .wait_for("Samples cannot be stored", PATIENCE);
    let path = data.display().to_string();
    assert!(
        told.contains("level=ERROR")
            && told.contains(&path)
            && told.contains("No space left on device"),
        "{told}"
    );
    let target_of = || server.data("/api/v1/targets", &[])["activeTargets"][0].take();
    support::until("the target says why", || {
        let shown = target_of();
        (shown["health"] == "down" && shown["lastError"].as_str()?.contains(&path)).then_some(())
    });
    let pages = || {
        client::matrix(&server.url, "page[1d]")
            .into_values()
            .next()
            .unwrap_or_default()
    };
    let before = pages();
    assert!(before.len() > 3, "{before:?}");
    let last = *before.last_key_value().unwrap().0;
    let all = client::vector(
        &server.url,
        "count(noise)",
        Some(&format!("{}.{:03}", last / 1000, last % 1000)),
    );
    assert_eq!(all["{}"].1, 3000.0);
    // Scrapes continue, but are not stored.
    let scraped = target.count();
    support::until("scrapes go on", || {
        (target.count() > scraped + 5).then_some(())
    });
    assert_eq!(client::get(&format!("{}/-/ready", server.url)).status, 200);

    fs::remove_file(&ballast).unwrap();
    let after = support::until("samples are stored again", || {
        let pages = pages();
        (pages.len() > before.len() + 3).then_some(pages)
    });
    let kept: Vec<_> = after.iter().take(before.len()).collect();
    assert_eq!(kept, before.iter().collect::<Vec<_>>());
    server
        .process
        .wait_for("Samples are stored again", PATIENCE);
    let log = server.stop();
    let errors = log.lines().filter(|line| line.contains("cannot be stored"));
    assert_eq!(errors.count(), 1, "{log}");

    let server = Running::start(&data, &support::config(&dir, "1s", &[]));
    let again = client::matrix(&server.url, "page[1d]")
        .into_values()
        .next()
        .unwrap();
    let kept: Vec<_> = again.iter().take(after.len()).collect();
    assert_eq!(kept, after.iter().collect::<Vec<_>>());
    server.stop();
}

/// Returns a query that takes about `seconds` on this machine.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few minutes"
)]
fn slow_query(server: &Running, seconds: f64) -> String {
    // A query may hold fifty million samples, so a longer one is a sum of several.
    const LONGEST: u64 = 400;
    let term = |minutes: u64, n: u64| format!("count_over_time(vector({n})[{minutes}m:1ms])");
    let mut minutes = 1;
    loop {
        let start = Instant::now();
        client::vector(&server.url, &term(minutes, 0), None);
        let took = start.elapsed().as_secs_f64();
        if took > 0.1 || minutes > LONGEST {
            let wanted = (minutes as f64 * seconds / took).ceil() as u64;
            let terms: Vec<String> = (0..wanted.div_ceil(LONGEST))
                .map(|n| term(wanted.min(LONGEST), n))
                .collect();
            return terms.join(" + ");
        }
        minutes *= 2;
    }
}

/// Waits until the server evaluates a query.
fn wait_for_query(server: &Running) {
    support::until("a query runs", || {
        (server.metric("prometheus_engine_queries") == Some(1.0)).then_some(())
    });
}

#[test]
fn a_stop_waits_for_the_answer_under_way() {
    let dir = TempDir::new("drain");
    let mut server = Running::of(support::server_in(&dir.join("data")));
    let query = slow_query(&server, 1.5);
    let base = server.url.clone();
    let asking =
        thread::spawn(move || client::try_call(&base, "/api/v1/query", &[("query", &query)]));
    wait_for_query(&server);
    server.process.signal(SIGTERM);
    server
        .process
        .wait_for("Received a signal: ending.", PATIENCE);
    // While the response is in progress, connections are refused or get "not ready".
    let ready = narthex_testkit::http::get(&format!("{}/-/ready", server.url));
    let running = !asking.is_finished();
    assert!(ready.is_err() || ready.is_ok_and(|answer| answer.status == 503));
    let answer = asking.join().unwrap().unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(running, "the query was over before the stop");
    let exit = server.process.wait_exit(PATIENCE);
    assert_eq!(
        exit,
        Exit {
            code: Some(0),
            signal: None
        },
        "{}",
        server.process.stderr()
    );
}

#[test]
fn a_second_signal_ends_at_once() {
    let dir = TempDir::new("second");
    let mut server = Running::of(support::server_in(&dir.join("data")));
    let query = slow_query(&server, 20.0);
    let base = server.url.clone();
    let asking =
        thread::spawn(move || client::try_call(&base, "/api/v1/query", &[("query", &query)]));
    wait_for_query(&server);
    server.process.signal(SIGTERM);
    server
        .process
        .wait_for("Received a signal: ending.", PATIENCE);
    let start = Instant::now();
    server.process.signal(SIGTERM);
    let exit = server.process.wait_exit(PATIENCE);
    assert!(exit.code.is_some_and(|code| code != 0), "{exit:?}");
    let log = server.process.stderr();
    assert!(log.contains("second signal"), "{log}");
    asking.join().unwrap().unwrap_err();
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn without_arguments_to_run_it_prints_and_ends_well() {
    let printed = |arguments: &[&str]| {
        let finished = support::narthex().args(arguments).run(PATIENCE);
        assert_eq!(
            (finished.exit.code, finished.stderr.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
        finished.stdout
    };
    assert!(printed(&["--version"]).starts_with("narthex, version "));
    assert!(printed(&["server", "--version"]).starts_with("narthex, version "));
    assert!(printed(&["--help"]).contains("narthex <command>"));
    let help = printed(&["server", "--help"]);
    for flag in [
        "--config.file",
        "--storage.tsdb.path",
        "--web.listen-address",
        "--query.timeout",
    ] {
        assert!(help.contains(flag), "{flag} in {help}");
    }
    let licences = printed(&["--licenses"]);
    assert!(
        licences.contains("Apache") && licences.contains("tokio"),
        "{licences}"
    );
}

#[test]
fn called_prometheus_it_is_the_server() {
    let dir = TempDir::new("argv0");
    let link = dir.join("prometheus");
    symlink(env!("CARGO_BIN_EXE_narthex"), &link).unwrap();
    let config = support::config(&dir, "1s", &[]);
    // Called as by a Prometheus unit file, with flags that have no effect here.
    let spawn = Spawn::new(&link).args([
        "--web.listen-address=127.0.0.1:0",
        "--storage.tsdb.no-lockfile",
        "--web.console.templates=/etc/prometheus/consoles",
        "--enable-feature=exemplar-storage",
    ]);
    let spawn = spawn
        .arg(support::path_flag(&dir.join("data")))
        .arg("--config.file")
        .arg(&config);
    let log = Running::of(spawn).stop();
    for warned in [
        "storage.tsdb.no-lockfile",
        "web.console.templates",
        "exemplar-storage",
    ] {
        let line = log
            .lines()
            .find(|line| line.contains(warned) && line.contains("level=WARN"));
        assert!(line.is_some(), "{warned}: {log}");
    }
    let finished = Spawn::new(&link)
        .arg("--storage.tsdb.paths=x")
        .run(PATIENCE);
    assert!(refusal(&finished, 2).contains("did you mean '--storage.tsdb.path'"));
}

#[test]
fn the_time_of_a_cold_start_is_told() {
    let dir = TempDir::new("cold");
    let start = Instant::now();
    let server = Running::of(support::server_in(&dir.join("data")));
    let took = start.elapsed();
    let series = server.wait_vector("count({__name__=~\".+\"})", |found| {
        found.get("{}").is_some_and(|(_, count)| *count > 100.0)
    });
    println!(
        "empty directory: ready after {took:?}, first series {series:?} after {:?}",
        start.elapsed()
    );
    server.stop();
}

/// The second WAL file is a pipe, which blocks the replay for as long as the test needs.
#[test]
fn a_server_that_replays_its_log_says_how_far_it_is() {
    let dir = TempDir::new("replaying");
    let data = dir.join("data");
    let config = dir.write("p.yml", "scrape_configs: []\n");
    Running::start(&data, &config).stop();
    let pipe = data.join("wal/00000009");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let mut process = support::server_in(&data)
        .arg(support::config_flag(&config))
        .start();
    let port = process.wait_port("Listening on", PATIENCE);
    let url = format!("http://127.0.0.1:{port}");
    let progress = support::until("the replay is at the pipe", || {
        let data = client::data(&url, "/api/v1/status/walreplay", &[]);
        (data["current"] == 9).then_some(data)
    });
    assert_eq!((&progress["min"], &progress["max"]), (&1.into(), &9.into()));
    let get = |path: &str| client::get(&format!("{url}{path}"));
    for path in [
        "/-/ready",
        "/api/v1/query?query=up",
        "/api/v1/targets",
        "/federate",
    ] {
        let answer = get(path);
        assert_eq!(
            (
                answer.status,
                answer.text().as_str(),
                answer.header("x-prometheus-stopping")
            ),
            (503, "Service Unavailable", Some("false")),
            "{path}"
        );
    }
    assert_eq!(get("/-/healthy").status, 200);
    assert!(
        get("/metrics")
            .text()
            .contains("process_start_time_seconds ")
    );
    for page in ["/", "/targets", "/query"] {
        let answer = get(page);
        assert_eq!(answer.status, 200, "{page}");
        assert!(answer.text().contains("<script"), "{page}");
    }
    process.kill9();
}
