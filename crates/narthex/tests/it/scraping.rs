//! The same pages, scraped by our server and by Prometheus' own scrape manager: the same samples, exemplars, metadata
//! and errors.
//!
//! Every target is served twice, once for each side, and the request count selects the page. The two sides scrape at
//! different times, so times are compared symbolically: as a page's own timestamp, or as the number of the scrape,
//! taken from the samples of `up`.
//!
//! **Invariant:** everything a scrape writes is compared, except its duration. Staleness is compared by instant queries
//! at the time of each scrape.

use crate::{
    client, messages,
    support::{self, Running, until},
    target::{Reply, Target, now_ms},
};
use narthex_testkit::{LineServer, TempDir, corpora, go_program};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    sync::Arc,
};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Most pages of a target.
const PAGES: usize = 12;
/// Interval and timeout of scrapes, in milliseconds.
const INTERVAL_MS: u32 = 500;
const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// One job: its settings and its targets' pages, of which the last one repeats.
struct Case {
    name: String,
    /// Lines of the job, in flow style or indented by two.
    settings: String,
    pages: Vec<Reply>,
    /// Number of targets that serve these pages.
    targets: usize,
    /// Whether the pages are from the reference data: their errors differ in wording, and metadata without samples
    /// exists.
    reference: bool,
}

impl Case {
    fn new(name: &str, settings: &str, pages: Vec<Reply>) -> Self {
        Self {
            name: name.to_owned(),
            settings: settings.to_owned(),
            pages,
            targets: 1,
            reference: false,
        }
    }
}

fn reply(content_type: &'static str, body: impl Into<Vec<u8>>) -> Reply {
    Reply {
        status: 200,
        content_type,
        body: body.into(),
    }
}

fn text(body: &str) -> Reply {
    reply(TEXT, body)
}

fn openmetrics(body: &str) -> Reply {
    reply(OPENMETRICS, format!("{body}# EOF\n"))
}

/// Series that appear, change, disappear and return; a failing scrape in between.
fn plain() -> Vec<Reply> {
    let base = "# HELP a_total Help\\nwith lines.\n# TYPE a_total counter\na_total{x=\"1\"} 1\na_total{x=\"2\"} 2.5e3\n";
    let odd = "nan NaN\npositive +Inf\nnegative -Inf\nzero -0\nsmall 5e-324\nhex 0x1p-3\nquoted{a=\"\\\"\\\\\\n\u{fc}\"} 1\n";
    vec![
        text(&format!("{base}{odd}")),
        text(base),
        text(&format!("{odd}{base}b 1\n")),
        Reply {
            status: 503,
            ..text("")
        },
        text(&format!("b 2\n{base}")),
        text("{ no metrics\n"),
        text(""),
        text(&format!("{base}c 1\n")),
        text("# only a comment\n"),
        text(base),
    ]
}

/// Samples with their own timestamps, around the current time, and series that end.
fn timed(base_ms: i64) -> Vec<Reply> {
    let page = |at: i64, more: &str| {
        let time_ms = base_ms + at * 10;
        text(&format!(
            "timed{{x=\"1\"}} {at} {time_ms}\nplain {at}\n{more}"
        ))
    };
    let more = format!("leaving 1 {}\n", base_ms + 5);
    vec![
        page(1, &more),
        page(2, ""),
        page(2, ""),
        page(3, &format!("twice 1 {base_ms}\ntwice 2 {}\n", base_ms + 1)),
        text("plain 7\n"),
        page(5, ""),
    ]
}

fn conflicting() -> Vec<Reply> {
    let page = |value: u32| {
        text(&format!(
            "a{{instance=\"page\",job=\"other\",zone=\"here\"}} {value}\na{{exported_instance=\"e\",instance=\"i\"}} {value}\na{{zone=\"\"}} {value}\n"
        ))
    };
    vec![page(1), page(2), text("a{job=\"other\"} 5\n")]
}

