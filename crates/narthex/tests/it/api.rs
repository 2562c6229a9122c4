//! The HTTP API compared with the real Prometheus: the same requests, the same responses.
//!
//! Debian's Prometheus is 2.42, our API is that of 3.14. Every difference between the two is listed with its reason; a
//! listed difference that does not occur fails.

use crate::{
    client,
    pair::Pair,
    support::{self, PATIENCE, Running},
};
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser, check};
use narthex_model::LabelSet;
use narthex_testkit::{
    TempDir, go_program,
    http::{self, Response},
    process::Spawn,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Expected relation between two responses to one request.
enum Expect {
    /// Status, content type and JSON are the same.
    Same,
    /// Status and content type are the same, and the JSON has the same keys and types, except for the paths that only
    /// one side has, because of `why`.
    Shape {
        ours: &'static [&'static str],
        theirs: &'static [&'static str],
        why: &'static str,
    },
    /// Our response has this status and contains this text; theirs does not, because of `why`.
    Differs {
        status: u16,
        text: &'static str,
        why: &'static str,
    },
}
use Expect::{Differs, Same, Shape};

/// How a request is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Get,
    /// With a form body.
    Post,
}

struct Case {
    path: &'static str,
    /// `{end}`, `{start}`, `{mid}` are replaced by times.
    params: &'static str,
    expect: Expect,
}

const fn case(path: &'static str, params: &'static str, expect: Expect) -> Case {
    Case {
        path,
        params,
        expect,
    }
}

const QUERY: &str = "/api/v1/query";
const RANGE: &str = "/api/v1/query_range";
const LABELS: &str = "/api/v1/labels";
const SERIES: &str = "/api/v1/series";
const CODES: &str = "/api/v1/label/code/values";
const METADATA: &str = "/api/v1/metadata";
const TARGETS: &str = "/api/v1/targets";
const SLOT_RANGE: &str = "query=slot&start={start}&end={end}";

const UTF8: &str = "every UTF-8 text is a label name since 3.0";
const EMPTY: &str = "since 3.0 an empty query has no position";
const WORDS: &str = "3.x says it in other words";
const PREFIX: &str = "since 2.43 the parameter is named";
const LOWER: &str = "since 3.9 error texts begin in lower case";
const UNREADABLE: &str = "Go turns what is beyond its clock into some time; we refuse it";
const GO_REGEX: &str = "the words are the pattern library's";

