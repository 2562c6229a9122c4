//! Rust sources: the header every file has, sizes, and reasons beside `unsafe`.

use std::ops::Range;

use super::{Finding, Tree};
use crate::rust::{blank, item_end, line_of, test_regions};

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
        unsafe_reasons(path, source, &blanked, &mut findings);
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
        findings.push(Finding::new(
            path,
            1,
            "the file must begin with //! that says its purpose and what it keeps true",
        ));
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
        findings.push(Finding::new(
            path,
            0,
            format!("{lines} lines outside tests, limit {MAX_FILE_LINES}"),
        ));
    }
    if path.ends_with("/src/lib.rs") && lines > MAX_LIB_LINES {
        findings.push(Finding::new(
            path,
            0,
            format!("{lines} lines, limit for a lib.rs {MAX_LIB_LINES}"),
        ));
    }
}

fn unsafe_reasons(path: &str, source: &str, blanked: &str, findings: &mut Vec<Finding>) {
    let lines: Vec<&str> = source.lines().collect();
    let code: Vec<&str> = blanked.lines().collect();
    let impls = unsafe_impls(blanked);
    for (at, _) in blanked.match_indices("unsafe") {
        let rest = blanked[at + "unsafe".len()..].trim_start();
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let alone = at == 0 || !word(blanked.as_bytes()[at - 1]);
        let reason = match rest {
            _ if !alone => continue,
            // The trait states what its methods ask of callers; the impl's own reason covers how they keep it.
            r if r.starts_with("fn ") && impls.iter().any(|body| body.contains(&at)) => continue,
            r if r.starts_with('{') || r.starts_with("impl") => "SAFETY:",
            r if r.starts_with("fn ") || r.starts_with("trait ") => "# Safety",
            _ => continue, // `unsafe extern`, `unsafe_op_in_unsafe_fn`, function pointer types.
        };
        let line = line_of(blanked, at);
        if !explained(&lines, &code, line - 1, reason) {
            findings.push(Finding::new(path, line, format!("unsafe without {reason}")));
        }
    }
}

/// Returns the byte ranges of `unsafe impl` items.
fn unsafe_impls(blanked: &str) -> Vec<Range<usize>> {
    let starts = blanked.match_indices("unsafe impl").map(|(at, _)| at);
    starts.map(|at| at..item_end(blanked, at)).collect()
}

/// Looks for `reason` on the line, on the earlier lines of its statement, and in the comment above them.
fn explained(lines: &[&str], code: &[&str], line: usize, reason: &str) -> bool {
    for i in (0..=line).rev() {
        if lines[i].contains(reason) || (reason == "# Safety" && lines[i].contains("SAFETY:")) {
            return true;
        }
        if i == line {
            continue;
        }
        let before = code[i].trim();
        let comment_or_attribute =
            before.is_empty() && !lines[i].trim().is_empty() || before.starts_with("#[");
        let statement_goes_on = !before.is_empty() && !before.ends_with([';', '{', '}']);
        if !comment_or_attribute && !statement_goes_on {
            return false;
        }
    }
    false
}
