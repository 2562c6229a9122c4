//! Groups evaluated beside Prometheus' own rule manager: the same series, alerts and notifications.

use crate::{oracle::Oracle, rehearsal::Rehearsal};
use narthex_testkit::{rng::SplitMix64 as Rng, scaled};
use serde_json::{Value, json};
use std::ops::Range;

/// Steps of the loaded series, in milliseconds.
const STEP_MS: i64 = 15_000;

/// Names of the series that rules make.
const NAMES: &str = "rec.*|ALERTS.*";

struct Phase {
    begin: &'static str,
    rules: String,
    times_ms: Vec<i64>,
}

fn phase(begin: &'static str, rules: &str, times_ms: impl IntoIterator<Item = i64>) -> Phase {
    Phase {
        begin,
        rules: rules.to_owned(),
        times_ms: times_ms.into_iter().collect(),
    }
}

/// Returns `count` evaluation times from `first` on, a step apart.
fn times(first: i64, count: i64) -> impl Iterator<Item = i64> {
    (0..count).map(move |at| (first + at) * STEP_MS)
}

/// Evaluates `phases` over `series` here and there, and compares everything.
fn compare(oracle: &mut Oracle, series: &str, phases: &[Phase], grace_ms: i64) -> Value {
    let of_phases: Vec<Value> = phases
        .iter()
        .map(|phase| {
            json!({ "begin": phase.begin, "rules": phase.rules, "times_ms": phase.times_ms })
        })
        .collect();
    let indented: String = series
        .lines()
        .map(|line| format!("  {}\n", line.trim()))
        .collect();
    let theirs = oracle.evaluations(json!({
        "load": format!("load 15s\n{indented}"),
        "phases": of_phases,
        "interval_ms": STEP_MS,
        "grace_ms": grace_ms,
        "external_labels": { "region": "here" },
        "external_url": "http://me:9090",
        "names": NAMES,
    }));
    let rehearse = |mut rehearsal: Rehearsal, at_once| {
        rehearsal.at_once = at_once;
        for phase in phases {
            rehearsal.run(phase.begin, &phase.rules, &phase.times_ms);
        }
        rehearsal.result(NAMES)
    };
    let in_memory = || Rehearsal::new(series, STEP_MS, grace_ms);
    let stored = || Rehearsal::stored(series, STEP_MS, grace_ms);
    let ours = rehearse(in_memory(), 0);
    for (other, what) in [
        (rehearse(in_memory(), 4), "rules evaluated at once"),
        (rehearse(stored(), 0), "rules over the storage engine"),
        (rehearse(stored(), 4), "rules over it at once"),
    ] {
        for part in ["errors", "alerts", "sent", "series"] {
            let differ = differences(&other[part], &ours[part]);
            assert!(differ.is_empty(), "{what}, {part}\n{}", differ.join("\n"));
        }
    }
    for part in ["errors", "alerts", "sent", "series"] {
        let shown = || {
            let rules: Vec<&str> = phases.iter().map(|phase| &*phase.rules).collect();
            format!("{part} of\n{}\nover\n{series}", rules.join("\n---\n"))
        };
        let differ = differences(&ours[part], &theirs[part]);
        assert!(differ.is_empty(), "{}\n{}", shown(), differ.join("\n"));
    }
    ours
}

