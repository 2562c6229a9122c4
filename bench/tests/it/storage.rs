//! The scenario against Debian's Prometheus, and its end by a signal.

use crate::support::{narthex, sound};
use narthex_testkit::{
    TempDir,
    process::{SIGINT, Spawn},
    tool,
};
use std::{
    path::Path,
    time::{Duration, Instant},
};

const BENCH: &str = env!("CARGO_BIN_EXE_narthex-bench");

fn small(dir: &Path, duration: &str) -> Spawn {
    let prometheus = tool("prometheus", "prometheus");
    Spawn::new(BENCH)
        .args([
            "storage",
            "--targets=10",
            "--series=150",
            "--interval=500ms",
            "--warmup=2s",
            "--queries=with",
            "--range=60s",
        ])
        .arg(format!("--duration={duration}"))
        .arg(format!("--server=prometheus={}", prometheus.display()))
        .arg(format!("--dir={}", dir.display()))
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir)
        .expect("the directory exists")
        .next()
        .is_none()
}

/// Returns the processes whose command line names `dir`.
fn processes_in(dir: &Path) -> Vec<String> {
    let name = dir.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc")
        .expect("procfs is mounted")
        .flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines
        .filter(|line| {
            line.starts_with('/') && line.contains(&name) && line.contains("--config.file")
        })
        .collect()
}

#[test]
fn five_seconds_of_prometheus_give_a_table_and_a_record() {
    let (work, out) = (TempDir::new("bench-work"), TempDir::new("bench-out"));
    let record = out.join("record.json");
    let record_path = record.display().to_string();
    let page = out.join("page.html");
    let finished = sound(|| {
        small(work.path(), "5s")
            .arg(format!("--out={}", record.display()))
            .arg(format!("--html={}", page.display()))
    });
    let text = std::fs::read_to_string(&record).expect("the record is written");
    let record: serde_json::Value = serde_json::from_str(&text).expect("the record is JSON");
    let run = &record["runs"][0];
    let figure = |key: &str| {
        let mut figures = run["figures"].as_array().expect("figures").iter();
        let figure = figures.find(|figure| figure["key"] == key);
        figure
            .and_then(|figure| figure["value"].as_f64())
            .unwrap_or_else(|| panic!("{key} is missing"))
    };
    // 10 targets at 2 Hz for 5 s, give or take the window's edges.
    let scrapes = figure("scrapes");
    assert!((90.0..=110.0).contains(&scrapes), "{scrapes} scrapes");
    assert!((90.0..=110.0).contains(&(scrapes + figure("missed scrapes"))));
    let rate = figure("samples");
    assert!(
        (2_700.0..=3_300.0).contains(&rate),
        "{rate} samples a second"
    );
    let cpu = figure("CPU a sample");
    assert!(cpu > 0.1 && cpu < 2_000.0, "{cpu} us a sample");
    assert!(figure("RSS at the end") > 5.0 && figure("RSS peak") >= figure("RSS at the end") * 0.9);
    assert!(figure("data directory") > 0.0 && figure("count(up)") > 0.0);
    assert!(
        figure("after kill -9 until the past is answered") >= figure("after kill -9 until ready")
    );
    assert!(figure("after kill -9 until the first scrape") >= figure("after kill -9 until ready"));
    assert!(figure("scrapes answered and not stored at kill -9") <= 12.0);
    assert!(
        record["subjects"][0]["version"]
            .as_str()
            .expect("a text")
            .starts_with("prometheus, version")
    );
    assert!(
        run["courses"][0]["points"]
            .as_array()
            .expect("points")
            .len()
            >= 6
    );
    assert_eq!(run["variant"], "with queries");
    assert!(figure("instant queries, p99") > 0.0 && figure("queries failed") == 0.0);
    let page = std::fs::read_to_string(&page).expect("the page is written");
    assert!(page.contains("new uPlot(") && page.contains("resident memory"));
    assert!(!page.contains("src=") && !page.contains("href="));
    let again = Spawn::new(BENCH)
        .args(["compare"])
        .args([&record_path, &record_path])
        .run(Duration::from_secs(60));
    assert_eq!(again.exit.code, Some(0), "{}", again.stderr);
    assert!(
        again.stdout.contains("prometheus, with queries:"),
        "{}",
        again.stdout
    );
    assert!(
        finished.stdout.contains("CPU a sample, µs"),
        "{}",
        finished.stdout
    );
    assert!(is_empty(work.path()) && processes_in(work.path()).is_empty());
}