/// Query requests.
const QUERIES: &[Case] = &[
    case(QUERY, "query=slot&time={end}", Same),
    case(QUERY, "query=requests_total&time={end}", Same),
    case(QUERY, "query=weird&time={end}", Same),
    case(QUERY, "query=large&time={end}", Same),
    case(QUERY, "query=infinite&time={end}", Same),
    case(QUERY, "query=rpc_seconds&time={mid}", Same),
    case(QUERY, "query=temperature&time={mid}", Same),
    case(QUERY, "query=nothing&time={end}", Same),
    case(QUERY, "query=slot[1m]&time={end}", Same),
    case(QUERY, "query=temperature[2m]&time={end}", Same),
    case(QUERY, "query=slot[1m:10s]&time={end}", Same),
    case(QUERY, "query=%22te%5C%22xt%22&time={end}", Same),
    case(QUERY, "query=1%2B1&time={end}", Same),
    case(QUERY, "query=1/0&time={end}", Same),
    case(QUERY, "query=-0&time={end}", Same),
    case(QUERY, "query=vector(1e-7)&time={end}", Same),
    case(QUERY, "query=vector(123456789.125)&time={end}", Same),
    case(QUERY, "query=vector(1e21)&time={end}", Same),
    case(QUERY, "query=vector(1)&time=2024-02-29T00:00:00Z", Same),
    case(
        QUERY,
        "query=vector(1)&time=2024-02-29T01:30:00.5%2B01:30",
        Same,
    ),
    case(QUERY, "query=vector(time())&time=1.5e9", Same),
    case(QUERY, "query=vector(1)&time=1700000000.1239", Same),
    case(
        QUERY,
        "query=vector(1)&time=-62135596800",
        Differs {
            status: 200,
            text: "[-62135596800,\"1\"]",
            why: "theirs counts nanoseconds, which have no such time",
        },
    ),
    case(QUERY, "query=slot&time={end}&timeout=10s", Same),
    case(QUERY, "query=slot&time={end}&timeout=0.5", Same),
    case(
        QUERY,
        "",
        Differs {
            status: 400,
            text: "invalid parameter \\\"query\\\": unknown position: parse error: no expression found in input",
            why: EMPTY,
        },
    ),
    case(QUERY, "query=sum(slot&time={end}", Same),
    case(QUERY, "query=slot{&time={end}", Same),
    case(QUERY, "query={}&time={end}", Same),
    case(QUERY, "query={a%3D~%22.*%22}&time={end}", Same),
    case(QUERY, "query=foo(slot)&time={end}", Same),
    case(QUERY, "query=rate(slot)&time={end}", Same),
    case(QUERY, "query=rate(slot[1m],1)&time={end}", Same),
    case(QUERY, "query=slot+and+1&time={end}", Same),
    case(QUERY, "query=1+%3D%3D+1&time={end}", Same),
    case(QUERY, "query=slot+%3D%3D+bool&time={end}", Same),
    case(QUERY, "query=sum+by+(job&time={end}", Same),
    case(QUERY, "query=%22unclosed&time={end}", Same),
    case(QUERY, "query=topk(slot,slot)&time={end}", Same),
    case(QUERY, "query=slot+%23+comment&time={end}", Same),
    case(
        QUERY,
        "query=slot+offset&time={end}",
        Differs {
            status: 400,
            text: "expected number, duration, step(), or range()",
            why: WORDS,
        },
    ),
    case(
        QUERY,
        "query=slot[5x]&time={end}",
        Differs {
            status: 400,
            text: "bad number or duration syntax",
            why: WORDS,
        },
    ),
    case(
        QUERY,
        "query=slot{a%3D~%22(%22}&time={end}",
        Differs {
            status: 400,
            text: "1:6: parse error: error parsing regexp: ",
            why: GO_REGEX,
        },
    ),
    case(
        QUERY,
        "query=label_replace(slot,%220x%22,%22%22,%22job%22,%22%22)&time={end}",
        Differs {
            status: 200,
            text: "\"slot\"",
            why: UTF8,
        },
    ),
    case(
        QUERY,
        "query=label_replace(slot,%22a%22,%22%22,%22job%22,%22(%22)&time={end}",
        Same,
    ),
    case(
        QUERY,
        "query=quantile(2,temperature)&time={end}",
        Differs {
            status: 200,
            text: "\"warnings\":[\"PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)\"]",
            why: "annotations came with 2.48",
        },
    ),
    case(
        QUERY,
        "query=rate(temperature[1m])&time={end}",
        Differs {
            status: 200,
            text: "\"infos\":[\"PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \\\"temperature\\\" (1:6)\"]",
            why: "annotations came with 2.48",
        },
    ),
    case(
        QUERY,
        "query=slot+%2B+on(job)+group_left+slot[1m]&time={end}",
        Same,
    ),
    case(QUERY, "query=temperature+%2B+on(job)+slot&time={end}", Same),
    case(
        QUERY,
        "query=slot&time=yesterday",
        Differs {
            status: 400,
            text: "invalid parameter \\\"time\\\": invalid time value for 'time': cannot parse \\\"yesterday\\\" to a valid timestamp",
            why: LOWER,
        },
    ),
    case(
        QUERY,
        "query=slot&time=NaN",
        Differs {
            status: 400,
            text: "cannot parse",
            why: UNREADABLE,
        },
    ),
    case(
        QUERY,
        "query=slot&time=1e40",
        Differs {
            status: 400,
            text: "cannot parse",
            why: UNREADABLE,
        },
    ),
    case(QUERY, "query=slot&time={end}&timeout=soon", Same),
    case(
        QUERY,
        "query=count_over_time(vector(1)[101s:1ms])&time={end}",
        Same,
    ),
    case(
        QUERY,
        "query=temperature&time={end}&limit=2",
        Differs {
            status: 200,
            text: "results truncated due to limit",
            why: "limits came with 2.53",
        },
    ),
    case(
        QUERY,
        "query=slot&time={end}&limit=-1",
        Differs {
            status: 400,
            text: "invalid parameter \\\"limit\\\": limit must be non-negative",
            why: "limits came with 2.53",
        },
    ),
    case(RANGE, "", Same),
    case(RANGE, "query=slot&start={start}&end={end}&step=30", Same),
    case(
        RANGE,
        "query=temperature&start={start}&end={end}&step=1m30s",
        Same,
    ),
    case(
        RANGE,
        "query=requests_total&start={start}&end={end}&step=0.5&timeout=9s",
        Same,
    ),
    case(RANGE, "query=nothing&start={start}&end={end}&step=30", Same),
    case(RANGE, "query=1&start={start}&end={end}&step=60", Same),
    case(RANGE, "query=slot&start={end}&end={end}&step=60", Same),
    case(RANGE, SLOT_RANGE, Same),
    case(RANGE, "query=slot&start={start}&step=30", Same),
    case(RANGE, "query=slot&end={end}&step=30", Same),
    case(RANGE, "query=slot&start={end}&end={start}&step=30", Same),
    case(RANGE, "query=slot&start={start}&end={end}&step=0", Same),
    case(RANGE, "query=slot&start={start}&end={end}&step=-1", Same),
    case(RANGE, "query=slot&start={start}&end={end}&step=x", Same),
    case(RANGE, "query=slot&start={start}&end={end}&step=1e30", Same),
    case(RANGE, "query=slot&start=x&end={end}&step=1", Same),
    case(RANGE, "query=slot&start=0&end=11001&step=1", Same),
    case(RANGE, "query=slot&start=0&end=11000&step=1", Same),
    case(
        RANGE,
        "query=slot[1m]&start={start}&end={end}&step=30",
        Differs {
            status: 400,
            text: "invalid parameter \\\"query\\\": invalid expression type \\\"range vector\\\" for range query, must be Scalar or instant Vector",
            why: PREFIX,
        },
    ),
    case(
        RANGE,
        "query=%22text%22&start={start}&end={end}&step=30",
        Differs {
            status: 400,
            text: "invalid parameter \\\"query\\\": invalid expression type \\\"string\\\" for range query, must be Scalar or instant Vector",
            why: PREFIX,
        },
    ),
    case(
        RANGE,
        "query=sum(&start={start}&end={end}&step=30",
        Differs {
            status: 400,
            text: "invalid parameter \\\"query\\\": 1:5: parse error: unclosed left parenthesis",
            why: PREFIX,
        },
    ),
    case(
        RANGE,
        "query=slot&start={start}&end={end}&step=30&timeout=x",
        Same,
    ),
];