/// All features of `OpenMetrics`; a page without its end.
fn every_type() -> Vec<Reply> {
    let page = |n: u64| {
        format!(
            "# TYPE a_seconds counter\n# UNIT a_seconds seconds\n# HELP a_seconds Help with \\\"quotes\\\".\n\
a_seconds_total{{x=\"1\"}} {n} # {{trace_id=\"t{n}\"}} 0.{n} 1700000{n}.5\na_seconds_created{{x=\"1\"}} 1.7e9\n\
# TYPE h histogram\nh_bucket{{le=\"1.0\"}} {n} # {{trace_id=\"h{n}\"}} 0.5\nh_bucket{{le=\"+Inf\"}} {}\nh_sum {n}.5\nh_count {}\nh_created 1.6e9\n\
# TYPE g gaugehistogram\ng_bucket{{le=\"1\"}} 1\ng_bucket{{le=\"+Inf\"}} 3\ng_gsum -4\ng_gcount 3\n\
# TYPE s summary\ns{{quantile=\"0.5\"}} 1\ns_sum 2\ns_count 3\n# TYPE i info\ni_info{{version=\"{n}\"}} 1\n\
# TYPE st stateset\nst{{st=\"on\"}} 1\nst{{st=\"off\"}} 0\n# TYPE u unknown\nu 3\n{{\"u.tf\",\"l.n\"=\"v\"}} {n}\n",
            n + 2,
            n + 2
        )
    };
    vec![
        openmetrics(&page(1)),
        openmetrics(&page(2)),
        reply(OPENMETRICS, page(3)),
        openmetrics(&page(4)),
        openmetrics("# TYPE only gauge\nonly 1\n"),
    ]
}

fn classic() -> Vec<Reply> {
    let page = |n: u64, more: &str| {
        text(&format!(
            "# TYPE h histogram\nh_bucket{{p=\"/\",le=\"0.5\"}} {n}\nh_bucket{{p=\"/\",le=\"1\"}} {}\nh_bucket{{p=\"/\",le=\"+Inf\"}} {}\nh_sum{{p=\"/\"}} {n}.25\nh_count{{p=\"/\"}} {}\n{more}c 1\n",
            2 * n,
            3 * n,
            3 * n
        ))
    };
    let other = "h_bucket{p=\"/b\",le=\"2\"} 1\nh_bucket{p=\"/b\",le=\"+Inf\"} 1\nh_sum{p=\"/b\"} 1\nh_count{p=\"/b\"} 1\n";
    let odd = "# TYPE lone histogram\nlone_count 4\nlone_sum 2\n# TYPE wrong histogram\nwrong_bucket{le=\"1\"} 5\nwrong_bucket{le=\"+Inf\"} 3\nwrong_count 3\nwrong_sum 1\n";
    vec![
        page(1, ""),
        page(2, other),
        page(3, odd),
        text("c 2\n"),
        page(1, other),
    ]
}

fn proto() -> Vec<Reply> {
    let mut bodies = messages::corpus();
    let all = bodies.remove(0);
    let mut pages = vec![reply(PROTOBUF, all.clone())];
    pages.extend(bodies.into_iter().map(|body| reply(PROTOBUF, body)));
    pages.push(reply(PROTOBUF, all[..all.len() - 1].to_vec()));
    pages.push(reply(PROTOBUF, all));
    pages
}

fn numbered(lines: usize) -> Reply {
    let mut page = String::new();
    for at in 0..lines {
        let _ = writeln!(page, "n{{at=\"{at}\"}} {at}");
    }
    text(&page)
}

/// The pages of a directory of the reference data, each once, several per target.
fn corpus(name: &str, suffix: &str, content_type: &'static str) -> Vec<Case> {
    let files = corpora::dir(name).map_or_else(Vec::new, |dir| corpora::files(&dir, suffix));
    let pages = files
        .into_iter()
        .filter_map(|file| std::fs::read(file).ok());
    let pages: Vec<Reply> = pages.map(|page| reply(content_type, page)).collect();
    let parts = pages.chunks(PAGES).enumerate();
    parts
        .map(|(at, pages)| {
            let name = format!("{name}{suffix}-{at}");
            let mut case = Case::new(&name, "honor_timestamps: false", pages.to_vec());
            case.reference = true;
            case
        })
        .collect()
}

