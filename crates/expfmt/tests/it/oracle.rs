//! The same bodies read by Prometheus' own parsers: the same verdicts, samples, histograms, exemplars and metadata.
//!
//! **Invariant:** expected values come only from Prometheus. Of mutated bodies, only those that Prometheus accepts are
//! compared: we promise to accept them too, not to refuse those it refuses.

use crate::{fuzz::OPENMETRICS, fuzz::TEXT, messages};
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_model::{
    ColumnId, Frame, Histogram, LabelSet, MetricType, cell::Cell, histogram::ResetHint,
};
use narthex_testkit::{LineServer, corpora, go_program, mutate::Mutator, rng::SplitMix64, scaled};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Samples in the form that both sides show.
pub(crate) type Shown = BTreeSet<String>;

pub(crate) struct Oracle(LineServer);

/// A side's result for a body: its samples and families, or its refusal.
pub(crate) type Verdict = Result<(Shown, BTreeMap<String, String>), String>;

impl Oracle {
    pub(crate) fn start() -> Self {
        Self(LineServer::start(&go_program("oracle")))
    }

    pub(crate) fn read(&mut self, format: Format, body: &[u8], options: &ParseOptions) -> Verdict {
        let request = json!({ "exposition": {
            "content_type": match format {
                Format::Text => "text/plain",
                Format::OpenMetrics => "application/openmetrics-text",
                Format::Protobuf => "application/vnd.google.protobuf",
            },
            "body": base64(body),
            "native": options.native_histograms,
            "classic": options.classic_histograms,
            "convert": options.custom_buckets,
            "starts": options.start_times,
        }});
        let answer: Value = serde_json::from_str(&self.0.ask(&request.to_string())).unwrap();
        if answer["ok"] != true {
            return Err(answer["error"].to_string());
        }
        let found = &answer["result"];
        let mut shown = Shown::new();
        let mut seen = BTreeSet::new();
        for sample in found["samples"].as_array().unwrap() {
            let labels = labels_of(&sample["labels"]);
            // Among samples without a time the first counts.
            if seen.insert(labels.clone()) || sample["time_ms"].is_i64() {
                shown.insert(shown_of(&labels, sample));
            }
        }
        let families = found["families"].as_object().unwrap().iter();
        let family = |(name, family): (&String, &Value)| {
            let text = |key: &str| family[key].as_str().unwrap_or_default().to_owned();
            let kind = Some(text("type")).filter(|kind| !kind.is_empty());
            let kind = kind.unwrap_or_else(|| "unknown".to_owned());
            (
                name.clone(),
                format!("{kind} {:?} {:?}", text("help"), text("unit")),
            )
        };
        Ok((shown, families.map(family).collect()))
    }
}

fn labels_of(value: &Value) -> String {
    let pairs = value.as_object().unwrap().iter();
    let pairs = pairs.map(|(name, value)| (name.as_str(), value.as_str().unwrap()));
    LabelSet::new(pairs).to_string()
}

fn shown_of(labels: &str, sample: &Value) -> String {
    let exemplar = |e: &Value| {
        format!(
            "{} {} {}",
            labels_of(&e["labels"]),
            e["value"],
            e["time_ms"]
        )
    };
    let mut exemplars: Vec<String> = sample["exemplars"]
        .as_array()
        .map(|all| all.iter().map(exemplar).collect())
        .unwrap_or_default();
    exemplars.sort();
    let value = if sample["histogram"].is_null() {
        sample["value"].to_string()
    } else {
        sample["histogram"].to_string()
    };
    format!(
        "{labels} {value} at {} since {} with {exemplars:?}",
        sample["time_ms"],
        sample["start_ms"].as_i64().unwrap_or_default()
    )
}

fn bits(value: f64) -> String {
    format!("{:x}", value.to_bits())
}

fn histogram(h: &Histogram) -> Value {
    let side = |buckets: &mut dyn Iterator<Item = (i32, f64)>| -> Vec<Value> {
        buckets
            .filter(|(_, count)| *count != 0.0)
            .map(|(at, count)| json!([at.to_string(), bits(count)]))
            .collect()
    };
    let bounds: Vec<String> = h.custom_values.iter().map(|bound| bits(*bound)).collect();
    json!({
        "schema": h.histogram_schema,
        "integer": h.integer_counts,
        "gauge": h.reset_hint == ResetHint::Gauge,
        "zero_threshold": bits(h.zero_threshold),
        "zero_count": bits(h.zero_count),
        "count": bits(h.count),
        "sum": bits(h.sum),
        "positive": side(&mut h.positive()),
        "negative": side(&mut h.negative()),
        "bounds": bounds,
    })
}

