//! Rust sources: the required header of every file, and sizes.

use super::{Finding, Tree};
use crate::rust::{blank, test_regions};

/// Lines of a file outside its tests.
const MAX_FILE_LINES: usize = 1_000;
/// Lines of a `lib.rs`, which holds documentation and exports only.
const MAX_LIB_LINES: usize = 200;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.with_suffix(".rs") {
        let blanked = blank(source);
        header(path, source, &mut findings);
        sizes(path, &blanked, &mut findings);
    }
    findings
}

/// Returns whether the whole file is test or bench code.
pub(super) fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
        || path
            .split('/')
            .any(|part| matches!(part, "tests" | "benches" | "testdata"))
}

fn header(path: &str, source: &str, findings: &mut Vec<Finding>) {
    if !source.trim_start().starts_with("//!") {
        let text = "the file must begin with //! that says its purpose and what it keeps true";
        findings.push(Finding::new(path, 1, text));
    }
}

fn sizes(path: &str, blanked: &str, findings: &mut Vec<Finding>) {
    if is_test_file(path) {
        return;
    }
    let tests: usize = test_regions(blanked)
        .into_iter()
        .map(|r| blanked[r].lines().count())
        .sum();
    let lines = blanked.lines().count() - tests;
    if lines > MAX_FILE_LINES {
        let text = format!("{lines} lines outside tests, limit {MAX_FILE_LINES}");
        findings.push(Finding::of_file(path, text));
    }
    if path.ends_with("/src/lib.rs") && lines > MAX_LIB_LINES {
        let text = format!("{lines} lines, limit for a lib.rs {MAX_LIB_LINES}");
        findings.push(Finding::of_file(path, text));
    }
}
