//! The push gateway compared with the real one: the same requests to both, then the same scrape.
//!
//! The real one is Debian's, or the program in `NARTHEX_PUSHGATEWAY`.

use crate::support::{self, PATIENCE, Running, narthex};
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_model::protobuf::Message;
use narthex_model::{ColumnId, LabelSet, Schema};
use narthex_testkit::{
    TempDir, go_program, http,
    process::{SIGKILL, Spawn},
    scaled, tool, workspace_root,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
};

/// The requests of one scenario.
struct Scenario {
    name: String,
    requests: Vec<Request>,
}

#[derive(Clone, Debug, Default)]
struct Request {
    line: String,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn send(&self, base: &str) -> http::Response {
        let headers: Vec<(&str, &str)> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        http::request(
            &self.method,
            &format!("{base}{}", self.path),
            &headers,
            &self.body,
        )
        .unwrap_or_else(|error| panic!("{}: {error}", self.line))
    }
}

fn scenarios(text: &str) -> Vec<Scenario> {
    let mut all: Vec<Scenario> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            all.push(Scenario {
                name: name.to_owned(),
                requests: Vec::new(),
            });
            continue;
        }
        let Some(requests) = all.last_mut().map(|scenario| &mut scenario.requests) else {
            continue;
        };
        if let Some(text) = line.strip_prefix('|') {
            let body = &mut requests.last_mut().unwrap().body;
            let (text, end) = match text {
                "" => ("", "\n"),
                text => text
                    .strip_prefix("- ")
                    .map(|text| (text, ""))
                    .or_else(|| text.strip_prefix("cr ").map(|text| (text, "\r\n")))
                    .unwrap_or_else(|| (text.strip_prefix(' ').unwrap(), "\n")),
            };
            body.extend_from_slice(text.as_bytes());
            body.extend_from_slice(end.as_bytes());
        } else if !line.is_empty() {
            let mut words = line.splitn(3, ' ');
            let mut request = Request {
                line: line.to_owned(),
                method: words.next().unwrap().to_owned(),
                path: words.next().unwrap().to_owned(),
                ..Request::default()
            };
            if let Some((name, value)) = words.next().and_then(|header| header.split_once(": ")) {
                request.headers.push((name.to_owned(), value.to_owned()));
            }
            requests.push(request);
        }
    }
    all
}

/// Starts our gateway, with the admin API.
fn ours(flags: &[&str]) -> Running {
    let spawn = narthex()
        .arg("pushgateway")
        .args(["--web.listen-address=127.0.0.1:0", "--web.enable-admin-api"])
        .args(flags);
    Running::exporter(spawn)
}

/// Starts the real gateway, with the admin API.
fn real(flags: &[&str]) -> Running {
    let named = std::env::var_os("NARTHEX_PUSHGATEWAY");
    let program = named.unwrap_or_else(|| {
        OsString::from(tool("prometheus-pushgateway", "prometheus-pushgateway"))
    });
    let spawn = Spawn::new(program)
        .args([
            "--web.listen-address=127.0.0.1:0",
            "--web.enable-admin-api",
            "--persistence.file=",
        ])
        .args(flags);
    Running::exporter(spawn)
}

/// Returns the parts of a response that must be equal: status, and the text without details that vary between versions.
fn answer(response: &http::Response) -> String {
    let mut text = response.text();
    // Go 1.22 and later use another redirect status.
    let status = if response.status == 301 {
        307
    } else {
        response.status
    };
    if let Some(rest) = text.strip_prefix("text format parsing error in line ") {
        let line = rest.split(':').next().unwrap_or_default();
        text = format!("text format parsing error in line {line}");
    }
    // The order of a Go map decides which of two names comes later and which families are compared.
    if text.contains(" is not a ") || text.contains(" has type ") {
        let start = text.find(": ").unwrap_or_default();
        text.replace_range(start.., ": another type");
    }
    if response.status / 100 == 3 {
        text.clear();
    }
    if let Some((start, _)) = text
        .split_once(": collected ")
        .filter(|_| text.contains(" collides with "))
    {
        text = format!("{start}: collision");
    }
    // Go's library does not format metrics stably.
    if let (Some(start), Some(end)) = (text.find(" { "), text.rfind('}').max(text.rfind("> "))) {
        text = format!("{} {{…}}{}", &text[..start], &text[end + 1..]);
    }
    let headers = ["allow", "location", "access-control-allow-methods"];
    let headers = headers.map(|name| response.header(name).unwrap_or_default().to_owned());
    format!("{status} {headers:?} {}", text.trim_end())
}

