//! Generated queries over one data set, which our server gets by remote write and Prometheus' engine as the same
//! request: both must give the same results.
//!
//! **Invariant:** data and queries follow from the seed alone. Values may differ relatively by `TOLERANCE`, since sums
//! may be added in another order; series, times, histogram layouts and success must be the same. Two differences are
//! known: among equal values `topk` takes those that come first in the store, and deviations of nearly equal values are
//! rounding errors.

use crate::{
    client,
    query_text::Generator,
    support::{self, Running, rng},
};
use narthex_testkit::{
    LineServer, TempDir, go_program,
    remote_write::{Histogram, Request, Series},
    rng::SplitMix64,
    scaled,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Time of the first sample.
const START_MS: i64 = 1_700_000_000_000;
const STEP_MS: i64 = 15_000;
const STEPS: i64 = 480;
const TOLERANCE: f64 = 1e-12;
/// Largest difference of deviations in this data set, whatever their size.
const ROUNDING: f64 = 1e-12;
const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);
/// Seed of data and queries.
const SEED: u64 = 0x6e61_7274;

/// Returns the data set: counters with resets, gauges with gaps and odd values, series that end and come back, classic
/// and native histograms.
fn data(rng: &mut SplitMix64) -> Vec<Series> {
    let mut all = Vec::new();
    for (at, job) in ["api", "db"].into_iter().enumerate() {
        for instance in 0..3 {
            let host = format!("host-{instance}:80");
            // Every target has its own scrape offset, with some jitter.
            let offset_ms = (at as i64 * 3 + instance) * 2_311;
            let target = |name: &str, more: &[(&str, &str)]| {
                let mut labels = vec![("__name__", name), ("instance", &*host), ("job", job)];
                labels.extend(more);
                labels.sort_unstable();
                Series::new(&labels, &[])
            };
            for code in ["200", "404", "500"] {
                let mut series = target("requests_total", &[("code", code)]);
                series.samples = counter(rng, offset_ms);
                all.push(series);
            }
            for zone in ["north", "south"] {
                let mut series = target("temperature", &[("zone", zone)]);
                series.samples = gauge(rng, offset_ms);
                all.push(series);
            }
            let mut series = target("flapping", &[]);
            series.samples = flapping(rng, offset_ms);
            all.push(series);
            all.extend(classic(rng, offset_ms, &target));
            let mut series = target("rpc_seconds", &[]);
            series.histograms = native(rng, offset_ms);
            all.push(series);
            let mut series = target(
                "target_info",
                &[("version", if at == 0 { "1" } else { "2" })],
            );
            series.samples = times(offset_ms).map(|time_ms| (time_ms, 1.0)).collect();
            all.push(series);
        }
    }
    for at in 0..2 {
        let name = format!("q{at}");
        let mut series = Series::new(&[("__name__", "queue_seconds"), ("queue", &name)], &[]);
        series.histograms = native(rng, 0);
        for histogram in &mut series.histograms {
            histogram.integer = false;
            histogram.reset_hint = 3;
        }
        all.push(series);
        let mut series = Series::new(&[("__name__", "sizes_bytes"), ("queue", &name)], &[]);
        series.histograms = custom(rng);
        all.push(series);
    }
    let mut odd = Series::new(&[("__name__", "odd")], &[]);
    odd.samples = times(7)
        .map(|time_ms| {
            (
                time_ms,
                *rng.pick(&[f64::NAN, f64::INFINITY, -0.0, 1e300, 5e-324, 1.0]),
            )
        })
        .collect();
    all.push(odd);
    all
}

fn times(offset_ms: i64) -> impl Iterator<Item = i64> {
    (0..STEPS).map(move |step| START_MS + step * STEP_MS + offset_ms)
}

fn counter(rng: &mut SplitMix64, offset_ms: i64) -> Vec<(i64, f64)> {
    let mut value = 0.0;
    times(offset_ms)
        .filter_map(|time_ms| {
            value += rng.below(20) as f64;
            if rng.one_in(90) {
                value = rng.below(5) as f64;
            }
            // Some scrapes are missing.
            (!rng.one_in(40)).then_some((time_ms + rng.below(9) as i64, value))
        })
        .collect()
}

fn gauge(rng: &mut SplitMix64, offset_ms: i64) -> Vec<(i64, f64)> {
    let gap = rng.below(STEPS as u64) as i64;
    let in_gap = |step: i64| (gap..gap + 30).contains(&step);
    times(offset_ms)
        .enumerate()
        .filter(|(step, _)| !in_gap(*step as i64))
        .map(|(_, time_ms)| (time_ms, rng.below(60_000) as f64 / 1000.0 - 20.0))
        .collect()
}