/// Requests about labels, series, metadata and status.
const LISTINGS: &[Case] = &[
    case(LABELS, "", Same),
    case(
        LABELS,
        "match[]=requests_total&start={start}&end={end}",
        Same,
    ),
    case(LABELS, "match[]=requests_total&match[]=weird", Same),
    case(LABELS, "match[]=nothing", Same),
    case(LABELS, "start=0&end=1", Same),
    case(LABELS, "match[]={", Same),
    case(LABELS, "match[]={}", Same),
    case(
        LABELS,
        "start=x",
        Differs {
            status: 400,
            text: "invalid parameter \\\"start\\\": invalid time value for 'start': cannot parse",
            why: LOWER,
        },
    ),
    case(
        LABELS,
        "start={end}&end={start}",
        Differs {
            status: 200,
            text: "\"data\":[]",
            why: "the head of theirs lists all names for a range the wrong way round",
        },
    ),
    case(
        LABELS,
        "limit=2",
        Differs {
            status: 200,
            text: "[\"__name__\",\"code\"],\"warnings\":[\"results truncated due to limit\"]",
            why: "limits came with 2.53",
        },
    ),
    case("/api/v1/label/__name__/values", "", Same),
    case(
        CODES,
        "match[]=requests_total{method%3D%22get%22}&match[]=slot",
        Same,
    ),
    case(
        CODES,
        "match[]=requests_total{code!%3D%22200%22}&start={start}&end={end}",
        Same,
    ),
    case(CODES, "match[]={}", Same),
    case(CODES, "match[]=slot[5m]", Same),
    case(
        CODES,
        "end=x",
        Differs {
            status: 400,
            text: "invalid parameter \\\"end\\\": invalid time value for 'end': cannot parse",
            why: LOWER,
        },
    ),
    case("/api/v1/label/text/values", "", Same),
    case("/api/v1/label/nothing/values", "", Same),
    case(
        "/api/v1/label/0bad/values",
        "",
        Differs {
            status: 200,
            text: "\"data\":[]",
            why: UTF8,
        },
    ),
    case(SERIES, "", Same),
    case(SERIES, "match[]=requests_total", Same),
    case(
        SERIES,
        "match[]=requests_total{code%3D%22200%22}&match[]={__name__%3D%22slot%22}&start={start}&end={end}",
        Same,
    ),
    case(
        SERIES,
        "match[]=requests_total{code%3D%22200%22}&match[]=requests_total{method%3D%22get%22}",
        Same,
    ),
    case(SERIES, "match[]={}", Same),
    case(SERIES, "match[]={a%3D%22%22}", Same),
    case(SERIES, "match[]=slot[5m]", Same),
    case(SERIES, "match[]=sum(slot)", Same),
    case(SERIES, "match[]=slot&start={end}&end={start}", Same),
    case(SERIES, "match[]=slot&start=0&end=1", Same),
    case(SERIES, "match[]=nothing", Same),
    case(METADATA, "metric=requests_total", Same),
    case(
        METADATA,
        "metric=latency_seconds&limit=1&limit_per_metric=1",
        Same,
    ),
    case(METADATA, "metric=nothing", Same),
    case(METADATA, "metric=large", Same),
    case(METADATA, "limit=x", Same),
    case(METADATA, "limit=0", Same),
    case(
        METADATA,
        "",
        Shape {
            ours: &[
                "/data/up",
                "/data/scrape_duration_seconds",
                "/data/scrape_samples_post_metric_relabeling",
                "/data/scrape_samples_scraped",
                "/data/scrape_series_added",
            ],
            theirs: &[],
            why: "we know the families of synthetic series too",
        },
    ),
    case(
        TARGETS,
        "",
        Shape {
            ours: &[
                "/data/droppedTargetCounts",
                "/data/droppedTargetReasons",
                "/data/failedTargetCounts",
                "/data/failedTargets",
                "/data/activeTargets/0/discoveredLabels/__always_scrape_classic_histograms__",
                "/data/activeTargets/0/discoveredLabels/__convert_classic_histograms_to_nhcb__",
                "/data/activeTargets/0/discoveredLabels/__scrape_native_histograms__",
                "/data/activeTargets/0/lastScrapeBytes",
                "/data/activeTargets/0/lastScrapeSamples",
            ],
            theirs: &[],
            why: "the counts came with 2.48, the labels with 3; bytes, samples and reasons are for our page",
        },
    ),
    case(
        TARGETS,
        "state=active&scrapePool=known",
        Shape {
            ours: &[
                "/data/droppedTargetCounts",
                "/data/activeTargets/0/discoveredLabels/__always_scrape_classic_histograms__",
                "/data/activeTargets/0/discoveredLabels/__convert_classic_histograms_to_nhcb__",
                "/data/activeTargets/0/discoveredLabels/__scrape_native_histograms__",
                "/data/activeTargets/0/lastScrapeBytes",
                "/data/activeTargets/0/lastScrapeSamples",
            ],
            theirs: &[],
            why: "the counts came with 2.48, the labels with 3; bytes and samples are for our page",
        },
    ),
    case(
        TARGETS,
        "state=dropped",
        Shape {
            ours: &[
                "/data/droppedTargetCounts",
                "/data/droppedTargetReasons",
                "/data/failedTargetCounts",
                "/data/failedTargets",
            ],
            theirs: &[],
            why: "the counts came with 2.48; reasons are for our page",
        },
    ),
    case(
        TARGETS,
        "state=bogus",
        Shape {
            ours: &["/data/droppedTargetCounts"],
            theirs: &[],
            why: "the counts came with 2.48",
        },
    ),
    case(
        "/api/v1/status/buildinfo",
        "",
        Shape {
            ours: &[
                "/data/application",
                "/data/applicationVersion",
                "/data/compiler",
            ],
            theirs: &[],
            why: "we say what answers in Prometheus' stead",
        },
    ),
    case("/api/v1/nothing", "", Same),
    case("/api/v1/", "", Same),
    case("/nothing", "", Same),
    case(
        "/-/healthy",
        "",
        Differs {
            status: 200,
            text: "Narthex Server is Healthy.\n",
            why: "our name",
        },
    ),
    case(
        "/-/ready",
        "",
        Differs {
            status: 200,
            text: "Narthex Server is Ready.\n",
            why: "our name",
        },
    ),
];

