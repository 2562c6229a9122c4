//! The exporter of host metrics compared with the real one: pages, refusals, and the page of its own fixtures.
//!
//! The real one is Debian's, which is 1.5, or the program in `NARTHEX_NODE_EXPORTER`.

mod burst;
mod container;
mod differential;
mod fixtures;
mod namespaces;
mod one_day;
mod unprivileged;

use crate::support::{PATIENCE, Running, narthex, until};
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_model::LabelSet;
use narthex_testkit::{
    TempDir,
    exposition::parse_text,
    http,
    process::{SIGCONT, SIGHUP, SIGSTOP, Spawn},
    tool,
};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{Read as _, Write as _},
    net::TcpStream,
};

/// Starts our exporter.
fn ours(flags: &[&str]) -> Running {
    started(narthex().arg("node-exporter"), flags)
}

/// Starts an exporter on a free port.
fn started(spawn: Spawn, flags: &[&str]) -> Running {
    Running::exporter(spawn.arg("--web.listen-address=127.0.0.1:0").args(flags))
}

/// Returns the real exporter's path.
fn program() -> OsString {
    let named = std::env::var_os("NARTHEX_NODE_EXPORTER");
    named.unwrap_or_else(|| tool("prometheus-node-exporter", "prometheus-node-exporter").into())
}

/// Reports whether the real exporter is Debian's.
fn is_1_5() -> bool {
    let version = Spawn::new(program()).arg("--version").run(PATIENCE);
    (version.stdout + &version.stderr).contains("version 1.5.")
}

/// Starts the real exporter.
fn real(flags: &[&str]) -> Running {
    started(Spawn::new(program()), flags)
}