fn flapping(rng: &mut SplitMix64, offset_ms: i64) -> Vec<(i64, f64)> {
    let (mut alive, mut samples) = (true, Vec::new());
    for time_ms in times(offset_ms) {
        let was = alive;
        if rng.one_in(25) {
            alive = !alive;
        }
        if alive {
            samples.push((time_ms, rng.unit_f64()));
        } else if was {
            samples.push((time_ms, STALE));
        }
    }
    samples
}

/// Returns an empty series with a name and labels.
type Maker<'a> = dyn Fn(&str, &[(&str, &str)]) -> Series + 'a;

fn classic(rng: &mut SplitMix64, offset_ms: i64, target: &Maker<'_>) -> Vec<Series> {
    const BOUNDS: [&str; 5] = ["0.1", "0.5", "1", "5", "+Inf"];
    let mut all: Vec<Series> = BOUNDS
        .iter()
        .map(|le| target("latency_seconds_bucket", &[("le", le)]))
        .collect();
    let (mut sum_series, mut count_series) = (
        target("latency_seconds_sum", &[]),
        target("latency_seconds_count", &[]),
    );
    let (mut counts, mut sum) = ([0_u64; 5], 0.0);
    for time_ms in times(offset_ms) {
        for at in 0..BOUNDS.len() {
            let observed = rng.below(4);
            sum += observed as f64 * 0.3 * (at + 1) as f64;
            counts[at..].iter_mut().for_each(|count| *count += observed);
        }
        for (series, count) in all.iter_mut().zip(counts) {
            series.samples.push((time_ms, count as f64));
        }
        sum_series.samples.push((time_ms, sum));
        count_series.samples.push((time_ms, counts[4] as f64));
    }
    all.extend([sum_series, count_series]);
    all
}

fn native(rng: &mut SplitMix64, offset_ms: i64) -> Vec<Histogram> {
    let mut h = Histogram {
        integer: true,
        schema: 2,
        zero_threshold: 0.001,
        positive_spans: vec![(-2, 3), (1, 2)],
        positive: vec![0.0; 5],
        negative_spans: vec![(0, 1)],
        negative: vec![0.0],
        ..Histogram::default()
    };
    let mut all = Vec::new();
    for time_ms in times(offset_ms) {
        if rng.one_in(100) {
            // A restart of the process.
            h.positive.fill(0.0);
            h.negative.fill(0.0);
            (h.zero_count, h.sum) = (0.0, 0.0);
        }
        let observed: Vec<f64> = (0..7).map(|_| rng.below(5) as f64).collect();
        for (count, more) in h.positive.iter_mut().zip(&observed) {
            *count += more;
        }
        h.negative[0] += observed[5];
        h.zero_count += observed[6];
        h.sum += observed.iter().sum::<f64>() * 0.7;
        h.count = h.positive.iter().sum::<f64>() + h.negative[0] + h.zero_count;
        h.time_ms = time_ms;
        if !rng.one_in(30) {
            all.push(h.clone());
        }
    }
    all
}

fn custom(rng: &mut SplitMix64) -> Vec<Histogram> {
    let mut h = Histogram {
        integer: true,
        schema: -53,
        positive_spans: vec![(0, 4)],
        positive: vec![0.0; 4],
        custom: vec![10.0, 100.0, 1000.0],
        ..Histogram::default()
    };
    times(3)
        .map(|time_ms| {
            for count in &mut h.positive {
                *count += rng.below(3) as f64;
            }
            h.count = h.positive.iter().sum();
            h.sum = h.count * 55.5;
            h.time_ms = time_ms;
            h.clone()
        })
        .collect()
}