/// Endpoints that accept form bodies.
const FORMS: [&str; 4] = [QUERY, RANGE, LABELS, SERIES];

/// The compared parts of a response.
#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    content_type: Option<String>,
    text: String,
}

impl Answer {
    fn of(answer: &Response) -> Self {
        Self {
            status: answer.status,
            content_type: answer.header("content-type").map(str::to_owned),
            text: answer.text(),
        }
    }

    /// Returns the body as JSON, with a vector's samples keyed by label set, since the API does not promise their
    /// order.
    fn json(&self) -> Option<Value> {
        let mut json: Value = serde_json::from_str(&self.text).ok()?;
        if json["data"]["resultType"] == "vector"
            && let Some(samples) = json["data"]["result"].as_array_mut()
        {
            samples.sort_by_key(|sample| sample["metric"].to_string());
        }
        Some(json)
    }

    fn same(&self, other: &Self) -> bool {
        let same_body = match (self.json(), other.json()) {
            (Some(mine), Some(others)) => mine == others,
            _ => self.text == other.text,
        };
        self.status == other.status && self.content_type == other.content_type && same_body
    }
}

fn ask(base: &str, method: Method, path: &str, params: &str) -> Answer {
    let url = format!("{base}{path}");
    let answer = match method {
        Method::Get => http::get(&format!("{url}?{params}")),
        Method::Post => http::post(&url, "application/x-www-form-urlencoded", params.as_bytes()),
    };
    Answer::of(&answer.unwrap_or_else(|error| panic!("{method:?} {path} {params}: {error}")))
}