#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn cases(base_ms: i64) -> Vec<Case> {
    let native = "scrape_native_histograms: true";
    let mut all = vec![
        Case::new("plain", "", plain()),
        Case::new("extra", "extra_scrape_metrics: true", plain()),
        Case::new("timed", "", timed(base_ms)),
        Case::new("untimed", "honor_timestamps: false", timed(base_ms)),
        Case::new(
            "tracked",
            "track_timestamps_staleness: true",
            timed(base_ms),
        ),
        Case::new("conflicting", "", conflicting()),
        Case::new("honoured", "honor_labels: true", conflicting()),
        Case::new("openmetrics", "", every_type()),
        Case::new("classic", "", classic()),
        Case::new(
            "converted",
            "convert_classic_histograms_to_nhcb: true",
            classic(),
        ),
        Case::new(
            "converted-both",
            "convert_classic_histograms_to_nhcb: true\n  always_scrape_classic_histograms: true",
            classic(),
        ),
        Case::new(
            "openmetrics-converted",
            "convert_classic_histograms_to_nhcb: true",
            every_type(),
        ),
        Case::new("messages", "honor_timestamps: false", proto()),
        Case::new(
            "messages-native",
            &format!("honor_timestamps: false\n  {native}"),
            proto(),
        ),
        Case::new(
            "messages-both",
            &format!(
                "honor_timestamps: false\n  {native}\n  always_scrape_classic_histograms: true"
            ),
            proto(),
        ),
        Case::new(
            "messages-converted",
            &format!(
                "honor_timestamps: false\n  {native}\n  convert_classic_histograms_to_nhcb: true"
            ),
            proto(),
        ),
        Case::new(
            "buckets",
            &format!("honor_timestamps: false\n  {native}\n  native_histogram_bucket_limit: 2"),
            proto(),
        ),
        Case::new(
            "factor",
            &format!(
                "honor_timestamps: false\n  {native}\n  native_histogram_min_bucket_factor: 4"
            ),
            proto(),
        ),
    ];
    all.extend(limited());
    all.extend(renamed());
    let own = all.len();
    all.extend(corpus("openmetrics", "metrics", OPENMETRICS));
    all.extend(corpus("textparse", ".prom.txt", TEXT));
    all.extend(corpus("textparse", ".om.txt", OPENMETRICS));
    all.extend(corpus("node-exporter", "e2e-output.txt", TEXT));
    let pages: usize = all[own..].iter().map(|case| case.pages.len()).sum();
    corpora::report("scraping", pages, pages);
    all
}

/// Limits that some pages exceed.
fn limited() -> Vec<Case> {
    let pages = || vec![numbered(5), numbered(6), numbered(4)];
    let long = || {
        vec![
            text("a{b=\"1\"} 1\n"),
            text(
                "a{b=\"1\"} 1\nb{long_label_name_of_it=\"long value of it\",c=\"1\",d=\"2\",e=\"3\"} 1\n",
            ),
            text("a{b=\"1\"} 2\n"),
        ]
    };
    let mut targets = Case::new("target-limit", "target_limit: 1", pages());
    targets.targets = 2;
    vec![
        Case::new("sample-limit", "sample_limit: 5", pages()),
        Case::new(
            "sample-limit-relabelled",
            "sample_limit: 4\n  metric_relabel_configs: [{source_labels: [at], regex: 0, action: drop}]",
            pages(),
        ),
        Case::new("label-limit", "label_limit: 7", long()),
        Case::new("label-name", "label_name_length_limit: 12", long()),
        Case::new("label-value", "label_value_length_limit: 14", long()),
        Case::new(
            "body",
            "body_size_limit: 60B\n  extra_scrape_metrics: true",
            pages(),
        ),
        targets,
    ]
}