/// Sends the data like a sender: slices of time, series in order, some hundred series per request. One slice of three is
/// late by up to twenty.
fn send(server: &Running, all: &[Series], rng: &mut SplitMix64) {
    const SLICE_MS: i64 = STEP_MS * 8;
    let mut slices: Vec<i64> = (0..=STEPS * STEP_MS / SLICE_MS).collect();
    let mut late = |slice: i64| match rng.below(3) {
        0 => slice + rng.below(20) as i64,
        _ => slice,
    };
    slices.sort_by_cached_key(|slice| late(*slice));
    for slice in slices {
        let from_ms = START_MS + slice * SLICE_MS;
        let within = |time_ms: i64| (from_ms..from_ms + SLICE_MS).contains(&time_ms);
        let part = |series: &Series| Series {
            samples: series
                .samples
                .iter()
                .copied()
                .filter(|s| within(s.0))
                .collect(),
            histograms: (series.histograms.iter())
                .filter(|h| within(h.time_ms))
                .cloned()
                .collect(),
            ..series.clone()
        };
        let parts: Vec<Series> = all.iter().map(part).collect();
        for series in parts.chunks(70) {
            let request = Request {
                series: series.to_vec(),
                ..Request::default()
            };
            let answer = request.send(&server.url).unwrap();
            assert_eq!(answer.status, 204, "{}", answer.text());
        }
    }
}

fn start(dir: &TempDir, config: &std::path::Path) -> Running {
    let spawn = support::server_in(&dir.path().join("data"))
        .arg(support::config_flag(config))
        .arg("--web.enable-remote-write-receiver")
        .arg("--storage.tsdb.retention.time=0");
    Running::of(spawn)
}

/// One query: at an instant, or over a range with a step.
struct Question {
    text: String,
    start_ms: i64,
    end_ms: i64,
    step_ms: i64,
}

impl Question {
    fn new(rng: &mut SplitMix64) -> Self {
        let text = Generator { rng }.vector(3);
        let start_ms = START_MS + rng.below((STEPS * STEP_MS) as u64) as i64;
        if rng.one_in(2) {
            return Self {
                text,
                start_ms,
                end_ms: start_ms,
                step_ms: 0,
            };
        }
        let step_ms = *rng.pick(&[15_000, 30_000, 47_000, 300_000]);
        Self {
            text,
            start_ms,
            end_ms: start_ms + step_ms * rng.below(40) as i64,
            step_ms,
        }
    }

    fn ask(&self, server: &Running) -> Value {
        let seconds = |time_ms: i64| format!("{}.{:03}", time_ms / 1000, time_ms % 1000);
        let (start, end, step) = (
            seconds(self.start_ms),
            seconds(self.end_ms),
            seconds(self.step_ms),
        );
        let answer = if self.step_ms == 0 {
            let params = [("query", self.text.as_str()), ("time", start.as_str())];
            client::try_call(&server.url, "/api/v1/query", &params)
        } else {
            let params = [
                ("query", self.text.as_str()),
                ("start", start.as_str()),
                ("end", end.as_str()),
                ("step", step.as_str()),
            ];
            client::try_call(&server.url, "/api/v1/query_range", &params)
        };
        let text = answer.unwrap().text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn ask_oracle(&self, oracle: &mut LineServer, written: &str) -> Value {
        let mut request = json!({ "expr": self.text, "written": written });
        if self.step_ms == 0 {
            request["time_ms"] = self.start_ms.into();
        } else {
            request["start_ms"] = self.start_ms.into();
            request["end_ms"] = self.end_ms.into();
            request["step_ms"] = self.step_ms.into();
        }
        serde_json::from_str(&oracle.ask(&request.to_string())).unwrap()
    }
}

/// Returns how two responses to a question differ, except in known ways.
fn difference(question: &Question, ours: &Value, theirs: &Value) -> Option<String> {
    let floor = if question.text.contains("std") {
        ROUNDING
    } else {
        0.0
    };
    let text = compared(ours, theirs, floor)?;
    let picks = question.text.contains("topk") || question.text.contains("bottomk");
    let tie = picks
        && differs(
            &values_by_time(&ours["data"]["result"]),
            &values_by_time(&theirs["result"]),
            floor,
        )
        .is_none();
    (!tie).then_some(text)
}

/// Lists the values of all series at each time, without the series.
fn values_by_time(result: &Value) -> Value {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut note = |point: &Value| {
        let at = all.entry(point[0].to_string()).or_default();
        at.push(point[1].clone());
    };
    for series in result.as_array().into_iter().flatten() {
        for part in ["values", "histograms"] {
            let points = series[part].as_array().into_iter().flatten();
            points.for_each(&mut note);
        }
        for part in ["value", "histogram"] {
            series.get(part).into_iter().for_each(&mut note);
        }
    }
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok());
    for values in all.values_mut() {
        values.sort_by(|a, b| match (number(a), number(b)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => a.to_string().cmp(&b.to_string()),
        });
    }
    json!(all)
}

