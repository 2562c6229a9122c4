//! Expected answers of servers: a sample of the recorded series, value by value.
//!
//! **Invariant:** expected values come from the recorded text alone. A value is right if it has the same bits at the
//! same time; any NaN is right where NaN was recorded, since JSON has no payloads.

use super::{
    corpus::Corpus,
    feed::{Served, Times},
};
use crate::{
    harness::{BenchError, RunningServer},
    load::api,
};
use narthex_testkit::{
    exposition::{Line, unescape},
    http,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// Maximum by which Prometheus aligns the time of a scrape, and a little more.
const MOVED_MS: i64 = 10;

/// A series and its recorded values.
#[derive(Debug)]
pub(crate) struct Expected {
    /// Name and labels as written, such as `a{b="c"}`.
    written: String,
    name: String,
    labels: BTreeMap<String, String>,
    /// Round and value.
    values: Vec<(usize, f64)>,
}

/// Result of reading back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    pub(crate) samples: u64,
    /// Values not found.
    pub(crate) missing: u64,
    /// Found with another value.
    pub(crate) different: u64,
    /// Found although nothing was recorded.
    pub(crate) strange: u64,
    /// Description of the first wrong value.
    pub(crate) first: Option<String>,
}

impl Compared {
    /// Adds another comparison.
    pub(crate) fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.missing += other.missing;
        self.different += other.different;
        self.strange += other.strange;
        self.first = self.first.take().or(other.first);
    }
}

/// Returns `count` series spread over those of the first rounds, with their values in `rounds` rounds.
pub(crate) fn sample(
    corpus: &Arc<Corpus>,
    rounds: usize,
    count: usize,
) -> Result<Vec<Expected>, String> {
    let mut reader = corpus.rounds()?;
    let (mut all, mut places) = (Vec::<Expected>::new(), HashMap::new());
    for at in 0..rounds {
        let Some(round) = reader.next()? else { break };
        let body = round.body;
        if at == 0 {
            let lines: Vec<&str> = body
                .lines()
                .filter(|line| Line::parse(line).is_some())
                .collect();
            let step = lines.len().div_ceil(count.max(1)).max(1);
            for line in lines.into_iter().step_by(step) {
                let Some(expected) = Expected::parse(line) else {
                    continue;
                };
                places.insert(expected.written.clone(), all.len());
                all.push(expected);
            }
        }
        for line in body.lines() {
            let place = places.get(series_of(line));
            let value = place.and_then(|_| Line::parse(line)?.value.parse().ok());
            if let (Some(place), Some(value)) = (place, value) {
                all[*place].values.push((at, value));
            }
        }
    }
    Ok(all)
}

/// Returns a line up to its value: to the last brace, or to the first space.
fn series_of(line: &str) -> &str {
    let end = line.rfind('}').map(|at| at + 1);
    let end = end.or_else(|| line.find(' ')).unwrap_or(line.len());
    line[..end].trim_end()
}

impl Expected {
    fn parse(line: &str) -> Option<Self> {
        let parsed = Line::parse(line)?;
        let labels = parsed.labels.iter();
        // Labels that conflict with the target's get a prefix, as in every server.
        let name = |name: &str| match name {
            "job" | "instance" => format!("exported_{name}"),
            name => name.to_owned(),
        };
        Some(Self {
            written: series_of(line).to_owned(),
            name: parsed.name.to_owned(),
            // An empty label is the same as no label.
            labels: labels
                .filter(|label| !label.value.is_empty())
                .map(|label| (name(label.name), unescape(label.value)))
                .collect(),
            values: Vec::new(),
        })
    }

    /// Reads the series back from a server that scraped the rounds of `served` as `instance`.
    pub(crate) fn compare(
        &self,
        server: &RunningServer,
        instance: &str,
        served: &[Served],
        times: Times,
    ) -> Result<Compared, BenchError> {
        let (Some(first), Some(last)) = (served.first(), served.last()) else {
            return Ok(Compared::default());
        };
        // A scraped round is stored with the time the server asked, which is before that of the answer.
        let margin_ms = 60_000;
        let range_ms = last.time_ms - first.time_ms + 2 * margin_ms;
        let query = format!("{}[{range_ms}ms]", self.selector(instance));
        let path = api::instant(&query, Some(last.time_ms + margin_ms));
        let wrong = |what: String| BenchError::answer(server.label(), &query, what);
        let answer = http::get(&server.url(&path)).map_err(|e| wrong(e.to_string()))?;
        let series = api::result(&answer.body);
        let series = series.ok_or_else(|| wrong(format!("with {}", answer.text())))?;
        let own = series.iter().find(|series| self.is_own(&series["metric"]));
        let stored = own
            .map(|series| points(&series["values"]))
            .unwrap_or_default();
        Ok(self.judge(&stored, served, times))
    }

