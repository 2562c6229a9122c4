//! Runs the fuzz targets on mutations of the reference files.

use crate::{corpus, templates};
use narthex_rules::fuzz;
use narthex_testkit::{
    corpora,
    mutate::{Mutator, scaled},
};
use std::fs;

const FILE: &str = "groups:
- name: g
  interval: 1m
  query_offset: 5s
  limit: 3
  labels: {team: a}
  rules:
  - &r
    alert: A
    expr: up{job=\"x\"} == 0
    for: 5m
    keep_firing_for: 1h
    labels: {severity: page, __name__: x}
    annotations: {summary: '{{ $labels.job }} {{ $value | humanize }}'}
  - <<: *r
    alert: B
  - record: job:up:sum
    expr: sum by (job) (up)
---
groups: []
";

#[test]
fn mutated_files_are_read_or_refused() {
    let files = corpus::texts();
    let mut all: Vec<&[u8]> = files.iter().map(|(_, text)| text.as_bytes()).collect();
    all.push(FILE.as_bytes());
    Mutator::new(0x71)
        .max_len(4096)
        .run(&all, scaled(4_000), fuzz::fuzz_file);
}

#[test]
fn mutated_templates_expand_or_fail() {
    let templates = templates::committed();
    let all: Vec<&[u8]> = templates.iter().map(String::as_bytes).collect();
    Mutator::new(0x72)
        .max_len(512)
        .run(&all, scaled(20_000), fuzz::fuzz_template);
}

const TESTS: &str = "rule_files: [rules.yml]
evaluation_interval: 1m
group_eval_order: [h, g]
fuzzy_compare: true
tests:
- name: t
  interval: 30s
  start_timestamp: 2026-01-02T03:04:05Z
  external_labels: {region: eu}
  external_url: http://h/p
  input_series:
  - {series: 'up{job=\"a\",instance=\"i\"}', values: 1 0x10 _x2 stale 1+0x5}
  - {series: 'c{job=\"a\"}', values: '0+3x20 {{schema:1 sum:3 count:6 buckets:[1 2 3]}}x2'}
  alert_rule_test:
  - eval_time: 4m
    alertname: Down
    exp_alerts:
    - {exp_labels: {severity: page, job: a, instance: i, team: b}, exp_annotations: {summary: x}}
  promql_expr_test:
  - expr: job:up:sum
    eval_time: 5m
    exp_samples: [{labels: 'job:up:sum{job=\"a\",team=\"a\"}', value: 0}]
  - expr: rate(c[2m])
    eval_time: 11m
    exp_samples: [{labels: '{job=\"a\"}', histogram: '{{sum:1 count:2 buckets:[1]}}'}]
";

/// Returns the reference files of unit tests that are there.
fn test_files() -> Vec<String> {
    const FILES: [&str; 12] = [
        "at-modifier-test.yml",
        "bad-input-series.yml",
        "bad-rules-error-test.yml",
        "bad-rules-syntax-test.yml",
        "failing.yml",
        "long-period.yml",
        "negative-offset-test.yml",
        "no-test-group-interval.yml",
        "rules_run_extrafields.yml",
        "rules_run_fuzzy.yml",
        "start-time-test.yml",
        "unittest.yml",
    ];
    let dir = corpora::dir("promtool").into_iter();
    let paths = dir.flat_map(|dir| FILES.map(|name| dir.join(name)));
    paths
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

#[test]
fn mutated_unit_tests_are_run_or_refused() {
    let files = test_files();
    let mut all: Vec<&[u8]> = files.iter().map(String::as_bytes).collect();
    all.push(TESTS.as_bytes());
    Mutator::new(0x73)
        .max_len(4096)
        .run(&all, scaled(2_000), fuzz::fuzz_tests);
}