/// Collects the path and type of everything in a JSON value; of lists only the first element.
fn shape(value: &Value, path: &str, found: &mut BTreeSet<(String, &'static str)>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(items) => {
            if let Some(first) = items.first() {
                shape(first, &format!("{path}/0"), found);
            }
            "list"
        }
        Value::Object(fields) => {
            fields
                .iter()
                .for_each(|(name, value)| shape(value, &format!("{path}/{name}"), found));
            "object"
        }
    };
    found.insert((path.to_owned(), kind));
}

/// Returns what is wrong with a pair of responses, if anything.
fn complaint(expect: &Expect, ours: &Answer, theirs: &Answer) -> Option<String> {
    match expect {
        Same => (!ours.same(theirs)).then(|| "not the same".to_owned()),
        Differs { status, text, why } => {
            if ours.same(theirs) {
                return Some(format!("no difference any more ({why})"));
            }
            let as_listed = ours.status == *status && ours.text.contains(text);
            (!as_listed).then(|| format!("not the listed difference: {status} {text}"))
        }
        Shape {
            ours: only_ours,
            theirs: only_theirs,
            why,
        } => {
            let shapes = [ours, theirs].map(|answer| {
                let mut found = BTreeSet::new();
                shape(&answer.json().unwrap_or_default(), "", &mut found);
                found
            });
            let [mut mine, mut others] = shapes;
            let below = |path: &str, roots: &[&str]| {
                roots.iter().any(|root| {
                    path.strip_prefix(root)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                })
            };
            let listed = only_ours
                .iter()
                .filter(|root| !mine.iter().any(|(path, _)| path == *root));
            let gone: Vec<_> = listed.collect();
            mine.retain(|(path, _)| !below(path, only_ours));
            others.retain(|(path, _)| !below(path, only_theirs));
            let same = mine == others
                && ours.status == theirs.status
                && ours.content_type == theirs.content_type;
            (!same || !gone.is_empty()).then(|| {
                format!(
                    "another shape ({why}): only ours {:?}, only theirs {:?}, not there any more {gone:?}",
                    mine.difference(&others).collect::<Vec<_>>(),
                    others.difference(&mine).collect::<Vec<_>>()
                )
            })
        }
    }
}