/// Names, their validation, and rules that change them.
fn renamed() -> Vec<Case> {
    let names = || {
        vec![
            text("plain 1\n{\"with.dots\",\"label.name\"=\"1\"} 1\n"),
            text("plain 2\n"),
        ]
    };
    let pages = || {
        vec![
            numbered(4),
            numbered(5),
            text("m{at=\"7\"} 1\nn{at=\"8\"} 1\n"),
        ]
    };
    vec![
        Case::new("names", "", names()),
        Case::new(
            "names-legacy",
            "metric_name_validation_scheme: legacy\n  metric_name_escaping_scheme: underscores",
            names(),
        ),
        Case::new(
            "relabelled",
            "metric_relabel_configs:\n  - {source_labels: [at], regex: '[01]', action: drop}\n  \
             - {source_labels: [__name__, at], separator: '_', regex: 'n_(.)', target_label: __name__, replacement: 'renamed_${1}'}\n  \
             - {regex: 'zone', action: labeldrop}\n  - {source_labels: [at], modulus: 3, action: hashmod, target_label: shard}",
            pages(),
        ),
        Case::new(
            "merged",
            "metric_relabel_configs: [{regex: at, action: labeldrop}]",
            pages(),
        ),
        Case::new(
            "fallback",
            "fallback_scrape_protocol: OpenMetricsText1.0.0",
            vec![
                reply(
                    "application/octet-stream",
                    "# TYPE a counter\na_total 1\n# EOF\n",
                ),
                reply("application/octet-stream", "# TYPE a counter\na_total 2\n"),
                // Its type is forgotten some scrapes after it was last declared, so the last page declares it.
                reply(TEXT, "# TYPE a counter\na_total 3\n"),
            ],
        ),
        Case::new(
            "repeated",
            "",
            vec![text("a 1\na 2\nb 1\n"), text("a 3\na 3\n"), text("a 4\n")],
        ),
    ]
}

/// Starts the targets of one side.
fn serve(cases: &[Case]) -> Vec<Target> {
    let mut targets = Vec::new();
    for case in cases {
        let pages = Arc::new(case.pages.clone());
        for _ in 0..case.targets {
            let pages = Arc::clone(&pages);
            targets.push(Target::answering(move |number| {
                let at = usize::try_from(number).unwrap() - 1;
                pages[at.min(pages.len() - 1)].clone()
            }));
        }
    }
    targets
}

fn configure(dir: &TempDir, name: &str, cases: &[Case], targets: &[Target]) -> std::path::PathBuf {
    let mut config = format!(
        "global: {{scrape_interval: {INTERVAL_MS}ms, scrape_timeout: {INTERVAL_MS}ms}}\n\
storage: {{tsdb: {{out_of_order_time_window: 0s}}}}\nscrape_configs:\n"
    );
    let mut addresses = targets.iter().map(|target| target.address.as_str());
    for case in cases {
        let _ = writeln!(config, "- job_name: {}", case.name);
        if !case.settings.is_empty() {
            let _ = writeln!(config, "  {}", case.settings);
        }
        config.push_str("  static_configs:\n");
        for (at, address) in addresses.by_ref().take(case.targets).enumerate() {
            let _ = writeln!(
                config,
                "  - {{targets: ['{address}'], labels: {{case: {}, instance: '{at}', zone: z}}}}",
                case.name
            );
        }
    }
    dir.write(name, config)
}

/// One of the two sides.
enum Side {
    Ours(Running),
    Theirs(LineServer),
}

impl Side {
    /// Returns the result of an instant query.
    fn ask(&mut self, expr: &str, time_ms: i64) -> Value {
        match self {
            Self::Ours(server) => {
                let time = format!("{}.{:03}", time_ms / 1000, time_ms % 1000);
                let params = [("query", expr), ("time", time.as_str())];
                server.data("/api/v1/query", &params)["result"].take()
            }
            Self::Theirs(oracle) => {
                let request = json!({ "expr": expr, "scraped": true, "time_ms": time_ms });
                let mut answer: Value =
                    serde_json::from_str(&oracle.ask(&request.to_string())).unwrap();
                assert_eq!(answer["ok"], true, "{expr}: {answer}");
                answer["result"].take()
            }
        }
    }

