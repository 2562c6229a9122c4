//! What is printed and recorded.
//!
//! **Invariant:** the table and the record come from the same list of figures; the record names programs and
//! commands, never paths of the machine.

use crate::{error::BenchError, machine, outcome::Outcome, scenario::Scenario};
use serde_json::{Map, Value, json};
use std::{
    fs,
    io::{Write, stdout},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// What a fleet may cost, in ns a sample.
const FLEET_BUDGET_NS: f64 = 60.0;
/// Cores of strangers above which a result is called noisy.
const QUIET_CORES: f64 = 0.1;

/// Prints a line of the result.
pub(crate) fn say(text: &str) {
    // A closed pipe is the reader's wish.
    let _ = writeln!(stdout(), "{text}");
}

/// One figure of one server.
#[derive(Debug)]
struct Figure {
    key: &'static str,
    unit: &'static str,
    value: f64,
    /// Whether less is better, so that a ratio says something.
    is_cost: bool,
}

fn cost(key: &'static str, unit: &'static str, value: f64) -> Figure {
    Figure {
        key,
        unit,
        value,
        is_cost: true,
    }
}

fn fact(key: &'static str, unit: &'static str, value: f64) -> Figure {
    Figure {
        is_cost: false,
        ..cost(key, unit, value)
    }
}

/// Returns the figures of one server; every server has the same ones in the same order.
fn figures(scenario: &Scenario, outcome: &Outcome) -> Vec<Figure> {
    let mut figures = resources(scenario, outcome);
    figures.extend(schedule(outcome));
    let latency = |latency: &crate::query::Latency| cost(latency.key, "ms", latency.p50_ms());
    figures.extend(outcome.latencies.iter().map(latency));
    figures.extend(starts(outcome));
    figures
}

fn resources(scenario: &Scenario, outcome: &Outcome) -> Vec<Figure> {
    let samples = outcome.samples.max(1) as f64;
    let stored = outcome.stored_samples.max(1) as f64;
    let series = scenario.all_series() as f64;
    let cpu = outcome
        .to
        .cpu
        .saturating_sub(outcome.from.cpu)
        .as_secs_f64();
    let first = outcome.first_round_cpu.as_secs_f64();
    let rss = outcome.resident.rss_bytes as f64;
    let anonymous = outcome.resident.anonymous_bytes as f64;
    let written = outcome
        .to
        .write_bytes
        .saturating_sub(outcome.from.write_bytes) as f64;
    let disk = outcome.disk_bytes as f64;
    vec![
        cost("CPU a sample", "µs", cpu * 1e6 / samples),
        cost("CPU", "cores", cpu / outcome.window.as_secs_f64()),
        cost(
            "CPU until all were scraped once",
            "µs a series",
            first * 1e6 / series,
        ),
        cost("RSS at the end", "MB", rss / 1e6),
        cost("RSS a series", "B", rss / series),
        cost("anonymous memory a series", "B", anonymous / series),
        cost("RSS peak", "MB", outcome.to.peak_rss_bytes as f64 / 1e6),
        cost(
            "RSS peak with queries",
            "MB",
            outcome.peak_with_queries_bytes as f64 / 1e6,
        ),
        cost("written to disk a sample", "B", written / samples),
        cost("data directory a sample", "B", disk / stored),
        cost("data directory", "MB", disk / 1e6),
        fact(
            "samples",
            "a second",
            samples / outcome.window.as_secs_f64(),
        ),
    ]
}

fn schedule(outcome: &Outcome) -> [Figure; 4] {
    let schedule = &outcome.schedule;
    [
        fact("scrapes", "", schedule.answered as f64),
        fact("missed scrapes", "", schedule.missed as f64),
        fact("late scrapes", "", schedule.late as f64),
        cost("off schedule p99", "ms", schedule.off_p99_ms),
    ]
}

fn starts(outcome: &Outcome) -> [Figure; 7] {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let recovery = &outcome.recovery;
    let unstored = recovery.answered.saturating_sub(recovery.stored);
    [
        cost("first start until ready", "ms", ms(outcome.ready)),
        cost(
            "first start until the first scrape",
            "ms",
            ms(outcome.scraping),
        ),
        cost("after kill -9 until ready", "ms", ms(recovery.ready)),
        cost(
            "after kill -9 until the past is answered",
            "ms",
            ms(recovery.correct),
        ),
        cost(
            "after kill -9 until the first scrape",
            "ms",
            ms(recovery.first_scrape),
        ),
        fact(
            "after kill -9 until all were scraped",
            "ms",
            ms(recovery.all_scraped),
        ),
        fact(
            "scrapes answered and not stored at kill -9",
            "",
            unstored as f64,
        ),
    ]
}

/// Prints the table.
pub(crate) fn print(scenario: &Scenario, outcomes: &[Outcome]) {
    say(&format!(
        "\n{} targets x {} series every {:?}{}, {:?} after {:?} of warm-up, seed {}\n",
        scenario.fleet.targets,
        scenario.fleet.series,
        scenario.interval,
        match (scenario.fleet.gzip, scenario.fleet.line_labels) {
            (true, true) => ", gzip, target labels in every line",
            (true, false) => ", gzip",
            (false, true) => ", target labels in every line",
            (false, false) => "",
        },
        scenario.duration,
        scenario.warmup,
        scenario.fleet.seed,
    ));
    let columns: Vec<Vec<Figure>> = outcomes
        .iter()
        .map(|outcome| figures(scenario, outcome))
        .collect();
    let mut head = format!("{:<46}", "");
    for outcome in outcomes {
        head.push_str(&format!("{:>16}", outcome.spec.label));
    }
    for outcome in &outcomes[1..] {
        let title = format!("{} / {}", outcome.spec.label, outcomes[0].spec.label);
        head.push_str(&format!("{title:>26}"));
    }
    say(&head);
    for row in 0..columns[0].len() {
        let first = &columns[0][row];
        let name = if first.unit.is_empty() {
            first.key.to_owned()
        } else {
            format!("{}, {}", first.key, first.unit)
        };
        let mut line = format!("{name:<46}");
        for column in &columns {
            line.push_str(&format!("{:>16}", digits(column[row].value)));
        }
        for column in &columns[1..] {
            let ratio = ratio(first, &column[row])
                .map_or_else(String::new, |ratio| format!("{}x", digits(ratio)));
            line.push_str(&format!("{ratio:>26}"));
        }
        say(&line);
    }
    say("");
    for outcome in outcomes {
        say(&format!("{}: {}", outcome.spec.label, meta_line(outcome)));
    }
}

/// Says what the fleet cost and what else ran.
fn meta_line(outcome: &Outcome) -> String {
    let meta = &outcome.meta;
    let over = if meta.fleet_ns_a_sample > FLEET_BUDGET_NS {
        format!(" (over its {FLEET_BUDGET_NS} ns)")
    } else {
        String::new()
    };
    let noise = if meta.other_cores > QUIET_CORES {
        "; NOISY: other processes took CPU"
    } else {
        ""
    };
    format!(
        "the fleet took {:.1} ns a sample of {:.0} B{over}, {:.1} without sending, {:.3} cores, first byte after {:.2} ms (p99); others {:.2} cores{noise}",
        meta.fleet_ns_a_sample,
        meta.bytes_a_sample,
        meta.making_ns_a_sample,
        meta.fleet_cores,
        meta.lag_p99_ms,
        meta.other_cores
    )
}

fn ratio(first: &Figure, other: &Figure) -> Option<f64> {
    (first.is_cost && first.value > 0.0).then(|| other.value / first.value)
}

/// Three significant digits, or all of a whole number.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        v if v.fract() == 0.0 || v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.places$}")
}

