//! Errors in rule files, compared with the newest Prometheus'.
//!
//! Where Prometheus says `0:0` or no place at all, ours is left out of the comparison; what it says twice, because it
//! decodes a file twice, counts once.

use crate::oracle::Oracle;
use narthex_model::NameScheme;
use narthex_rules::{ParseOptions, RuleKind, parse};

pub(crate) fn errors(text: &str, legacy: bool) -> Vec<String> {
    let options = ParseOptions {
        scheme: if legacy {
            NameScheme::Legacy
        } else {
            NameScheme::Utf8
        },
        ..ParseOptions::default()
    };
    match parse(text, options) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// Compares the errors in a text with the newest Prometheus'.
pub(crate) fn compare(oracle: &mut Oracle, name: &str, text: &str, legacy: bool) {
    let mut expected = oracle.rules(text, legacy);
    let ours = errors(text, legacy);
    assert_eq!(
        ours.is_empty(),
        expected.is_empty(),
        "{name}: {ours:#?} {expected:#?}"
    );
    let is_duration = |e: &str| e.contains("duration") && !e.contains("could not parse");
    let syntax = |errors: &[String]| {
        errors
            .iter()
            .any(|e| e.starts_with("yaml: ") && !e.contains("unmarshal errors"))
    };
    if syntax(&expected) || syntax(&ours) {
        // Parsers of YAML have words of their own.
        return;
    }
    if expected
        .iter()
        .any(|e| e.starts_with("yaml: unmarshal errors"))
    {
        // The second pass repeats what the first one found, in the names of other types.
        expected.truncate(1);
    }
    if expected.iter().any(|e| is_duration(e)) {
        // A malformed duration ends Go's decoding; versions of its parser describe it in different words.
        assert!(ours.iter().any(|e| is_duration(e)), "{name}: {ours:?}");
        return;
    }
    let unplaced = |e: &String| {
        if has_no_place(e) {
            bare(e, &[])
        } else {
            e.clone()
        }
    };
    let mut expected: Vec<String> = expected.iter().map(unplaced).collect();
    let mut ours: Vec<String> = ours.iter().map(|e| bare(e, &expected)).collect();
    for list in [&mut ours, &mut expected] {
        list.sort();
        list.dedup();
    }
    assert_eq!(ours, expected, "{name}:\n{text}");
}

/// Cuts places off where one side has another one, or none.
fn bare(error: &str, others: &[String]) -> String {
    if others.iter().any(|e| e == error) {
        return error.to_owned();
    }
    let mut rest = error;
    while let Some((place, behind)) = rest.split_once(": ") {
        let (line, column) = place.split_once(':').unwrap_or_default();
        let number = |text: &str| text.parse::<usize>().is_ok();
        if !number(line) || !number(column) {
            break;
        }
        rest = behind;
    }
    rest.to_owned()
}

/// Reports whether Prometheus gives an error no place that means anything.
fn has_no_place(error: &str) -> bool {
    error.contains("0:0: ") || error.starts_with("group ") || error.starts_with("invalid label")
}

/// A group with rules, each given by its lines.
fn group(rules: &str) -> String {
    format!("groups:\n- name: g\n  rules:\n{rules}")
}

#[test]
fn errors_are_those_of_the_newest_prometheus() {
    let mut oracle = Oracle::start();
    for text in [
        "",
        "# nothing\n",
        "groups:",
        "groups: []",
        "groups: [~]",
        "groups: {}",
        "groups: x",
        "[]",
        "a",
        "group: []",
        "groups: []\ngroups: []\n",
        "groups:\n- name: a\n- name: a\n- name: ''\n- {}\n",
        "groups: [{name: a, interval: 1m, query_offset: 0s, limit: 3, rules: [], labels: {a: b}}]",
        "groups: [{name: a, interval: 1x}]",
        "groups: [{name: a, interval: ''}]",
        "groups: [{name: a, interval: [1m]}]",
        "groups: [{name: a, interval: -1m}]",
        "groups: [{name: a, query_offset: 300y}]",
        "groups: [{name: a, limit: many}]",
        "groups: [{name: a, limit: '3'}]",
        "groups: [{name: a, limit: 1.5}]",
        "groups: [{name: a, limit: -1}]",
        "groups: [{name: [a]}]",
        "groups: [{name: a, labels: [a]}]",
        "groups: [{name: a, labels: {__name__: x, '': y, a: ~, b: 1}}]",
        "groups: [{name: a, labels: {a: 1, a: 2, a: 3}}]",
        "groups: [{name: a, rules: {}}]",
        "groups: [{name: a, rules: [~, 1, very long text of a rule]}]",
        "groups: [{name: a, rulez: [], x: 1}]\nfoo: 1\n",
        "groups: [{name: a}]\n---\nnot: [closed\n",
        "groups: [{name: a}",
        "groups: [{name: !!binary gIA=}]",
    ] {
        compare(&mut oracle, "a file", text, false);
    }
    for rules in [
        "  - record: a\n    expr: up\n",
        "  - expr: 1\n",
        "  - {}\n",
        "  - record: a\n",
        "  - record: a\n    expr: ''\n",
        "  - record: a\n    alert: b\n    expr: rate(up)\n",
        "  - record: Hello\n    expr: 1\n    for: 1m\n    keep_firing_for: 1m\n    annotations: {a: b}\n",
        "  - record: a\n    expr: 1\n    for: 0s\n",
        "  - record: 'a{b=\"c\"}'\n    expr: 1\n",
        "  - record: a b\n    expr: 1\n",
        "  - alert: any name {{\n    expr: up[5m]\n    annotations: {'a-b': x, '': y, __name__: z}\n",
        "  - alert: a\n    expr: 1\n    labels: {__name__: x, 'a-b': y, '': z}\n",
        "  - alert: a\n    expr: 1\n    labels: {a: !!binary gIA=}\n",
        "  - alert: a\n    expr: 1\n    for: 5\n    keep_firing_for: soon\n",
        "  - alert: a\n    expr: |\n      sum(\n        up\n",
        "  - alert: [a]\n    expr: {a: b}\n    for: [x]\n    labels: x\n    annotations: [x]\n    anotations: {}\n",
        "  - alert: a\n    alert: b\n    expr: 1\n",
        "  - &r {alert: &n a, expr: &e 'x y'}\n  - alert: *n\n    expr: *e\n  - <<: *r\n    alert: c\n",
        "  - alert: !!str &n a\n    expr: !!str x y\n  - alert: b\n    expr:\n      \"x y\"\n",
        "  - alert: a\n    expr: 1\n    labels: {x: '{{ $label.a }}', y: '{{ end }}'}\n    annotations: {s: '{{ nope 1 }}', t: \"a\\n{{ (1 }}\"}\n",
        "  - record: a\n    expr: 1\n    labels: {x: '{{ $label.a }}'}\n",
        "  - record: é\n    expr: 'é é'\n",
    ] {
        for legacy in [false, true] {
            compare(&mut oracle, "a rule", &group(rules), legacy);
        }
    }
}

#[test]
fn errors_have_places_where_prometheus_has_none() {
    let text = group(
        "  - alert: a\n    expr: 1\n    labels:\n      __name__: x\n  - record: b\n  - expr: 1\n    for: 1x\n",
    );
    assert_eq!(
        errors(&text, false),
        ["10:10: not a valid duration string: \"1x\""]
    );
    let text = text.replace("1x", "1m");
    assert_eq!(
        errors(&text, false),
        [
            "7:7: group \"g\", rule 1, \"a\": invalid label name: __name__",
            "8:5: group \"g\", rule 2, \"b\": field 'expr' must be set in rule",
            "9:5: group \"g\", rule 3, \"\": one of 'record' or 'alert' must be set",
        ]
    );
    let text = "groups:\n- name: a\n- name: a\n- rules: []\n";
    assert_eq!(
        errors(text, false),
        [
            "3:9: groupname: \"a\" is repeated in the same file",
            "4:3: Groupname must not be empty"
        ]
    );
}

#[test]
fn what_files_say_is_kept() {
    let text = "groups:
- name: g
  interval: 1m30s
  query_offset: 0s
  limit: 7
  labels: {team: a, severity: none}
  rules:
  - alert: A
    expr: &e up == 0
    for: 5m
    keep_firing_for: 1h
    labels: {severity: page}
    annotations: {summary: gone}
  - record: r
    expr: *e
- name: h
  limit: -1
";
    let file = parse(text, ParseOptions::default()).unwrap();
    let [g, h] = &*file.groups else {
        panic!("{file:?}")
    };
    assert_eq!(
        (g.interval_ms, g.query_offset_ms, g.limit),
        (Some(90_000), Some(0), Some(7))
    );
    assert_eq!(
        (h.interval_ms, h.query_offset_ms, h.limit),
        (None, None, None)
    );
    assert_eq!(g.labels["team"], "a");
    let [alert, record] = &*g.rules else {
        panic!("{g:?}")
    };
    let RuleKind::Alerting {
        for_ms,
        keep_firing_for_ms,
        annotations,
    } = &alert.kind
    else {
        panic!("{alert:?}")
    };
    assert_eq!((*for_ms, *keep_firing_for_ms), (300_000, 3_600_000));
    assert_eq!(annotations["summary"], "gone");
    assert_eq!(alert.labels["severity"], "page");
    assert_eq!(record.expr.to_string(), "up == 0");
    assert_eq!(record.kind, RuleKind::Recording);
    assert!(file.warnings.is_empty());
    let two = parse("groups: []\n---\n[", ParseOptions::default()).unwrap();
    assert_eq!(two.warnings.len(), 1);
}

#[test]
fn repeated_rules_are_found_with_the_labels_of_their_groups() {
    let text = "groups:
- {name: a, labels: {x: y}, rules: [{record: r, expr: 1}, {record: s, expr: 1}]}
- {name: b, rules: [{record: r, expr: 2, labels: {x: y}}, {alert: r, expr: 3, labels: {x: y}}, {record: s, expr: 1}]}
";
    let file = parse(text, ParseOptions::default()).unwrap();
    let found = narthex_rules::duplicates(&file.groups);
    assert_eq!(found.len(), 1);
    assert_eq!((&*found[0].name, &*found[0].labels["x"]), ("r", "y"));
}