#[test]
fn answers_are_those_of_prometheus() {
    let pair = Pair::start(20, &["--query.max-samples=100000", "--web.cors.origin=.*"]);
    let times = [
        ("{end}", pair.at(pair.end() + 7_000)),
        ("{start}", pair.at(31_000)),
        ("{mid}", pair.at(12 * 15_000 + 3)),
    ];
    let mut complaints = Vec::new();
    let mut count = 0;
    for case in QUERIES.iter().chain(LISTINGS) {
        let params = times
            .iter()
            .fold(case.params.to_owned(), |text, (name, time)| {
                text.replace(name, time)
            });
        for method in [Method::Get, Method::Post] {
            if method == Method::Post && !FORMS.contains(&case.path) {
                continue;
            }
            count += 1;
            let ours = ask(&pair.ours.url, method, case.path, &params);
            let theirs = ask(&pair.theirs.url, method, case.path, &params);
            if let Some(complaint) = complaint(&case.expect, &ours, &theirs) {
                complaints.push(format!(
                    "{method:?} {}?{params}: {complaint}\n  ours   {ours:?}\n  theirs {theirs:?}",
                    case.path
                ));
            }
        }
    }
    assert!(
        complaints.is_empty(),
        "{} of {count}:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
    println!("{count} requests compared");
    assert_forms_join_queries(&pair);
    assert_cross_origin(&pair);
}

/// Parameters may come from the form and the URL at once.
fn assert_forms_join_queries(pair: &Pair) {
    let time = pair.at(pair.end());
    let split = |server: &Running| {
        let url = format!("{}{QUERY}?time={time}&query=nothing", server.url);
        Answer::of(&http::post_form(&url, &[("query", "slot")]).unwrap())
    };
    let (ours, theirs) = (split(&pair.ours), split(&pair.theirs));
    assert!(
        ours.same(&theirs) && ours.text.contains("slot"),
        "{ours:?} {theirs:?}"
    );
    for path in [
        METADATA,
        TARGETS,
        CODES,
        "/api/v1/status/buildinfo",
        "/-/healthy",
    ] {
        let ours = ask(&pair.ours.url, Method::Post, path, "a=b");
        let theirs = ask(&pair.theirs.url, Method::Post, path, "a=b");
        assert_eq!((ours.status, theirs.status), (405, 405), "{path}");
    }
    for path in ["/api/v1/nothing", "/nothing"] {
        let ours = ask(&pair.ours.url, Method::Post, path, "a=b");
        assert!(
            ours.same(&ask(&pair.theirs.url, Method::Post, path, "a=b")),
            "{path}: {ours:?}"
        );
    }
}

/// Pages of other origins have the same access as in Prometheus.
fn assert_cross_origin(pair: &Pair) {
    let headers = |server: &Running, method: &str, path: &str, origin: &[(&str, &str)]| {
        let answer = http::request(method, &format!("{}{path}", server.url), origin, b"").unwrap();
        let mut headers: Vec<(String, String)> = answer.headers;
        headers.retain(|(name, _)| name.to_ascii_lowercase().starts_with("access-control-"));
        headers
            .iter_mut()
            .for_each(|(name, _)| name.make_ascii_lowercase());
        headers.sort_unstable();
        (answer.status, headers)
    };
    let origin: &[(&str, &str)] = &[("Origin", "https://example.org")];
    for (method, path, origin) in [
        ("GET", "/api/v1/query?query=1", origin),
        ("GET", "/api/v1/query?query=(", origin),
        ("GET", "/api/v1/query?query=1", &[]),
        ("GET", "/api/v1/targets", origin),
        ("OPTIONS", "/api/v1/query", origin),
        ("OPTIONS", "/api/v1/label/job/values", origin),
    ] {
        let ours = headers(&pair.ours, method, path, origin);
        assert_eq!(
            ours,
            headers(&pair.theirs, method, path, origin),
            "{method} {path}"
        );
        assert_eq!(ours.1.is_empty(), origin.is_empty(), "{method} {path}");
    }
}

#[test]
fn only_named_origins_are_let_in() {
    let dir = TempDir::new("cors");
    let server = Running::of(
        support::server_in(&dir.join("data")).arg("--web.cors.origin=https://(a|b)\\.example"),
    );
    let allowed = |origin: &str| {
        let url = format!("{}/api/v1/query?query=1", server.url);
        let answer = http::request("GET", &url, &[("Origin", origin)], b"").unwrap();
        answer
            .header("access-control-allow-origin")
            .map(str::to_owned)
    };
    assert_eq!(
        allowed("https://a.example").as_deref(),
        Some("https://a.example")
    );
    assert_eq!(allowed("https://a.example.org"), None);
    assert_eq!(allowed("http://a.example"), None);
    server.stop();
}

/// If a site's name points at this machine, browsers give its pages the server's own origin: they could read and write
/// everything that the page's reader may.
#[test]
fn a_name_that_points_here_is_answered_only_when_it_is_allowed() {
    let dir = TempDir::new("rebinding");
    let status = |server: &Running, host: &str| {
        let address = server.url.trim_start_matches("http://");
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let head = format!("GET /-/healthy HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        answer.get(9..12).unwrap_or_default().to_owned()
    };
    let open = Running::of(support::server_in(&dir.join("open")));
    assert_eq!(status(&open, "evil.example"), "200");
    open.stop();
    let flag = "--web.allowed-hosts=prom.example, other.example";
    let server = Running::of(support::server_in(&dir.join("named")).arg(flag));
    for (host, wanted) in [
        ("evil.example:9090", "421"),
        ("prom.example:9090", "200"),
        ("other.example", "200"),
        ("localhost:9090", "200"),
        ("127.0.0.1:9090", "200"),
    ] {
        assert_eq!(status(&server, host), wanted, "{host}");
    }
    server.stop();
}

/// Any site's page could make a browser that reaches the server stop it, reload it, write to it and read what it
/// stores: `Access-Control-Allow-Origin: *` was the default even for a server on this machine only.
#[test]
fn other_sites_pages_read_nothing_and_change_nothing() {
    let dir = TempDir::new("cross-site");
    let flags = [
        "--web.enable-lifecycle",
        "--web.enable-remote-write-receiver",
    ];
    let server = Running::of(support::server_in(&dir.join("data")).args(flags));
    let evil = ("Origin", "https://evil.example");
    let read = format!("{}/api/v1/query?query=1", server.url);
    let answer = http::request("GET", &read, &[evil], b"").unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), None);
    let preflight = http::request("OPTIONS", &read, &[evil], b"").unwrap();
    assert_eq!(preflight.header("access-control-allow-origin"), None);
    for headers in [
        &[evil][..],
        &[("Origin", "null")],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site"), evil],
    ] {
        for (method, path) in [
            ("POST", "/-/quit"),
            ("PUT", "/-/quit"),
            ("POST", "/-/reload"),
            ("POST", "/api/v1/write"),
            ("POST", "/api/v1/query"),
            ("POST", "/api/v1/admin/tsdb/delete_series"),
            ("DELETE", "/api/v1/series"),
        ] {
            let url = format!("{}{path}", server.url);
            let answer = http::request(method, &url, headers, b"").unwrap();
            assert_eq!(answer.status, 403, "{method} {path} {headers:?}");
            assert!(
                answer.text().starts_with("cross-site request refused"),
                "{path}"
            );
        }
    }
    // The server's own page, Grafana's server and curl still work.
    let own = server.url.as_str();
    for headers in [
        &[][..],
        &[("Origin", own)],
        &[("Origin", own), ("Sec-Fetch-Site", "same-origin")],
    ] {
        let form = [
            headers,
            &[("Content-Type", "application/x-www-form-urlencoded")],
        ]
        .concat();
        let url = format!("{own}/api/v1/query");
        let answer = http::request("POST", &url, &form, b"query=1").unwrap();
        assert_eq!(answer.status, 200, "{headers:?}: {}", answer.text());
    }
    server.stop();
}