/// Returns the record of a run.
pub(crate) fn record(scenario: &Scenario, outcomes: &[Outcome], arguments: &[String]) -> Value {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let servers: Vec<Value> = outcomes
        .iter()
        .map(|outcome| server(scenario, outcome))
        .collect();
    let first = &outcomes[0];
    let ratios: Map<String, Value> = outcomes[1..]
        .iter()
        .map(|outcome| {
            let pairs = figures(scenario, first)
                .into_iter()
                .zip(figures(scenario, outcome));
            let ratios = pairs.filter_map(|(first, other)| {
                Some((first.key.to_owned(), rounded(ratio(&first, &other)?)))
            });
            let title = format!("{} / {}", outcome.spec.label, first.spec.label);
            (title, Value::Object(ratios.collect()))
        })
        .collect();
    json!({
        "bench": "storage",
        "version": env!("CARGO_PKG_VERSION"),
        "profile": if cfg!(debug_assertions) { "debug" } else { "release" },
        "command": command(arguments),
        "time_s": now.as_secs(),
        "machine": machine::facts(),
        "scenario": {
            "targets": scenario.fleet.targets,
            "series": scenario.fleet.series,
            "seed": scenario.fleet.seed,
            "gzip": scenario.fleet.gzip,
            "line_labels": scenario.fleet.line_labels,
            "interval_ms": scenario.interval.as_millis() as u64,
            "warmup_ms": scenario.warmup.as_millis() as u64,
            "duration_ms": scenario.duration.as_millis() as u64,
        },
        "servers": servers,
        "ratios": ratios,
    })
}