/// Returns the pushed lines of a page as a set, with push times replaced by `T`.
fn pushed(base: &str) -> BTreeSet<String> {
    let page = http::get(&format!("{base}/metrics")).unwrap();
    assert_eq!(page.status, 200, "{}", page.text());
    let own = [
        "go_",
        "process_",
        "pushgateway_",
        "narthex_",
        "promhttp_",
        "net_conntrack_",
    ];
    let mut lines = BTreeSet::new();
    for line in page.text().lines() {
        let name = line
            .trim_start_matches("# HELP ")
            .trim_start_matches("# TYPE ");
        let is_of_group = line.contains("job=");
        if own.iter().any(|own| name.starts_with(own)) && !is_of_group {
            continue;
        }
        let is_time = line.starts_with("push_") && !line.ends_with(" 0");
        let line = match line.rsplit_once(' ') {
            Some((series, _)) if is_time => format!("{series} T"),
            _ => line.to_owned(),
        };
        assert!(lines.insert(line.clone()), "{line} twice at {base}");
    }
    lines
}

/// Returns the groups in `/api/v1/metrics`, sorted by labels, with times replaced by `T`.
fn listed(base: &str) -> Vec<Value> {
    let answer = http::get(&format!("{base}/api/v1/metrics")).unwrap();
    let mut value: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(value["status"], "success");
    let mut groups = match value["data"].take() {
        Value::Array(groups) => groups,
        other => panic!("{other}"),
    };
    for group in &mut groups {
        let group = group.as_object_mut().unwrap();
        for (name, family) in group
            .iter_mut()
            .filter(|(name, _)| !matches!(name.as_str(), "labels" | "last_push_successful"))
        {
            assert!(
                family["time_stamp"].as_str().unwrap().starts_with("20"),
                "{family}"
            );
            family["time_stamp"] = "T".into();
            for metric in family["metrics"].as_array_mut().unwrap() {
                if name.starts_with("push_") && metric["value"] != "0" {
                    metric["value"] = "T".into();
                }
                // Ours always has the last bucket, the real one only if it was pushed.
                if let Some(buckets) = metric["buckets"].as_object_mut() {
                    buckets.remove("+Inf");
                }
            }
            let metrics = family["metrics"].as_array_mut().unwrap();
            metrics.sort_by_key(|metric| metric["labels"].to_string());
        }
    }
    groups.sort_by_key(|group| group["labels"].to_string());
    groups
}

fn wipe(base: &str) {
    let wiped = http::request("PUT", &format!("{base}/api/v1/admin/wipe"), &[], &[]).unwrap();
    assert_eq!(wiped.status, 202);
    support::until("everything is deleted", || {
        let page = http::get(&format!("{base}/metrics")).unwrap().text();
        (!page.contains("push_time_seconds{")).then_some(())
    });
}

/// Reports intended differences by the request's line and body; docs/conformance.md lists them.
fn is_intended(request: &Request) -> bool {
    let body = String::from_utf8_lossy(&request.body);
    request.line.contains("%0AQ") || body.contains("{a=\"1\",a=\"2\"}")
}

#[test]
fn requests_are_answered_as_the_real_one_answers_them() {
    let (ours, real) = (ours(&[]), real(&[]));
    let file = workspace_root().join("testdata/push/requests.txt");
    let mut faults = Vec::new();
    let mut sent = 0;
    for Scenario { name, requests } in scenarios(&std::fs::read_to_string(file).unwrap()) {
        if name.starts_with("newest: ") && std::env::var_os("NARTHEX_PUSHGATEWAY").is_none() {
            continue;
        }
        wipe(&ours.url);
        wipe(&real.url);
        for request in &requests {
            sent += 1;
            let (got, wanted) = (
                answer(&request.send(&ours.url)),
                answer(&request.send(&real.url)),
            );
            if got != wanted && !is_intended(request) {
                let body = String::from_utf8_lossy(&request.body);
                faults.push(format!(
                    "{name}: {}\n{body}  ours: {got}\n  real: {wanted}",
                    request.line
                ));
            }
        }
        // The real one responds once a deletion is queued, ours once it is done.
        let (mine, theirs) = (pushed(&ours.url), pushed(&real.url));
        if mine != theirs {
            let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
                a.difference(b).cloned().collect::<Vec<_>>()
            };
            faults.push(format!(
                "{name}: scraped\n  only ours: {:#?}\n  only real: {:#?}",
                only(&mine, &theirs),
                only(&theirs, &mine)
            ));
        }
        let (mine, theirs) = (listed(&ours.url), listed(&real.url));
        for (mine, theirs) in mine.iter().zip(&theirs) {
            if mine != theirs {
                faults.push(format!("{name}: listed\n  ours: {mine}\n  real: {theirs}"));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} differences\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(sent > 150, "{sent} requests");
    ours.stop();
}

/// Kills the gateway during pushes; acknowledged ones are there after the next start.
#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    let dir = TempDir::new("push");
    let flag = format!("--persistence.file={}", dir.join("p").display());
    let mut rng = support::rng(0x7075_7368);
    let mut known: BTreeMap<u64, u64> = BTreeMap::new();
    let rounds = scaled(10);
    for round in 0..rounds {
        let running = ours(&[&flag]);
        for (group, value) in &known {
            let now = value_of(&running.url, *group);
            assert!(
                now >= Some(*value),
                "round {round}: group {group} has {now:?}, {value} was acknowledged"
            );
        }
        let until = 1 + rng.below(60);
        for push in 0..until {
            let (group, value) = (rng.below(5), round * 1000 + push);
            if push + 1 == until {
                running.process.signal(SIGKILL);
            }
            let body: String = (0..50)
                .map(|k| format!("m{{k=\"{k}\"}} {value}\n"))
                .collect();
            let url = format!("{}/metrics/job/j{group}", running.url);
            let answer = http::request("PUT", &url, &[], body.as_bytes());
            if answer.is_ok_and(|answer| answer.status == 200) {
                known.insert(group, value);
            }
        }
        let mut process = running.process;
        process.wait_exit(PATIENCE);
    }
    assert_eq!(known.len(), 5);
    ours(&[&flag]).stop();
}

