//! Load with and without scrapes: nginx, nginx with a Lua library, a Prometheus and ours, and a URL.

use crate::support::{figure, narthex, record, refused, runs};
use narthex_testkit::{TempDir, process::Spawn, tool};
use serde_json::Value;
use std::{path::Path, time::Duration};

/// Loads for a second; the machine may be busy.
const SMALL: &[&str] = &[
    "http",
    "--rate=200",
    "--connections=2",
    "--warmup=200ms",
    "--duration=1s",
    "--scrape-interval=100ms",
    "--idle-scrapes=3",
    "--max-late=1h",
];

/// A library with only those functions of nginx-lua-prometheus that the configuration uses.
const LIBRARY: &str = r#"
local M = { lines = {}, order = {} }
local function add(name, value, labels)
  local key = name .. "{" .. 'l="' .. table.concat(labels, "_") .. '"}'
  if not M.lines[key] then M.lines[key] = 0; M.order[#M.order + 1] = key end
  M.lines[key] = M.lines[key] + value
end
function M.init() return M end
function M:counter(name) return { inc = function(_, value, labels) add(name, value, labels) end } end
function M:histogram(name) return { observe = function(_, value, labels) add(name .. "_sum", value, labels) end } end
function M:collect()
  for _, key in ipairs(M.order) do ngx.say(key .. " " .. M.lines[key]) end
end
return M
"#;

/// Fails unless a run under load was complete and its percentiles ascend.
fn check(run: &Value) {
    assert_eq!(figure(run, "requests without a good answer"), 0.0, "{run}");
    let distribution = &run["distributions"][0];
    let count = distribution["count"].as_u64().expect("a count");
    assert!((199..=201).contains(&count), "{count} requests");
    let percentiles = ["P50", "P75", "P90", "P99", "P99.9", "P99.99", "P100"];
    let values = percentiles.map(|key| figure(run, key));
    assert!(values.is_sorted() && values[0] > 0.0, "{values:?}");
    let column = |key: &str| distribution[key].as_array().expect("rows").clone();
    let (corrected, uncorrected) = (column("corrected"), column("uncorrected"));
    assert_eq!(corrected.len(), uncorrected.len());
    for (corrected, uncorrected) in corrected.iter().zip(&uncorrected) {
        let value = |row: &Value| row["value"].as_f64().expect("a number");
        assert!(
            value(corrected) >= value(uncorrected),
            "{corrected} {uncorrected}"
        );
    }
    for course in run["courses"].as_array().expect("courses") {
        assert!(
            !course["points"].as_array().expect("points").is_empty(),
            "{course}"
        );
    }
}

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

#[test]
fn nginx_is_loaded_in_alternating_pairs() {
    let nginx = format!("--server=nginx={}", tool("nginx", "nginx").display());
    let record = record(&arguments(&[&nginx, "--series=10", "--repetitions=2"]));
    let variants: Vec<&str> = runs(&record)
        .iter()
        .map(|run| run["variant"].as_str().expect("a text"))
        .collect();
    let (alone, without, with) = (
        "10 series, scrapes without load",
        "10 series, load without scrapes",
        "10 series, load with scrapes",
    );
    assert_eq!(variants, [alone, without, with, alone, with, without]);
    for run in runs(&record) {
        let variant = run["variant"].as_str().expect("a text");
        if variant == alone {
            assert!(figure(run, "samples of a scrape") > 0.0);
            continue;
        }
        check(run);
        if variant == with {
            assert!(figure(run, "scrapes") > 0.0 && figure(run, "scrape time P50") > 0.0);
        }
    }
    let table = &record["differences"][0];
    assert_eq!(table["rows"].as_array().expect("rows").len(), 7);
    assert_eq!(table["rows"][6][1], "P100");
}

#[test]
fn a_lua_library_has_its_series_and_is_asked_for_when_it_is_missing() {
    let nginx = tool("nginx", "nginx");
    let module = Path::new("/usr/lib/nginx/modules/ngx_http_lua_module.so");
    assert!(
        module.is_file(),
        "nginx' Lua module is missing. Install it with:\napt-get install -y libnginx-mod-http-lua"
    );
    let server = format!("--server=nginx-lua-prometheus={}", nginx.display());
    let reason = refused(&arguments(&[&server]));
    assert!(reason.contains("--lua-library"), "{reason}");
    let empty = TempDir::new("bench-lua");
    let library = format!("--lua-library={}", empty.path().display());
    let reason = refused(&arguments(&[&server, &library]));
    assert!(reason.contains("has no prometheus.lua"), "{reason}");
    empty.write("prometheus.lua", LIBRARY);
    let record = record(&arguments(&[&server, &library, "--series=500"]));
    let runs = runs(&record);
    assert_eq!(runs.len(), 3);
    // The series of the requests themselves are added to these.
    assert!(figure(&runs[0], "samples of a scrape") >= 500.0);
    check(&runs[1]);
    check(&runs[2]);
}

#[test]
fn our_lua_library_is_loaded_as_the_other_is() {
    let server = format!(
        "--server=nginx-lua-narthex={}",
        tool("nginx", "nginx").display()
    );
    let own = narthex_testkit::workspace_root().join("clients/lua");
    let own = format!("--own-lua-library={}", own.display());
    let record = record(&arguments(&[&server, &own, "--series=500"]));
    let runs = runs(&record);
    assert_eq!(runs.len(), 3);
    // The counter's series, and the buckets, sum and count of the requests.
    assert!(figure(&runs[0], "samples of a scrape") >= 500.0);
    assert!(figure(&runs[0], "CPU a scrape") > 0.0);
    check(&runs[1]);
    check(&runs[2]);
}

/// The server that reads the segments is scraped, so that scrapes cost nginx nothing.
#[test]
fn a_reader_is_scraped_in_place_of_nginx() {
    let nginx = tool("nginx", "nginx").display().to_string();
    let server = format!("--server=nginx-lua-narthex={nginx}");
    let own = narthex_testkit::workspace_root().join("clients/lua");
    let own = format!("--own-lua-library={}", own.display());
    let Some(program) = narthex() else {
        return;
    };
    let reader = format!("--reader={}", program.display());
    let reason = refused(&arguments(&[&server, &own, "--reader=/nothing"]));
    assert!(reason.contains("there is no /nothing"), "{reason}");
    let plain = format!("--server=nginx={nginx}");
    let reason = refused(&arguments(&[&plain, &reader]));
    assert!(reason.contains("nginx-lua-narthex"), "{reason}");
    let more = [&*server, &own, &reader, "--series=5000"];
    let record = record(&arguments(&more));
    let runs = runs(&record);
    assert_eq!(runs.len(), 3);
    assert!(figure(&runs[0], "samples of a scrape") >= 5000.0);
    let [nginx, reader] =
        ["CPU a scrape", "CPU a scrape of the reader"].map(|name| figure(&runs[0], name));
    assert!(
        nginx < reader / 10.0,
        "{nginx} of nginx, {reader} of the reader"
    );
    check(&runs[1]);
    check(&runs[2]);
}

/// A tmpfs, unmounted on drop.
struct Tmpfs(std::path::PathBuf);

impl Tmpfs {
    fn mount(at: std::path::PathBuf, size: &str) -> Self {
        std::fs::create_dir(&at).expect("a directory");
        let mut command = std::process::Command::new("mount");
        let command = command.args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(&at);
        let mounted = command.status().expect("mount is installed");
        assert!(
            mounted.success(),
            "this test needs the right to mount a tmpfs"
        );
        Self(at)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let mut command = std::process::Command::new("umount");
        let _ = command.arg("-l").arg(&self.0).status();
    }
}

#[test]
fn nginx_is_reloaded_under_load_and_its_segments_fill_a_small_file_system() {
    let server = format!(
        "--server=nginx-lua-narthex={}",
        tool("nginx", "nginx").display()
    );
    let own = narthex_testkit::workspace_root().join("clients/lua");
    let own = format!("--own-lua-library={}", own.display());
    let dir = TempDir::new("bench-segments");
    // Room for the header, a step of cells and one of labels: a part of the series.
    let small = Tmpfs::mount(dir.join("small"), "size=200k");
    let segments = format!("--segments-dir={}", small.0.display());
    let more = [
        &*server,
        &*own,
        &*segments,
        "--reload-every=300ms",
        "--series=5000",
    ];
    let record = record(&arguments(&more));
    let runs = runs(&record);
    let samples = figure(&runs[0], "samples of a scrape");
    assert!((1.0..5000.0).contains(&samples), "{samples} samples");
    for run in &runs[1..] {
        assert!(figure(run, "reloads") >= 2.0, "{run}");
        assert!(figure(run, "requests answered") > 100.0, "{run}");
    }
    for (more, reason) in [
        (
            &["--reload-every=1s", "--url=http://127.0.0.1/"][..],
            "goes with",
        ),
        (&["--reload-every=1ms", &*server, &*own], "at least 100ms"),
    ] {
        let said = refused(&arguments(more));
        assert!(said.contains(reason), "{more:?}: {said}");
    }
}

#[test]
fn a_prometheus_is_asked_small_queries_and_federates() {
    let prometheus = tool("prometheus", "prometheus");
    let prometheus = format!("--server=prometheus={}", prometheus.display());
    let ours = narthex().map(|path| format!("--server=narthex={}", path.display()));
    let mut servers: Vec<&str> = ours.iter().map(String::as_str).collect();
    servers.extend([prometheus.as_str(), "--series=120"]);
    let record = record(&arguments(&servers));
    for run in runs(&record) {
        if run["variant"] == "120 series, scrapes without load" {
            assert_eq!(figure(run, "samples of a scrape"), 150.0);
        } else {
            check(run);
        }
    }
}

#[test]
fn a_url_is_loaded_without_starting_anything_if_it_is_this_machines() {
    let exporter = tool("prometheus-node-exporter", "prometheus-node-exporter");
    let mut exporter = Spawn::new(exporter)
        .arg("--web.listen-address=127.0.0.1:0")
        .arg("--collector.disable-defaults")
        .start();
    let port = exporter.wait_port("address=", Duration::from_secs(60));
    let url = format!("--url=http://127.0.0.1:{port}/");
    let scrape = format!("--scrape-url=http://127.0.0.1:{port}/metrics");
    let record = record(&arguments(&[&url, &scrape]));
    let runs = runs(&record);
    assert_eq!(runs.len(), 3);
    check(&runs[1]);
    check(&runs[2]);
    assert!(
        runs[1]["figures"]
            .as_array()
            .expect("figures")
            .iter()
            .all(|f| f["key"] != "CPU")
    );
    for (more, reason) in [
        (&["--url=http://192.0.2.1/"][..], "--allow-remote"),
        (&["--url=https://127.0.0.1/"], "is not an http:// URL"),
        (&["--scrape-url=http://127.0.0.1/"], "goes with --url"),
        (
            &["--url=http://127.0.0.1/", "--server=nginx"],
            "goes without --server",
        ),
        (&["--series=0"], "\"0\" is not a number"),
        (&["--duration=10ms"], "--duration is at least 1s"),
    ] {
        let mut line = arguments(more);
        line.retain(|flag| !flag.starts_with("--duration=1s") || more[0] != "--duration=10ms");
        let said = refused(&line);
        assert!(said.contains(reason), "{more:?}: {said}");
    }
}
