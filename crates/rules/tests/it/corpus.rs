//! The reference rule files: same verdicts, same words.

use crate::{files, oracle::Oracle};
use narthex_testkit::corpora;
use std::fs;

/// Number of reference files.
const ALL: usize = 25;

/// Rule files of the promtool corpus; its other files are configurations and tests of rules.
const PROMTOOL: &[&str] = &[
    "at-modifier.yml",
    "bad-promql.yml",
    "bad-rules-error.yml",
    "bad-rules-syntax.yml",
    "negative-offset.yml",
    "prometheus-rules.lint.yml",
    "rules-bad.yml",
    "rules.yml",
    "rules_duplicates.yml",
    "rules_extrafields.yml",
];

/// Files that Prometheus rejects.
const BAD: &[&str] = &[
    "bad-promql.yml",
    "bad-rules-syntax.yml",
    "invalid_rules.yaml",
    "rules-bad.yml",
    "rules_extrafields.yml",
];

/// Returns the names and texts of the reference files that are there.
pub(crate) fn texts() -> Vec<(String, String)> {
    let rules = corpora::dir("rules").map(|dir| corpora::files(&dir, ".yaml"));
    let promtool = corpora::dir("promtool").map(|dir| {
        PROMTOOL
            .iter()
            .map(|name| dir.join(name))
            .collect::<Vec<_>>()
    });
    let files = rules.into_iter().chain(promtool).flatten();
    files
        .map(|file| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(&file).unwrap())
        })
        .collect()
}

#[test]
fn reference_files_have_the_same_verdicts() {
    let texts = texts();
    for (name, text) in &texts {
        let errors = files::errors(text, false);
        assert_eq!(
            BAD.contains(&&**name),
            !errors.is_empty(),
            "{name}: {errors:?}"
        );
    }
    corpora::report("rule files", texts.len(), ALL);
}

#[test]
fn reference_files_have_the_errors_of_the_newest_prometheus() {
    let mut oracle = Oracle::start();
    for (name, text) in texts() {
        files::compare(&mut oracle, &name, &text, false);
    }
}