    /// Returns the scrape times of a case's targets, by instance; at most one per page.
    fn scrapes(&mut self, case: &Case) -> BTreeMap<String, Vec<i64>> {
        let query = format!("up{{job=\"{}\",case!=\"\"}}[1h]", case.name);
        let found = self.ask(&query, now_ms());
        let series = found.as_array().unwrap().iter();
        series
            .map(|series| {
                let times = series["values"].as_array().unwrap().iter();
                let mut times: Vec<i64> = times.map(|point| milliseconds(&point[0])).collect();
                times.truncate(case.pages.len());
                (
                    series["metric"]["instance"].as_str().unwrap().to_owned(),
                    times,
                )
            })
            .collect()
    }
}

fn milliseconds(seconds: &Value) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "milliseconds of this century"
    )]
    let time_ms = (seconds.as_f64().unwrap() * 1000.0).round() as i64;
    time_ms
}

/// Compared facts of a case, one line each.
type Facts = BTreeSet<String>;

/// Collects a side's facts of a case.
fn facts(side: &mut Side, case: &Case) -> Facts {
    let mut facts = Facts::new();
    let scrapes = side.scrapes(case);
    assert_eq!(scrapes.len(), case.targets, "{}", case.name);
    for (instance, times) in &scrapes {
        assert_eq!(times.len(), case.pages.len(), "{}", case.name);
        let selector = format!(
            "{{case=\"{}\",zone=~\"z|\",instance=~\"{instance}|page|i\"}}",
            case.name
        );
        let selector = match case.name.as_str() {
            // A rule of this case drops the zone.
            "target-limit" => format!("{{case=\"target-limit\",instance=\"{instance}\"}}"),
            name if case.targets == 1 => format!("{{case=\"{name}\"}}"),
            _ => selector,
        };
        let last = times[times.len() - 1];
        let name = |time_ms: i64| match times.binary_search(&time_ms) {
            Ok(round) => format!("#{round}"),
            Err(_) => time_ms.to_string(),
        };
        let failed = failed(side, case, instance, last);
        for series in side
            .ask(&format!("{selector}[1h]"), last)
            .as_array()
            .unwrap()
        {
            let labels = client::labels(&series["metric"]);
            for part in ["values", "histograms"] {
                for point in series[part].as_array().into_iter().flatten() {
                    let time_ms = milliseconds(&point[0]);
                    if is_excused(case, &labels, failed.contains(&time_ms)) {
                        continue;
                    }
                    let value = value(&labels, &point[1]);
                    facts.insert(format!("{labels} {} {value}", name(time_ms)));
                }
            }
        }
        for (round, time_ms) in times.iter().enumerate() {
            // In a body with an error in the middle, samples before it have no staleness marker yet.
            if failed.contains(time_ms) {
                continue;
            }
            for series in side.ask(&selector, *time_ms).as_array().unwrap() {
                let labels = client::labels(&series["metric"]);
                if is_excused(case, &labels, false) {
                    continue;
                }
                facts.insert(format!("in round {round} there is {labels}"));
            }
        }
    }
    facts
}

/// Reports whether a sample may differ for a known reason.
fn is_excused(case: &Case, labels: &str, failed: bool) -> bool {
    // Whether the faulty line is counted depends on the error, and on what Prometheus buffers for conversion.
    let approximate = case.reference || case.name == "openmetrics-converted";
    // A summary named `quantile` keeps the spelling of its quantiles.
    (approximate && failed && labels.starts_with("scrape_samples_"))
        || labels.starts_with("quantile{")
}

