//! Reference data of other projects, read in place and never copied.
//!
//! Invariant: absent data is never silent. A suite always ends in [`report`], which prints how many cases ran and fails
//! in CI if none did.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::fs::workspace_root;

/// Returns a directory of the corpora (`"textparse"`, `"prometheus-config"` …), or `None` when it is absent.
#[must_use]
pub fn dir(name: &str) -> Option<PathBuf> {
    existing(root("NARTHEX_CORPORA", "corpora").join(name))
}

/// Returns the directory of Prometheus' `.test` files, or `None` when it is absent.
#[must_use]
pub fn promqltest() -> Option<PathBuf> {
    existing(root("NARTHEX_PROMQLTEST", "promqltest"))
}

/// Returns the directory of other projects' rule files, or `None` when it is absent. It is no part of the corpora.
#[must_use]
pub fn wild_rules() -> Option<PathBuf> {
    existing(root("NARTHEX_WILD_RULES", "wild-rules"))
}

/// Returns every file below `dir` whose name ends in `suffix` (all with `""`), sorted by path.
///
/// # Panics
///
/// When a directory cannot be read.
#[must_use]
pub fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        let entries = fs::read_dir(&dir).unwrap_or_else(|e| panic!("read {}: {e}", dir.display()));
        for entry in entries {
            let entry = entry.unwrap_or_else(|e| panic!("read {}: {e}", dir.display()));
            let kind = entry
                .file_type()
                .unwrap_or_else(|e| panic!("read {}: {e}", entry.path().display()));
            if kind.is_dir() {
                pending.push(entry.path());
            } else if entry.file_name().to_string_lossy().ends_with(suffix) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// Prints `<suite>: <ran> of <total> reference cases ran`, past the test runner's capture.
///
/// # Panics
///
/// When nothing ran and the environment has `CI=true`, or when more ran than there are.
pub fn report(suite: &str, ran: usize, total: usize) {
    report_optional(suite, ran, total);
    assert!(
        ran > 0 || !in_ci(),
        "{suite}: no reference case ran; is the data at NARTHEX_CORPORA / NARTHEX_PROMQLTEST?"
    );
}

/// Like [`report`] for data that CI need not have.
///
/// # Panics
///
/// When more ran than there are.
pub fn report_optional(suite: &str, ran: usize, total: usize) {
    assert!(
        ran <= total,
        "{suite}: {ran} cases ran, but there are only {total}"
    );
    // Directly to the stream: `println!` of a passing test is captured.
    let _ = writeln!(
        std::io::stderr(),
        "{suite}: {ran} of {total} reference cases ran"
    );
}

/// Returns whether this runs in CI (`CI=true`), where absent data and tools are failures.
#[must_use]
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|v| v == "true")
}

fn root(variable: &str, name: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(
        || workspace_root().join("../shared").join(name),
        PathBuf::from,
    )
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_dir().then_some(path)
}