/// Returns the common value of all series of a group.
fn value_of(base: &str, group: u64) -> Option<u64> {
    let job = format!("job=\"j{group}\"");
    let page = http::get(&format!("{base}/metrics")).unwrap().text();
    let lines = page
        .lines()
        .filter(|line| line.starts_with("m{") && line.contains(&job));
    let values: BTreeSet<&str> = lines.map(|line| line.rsplit_once(' ').unwrap().1).collect();
    assert!(values.len() <= 1, "a torn push: {values:?}");
    values.first().map(|value| value.parse().unwrap())
}

/// The Go library pushes to both; both serve the same afterwards.
#[test]
fn the_go_library_pushes() {
    let (ours, real) = (ours(&[]), real(&[]));
    let client = go_program("goclient");
    for base in [&ours.url, &real.url] {
        let finished = Spawn::new(&client).args(["push", base]).run(PATIENCE);
        let code = finished.exit.code;
        assert_eq!(code, Some(0), "{}{}", finished.stdout, finished.stderr);
    }
    let (mine, theirs) = (pushed(&ours.url), pushed(&real.url));
    let differing: Vec<&String> = mine.symmetric_difference(&theirs).collect();
    assert!(differing.is_empty(), "{differing:#?}");
    assert!(mine.len() > 100, "{mine:#?}");
}

/// Our command pushes to both; both serve the same afterwards.
#[test]
fn a_gateway_is_profiled() {
    let gateway = ours(&[]);
    let get = |path: &str| http::get(&format!("{}{path}", gateway.url)).unwrap();
    let line = get("/debug/pprof/cmdline");
    assert!(line.text().contains("pushgateway\0"), "{}", line.text());
    let profile = get("/debug/pprof/profile?seconds=1");
    assert_eq!(
        (profile.status, &profile.body[..2]),
        (200, &[0x1f, 0x8b][..])
    );
}

#[test]
fn the_command_pushes() {
    let (ours, real) = (ours(&[]), real(&[]));
    let dir = TempDir::new("push");
    let files = [
        dir.write("a", "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n"),
        dir.write("b", "# HELP c Counted\\\\ \\n.\n# TYPE c counter\nc_total{k=\"\\\"\\n\"} 1e9\n# EOF\n"),
        dir.write("c", "# TYPE s summary\ns{quantile=\"0.5\"} NaN\ns_sum 1\ns_count 2\nu{instance=\"x\"} -1\n"),
    ];
    for base in [&ours.url, &real.url] {
        for labels in [&[][..], &["--label=path=/var/tmp", "--label=empty="]] {
            let finished = narthex()
                .args(["push", "--job=a b/c"])
                .arg(format!("--gateway={base}"))
                .args(labels)
                .args(&files)
                .run(PATIENCE);
            assert_eq!(
                (finished.exit.code, finished.stderr.as_str()),
                (Some(0), ""),
                "{base}"
            );
        }
    }
    let (mine, theirs) = (pushed(&ours.url), pushed(&real.url));
    let differing: Vec<&String> = mine.symmetric_difference(&theirs).collect();
    assert!(differing.is_empty(), "{differing:#?}");
    assert!(mine.len() > 20, "{mine:#?}");
    ours.stop();
}