/// Returns the times of failed scrapes.
fn failed(side: &mut Side, case: &Case, instance: &str, last_ms: i64) -> BTreeSet<i64> {
    let query = format!(
        "up{{job=\"{}\",case!=\"\",instance=\"{instance}\"}}[1h]",
        case.name
    );
    let found = side.ask(&query, last_ms);
    let points = found[0]["values"].as_array().unwrap().iter();
    points
        .filter(|point| point[1] == "0")
        .map(|point| milliseconds(&point[0]))
        .collect()
}

/// Formats a value; durations of scrapes are not compared.
fn value(labels: &str, value: &Value) -> String {
    // The number of series added depends on how lines are cached.
    if labels.starts_with("scrape_duration_seconds{") || labels.starts_with("scrape_series_added{")
    {
        return "some".to_owned();
    }
    // Prometheus' API and engine format numbers differently.
    match value.as_str().map(str::parse::<f64>) {
        Some(Ok(number)) => format!("{number:?}"),
        _ => value.to_string(),
    }
}

/// Returns the facts that only one side has.
fn differences(case: &str, ours: &Facts, theirs: &Facts) -> Vec<String> {
    let only_ours = ours
        .difference(theirs)
        .map(|fact| format!("{case}: only ours: {fact}"));
    let only_theirs = theirs
        .difference(ours)
        .map(|fact| format!("{case}: only theirs: {fact}"));
    only_ours.chain(only_theirs).collect()
}

/// Waits until every target was scraped often enough.
fn wait(server: &Running, cases: &[Case]) {
    for case in cases {
        let query = format!(
            "count_over_time(up{{job=\"{}\"}}[1h]) >= {}",
            case.name,
            case.pages.len()
        );
        until(&query, || {
            let found = client::vector(&server.url, &query, None);
            (found.len() == case.targets).then_some(())
        });
    }
}

fn start_ours(dir: &TempDir, config: &Path) -> Running {
    Running::of(support::server_in(&dir.join("data")).arg(support::config_flag(config)))
}

/// Collects the metadata of targets, and the results of their last scrapes.
fn target_facts(
    targets: &Value,
    cases: &[Case],
    metadata: impl Fn(&Value) -> Value,
) -> BTreeMap<String, Facts> {
    let mut all: BTreeMap<String, Facts> = BTreeMap::new();
    for target in targets.as_array().unwrap() {
        let labels = &target["labels"];
        let facts = all
            .entry(labels["case"].as_str().unwrap().to_owned())
            .or_default();
        let known = cases
            .iter()
            .find(|case| *case.name == *labels["case"].as_str().unwrap());
        if known.unwrap().reference {
            facts.insert(format!("{labels} is {}", target["health"]));
            continue;
        }
        facts.insert(format!(
            "{labels} is {} {}",
            target["health"], target["lastError"]
        ));
        for one in metadata(target).as_array().unwrap() {
            // Explicit metadata that says nothing is not kept.
            if one["type"] == "unknown" && one["help"] == "" && one["unit"] == "" {
                continue;
            }
            facts.insert(format!(
                "{} is a {} in {}: {}",
                one["metric"], one["type"], one["unit"], one["help"]
            ));
        }
    }
    all
}

/// Collects exemplars by case, with their own times or the numbers of their scrapes.
fn exemplar_facts(side: &mut Side, found: &Value, cases: &[Case]) -> BTreeMap<String, Facts> {
    let mut all: BTreeMap<String, Facts> = BTreeMap::new();
    for series in found.as_array().into_iter().flatten() {
        let case = series["seriesLabels"]["case"].as_str().unwrap();
        let known = cases.iter().find(|known| known.name == case).unwrap();
        let times = side.scrapes(known).into_values().next().unwrap();
        for exemplar in series["exemplars"].as_array().unwrap() {
            let time_ms = milliseconds(&exemplar["timestamp"]);
            let time = match times.binary_search(&time_ms) {
                Ok(round) => format!("#{round}"),
                // From a later scrape than those compared.
                Err(_) if time_ms > times[times.len() - 1] => continue,
                Err(_) => time_ms.to_string(),
            };
            all.entry(case.to_owned()).or_default().insert(format!(
                "exemplar of {} at {time}: {} {}",
                client::labels(&series["seriesLabels"]),
                exemplar["labels"],
                exemplar["value"]
            ));
        }
    }
    all
}