fn server(scenario: &Scenario, outcome: &Outcome) -> Value {
    let figures = figures(scenario, outcome).into_iter().map(|figure| {
        let value = json!({ "value": rounded(figure.value), "unit": figure.unit });
        (figure.key.to_owned(), value)
    });
    let latencies = outcome
        .latencies
        .iter()
        .map(|latency| (latency.key.to_owned(), latency.json()));
    let ticks = outcome.ticks.iter().map(|tick| {
        json!([
            rounded(tick.at.as_secs_f64()),
            rounded(tick.usage.cpu.as_secs_f64()),
            tick.usage.rss_bytes,
            tick.usage.write_bytes,
            tick.disk_bytes,
            tick.answered,
        ])
    });
    let meta = &outcome.meta;
    json!({
        "name": outcome.spec.label,
        "version": outcome.version,
        "command": outcome.spec.command(),
        "figures": Value::Object(figures.collect()),
        "queries": Value::Object(latencies.collect()),
        "data_directory_apparent_bytes": outcome.disk_apparent_bytes,
        "off_schedule_max_ms": outcome.schedule.off_max_ms,
        "processes": outcome.to.processes,
        "threads": outcome.to.threads,
        "before_the_crash": { "scrapes_answered": outcome.recovery.answered, "scrapes_stored": outcome.recovery.stored },
        "meta": {
            "fleet_making_ns_a_sample": rounded(meta.making_ns_a_sample),
            "fleet_ns_a_sample": rounded(meta.fleet_ns_a_sample),
            "body_bytes_a_sample": rounded(meta.bytes_a_sample),
            "fleet_cores": rounded(meta.fleet_cores),
            "fleet_first_byte_p99_ms": rounded(meta.lag_p99_ms),
            "fleet_waited_ms_an_answer": rounded(meta.waited_ms),
            "other_cores": rounded(meta.other_cores),
            "load_average": meta.load,
        },
        "ticks": {
            "columns": ["s", "cpu_s", "rss_bytes", "write_bytes", "disk_bytes", "scrapes"],
            "rows": ticks.collect::<Vec<_>>(),
        },
    })
}

/// Returns the command line with programs and directories reduced to their last part.
fn command(arguments: &[String]) -> String {
    let last = |path: &str| {
        Path::new(path)
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    let shortened = arguments
        .iter()
        .map(|argument| match argument.rsplit_once('=') {
            Some((name, path)) if path.contains('/') => format!("{name}={}", last(path)),
            None if argument.contains('/') => last(argument),
            _ => argument.clone(),
        });
    let all: Vec<String> = std::iter::once("narthex-bench".to_owned())
        .chain(shortened)
        .collect();
    all.join(" ")
}

/// Returns a number for the record: four significant digits are more than a measurement has.
pub(crate) fn rounded(value: f64) -> Value {
    if value == 0.0 || !value.is_finite() {
        return json!(0);
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    if rounded.fract() == 0.0 {
        json!(rounded as i64)
    } else {
        json!(rounded)
    }
}

/// Writes the record.
///
/// # Errors
///
/// When the file cannot be written.
pub(crate) fn write(path: &Path, record: &Value) -> Result<(), BenchError> {
    let mut text = serde_json::to_string(record).unwrap_or_default();
    text.push('\n');
    fs::write(path, text).map_err(BenchError::io(format!("write {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.01234, 3.3812, 45.67, 1234.5, 7.0].map(digits),
            ["0.012", "3.38", "45.7", "1234", "7"]
        );
        let numbers = [0.0123456, 1234.56, 12_345.6, 0.0, 5.0].map(rounded);
        assert_eq!(
            numbers,
            [
                json!(0.01235),
                json!(1235),
                json!(12350),
                json!(0),
                json!(5)
            ]
        );
    }

    #[test]
    fn a_record_has_no_paths_of_the_machine() {
        let arguments = [
            "storage",
            "--server",
            "narthex=/a/b/narthex",
            "--server=prometheus=/x/prometheus",
            "--dir",
            "/t/u",
        ];
        let arguments = arguments.map(str::to_owned);
        assert_eq!(
            command(&arguments),
            "narthex-bench storage --server narthex=narthex --server=prometheus=prometheus --dir u"
        );
    }

    #[test]
    fn a_ratio_needs_a_cost() {
        let figure = |value, is_cost| Figure {
            key: "x",
            unit: "",
            value,
            is_cost,
        };
        assert_eq!(ratio(&figure(2.0, true), &figure(5.0, true)), Some(2.5));
        assert_eq!(ratio(&figure(0.0, true), &figure(5.0, true)), None);
        assert_eq!(ratio(&figure(2.0, false), &figure(5.0, false)), None);
    }
}