/// Sends the requests that Grafana makes when a Prometheus data source is added and a panel opened.
fn assert_grafana_is_content(server: &Running) {
    // Rounded up, so that the sample just stored is within range.
    let now = crate::target::now_ms() / 1000 + 1;
    let (start, end) = ((now - 300).to_string(), now.to_string());
    let within = [("start", start.as_str()), ("end", end.as_str())];
    let with = |more: &[(&'static str, &'static str)]| {
        let mut params: Vec<(&str, &str)> = within.to_vec();
        params.extend(more);
        params
    };
    let build = server.data("/api/v1/status/buildinfo", &[]);
    assert!(
        build["version"].as_str().unwrap().starts_with("3."),
        "{build}"
    );
    let version = http::get(&format!("{}/version", server.url))
        .unwrap()
        .text();
    let version: Value = serde_json::from_str(&version).unwrap();
    assert_eq!(version["version"], build["version"]);

    let form = |path: &str, fields: &[(&str, &str)]| {
        let answer = http::post_form(&format!("{}{path}", server.url), fields).unwrap();
        client::data_of(&answer, path)
    };
    let sum = form(QUERY, &[("query", "1+1"), ("time", &end)]);
    assert_eq!(sum, json!({"resultType": "scalar", "result": [now, "2"]}));

    let labels = server.data(LABELS, &within);
    let names = server.data("/api/v1/label/__name__/values", &within);
    let has = |list: &Value, item: &str| list.as_array().unwrap().iter().any(|one| one == item);
    assert!(
        has(&labels, "__name__") && has(&labels, "job") && has(&labels, "cpu"),
        "{labels}"
    );
    assert!(
        has(&names, "up") && has(&names, "node_cpu_seconds_total"),
        "{names}"
    );
    let jobs = server.data("/api/v1/label/job/values", &with(&[("match[]", "up")]));
    assert_eq!(jobs, json!(["narthex", "node"]));
    let modes = server.data(
        "/api/v1/label/mode/values",
        &with(&[("match[]", "node_cpu_seconds_total{cpu=\"0\"}")]),
    );
    assert!(has(&modes, "idle") && has(&modes, "user"), "{modes}");
    let metadata = server.data(METADATA, &[("limit", "5000")]);
    assert_eq!(
        metadata["node_cpu_seconds_total"][0]["type"], "counter",
        "{metadata}"
    );
    let series = form(SERIES, &with(&[("match[]", "up")]));
    assert_eq!(series.as_array().unwrap().len(), 2, "{series}");
    let range = form(
        RANGE,
        &with(&[("query", "sum by (job) (up)"), ("step", "15")]),
    );
    assert_eq!(range["resultType"], "matrix");
    assert_eq!(range["result"].as_array().unwrap().len(), 2, "{range}");
}

