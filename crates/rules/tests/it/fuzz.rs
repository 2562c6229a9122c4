//! Runs the fuzz targets on mutations of the reference files.

use crate::{corpus, templates};
use narthex_rules::fuzz;
use narthex_testkit::mutate::{Mutator, scaled};

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