#[test]
fn pods_come_and_go_and_time_runs_faster() {
    let (work, out) = (TempDir::new("bench-work"), TempDir::new("bench-out"));
    let record = out.join("record.json");
    let scenario = out.write(
        "churn.yml",
        "scenario: storage\nshape: service\ntargets: 5\nseries: 60\ninterval: 500ms\nwarmup: 2s\n\
         duration: 5s\nqueries: without\nchurn-share: 0.4\nchurn-every: 1s\ncompress-time: 20\n",
    );
    let prometheus = tool("prometheus", "prometheus");
    let finished = sound(|| {
        Spawn::new(BENCH)
            .args(["run", &scenario.display().to_string()])
            .arg(format!("--server=prometheus={}", prometheus.display()))
            .arg(format!("--dir={}", work.path().display()))
            .arg(format!("--out={}", record.display()))
    });
    let output = format!("{}{}", finished.stdout, finished.stderr);
    let text = std::fs::read_to_string(&record).expect("the record is written");
    let record: serde_json::Value = serde_json::from_str(&text).expect("the record is JSON");
    let figures = record["runs"][0]["figures"].as_array().expect("figures");
    let replaced = figures
        .iter()
        .find(|figure| figure["key"] == "targets replaced");
    // Two of five per second, less the lateness of a busy machine.
    assert!(
        replaced.expect("counted")["value"].as_f64() >= Some(4.0),
        "{output}"
    );
    assert!(
        record["title"]
            .as_str()
            .expect("a text")
            .contains("time 20 times as fast")
    );
    assert!(
        record["notes"][0]
            .as_str()
            .expect("a note")
            .contains("run 20 times as fast")
    );
    assert!(is_empty(work.path()));
}

#[test]
fn native_histograms_are_stored_by_narthex_and_by_prometheus() {
    let Some(narthex) = narthex() else {
        return;
    };
    let (work, out) = (TempDir::new("bench-work"), TempDir::new("bench-out"));
    let record = out.join("record.json");
    let prometheus = tool("prometheus", "prometheus");
    // It queries the native histograms it sent and fails without them.
    let native = || {
        Spawn::new(BENCH)
            .args(["storage", "--shape=native", "--targets=4", "--series=150"])
            .args(["--interval=500ms", "--warmup=2s", "--duration=6s"])
            .args(["--queries=with", "--range=60s", "--heavy-rate=1"])
            .arg("--scan-rate=2")
            .arg(format!("--dir={}", work.path().display()))
    };
    let finished = native()
        .arg(format!("--server=narthex={}", narthex.display()))
        .arg(format!("--server=prometheus={}", prometheus.display()))
        .arg(format!("--out={}", record.display()))
        .run(Duration::from_secs(200));
    let output = format!("{}{}", finished.stdout, finished.stderr);
    // A machine busy with other tests sends queries late, which refuses the run; wrong contents exit with 1.
    let code = finished.exit.code;
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {output}");
    let text = std::fs::read_to_string(&record).expect("the record is written");
    let record: serde_json::Value = serde_json::from_str(&text).expect("the record is JSON");
    let runs = record["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    for run in runs {
        let figures = run["figures"].as_array().expect("figures");
        let failed = figures
            .iter()
            .find(|figure| figure["key"] == "queries failed");
        assert_eq!(failed.expect("counted")["value"], 0.0, "{output}");
        let is_scan = |figure: &serde_json::Value| figure["key"] == "scans, p50";
        assert!(figures.iter().any(is_scan), "{output}");
    }
    let refused = native()
        .arg("--server=victoria-metrics=/bin/true")
        .run(Duration::from_secs(60));
    assert_eq!(refused.exit.code, Some(2));
    assert!(
        refused
            .stderr
            .contains("--server: victoria-metrics scrapes text only"),
        "{}",
        refused.stderr
    );
    assert!(is_empty(work.path()));
}

#[test]
fn an_interrupt_takes_everything_with_it() {
    let work = TempDir::new("bench-interrupted");
    let mut bench = small(work.path(), "60s").start();
    let end = Instant::now() + Duration::from_secs(60);
    while processes_in(work.path()).is_empty() {
        assert!(
            bench.is_running() && Instant::now() < end,
            "no server: {}",
            bench.stderr()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!is_empty(work.path()));
    bench.signal(SIGINT);
    assert_eq!(bench.wait_exit(Duration::from_secs(20)).code, Some(130));
    assert!(is_empty(work.path()), "a directory stayed");
    assert_eq!(processes_in(work.path()), Vec::<String>::new());
}