/// Lists the entries in which two objects or lists differ.
fn differences(ours: &Value, theirs: &Value) -> Vec<String> {
    let (Some(mine), Some(others)) = (ours.as_object(), theirs.as_object()) else {
        let differ = (ours != theirs).then(|| format!("ours:   {ours}\ntheirs: {theirs}"));
        return differ.into_iter().collect();
    };
    let mut keys: Vec<&String> = mine.keys().chain(others.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.retain(|key| mine.get(*key) != others.get(*key));
    let line = |key: &String| {
        let (mine, others) = (mine.get(key), others.get(key));
        let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
        format!(
            "{key}\n  ours:   {}\n  theirs: {}",
            shown(mine),
            shown(others)
        )
    };
    keys.into_iter().map(line).collect()
}

#[test]
fn recorded_series_are_prometheus() {
    let mut oracle = Oracle::start();
    let series = "m{a=\"1\"} 1 2 3 _x4 8 9 10x20\nm{a=\"2\"} 5x10 stale 7x20\nn{a=\"1\",b=\"x\"} 0+2x40\n\
        h {{schema:0 count:4 sum:5 buckets:[1 2 1]}}x30";
    let rules = r#"
groups:
- name: g
  labels: {team: infra, a: ""}
  rules:
  - {record: "rec:sum", expr: sum(m)}
  - {record: "rec:all", expr: m * 2, labels: {a: null, kept: yes}}
  - {record: "rec:again", expr: "rec:sum + rec:again or rec:sum"}
  - {record: "rec:scalar", expr: 1 + 2}
  - {record: "rec:rate", expr: "rate(n[1m])", labels: {b: z, team: mine}}
  - {record: "rec:hist", expr: h}
  - {record: "rec:each", expr: 'label_replace(m, "b", "$1", "a", "(.*)")'}
  - {record: "rec:ago", expr: m offset 30s, labels: {a: one}}
  - {record: "rec:bad", expr: "m[1m]"}
  - {record: "rec:ratio", expr: 'm / on(a) group_left label_replace(m, "c", "$1", "a", "(.*)")'}
- name: late
  query_offset: 30s
  limit: 1
  rules:
  - {record: "rec:late", expr: sum(m)}
  - {record: "rec:many", expr: m}
"#;
    let ours = compare(
        &mut oracle,
        series,
        &[phase("start", rules, times(0, 30))],
        0,
    );
    assert!(ours["series"].as_object().unwrap().len() > 8, "{ours:#}");
    assert!(ours["series"].to_string().contains("stale"), "{ours:#}");
    let errors = ours["errors"].to_string();
    for error in [
        "same labelset after applying rule labels",
        "rule result is not a vector or scalar",
        "exceeded limit of 1 with 2 series",
    ] {
        assert!(errors.contains(error), "{errors}");
    }
}

#[test]
fn alerts_are_prometheus() {
    let mut oracle = Oracle::start();
    let series = "m{a=\"1\"} 1x9 0x9 1x40\nm{a=\"2\"} 0x5 1x2 0x4 1x3 0x40\nm{a=\"3\"} _x5 1x10 stale _x5 1x40";
    let rules = r#"
groups:
- name: g
  labels: {team: infra}
  rules:
  - {alert: Now, expr: m == 1, annotations: {s: "{{ $labels.a }} is {{ $value }} in {{ $externalLabels.region }}"}}
  - {alert: Later, expr: m == 1, for: 1m, labels: {severity: page, a: "x{{ $labels.a }}"}}
  - {alert: Longer, expr: m == 1, for: 30s, keep_firing_for: 1m, labels: {empty: ""}}
  - {alert: Same, expr: m, labels: {a: fixed}}
  - {alert: Value, expr: m > -1, labels: {v: "{{ $value }}"}, annotations: {q: '{{ with query "sum(m)" }}{{ . | first | value }}{{ end }}'}}
  - {alert: Meta, expr: 'ALERTS{alertname="Now"}', annotations: {fixed: text, broken: "{{ .Nothing.x }}"}}
  - {alert: Gone, expr: absent(m), annotations: {u: "{{ $externalURL }}"}}
- name: limited
  limit: 1
  rules:
  - {alert: Many, expr: m == 1}
- name: offset
  query_offset: 45s
  rules:
  - {alert: Behind, expr: m == 1, for: 30s}
"#;
    let ours = compare(
        &mut oracle,
        series,
        &[phase("start", rules, times(0, 100))],
        0,
    );
    let errors = ours["errors"].to_string();
    for error in [
        "same labelset after applying alert labels",
        "exceeded limit of 1 with 2 alerts",
    ] {
        assert!(errors.contains(error), "{errors}");
    }
    assert!(ours["sent"].as_object().unwrap().len() > 20, "{ours:#}");
}

const FOR: &str = "groups: [{name: g, rules: [\
    {alert: Long, expr: m == 1, for: 5m, labels: {x: y, t: '{{ $labels.a }}'}}, \
    {alert: Short, expr: m == 1, for: 30s}, \
    {record: 'rec:x', expr: m}]}]";

#[test]
fn what_alerts_waited_survives_a_restart() {
    let mut oracle = Oracle::start();
    // One that fires before the restart, one that waits, one that is gone after it, one that begins after it.
    let series =
        "m{a=\"1\"} 1x200\nm{a=\"2\"} 0x17 1x200\nm{a=\"3\"} 1x20 0x200\nm{a=\"4\"} 0x34 1x200";
    for (outage, grace_ms) in [
        (1, 0),
        (4, 0),
        (4, 60_000),
        (4, 240_000),
        (30, 60_000),
        (150, 0),
    ] {
        let phases = [
            phase("start", FOR, times(0, 25)),
            phase("restart", FOR, times(25 + outage, 25)),
        ];
        compare(&mut oracle, series, &phases, grace_ms);
    }
}

#[test]
fn a_reload_keeps_the_state_of_what_stayed() {
    let mut oracle = Oracle::start();
    let series = "m{a=\"1\"} 1x200\nm{a=\"2\"} 0x17 1x200";
    // Other durations, annotations and expressions; another order; a rule less and one more; equal rules.
    for changed in [
        FOR.replace("5m", "1m"),
        FOR.replace("30s", "10m"),
        FOR.replace(
            "{alert: Short, expr: m == 1, for: 30s}",
            "{alert: Short, expr: m == 1 or m, for: 30s, annotations: {a: b}}",
        ),
        FOR.replace("{record: 'rec:x', expr: m}", "{record: 'rec:y', expr: m}"),
        FOR.replace(
            "{record: 'rec:x', expr: m}",
            "{record: 'rec:x', expr: m > 0}, {record: 'rec:x', expr: m}",
        ),
        FOR.replace("x: y", "x: z"),
        FOR.replace("{name: g,", "{name: g, limit: 1,"),
        FOR.to_owned(),
    ] {
        let phases = [
            phase("start", FOR, times(0, 25)),
            phase("reload", &changed, times(25, 15)),
            phase("reload", FOR, times(40, 15)),
        ];
        compare(&mut oracle, series, &phases, 0);
    }
}

const EXPRESSIONS: [&str; 28] = [
    "m",
    "sum by (a) (m)",
    "m == 1",
    "m > 0.5 or n",
    "rate(n[1m])",
    "m unless on (a) n > 20",
    "count(m) > 1",
    "absent(m{a=\"1\"})",
    "rec:0",
    "sum(rec:1)",
    "rec:2 * 2",
    "ALERTS{alertstate=\"firing\"}",
    "increase(n[5m])",
    "sum by (a) (rate(n[2m])) > 0.1",
    "avg_over_time(m[90s])",
    "max_over_time(m[3m] offset 1m)",
    "count_over_time(rec:0[2m])",
    "min_over_time(rec:3[1m]) or m",
    "changes(m[5m]) > 2",
    "resets(n[10m])",
    "last_over_time(m[45s])",
    "quantile_over_time(0.5, m[4m])",
    "n - n offset 2m",
    // Sums of whole numbers: series may be added up in any order.
    "sum by (b) (p)",
    "max by (b) (rate(p[2m]))",
    "count by (a, b) (p > 1)",
    "sum without (b) (increase(p[3m]) > bool 1)",
    "sum_over_time(m[1m]) / ignoring (b) count_over_time(m[1m])",
];

fn random_series(rng: &mut Rng) -> String {
    let mut lines = Vec::new();
    for (name, labels) in series_names(3, 2) {
        let mut values = String::new();
        for _ in 0..12 {
            let run = 1 + rng.below(6);
            let value = match (name, rng.below(6)) {
                (_, 0) => format!(" _x{run}"),
                (_, 1) => " stale".to_owned(),
                ("m", _) => format!(" {}x{run}", rng.below(3)),
                (_, from) => format!(" {from}+{}x{run}", rng.below(9)),
            };
            values.push_str(&value);
        }
        lines.push(format!("{name}{{{labels}}}{values}"));
    }
    lines.join("\n")
}

/// Returns names and labels of `m` gauges, `n` counters, and others of which some share a target.
fn series_names(m: usize, n: usize) -> Vec<(&'static str, String)> {
    let of = |name, count| (0..count).map(move |at| (name, format!("a=\"{at}\"")));
    let shared = (0..6).map(|at| ("p", format!("a=\"{}\", b=\"{}\"", at % 2, at / 2)));
    of("m", m).chain(of("n", n)).chain(shared).collect()
}

fn random_rules(rng: &mut Rng, keeps: bool) -> String {
    let count = 2 + rng.below(5);
    format!("groups: [{}]", random_group(rng, "g", 0, count, keeps))
}

/// Returns a group of `count` rules numbered from `first` on.
fn random_group(rng: &mut Rng, name: &str, first: u64, count: u64, keeps: bool) -> String {
    let mut rules = Vec::new();
    for at in first..first + count {
        let expr = serde_json::to_string(rng.pick(&EXPRESSIONS)).unwrap();
        let label = *rng.pick(&["{}", "{x: y}", "{a: ''}", "{a: b}"]);
        rules.push(if rng.one_in(2) {
            format!("{{record: 'rec:{at}', expr: {expr}, labels: {label}}}")
        } else {
            let (hold, keep) = (15 * rng.below(6), 15 * rng.below(if keeps { 5 } else { 1 }));
            let value = *rng.pick(&["none", "{{ $value }}", "{{ $labels.a }}"]);
            format!(
                "{{alert: 'A{at}', expr: {expr}, for: {hold}s, keep_firing_for: {keep}s, labels: {label}, annotations: {{v: '{value}'}}}}"
            )
        });
    }
    let limit = if rng.one_in(4) { 2 } else { 0 };
    let offset = 15 * if rng.one_in(4) { rng.below(4) } else { 0 };
    format!(
        "{{name: {name}, limit: {limit}, query_offset: {offset}s, rules: [{}]}}",
        rules.join(", ")
    )
}

/// Returns series for so many steps, whose values stay and change for up to ten minutes.
fn long_series(rng: &mut Rng, steps: u64) -> String {
    let mut lines = Vec::new();
    for (name, labels) in series_names(5, 3) {
        let (mut values, mut left) = (String::new(), steps);
        while left > 0 {
            let run = 1 + rng.below(40).min(left - 1);
            left -= run;
            // `x` repeats what stands before it.
            let more = run - 1;
            let value = match (name, rng.below(8)) {
                (_, 0) => format!(" _x{run}"),
                (_, 1) if more == 0 => " stale".to_owned(),
                ("m", _) => format!(" {}x{more}", rng.below(3)),
                (_, from) => format!(" {from}+{}x{more}", rng.below(9)),
            };
            values.push_str(&value);
        }
        lines.push(format!("{name}{{{labels}}}{values}"));
    }
    lines.join("\n")
}

/// A soak compares 80 rules in each of its cases, over up to six hours.
#[test]
fn long_random_groups_agree() {
    let cases = scaled(1);
    let steps = 120 * cases.min(12);
    let mut oracle = Oracle::start();
    let mut samples = 0;
    for seed in 1_000..1_000 + cases {
        let mut rng = Rng::new(seed);
        let series = long_series(&mut rng, steps);
        let mut files = || -> String {
            let groups = (0..4).map(|at| {
                let name = format!("g{at}");
                random_group(&mut rng, &name, at * 10, 10, false)
            });
            format!("groups: [{}]", groups.collect::<Vec<_>>().join(", "))
        };
        let (first, second) = (files(), files());
        let quarter = steps as i64 / 4;
        // A longer offset than before makes samples older than the newest, which only Prometheus refuses.
        let of =
            |begin, file: &str, at: i64| phase(begin, file, times(at * quarter + 4, quarter - 4));
        let phases = [
            of("start", &first, 0),
            of("reload", &second, 1),
            of("restart", &second, 2),
            of("reload", &first, 3),
        ];
        let ours = compare(&mut oracle, &series, &phases, 15_000 * rng.below(3) as i64);
        let all = ours["series"].as_object().unwrap().values();
        samples += all.map(|one| one.as_array().unwrap().len()).sum::<usize>();
    }
    let least = 1_000 * cases * steps / 120;
    assert!(samples as u64 > least, "only {samples} samples compared");
}

/// On three threads, as it takes longer than all other tests here together.
#[test]
fn random_groups_agree() {
    let samples: usize = std::thread::scope(|scope| {
        let parts = [0..50, 50..100, 100..150];
        let parts = parts.map(|seeds| scope.spawn(|| compare_random_groups(seeds)));
        parts.into_iter().map(|part| part.join().unwrap()).sum()
    });
    assert!(samples > 5_000, "only {samples} samples compared");
}

/// Returns the number of samples that were compared.
fn compare_random_groups(seeds: Range<u64>) -> usize {
    let mut oracle = Oracle::start();
    let mut samples = 0;
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let series = random_series(&mut rng);
        let begin = *rng.pick(&["reload", "restart"]);
        // Prometheus forgets over a restart what goes on firing.
        let keeps = begin == "reload";
        let (first, second) = (random_rules(&mut rng, keeps), random_rules(&mut rng, keeps));
        let next = if rng.one_in(2) { &first } else { &second };
        // Longer than any offset: what is older than the newest sample is refused by Prometheus alone.
        let pause = 4 + rng.below(4) as i64;
        let phases = [
            phase("start", &first, times(0, 25)),
            phase(begin, next, times(24 + pause, 20)),
        ];
        let ours = compare(&mut oracle, &series, &phases, 15_000 * rng.below(3) as i64);
        let all = ours["series"].as_object().unwrap().values();
        samples += all.map(|one| one.as_array().unwrap().len()).sum::<usize>();
    }
    samples
}
