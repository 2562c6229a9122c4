//! An agent sends messages of version 2.0 to the newest Prometheus' own receiver; what that has is what was served: samples,
//! staleness markers, metadata, exemplars, native histograms.

use crate::{
    client::{self, Matrix},
    known,
    remote_ends::{self, Rig, V2},
    support::{self, Running},
    target::{Reply, Target, now_ms},
};
use narthex_testkit::{LineServer, go_program};
use serde_json::Value;
use std::{collections::BTreeMap, fs};

/// Bits of a staleness marker.
const STALE: u64 = 0x7ff0_0000_0000_0002;

/// A page with an exemplar, a unit and a help text.
fn page(n: u64) -> Reply {
    let body = format!(
        "# HELP asked_seconds Time \\\"asked\\\".\n# TYPE asked_seconds histogram\n# UNIT asked_seconds seconds\n\
asked_seconds_bucket{{le=\"1.0\"}} {n} # {{trace_id=\"t{n}\"}} 0.5\nasked_seconds_bucket{{le=\"+Inf\"}} {n}\n\
asked_seconds_count {n}\nasked_seconds_sum {n}\n# EOF\n"
    );
    Reply {
        status: 200,
        content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
        body: body.into_bytes(),
    }
}

/// What a receiver has of one series.
struct Series {
    metadata: String,
    samples: BTreeMap<i64, String>,
}