    fn selector(&self, instance: &str) -> String {
        let label = |(name, value): (&String, &String)| format!(",{name}={value:?}");
        let labels = self.labels.iter().filter(|(name, _)| !is_number(name));
        let labels: String = labels.map(label).collect();
        format!("{}{{instance=\"{instance}\"{labels}}}", self.name)
    }

    /// Reports whether a result is this series: the selector also finds those with more labels, or other bounds.
    fn is_own(&self, metric: &Value) -> bool {
        let known = ["__name__", "job", "instance"];
        metric.as_object().is_some_and(|metric| {
            let mut labels = metric
                .iter()
                .filter(|(name, _)| !known.contains(&name.as_str()));
            let is_same = |(name, value): (&String, &Value)| {
                let (wanted, value) = (self.labels.get(name), value.as_str());
                match (wanted, value) {
                    // Prometheus 3 writes 1 as 1.0 there.
                    (Some(wanted), Some(value)) if is_number(name) => {
                        wanted.parse::<f64>().ok() == value.parse::<f64>().ok()
                    }
                    (wanted, value) => wanted.map(String::as_str) == value,
                }
            };
            metric.len() >= self.labels.len()
                && labels.clone().count() == self.labels.len()
                && labels.all(is_same)
        })
    }

    fn judge(&self, stored: &[(i64, f64)], served: &[Served], times: Times) -> Compared {
        let (last, is_same) = (served.len().saturating_sub(1), same_bits);
        // After the last round the target is gone: a server may write a staleness marker over it.
        let end = if times == Times::Scraped {
            served.len()
        } else {
            last
        };
        let round_of = |time_ms: i64| match times {
            // A server reports the scrape's start, possibly aligned: after the previous response.
            Times::Scraped => served.partition_point(|round| round.at_ms + MOVED_MS < time_ms),
            Times::Written { .. } => served
                .binary_search_by_key(&time_ms, |round| round.time_ms)
                .unwrap_or(served.len()),
        };
        let mut found = BTreeMap::new();
        let (mut compared, mut written) = (Compared::default(), 0_u64);
        for (time_ms, value) in stored {
            let round = round_of(*time_ms);
            let is_late = times != Times::Scraped
                && served
                    .get(last)
                    .is_some_and(|last| *time_ms >= last.time_ms);
            if !is_late {
                written += 1;
                found.insert(round, *value);
            }
        }
        for (round, value) in self.values.iter().filter(|(round, _)| *round < end) {
            compared.samples += 1;
            let other = found.get(round).copied();
            if other.is_some_and(|other| is_same(other, *value)) {
                continue;
            }
            match other {
                None => compared.missing += 1,
                Some(_) => compared.different += 1,
            }
            self.note_first(&mut compared.first, *value, other);
        }
        compared.strange = written.saturating_sub(compared.samples - compared.missing);
        compared
    }

    fn note_first(&self, first: &mut Option<String>, wanted: f64, found: Option<f64>) {
        first.get_or_insert_with(|| {
            let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
            format!("{} was {wanted} and is read back as {found}", self.written)
        });
    }
}

fn same_bits(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// Reports whether a label's value is a number, which servers may format differently.
fn is_number(label: &str) -> bool {
    matches!(label, "le" | "quantile")
}

/// Parses `[[seconds, "value"], …]`.
fn points(values: &Value) -> Vec<(i64, f64)> {
    let point = |point: &Value| {
        let time = point[0].as_f64()?;
        let value = point[1].as_str()?.parse().ok()?;
        Some(((time * 1e3).round() as i64, value))
    };
    values
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(point)
        .collect()
}

/// Asks a server to make all ingested samples visible, if that is not immediate.
pub(crate) fn make_visible(server: &RunningServer) {
    // Servers that do not know it answer 404, and need no flush.
    let _ = http::get(&server.url("/internal/force_flush"));
    std::thread::sleep(Duration::from_millis(1_500));
}

#[cfg(test)]
mod tests;