/// Returns our result in the form of the oracle's.
pub(crate) fn ours(format: Format, body: &[u8], options: &ParseOptions) -> Verdict {
    let mut parser = Parser::new(LabelSet::empty(), *options);
    // The second round runs along the template and must give the same.
    parser
        .parse(format, body, -1, &mut KeepLabels)
        .map_err(|error| error.to_string())?;
    let round = parser
        .parse(format, body, -1, &mut KeepLabels)
        .map_err(|error| error.to_string())?;
    let (more, frame) = (round.more, &round.frame);
    let mut shown: Shown = frame
        .present()
        .iter()
        .map(|at| sample(frame, ColumnId(at as u32)))
        .collect();
    for more in more {
        let labels = frame.schema().labels(more.column).to_string();
        let value = json!({ "value": bits(more.value), "time_ms": more.time_ms });
        shown.insert(shown_of(&labels, &value));
    }
    let family = |family: &narthex_model::Family| {
        let shown = format!(
            "{} {:?} {:?}",
            family.metric_type, &*family.help, &*family.unit
        );
        (family.name.to_string(), shown)
    };
    let families = frame.schema().families().iter().map(family).collect();
    Ok((shown, families))
}

fn sample(frame: &Frame, column: ColumnId) -> String {
    let exemplars: Vec<Value> = frame
        .exemplars()
        .iter()
        .filter(|(of, _)| *of == column)
        .map(|(_, e)| {
            let labels: BTreeMap<&str, &str> = e
                .labels
                .iter()
                .map(|label| (label.name(), label.value()))
                .collect();
            json!({ "labels": labels, "value": bits(e.value), "time_ms": e.time_ms })
        })
        .collect();
    let starts = frame.start_times_ms().iter();
    let start = starts
        .filter(|(of, _)| *of == column)
        .map(|(_, ms)| *ms)
        .next();
    let time_ms = Some(frame.time_of(column)).filter(|time| *time != frame.time_ms());
    let value = match Cell::decode(frame.values()[column.index()]) {
        Cell::Histogram(at) => json!({ "histogram": histogram(&frame.histograms()[at as usize]) }),
        _ => json!({ "value": bits(frame.values()[column.index()]) }),
    };
    let mut value = value;
    value["time_ms"] = json!(time_ms);
    value["start_ms"] = json!(start);
    value["exemplars"] = json!(exemplars);
    shown_of(&frame.schema().labels(column).to_string(), &value)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let all = chunk
            .iter()
            .fold(0u32, |all, byte| all << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            text.push(if digit <= chunk.len() {
                char::from(DIGITS[(all >> (18 - 6 * digit)) as usize & 63])
            } else {
                '='
            });
        }
    }
    text
}

/// Returns every combination of histogram options.
fn ways() -> Vec<ParseOptions> {
    let way = |n: u8| {
        let mut options = ParseOptions::default();
        options.native_histograms = n & 1 != 0;
        options.classic_histograms = n & 2 != 0;
        options.custom_buckets = n & 4 != 0;
        options
    };
    (0..8).map(way).collect()
}

/// An invalid body: a quantile label of a metric that is not a summary, after the head of one that is. Prometheus
/// spells it as the summary's; here spelling follows the metric's own type.
const SPELLED: &str = "bad_grouping_or_ordering_3";

/// Describes the difference between two readings, if there is one.
pub(crate) fn difference(
    theirs: &(Shown, BTreeMap<String, String>),
    ours: &Verdict,
) -> Option<String> {
    let ours = match ours {
        Ok(ours) => ours,
        Err(error) => return Some(format!("refused: {error}")),
    };
    if theirs.0 != ours.0 {
        let missing: Vec<_> = theirs.0.difference(&ours.0).collect();
        let extra: Vec<_> = ours.0.difference(&theirs.0).collect();
        return Some(format!("missing {missing:#?}\ntoo much {extra:#?}"));
    }
    // Here families are known once they have series; there, families without a head are not listed.
    let unknown = format!("{} \"\" \"\"", MetricType::Unknown);
    ours.1
        .iter()
        .find(|(name, family)| theirs.1.get(*name).unwrap_or(&unknown) != *family)
        .map(|(name, family)| format!("family {name}: {family}, not {:?}", theirs.1.get(name)))
}