fn compared(ours: &Value, theirs: &Value, floor: f64) -> Option<String> {
    match (ours["status"] == "success", theirs["ok"] == true) {
        (false, false) => return None,
        (true, true) => {}
        (true, false) => return Some(format!("an answer instead of {}", theirs["error"])),
        (false, true) => return Some(format!("{} instead of an answer", ours["error"])),
    }
    let data = &ours["data"];
    if data["resultType"] != theirs["type"] {
        return Some(format!(
            "{} instead of {}",
            data["resultType"], theirs["type"]
        ));
    }
    if !matches!(data["resultType"].as_str(), Some("vector" | "matrix")) {
        return differs(&data["result"], &theirs["result"], floor);
    }
    let (mine, others) = (by_labels(&data["result"]), by_labels(&theirs["result"]));
    if mine.keys().ne(others.keys()) {
        let (mine, others): (Vec<_>, Vec<_>) = (mine.keys().collect(), others.keys().collect());
        return Some(format!("series {mine:?} instead of {others:?}"));
    }
    for (labels, series) in &mine {
        for part in ["value", "values", "histogram", "histograms"] {
            if let Some(text) = differs(&series[part], &others[labels][part], floor) {
                return Some(format!("{labels} {part}: {text}"));
            }
        }
    }
    for notes in ["warnings", "infos"] {
        let list = |answer: &Value| {
            let mut list: Vec<String> = answer[notes]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|note| note.as_str().map(str::to_owned))
                .collect();
            list.sort();
            list
        };
        if list(ours) != list(theirs) {
            return Some(format!(
                "{notes} {:?} instead of {:?}",
                list(ours),
                list(theirs)
            ));
        }
    }
    None
}

fn by_labels(result: &Value) -> BTreeMap<String, Value> {
    let series = result.as_array().into_iter().flatten();
    series
        .map(|series| (client::labels(&series["metric"]), series.clone()))
        .collect()
}

/// Compares two values; numeric strings are compared as numbers.
fn differs(ours: &Value, theirs: &Value, floor: f64) -> Option<String> {
    let told = || Some(format!("{ours} instead of {theirs}"));
    let number = |value: &Value| match value {
        Value::String(text) => text.parse::<f64>().ok(),
        Value::Number(number) => number.as_f64(),
        _ => None,
    };
    match (ours, theirs) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).find_map(|(a, b)| differs(a, b, floor))
        }
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => a
            .iter()
            .find_map(|(key, value)| differs(value, &b[key], floor)),
        _ => match (number(ours), number(theirs)) {
            (Some(a), Some(b)) => {
                let same = a.to_bits() == b.to_bits()
                    || (a.is_nan() && b.is_nan())
                    || (a - b).abs() <= floor.max(TOLERANCE * a.abs().max(b.abs()));
                if same { None } else { told() }
            }
            _ if ours == theirs => None,
            _ => told(),
        },
    }
}

#[test]
fn generated_queries_answer_as_prometheus_does() {
    let mut rng = rng(SEED);
    let dir = TempDir::new("generated");
    let config = support::config(&dir, "1h", &[]);
    let all = data(&mut rng);
    let written = base64(
        &Request {
            series: all.clone(),
            ..Request::default()
        }
        .v1(),
    );
    let mut server = start(&dir, &config);
    send(&server, &all, &mut rng);
    let mut oracle = LineServer::start(&go_program("oracle"));
    let questions = scaled(240);
    let mut wrong = Vec::new();
    let mut answered = 0;
    for at in 0..questions {
        if at == questions / 2 {
            // The second half is asked after a replay of the WAL.
            server.stop();
            server = start(&dir, &config);
        }
        let question = Question::new(&mut rng);
        let theirs = question.ask_oracle(&mut oracle, &written);
        let ours = question.ask(&server);
        let filled = theirs["result"]
            .as_array()
            .is_some_and(|result| !result.is_empty());
        answered += u64::from(filled);
        if let Some(text) = difference(&question, &ours, &theirs) {
            wrong.push(format!(
                "{} [{}, {}] every {} ms\n    {text}",
                question.text, question.start_ms, question.end_ms, question.step_ms
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {questions} queries differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        answered * 2 >= questions,
        "only {answered} of {questions} queries have series in their answer"
    );
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().enumerate().fold(0_u32, |word, (at, byte)| {
            word | u32::from(*byte) << (16 - 8 * at)
        });
        for at in 0..4 {
            if at <= chunk.len() {
                out.push(char::from(DIGITS[(word >> (18 - 6 * at)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}