/// Client libraries push protobuf; the Go library does so by default, with its own process metrics.
#[test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn messages_are_taken_as_the_real_one_takes_them() {
    let (ours, real) = (ours(&[]), real(&[]));
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let mut body = Vec::new();
    for (name, metric_type, metrics) in [
        (
            "requests_total",
            0,
            vec![
                number(3, &[("code", "200")], 7.0),
                number(3, &[("code", "500")], 1.0),
            ],
        ),
        (
            "temperature",
            1,
            vec![number(2, &[("job", "body"), ("empty", "")], -3.5)],
        ),
        ("plain", 3, vec![number(5, &[], 1e9)]),
        (
            "lat",
            4,
            vec![histogram(&[("p", "/")], &[(0.5, 1), (1.0, 3)], 5, 4.5)],
        ),
        (
            "sum",
            2,
            vec![summary(&[], &[(0.5, 1.25), (0.99, f64::NAN)], 9, 10.5)],
        ),
    ] {
        family(&mut body, name, metric_type, metrics);
    }
    let request = Request {
        line: "messages".to_owned(),
        method: "PUT".to_owned(),
        path: "/metrics/job/proto/instance/i".to_owned(),
        headers: vec![("Content-Type".to_owned(), accept.to_owned())],
        body,
    };
    for _ in 0..2 {
        for base in [&ours.url, &real.url] {
            let answer = request.send(base);
            assert_eq!((answer.status, answer.text().as_str()), (200, ""), "{base}");
        }
        // Ours drops labels without a value.
        let real: BTreeSet<String> = pushed(&real.url)
            .iter()
            .map(|line| line.replace("empty=\"\",", ""))
            .collect();
        assert_eq!(pushed(&ours.url), real);
    }
    let mut cut = request.clone();
    cut.body.truncate(cut.body.len() - 3);
    let unknown = Request {
        body: b"\x05junk!".to_vec(),
        ..request
    };
    for request in [cut, unknown] {
        let statuses = [&ours.url, &real.url].map(|base| request.send(base).status);
        assert_eq!(statuses, [400, 400], "{}", request.line);
    }
    // The protobuf page must hold the same samples as the text page.
    let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
    let url = format!("{}/metrics", ours.url);
    let page = http::request("GET", &url, &[("Accept", accept)], &[]).unwrap();
    assert!(
        page.header("Content-Type")
            .unwrap()
            .starts_with("application/vnd.google.protobuf")
    );
    let round = parser
        .parse(Format::Protobuf, &page.body, 0, &mut KeepLabels)
        .unwrap();
    let shown = |id: ColumnId, schema: &Schema| schema.labels(id).to_string();
    let schema = round.frame.schema();
    let served: BTreeSet<String> = schema.columns().map(|(id, _)| shown(id, schema)).collect();
    for series in [
        "requests_total{code=\"200\", instance=\"i\", job=\"proto\"}",
        "sum{instance=\"i\", job=\"proto\", quantile=\"0.99\"}",
        "lat_bucket{instance=\"i\", job=\"proto\", le=\"+Inf\", p=\"/\"}",
    ] {
        assert!(served.contains(series), "{series} is not in {served:#?}");
    }
}

fn labelled(labels: &[(&str, &str)]) -> Message {
    let mut metric = Message::default();
    for (name, value) in labels {
        let mut pair = Message::default();
        pair.text(1, name);
        pair.text(2, value);
        metric.message(1, &pair);
    }
    metric
}

fn number(field: u64, labels: &[(&str, &str)], value: f64) -> Message {
    let (mut metric, mut inner) = (labelled(labels), Message::default());
    inner.double(1, value);
    metric.message(field, &inner);
    metric
}

fn histogram(labels: &[(&str, &str)], buckets: &[(f64, u64)], count: u64, sum: f64) -> Message {
    let (mut metric, mut inner) = (labelled(labels), Message::default());
    inner.integer(1, count);
    inner.double(2, sum);
    for (bound, count) in buckets {
        let mut bucket = Message::default();
        bucket.integer(1, *count);
        bucket.double(2, *bound);
        inner.message(3, &bucket);
    }
    metric.message(7, &inner);
    metric
}

fn summary(labels: &[(&str, &str)], quantiles: &[(f64, f64)], count: u64, sum: f64) -> Message {
    let (mut metric, mut inner) = (labelled(labels), Message::default());
    inner.integer(1, count);
    inner.double(2, sum);
    for (quantile, value) in quantiles {
        let mut point = Message::default();
        point.double(1, *quantile);
        point.double(2, *value);
        inner.message(3, &point);
    }
    metric.message(4, &inner);
    metric
}

fn family(body: &mut Vec<u8>, name: &str, metric_type: u64, metrics: Vec<Message>) {
    let mut family = Message::default();
    family.text(1, name);
    family.text(2, "Some help.");
    family.integer(3, metric_type);
    for metric in metrics {
        family.message(4, &metric);
    }
    family.delimited(body);
}