/// Responses are compressed only for clients that accept it.
fn assert_gzip(server: &Running, dir: &TempDir) {
    // The last one is streamed, its length unknown in advance.
    let query = "/api/v1/query?query=%7B__name__%3D~%22.%2B%22%7D";
    for path in ["/metrics", "/api/v1/label/__name__/values", query] {
        let url = format!("{}{path}", server.url);
        let fetch =
            |encoding| http::request("GET", &url, &[("Accept-Encoding", encoding)], b"").unwrap();
        let packed = fetch("gzip, deflate");
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
        assert!(
            packed
                .header("vary")
                .is_some_and(|vary| vary.contains("Accept-Encoding")),
            "{path}"
        );
        let file = dir.write("packed.gz", &packed.body);
        let unpacked = Spawn::new("gzip").arg("-dc").arg(file).run(PATIENCE);
        assert_eq!(unpacked.exit.code, Some(0), "{}", unpacked.stderr);
        for plain in [fetch("identity"), fetch("gzip;q=0")] {
            assert_eq!(plain.header("content-encoding"), None, "{path}");
            let lines = |text: &str| text.lines().count();
            // The page changes between requests, but only by a few lines.
            assert!(
                lines(&unpacked.stdout).abs_diff(lines(&plain.text())) < 50,
                "{path}"
            );
        }
    }
}

/// Our own page is available in every format, with the same contents.
fn assert_formats(server: &Running) {
    let url = format!("{}/metrics", server.url);
    let page = |accept: &str| http::request("GET", &url, &[("Accept", accept)], b"").unwrap();
    let formats = [
        (
            "*/*",
            "text/plain; version=0.0.4; charset=utf-8",
            Format::Text,
        ),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
            "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
            Format::OpenMetrics,
        ),
        (
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; \
             escaping=underscores",
            Format::Protobuf,
        ),
    ];
    let mut series = Vec::new();
    for (accept, content_type, format) in formats {
        let page = page(accept);
        assert_eq!(page.header("content-type"), Some(content_type));
        assert_eq!(check(format, &page.body), [], "{content_type}");
        let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
        let round = parser
            .parse(format, &page.body, 0, &mut KeepLabels)
            .unwrap_or_else(|error| panic!("{content_type}: {error}"));
        series.push(round.frame.present().count());
    }
    // A request adds series of its own now and then.
    assert!(
        series[0] > 100 && series.iter().all(|count| count.abs_diff(series[0]) < 50),
        "{series:?}"
    );
}

#[test]
fn clients_are_served() {
    let dir = TempDir::new("clients");
    let server = Running::of(support::server_in(&dir.join("data")));
    server.wait_vector(
        "up and on(job) (node_load1 or narthex_build_info)",
        |found| found.len() == 2,
    );
    assert_grafana_is_content(&server);
    assert_gzip(&server, &dir);
    assert_formats(&server);

    let finished = Spawn::new(go_program("goclient"))
        .arg(&server.url)
        .run(PATIENCE);
    assert_eq!(
        finished.exit.code,
        Some(0),
        "{}{}",
        finished.stdout,
        finished.stderr
    );
    let calls: Vec<&str> = finished.stdout.lines().collect();
    assert!(
        calls.len() >= 10 && calls.iter().all(|call| call.starts_with("ok ")),
        "{calls:?}"
    );

    for path in [
        "/-/healthy",
        "/-/ready",
        "/api/v1/query?query=1",
        "/metrics",
        "/",
    ] {
        let head = http::request("HEAD", &format!("{}{path}", server.url), &[], b"").unwrap();
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        let get = client::get(&format!("{}{path}", server.url));
        assert_eq!(
            get.header("content-type"),
            head.header("content-type"),
            "{path}"
        );
    }
    let page = client::get(&server.url);
    assert!(page.text().contains("<html") && page.header("content-security-policy").is_some());
    let quit = http::post(&format!("{}/-/quit", server.url), "text/plain", b"").unwrap();
    assert_eq!(
        (quit.status, quit.text().as_str()),
        (403, "Lifecycle API is not enabled.\n")
    );
    server.stop();
}

#[test]
fn it_can_be_asked_to_quit() {
    let dir = TempDir::new("quit");
    let mut server =
        Running::of(support::server_in(&dir.join("data")).arg("--web.enable-lifecycle"));
    let url = format!("{}/-/quit", server.url);
    assert_eq!(client::get(&url).status, 405);
    let answer = http::post(&url, "text/plain", b"").unwrap();
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (200, "Requesting termination... Goodbye!\n")
    );
    let exit = server.process.wait_exit(PATIENCE);
    assert_eq!(exit.code, Some(0), "{}", server.process.stderr());
}