fn received(answer: &Value) -> BTreeMap<String, Series> {
    let all = answer["result"]["series"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |one: &Value| {
        let samples = one["samples"].as_array().unwrap().iter();
        let sample = |pair: &Value| (text(&pair[0]).parse().unwrap(), text(&pair[1]));
        let series = Series {
            metadata: text(&one["metadata"]),
            samples: samples.map(sample).collect(),
        };
        let labels = client::labels(&one["labels"]);
        (labels.replace(",replica=\"r1\"", ""), series)
    };
    all.map(of).collect()
}

fn bits(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Returns the samples of the known pages, without markers.
fn floats(all: &BTreeMap<String, Series>) -> Matrix {
    let known = all
        .iter()
        .filter(|(series, _)| series.contains("job=\"known\""));
    let of = |series: &Series| -> BTreeMap<i64, u64> {
        let samples = series.samples.iter();
        let float = |(time_ms, text): (&i64, &String)| Some((*time_ms, bits(text)?));
        let floats = samples.filter_map(float).filter(|(_, bits)| *bits != STALE);
        floats
            .map(|(time_ms, bits)| (time_ms, client::bits(f64::from_bits(bits))))
            .collect()
    };
    known
        .map(|(labels, series)| (labels.clone(), of(series)))
        .collect()
}

#[test]
fn prometheus_receives_in_version_2_all_that_was_served() {
    let mut oracle = LineServer::start(&go_program("oracle"));
    let mut ask = || -> Value { serde_json::from_str(&oracle.ask("{\"receive\": true}")).unwrap() };
    let url = ask()["result"]["url"].as_str().unwrap().to_owned();
    let rig = Rig::new("remote-oracle");
    let entry = remote_ends::entry("oracle", url.trim_end_matches("/api/v1/write"), V2, "");
    remote_ends::configure(&rig.config, &[entry], &rig.targets);
    let asked = Target::answering(page);
    let job = format!(
        "- job_name: asked\n  static_configs: [{{targets: ['{}']}}]\n",
        asked.address
    );
    let text = fs::read_to_string(&rig.config).unwrap() + &job;
    fs::write(&rig.config, text).unwrap();
    let spawn = remote_ends::agent(&rig, support::narthex().arg("agent"));
    let agent = Running::of(spawn.arg("--web.enable-remote-write-receiver"));
    let written_ms = now_ms();
    let answer = remote_ends::request(written_ms).send(&agent.url).unwrap();
    assert_eq!(answer.status, 204, "{}", answer.text());
    rig.wait_pages(30);
    agent.stop();

    let answer = ask();
    let result = &answer["result"];
    assert_eq!(
        result["refused"],
        serde_json::json!({}),
        "{}",
        result["refused"]
    );
    let requests = result["requests"].as_object().unwrap();
    let types: Vec<&String> = requests.keys().collect();
    assert_eq!(types, [&format!("application/x-protobuf;proto={V2}")]);
    let all = received(&answer);

    let floats = floats(&all);
    let pages = known::assert_true(&floats, &rig.targets);
    let served: u64 = rig.targets.iter().map(Target::count).sum();
    // A scrape of each target may have been cut off by the end, others may have taken too long.
    let failed = |job: &str| -> u64 {
        let ups = all.iter().filter(|(labels, _)| labels.starts_with("up{"));
        let ups = ups.filter(|(labels, _)| labels.contains(job));
        let zeros = ups.map(|(_, up)| up.samples.values().filter(|text| bits(text) == Some(0)));
        zeros.map(|zeros| zeros.count() as u64).sum()
    };
    let cut_off = 2 + failed("job=\"known\"");
    assert!(
        pages as u64 + cut_off >= served,
        "{pages} of {served} pages"
    );
    assert_markers(&all);

    let named = |name: &str| {
        let mut found = all.iter().filter(|(labels, _)| labels.starts_with(name));
        found.next().unwrap_or_else(|| panic!("no {name}")).1
    };
    assert_eq!(named("latency_seconds_sum{").metadata, "histogram||");
    assert_eq!(
        named("asked_seconds_count{").metadata,
        "histogram|seconds|Time \"asked\"."
    );
    let native = &named("n_seconds{").samples;
    assert_eq!(
        native[&written_ms],
        "{count:3, sum:1.5, (0.5,1]:1, (1,2]:2}"
    );
    let cut_off = 1 + failed("job=\"asked\"");
    assert_exemplars(&result["exemplars"], asked.count(), cut_off);
}

/// Fails unless the series that comes and goes has a marker at every page without it, unless it had ended before.
fn assert_markers(all: &BTreeMap<String, Series>) {
    let mut markers = 0;
    for (labels, served) in all {
        let Some(rest) = labels.strip_prefix("served_total{") else {
            continue;
        };
        let instance = rest.split(',').next().unwrap();
        let flaps = |series: &&String| series.starts_with("flapping{") && series.contains(instance);
        let flapping = &all[all.keys().find(flaps).unwrap()].samples;
        for (time_ms, text) in &served.samples {
            let bits_here = flapping.get(time_ms).and_then(|text| bits(text));
            match f64::from_bits(bits(text).unwrap()) {
                n if bits(text) == Some(STALE) || n < 1.0 => {}
                n if n % 3.0 == 0.0 => {
                    let before = flapping.range(..time_ms).next_back();
                    let lived = before.is_some_and(|(_, text)| bits(text) != Some(STALE));
                    markers += usize::from(lived);
                    let marker = lived.then_some(STALE);
                    assert_eq!(bits_here, marker, "{labels} at page {n}");
                }
                n => assert_eq!(bits_here.map(f64::from_bits), Some(n), "{labels}"),
            }
        }
    }
    assert!(markers >= 8, "{markers} markers");
}

/// Fails unless the exemplars are those of the pages and of the request; that of so many pages may be missing.
fn assert_exemplars(all: &Value, pages: u64, cut_off: u64) {
    let of = |name: &str| -> Vec<String> {
        let all = all.as_array().unwrap().iter();
        let ours = all.filter(|one| one["seriesLabels"]["__name__"] == name);
        let exemplars = ours.flat_map(|one| one["exemplars"].as_array().unwrap());
        let shown = |one: &Value| {
            let id = one["labels"]["trace_id"].as_str().unwrap();
            format!("{id} {}", one["value"].as_str().unwrap())
        };
        exemplars.map(shown).collect()
    };
    assert_eq!(of("b_total"), ["abc 0.25"]);
    let asked = of("asked_seconds_bucket");
    let expected: Vec<String> = (1..=pages).map(|n| format!("t{n} 0.5")).collect();
    let mut left = expected.iter();
    let in_order = asked.iter().all(|one| left.any(|other| other == one));
    assert!(in_order, "{asked:?}");
    assert!(
        asked.len() as u64 + cut_off >= pages,
        "{asked:?} of {pages}"
    );
}
