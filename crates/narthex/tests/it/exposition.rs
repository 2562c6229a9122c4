//! An agent's `/metrics`: the newest samples of all its sources, as parsers and a scraping Prometheus see them.

use crate::{
    support::{self, PATIENCE, Running, until},
    target::Target,
};
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_model::{ColumnId, LabelSet};
use narthex_testkit::{TempDir, http, process::Spawn, tool};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
};

const OPENMETRICS: &str = "application/openmetrics-text;version=1.0.0";
const PROTOBUF: &str =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

/// Writes a configuration with a source of each kind; the agent also scrapes itself.
fn configure(dir: &TempDir, target: &Target) -> std::path::PathBuf {
    std::fs::create_dir(dir.join("text")).unwrap();
    dir.write(
        "text/a.prom",
        "# HELP shared From a file.\n# TYPE shared gauge\nshared 3\n",
    );
    let job = |name: &str, address: &str| {
        format!("- job_name: {name}\n  static_configs: [{{targets: ['{address}']}}]\n")
    };
    let text = format!(
        "global: {{scrape_interval: 100ms, scrape_timeout: 100ms}}\n\
host: {{interval: 100ms, flags: [--collector.disable-defaults, --collector.loadavg]}}\n\
files: [{{job_name: text, kind: textfile, paths: [text], interval: 100ms}}]\n\
scrape_configs:\n{}",
        job("shop", &target.address)
    );
    dir.write("agent.yml", text)
}

fn start(dir: &TempDir, program: Spawn, config: &std::path::Path) -> Running {
    let data = format!("--storage.agent.path={}", dir.join("agent").display());
    Running::of(program.args([
        "--web.listen-address=127.0.0.1:0",
        "--web.enable-push-receiver",
        &data,
        &support::config_flag(config),
    ]))
}

fn get(agent: &Running, path: &str, accept: &str) -> http::Response {
    let url = format!("{}{path}", agent.url);
    http::request("GET", &url, &[("accept", accept)], b"").unwrap()
}

/// Parses a page strictly; returns its samples by series.
fn parse(page: &http::Response) -> BTreeMap<String, f64> {
    let content_type = page.header("content-type").unwrap();
    let format = Format::of_content_type(content_type).unwrap();
    let problems = narthex_expfmt::check(format, &page.body);
    assert!(problems.is_empty(), "{content_type}: {problems:?}");
    let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
    let parsed = parser.parse(format, &page.body, 0, &mut KeepLabels);
    let round = parsed.unwrap_or_else(|error| panic!("{error}\n{}", page.text()));
    assert_eq!(round.stats.repeated, 0, "a series is there twice");
    let frame = round.frame;
    let of = |at: usize| {
        let labels = frame.schema().labels(ColumnId(u32::try_from(at).unwrap()));
        (labels.to_string(), frame.values()[at])
    };
    frame.present().iter().map(of).collect()
}

/// Returns the names in the heads of a page of text.
fn heads(page: &str) -> impl Iterator<Item = &str> {
    let typed = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    typed.filter_map(|rest| rest.split(' ').next())
}

#[test]
fn all_sources_are_on_an_agents_page() {
    let dir = TempDir::new("exposition");
    let target = Target::start(|n| {
        format!("# TYPE served_total counter\nserved_total {n}\n# TYPE shared gauge\nshared 1\n")
    });
    let config = configure(&dir, &target);
    let agent = start(&dir, support::narthex().arg("agent"), &config);
    let group = format!("{}/metrics/job/batch", agent.url);
    let pushed = http::post(&group, "text/plain", b"# TYPE shared gauge\nshared 2\n").unwrap();
    assert_eq!(pushed.status, 200, "{}", pushed.text());
    let address = target.address.clone();
    let shared = [
        ("shared{job=\"batch\"}".to_owned(), 2.0),
        (
            format!("shared{{instance=\"{address}\", job=\"shop\"}}"),
            1.0,
        ),
        ("shared{job=\"text\"}".to_owned(), 3.0),
    ];
    let has_all = |samples: &BTreeMap<String, f64>| {
        let shared = shared
            .iter()
            .all(|(series, value)| samples.get(series) == Some(value));
        shared
            && samples
                .keys()
                .any(|series| series.starts_with("node_load1{"))
    };
    until("all sources", || {
        has_all(&parse(&get(&agent, "/metrics", ""))).then_some(())
    });
    for accept in ["text/plain", OPENMETRICS, PROTOBUF] {
        // On a busy machine a scrape may take too long, and its target's series are missing until the next one.
        let page = until(accept, || {
            let page = get(&agent, "/metrics", accept);
            has_all(&parse(&page)).then_some(page)
        });
        let samples = parse(&page);
        let own = samples
            .keys()
            .any(|series| series.starts_with("process_cpu_seconds_total"));
        assert!(own, "{accept}: {samples:?}");
        let text = page.text();
        let names: Vec<&str> = heads(&text).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(
            names.len(),
            distinct.len(),
            "{accept}: a family is there twice"
        );
        if accept == "text/plain" {
            assert!(names.is_sorted(), "{names:?}");
        }
    }
    promtool_agrees(&dir, &get(&agent, "/metrics", ""));
    prometheus_scrapes(&dir, &agent, &shared);

    // A target that is gone leaves the page, except for what says so; so does a group that is deleted.
    drop(target);
    let deleted = http::request("DELETE", &group, &[], b"").unwrap();
    assert_eq!(deleted.status, 202);
    until("what is gone to leave", || {
        let samples = parse(&get(&agent, "/metrics", ""));
        let has = |(series, _): &&(String, f64)| samples.contains_key(series);
        let left: Vec<&(String, f64)> = shared.iter().filter(has).collect();
        (left == [&shared[2]]).then_some(())
    });
    let samples = parse(&get(&agent, "/metrics", ""));
    let up = format!("up{{instance=\"{address}\", job=\"shop\"}}");
    assert_eq!(samples.get(&up), Some(&0.0), "{samples:?}");
    agent.stop();
}