#[test]
fn scrapes_are_selected_and_refused_as_the_real_one_does() {
    let flags = [
        "--collector.disable-defaults",
        "--collector.uname",
        "--collector.time",
    ];
    let (ours, real) = (ours(&flags), real(&flags));
    let collectors = |page: &str| {
        let lines = page
            .lines()
            .filter_map(|line| line.strip_prefix("node_scrape_collector_success"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let is_1_5 = is_1_5();
    for path in [
        "/metrics",
        "/metrics?collect[]=uname",
        "/metrics?collect%5B%5D=uname&collect[]=time",
        "/metrics?collect[]=uname&collect[]=uname",
        "/metrics?exclude[]=uname",
        "/metrics?exclude[]=nothing",
        "/metrics?collect=uname",
        "/metrics?collect[]=%",
        "/metrics?collect[]=uname&exclude[]=time",
        "/metrics?collect[]=nothing",
        "/metrics?collect[]=",
        "/metrics?collect[]=arp",
        "/metrics/",
        "/nothing",
    ] {
        // 1.5 has no filter `exclude[]`, and its landing page is everywhere.
        if is_1_5 && (path.contains("exclude") || !path.starts_with("/metrics?")) {
            continue;
        }
        let [ours, real] = [&ours, &real].map(|one| {
            let answer = http::get(&format!("{}{path}", one.url)).unwrap();
            let content_type = answer.header("content-type").unwrap_or_default();
            let content_type = content_type.split("; escaping").next().unwrap().to_owned();
            let text = match answer.status {
                200 => collectors(&answer.text()).join("\n"),
                _ => answer.text(),
            };
            (answer.status, content_type, text)
        });
        assert_eq!(ours, real, "{path}");
    }
}

#[test]
fn all_formats_have_the_same_series() {
    let ours = ours(&[
        "--collector.disable-defaults",
        "--collector.uname",
        "--collector.cpu",
        "--collector.vmstat",
    ]);
    let formats = [
        (Format::Text, "text/plain;version=0.0.4"),
        (
            Format::OpenMetrics,
            "application/openmetrics-text;version=1.0.0",
        ),
        (
            Format::Protobuf,
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
        ),
    ];
    let pages = formats.map(|(format, accept)| {
        let answer = http::request(
            "GET",
            &format!("{}/metrics", ours.url),
            &[("accept", accept)],
            &[],
        );
        let answer = answer.unwrap();
        let content_type = answer.header("content-type").unwrap();
        assert_eq!(Format::of_content_type(content_type), Ok(format));
        let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
        let round = parser
            .parse(format, &answer.body, 0, &mut KeepLabels)
            .unwrap();
        let columns = round.frame.schema().columns().map(|(id, _)| id);
        let families = columns.map(|id| {
            let schema = round.frame.schema();
            (
                schema.labels(id).to_string(),
                schema.family(id).metric_type.as_str(),
            )
        });
        families.collect::<BTreeMap<_, _>>()
    });
    assert!(pages[0].len() > 30, "{:?}", pages[0]);
    assert_eq!(pages[0], pages[1]);
    assert_eq!(pages[0], pages[2]);
}

#[test]
fn metrics_of_the_exporter_itself_can_be_left_out() {
    let names = |flags: &[&str]| {
        let ours = ours(flags);
        let page = http::get(&format!("{}/metrics", ours.url)).unwrap().text();
        ours.stop();
        parse_text(&page).1.into_keys().collect::<Vec<_>>()
    };
    let few = ["--collector.disable-defaults", "--collector.uname"];
    let all = names(&few);
    for own in [
        "process_open_fds",
        "promhttp_metric_handler_requests_total",
        "node_uname_info",
    ] {
        assert!(all.iter().any(|name| name == own), "{own} in {all:?}");
    }
    let host = names(&[&few[..], &["--web.disable-exporter-metrics"]].concat());
    assert_eq!(
        host,
        [
            "node_exporter_build_info",
            "node_scrape_collector_duration_seconds",
            "node_scrape_collector_success",
            "node_uname_info",
        ]
    );
}

/// Debian's unit sends SIGHUP to reload.
#[test]
fn it_answers_under_its_peers_name_with_its_web_configuration_after_a_hang_up() {
    let dir = TempDir::new("node-exporter");
    let config = dir.write(
        "web.yml",
        "http_server_config:\n  headers:\n    X-Frame-Options: deny\n",
    );
    let spawn = narthex()
        .arg0("prometheus-node-exporter")
        .arg("--web.listen-address=127.0.0.1:0")
        .arg(format!("--web.config.file={}", config.display()));
    let ours = Running::exporter(spawn);
    ours.process.signal(SIGHUP);
    let landing = http::get(&ours.url).unwrap();
    assert_eq!(landing.header("x-frame-options"), Some("deny"));
    let link = "<a href=\"/metrics\">";
    assert!(landing.text().contains(link), "{}", landing.text());
    ours.stop();
}

/// Returns the answers to scrapes that all arrive before the exporter can answer one.
fn at_once(one: &Running, count: usize) -> Vec<String> {
    one.process.signal(SIGSTOP);
    let asked: Vec<TcpStream> = (0..count)
        .map(|_| {
            let mut stream = TcpStream::connect(one.address()).unwrap();
            let head = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    one.process.signal(SIGCONT);
    let answers = asked.into_iter().map(|mut stream| {
        let mut answer = String::new();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    answers.collect()
}

#[test]
fn scrapes_beyond_the_limit_are_refused() {
    let few = ["--collector.disable-defaults", "--collector.uname"];
    for (limit, count, served) in [("1", 3, 1), ("2", 3, 2), ("40", 41, 40), ("0", 41, 41)] {
        let limit_flag = format!("--web.max-requests={limit}");
        let ours = ours(&[&few[..], &[&limit_flag]].concat());
        let answers = at_once(&ours, count);
        let of = |begin: &str| {
            let found = answers.iter().filter(|answer| answer.starts_with(begin));
            found.count()
        };
        let (good, refused) = (of("HTTP/1.1 200 "), of("HTTP/1.1 503 "));
        assert_eq!(
            (good, refused),
            (served, count - served),
            "{limit}: {answers:?}"
        );
        let text =
            format!("\r\n\r\nLimit of concurrent requests reached ({limit}), try again later.\n");
        let texts = answers.iter().filter(|answer| answer.ends_with(&text));
        assert_eq!(texts.count(), refused, "{answers:?}");
        // Turns are given back.
        let counted = ours.metric("promhttp_metric_handler_requests_total{code=\"503\"}");
        assert_eq!(counted, Some(refused as f64));
        assert_eq!(
            ours.metric("promhttp_metric_handler_requests_in_flight"),
            Some(1.0)
        );
    }
}

/// A client that does not read its answer has a turn until it goes.
#[test]
fn an_answer_that_nobody_takes_counts() {
    let dir = TempDir::new("slow-scrape");
    let line = format!("jobs{{a=\"{}\"}} 1\n", "x".repeat(1 << 10));
    let lines = (0..4 << 10).map(|at| line.replacen('x', &format!("{at:x}"), 1));
    dir.write("a.prom", lines.collect::<String>());
    let directory = format!("--collector.textfile.directory={}", dir.path().display());
    let ours = ours(&[
        "--collector.disable-defaults",
        "--collector.textfile",
        "--web.max-requests=1",
        &directory,
    ]);
    let page = format!("{}/metrics", ours.url);
    until("the file on the page", || {
        let text = http::get(&page).unwrap().text();
        (text.len() > 4 << 20).then_some(())
    });
    let status = || http::get(&page).unwrap().status;
    let mut slow = TcpStream::connect(ours.address()).unwrap();
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut first = [0; 12];
    slow.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    assert_eq!(status(), 503);
    drop(slow);
    until("the turn back", || (status() == 200).then_some(()));
}