#[test]
fn reference_bodies_are_read_as_prometheus_reads_them() {
    let (Some(bodies), Some(cases)) = (corpora::dir("textparse"), corpora::dir("openmetrics"))
    else {
        return corpora::report("bodies against Prometheus' parsers", 0, 215);
    };
    let mut oracle = Oracle::start();
    let mut all: Vec<(String, Format, Vec<u8>)> = Vec::new();
    for path in corpora::files(&bodies, ".txt") {
        let name = path.file_name().unwrap().display().to_string();
        let format = if name.contains(".om.") {
            Format::OpenMetrics
        } else {
            Format::Text
        };
        all.push((name, format, std::fs::read(path).unwrap()));
    }
    for path in corpora::files(&cases, "metrics") {
        let name = path
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .display()
            .to_string();
        all.push((name, Format::OpenMetrics, std::fs::read(path).unwrap()));
    }
    let mut complaints = Vec::new();
    for (name, format, body) in &all {
        for options in ways()
            .into_iter()
            .filter(|options| !options.native_histograms)
        {
            let theirs = oracle.read(*format, body, &options);
            let ours = ours(*format, body, &options);
            let differs = match &theirs {
                _ if name == SPELLED => None,
                Ok(theirs) => difference(theirs, &ours),
                Err(error) => ours.is_ok().then(|| format!("taken, not refused: {error}")),
            };
            if let Some(differs) = differs {
                complaints.push(format!("{name} {options:?}: {differs}"));
                break;
            }
        }
    }
    corpora::report("bodies against Prometheus' parsers", all.len(), all.len());
    assert!(
        complaints.is_empty(),
        "{} of {}: {}",
        complaints.len(),
        all.len(),
        complaints.join("\n")
    );
}

#[test]
fn messages_are_read_as_prometheus_reads_them() {
    let mut oracle = Oracle::start();
    for body in messages::corpus() {
        for options in ways() {
            let theirs = oracle.read(Format::Protobuf, &body, &options).unwrap();
            let differs = difference(&theirs, &ours(Format::Protobuf, &body, &options));
            assert_eq!(differs, None, "{options:?}");
        }
    }
}

#[test]
fn start_times_are_read_as_prometheus_reads_them() {
    let mut oracle = Oracle::start();
    let options = ParseOptions::default();
    let mut options = options;
    options.start_times = true;
    let body = b"# TYPE a counter\na_total{x=\"1\"} 1\na_created{x=\"1\"} 100.5\n# TYPE h histogram\n\
h_bucket{le=\"+Inf\"} 3\nh_count 3\nh_sum 4\nh_created 200\n# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_count 2\ns_created 3\n# EOF\n";
    for (format, body) in [
        (Format::OpenMetrics, body.to_vec()),
        (Format::Protobuf, messages::corpus()[0].clone()),
    ] {
        let theirs = oracle.read(format, &body, &options).unwrap();
        assert_eq!(difference(&theirs, &ours(format, &body, &options)), None);
    }
}

/// Reports whether a body has bounds that are not in canonical spelling.
fn spells_bounds(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    let mut bounds = text
        .split("le=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    bounds.any(|bound| !matches!(bound, "0.1" | "+Inf" | "1.0"))
}

#[test]
fn what_prometheus_takes_of_mutated_bodies_is_taken() {
    let mut oracle = Oracle::start();
    let messages = messages::corpus();
    let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    let (mut taken, mut complaints) = (0, Vec::new());
    for (format, corpus) in [
        (Format::Text, TEXT),
        (Format::OpenMetrics, OPENMETRICS),
        (Format::Protobuf, &messages),
    ] {
        let mutator = Mutator::new(0x0dd);
        let mut rng = SplitMix64::new(0x0dd);
        let mut body = Vec::new();
        for n in 0..scaled(1_500) {
            mutator.mutate(&mut rng, corpus, &mut body);
            let mut options = ways()[n as usize % 8];
            if format != Format::Protobuf {
                // Prometheus splits one histogram into several when other lines are between its own.
                options.custom_buckets = false;
                // It spells bounds by the last head, whichever it was, checks that names are text only when it
                // stores them, and takes control characters for blanks or ends.
                let plain = std::str::from_utf8(&body)
                    .is_ok_and(|text| !text.chars().any(|c| c.is_control() && c != '\n'));
                if !plain || spells_bounds(&body) {
                    continue;
                }
            }
            let Ok(theirs) = oracle.read(format, &body, &options) else {
                continue;
            };
            taken += 1;
            let ours = ours(format, &body, &options);
            // Names that are not text are refused there when they are stored, and here at once.
            if matches!(&ours, Err(error) if error.contains("invalid UTF-8")) {
                continue;
            }
            // Nor does it check that a help or a unit is text.
            if format!("{theirs:?}").contains(char::REPLACEMENT_CHARACTER) {
                continue;
            }
            if let Some(differs) = difference(&theirs, &ours) {
                let body = String::from_utf8_lossy(&body);
                complaints.push(format!("{format:?} {options:?} {body:?}: {differs}"));
            }
        }
    }
    assert!(taken > 150, "only {taken} bodies were taken by Prometheus");
    assert!(
        complaints.is_empty(),
        "{} of {taken}: {}",
        complaints.len(),
        complaints[..complaints.len().min(6)].join("\n")
    );
}