/// Has promtool check a page.
fn promtool_agrees(dir: &TempDir, page: &http::Response) {
    let path = dir.write("page.txt", page.text());
    let checked = Spawn::new(tool("promtool", "prometheus"))
        .args(["check", "metrics"])
        .stdin(File::open(path).unwrap())
        .run(PATIENCE);
    // Code 3 stands for remarks on names, which are not ours.
    let code = checked.exit.code;
    assert!(matches!(code, Some(0 | 3)), "{code:?} {}", checked.stderr);
}

/// Has Debian's Prometheus scrape the page.
fn prometheus_scrapes(dir: &TempDir, agent: &Running, shared: &[(String, f64)]) {
    let text = format!(
        "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\n\
scrape_configs:\n- job_name: agent\n  honor_labels: true\n  static_configs: [{{targets: ['{}']}}]\n",
        agent.address()
    );
    let config = dir.write("debian.yml", text);
    let prometheus = Running::prometheus(&dir.join("debian"), &config, &[]);
    let found = prometheus.wait_vector("shared", |found| found.len() == shared.len());
    let values: Vec<f64> = found.values().map(|(_, value)| *value).collect();
    assert_eq!(values.iter().sum::<f64>(), 6.0, "{found:?}");
    prometheus.wait_vector("up{job='agent'} == 1", |found| found.len() == 1);
    prometheus.stop();
}

/// An agent that scrapes itself gets its own metrics alone: otherwise each round would have all of the round before, under
/// more labels.
#[test]
fn an_agent_that_scrapes_itself_does_not_swallow_its_page() {
    let dir = TempDir::new("exposition-self");
    let target = Target::start(|n| format!("served_total {n}\n"));
    let config = configure(&dir, &target);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let own = format!("- job_name: self\n  static_configs: [{{targets: ['{address}']}}]\n");
    let text = std::fs::read_to_string(&config).unwrap() + &own;
    std::fs::write(&config, text).unwrap();
    let data = format!("--storage.agent.path={}", dir.join("agent").display());
    let agent = Running::of(support::narthex().arg("agent").args([
        format!("--web.listen-address={address}"),
        data,
        support::config_flag(&config),
    ]));
    until("rounds of its own", || {
        let samples = parse(&get(&agent, "/metrics", ""));
        let of_itself = |series: &&String| series.contains("job=\"self\"");
        let own = samples.keys().filter(of_itself).count();
        (own > 50 && target.count() > 10).then_some(())
    });
    let samples = parse(&get(&agent, "/metrics", ""));
    let swallowed: Vec<&String> = samples
        .keys()
        .filter(|series| series.contains("exported_"))
        .collect();
    assert!(swallowed.is_empty(), "{swallowed:?}");
    agent.stop();
}

/// The agent's own metrics can be left out, and are alone where Prometheus' agent has them.
#[test]
fn own_metrics_are_beside_alone_or_absent() {
    let dir = TempDir::new("exposition-own");
    let target = Target::start(|n| format!("served_total {n}\n"));
    let config = configure(&dir, &target);
    let served = |agent: &Running, path: &str| {
        let samples = parse(&get(agent, path, ""));
        let has = |name: &str| samples.keys().any(|series| series.starts_with(name));
        [has("served_total"), has("process_cpu_seconds_total")]
    };
    let only = ["--web.disable-exporter-metrics"];
    let agent = start(&dir, support::narthex().arg("agent").args(only), &config);
    until("the target", || served(&agent, "/metrics")[0].then_some(()));
    assert_eq!(served(&agent, "/metrics"), [true, false]);
    assert_eq!(served(&agent, "/metrics/self"), [false, true]);
    agent.stop();

    let agent = start(
        &dir,
        support::narthex().arg0("prometheus").arg("--agent"),
        &config,
    );
    let enough = target.count() + 3;
    until("more scrapes", || (target.count() >= enough).then_some(()));
    assert_eq!(served(&agent, "/metrics"), [false, true]);
    agent.stop();

    let server = support::server_in(&dir.join("data"))
        .args(only)
        .run(PATIENCE);
    assert_eq!(server.exit.code, Some(2), "{}", server.stderr);
    assert!(server.stderr.contains("agent mode"), "{}", server.stderr);
}