#[test]
fn the_same_pages_become_the_same_series() {
    for attempt in 1.. {
        let (complaints, slow) = compare();
        if complaints.is_empty() {
            return;
        }
        // A scrape that timed out makes one side lack a page.
        assert!(
            slow && attempt < 4,
            "{} differ:\n{}",
            complaints.len(),
            complaints.join("\n")
        );
        println!("a busy machine did not scrape in time: once more");
    }
}

/// Scrapes everything on both sides; returns the differences, and whether a scrape timed out.
fn compare() -> (Vec<String>, bool) {
    let cases = cases(now_ms() - 2_000);
    let rounds = cases.iter().map(|case| case.pages.len()).max().unwrap();
    let dir = TempDir::new("scraping");
    let served = [serve(&cases), serve(&cases)];
    let ours = start_ours(&dir, &configure(&dir, "ours.yml", &cases, &served[0]));
    let theirs = configure(&dir, "theirs.yml", &cases, &served[1]);
    let mut oracle = LineServer::start(&go_program("oracle"));
    let request = json!({ "scrape": { "path": theirs, "rounds": rounds } });
    let mut answer: Value = serde_json::from_str(&oracle.ask(&request.to_string())).unwrap();
    assert_eq!(answer["ok"], true, "{answer}");
    let answer = answer["result"].take();
    wait(&ours, &cases);
    let their_targets = target_facts(&answer["targets"], &cases, |target| {
        target["metadata"].clone()
    });
    let our_targets = target_facts(
        &ours.data("/api/v1/targets", &[])["activeTargets"],
        &cases,
        |target| {
            let selector = format!(
                "{{case={},instance={}}}",
                target["labels"]["case"], target["labels"]["instance"]
            );
            ours.data("/api/v1/targets/metadata", &[("match_target", &selector)])
        },
    );
    let end = format!("{}", now_ms() / 1000 + 3600);
    let params = [
        ("query", "{case!=\"\"}"),
        ("start", "0"),
        ("end", end.as_str()),
    ];
    let our_exemplars = ours.data("/api/v1/query_exemplars", &params);
    let (mut ours, mut theirs) = (Side::Ours(ours), Side::Theirs(oracle));
    let our_exemplars = exemplar_facts(&mut ours, &our_exemplars, &cases);
    let their_exemplars = exemplar_facts(&mut theirs, &answer["exemplars"], &cases);
    let (mut complaints, mut compared) = (Vec::new(), 0);
    let none = Facts::new();
    for case in &cases {
        let (mine, others) = (facts(&mut ours, case), facts(&mut theirs, case));
        compared += others.len();
        complaints.extend(differences(&case.name, &mine, &others));
        for (mine, others) in [
            (&our_targets, &their_targets),
            (&our_exemplars, &their_exemplars),
        ] {
            let mine = mine.get(&case.name).unwrap_or(&none);
            let others = others.get(&case.name).unwrap_or(&none);
            compared += others.len();
            let found = differences(&case.name, mine, others);
            // Exemplars may be in any order of time, so we may have more of them.
            let more = |found: &String| case.reference && found.contains("only ours: exemplar");
            complaints.extend(found.into_iter().filter(|found| !more(found)));
        }
    }
    println!("{} jobs, {compared} facts compared", cases.len());
    let query = format!(
        "max_over_time(scrape_duration_seconds[1h]) > {}",
        f64::from(INTERVAL_MS) / 1250.0
    );
    let slow = [&mut ours, &mut theirs]
        .into_iter()
        .any(|side| side.ask(&query, now_ms()) != json!([]));
    (complaints, slow)
}
