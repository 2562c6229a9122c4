//! `cargo xtask tidy`: checks of the repository that compilers and clippy do not make.
//!
//! Invariant: every check is a pure function from a [`Tree`] to findings, so each one has a test that sees it fail.

mod circles;
mod documents;
mod formats;
mod fuzz;
mod guides;
mod manifests;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::process::Command;
use std::time::Instant;

/// A problem to fix.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// 1-based; 0 when the finding is about the whole file.
    line: usize,
    text: String,
}

impl Finding {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            text: text.into(),
        }
    }

    /// Returns a finding about a whole file.
    fn of_file(path: &str, text: impl Into<String>) -> Self {
        Self::new(path, 0, text)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

/// Every file that is, or would be, committed: path from the root to content.
#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    /// Reads the files that git tracks or would add.
    fn read() -> Result<Self, String> {
        let output = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .output()
            .map_err(|e| format!("git ls-files: {e}"))?;
        if !output.status.success() {
            return Err(format!(
                "git ls-files: {}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        let mut files = BTreeMap::new();
        for path in String::from_utf8_lossy(&output.stdout).split_terminator('\0') {
            // A file deleted but still in the index, or a link to a directory, has nothing to check.
            if let Ok(content) = fs::read(path) {
                files.insert(path.to_owned(), content);
            }
        }
        Ok(Self { files })
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files
            .get(path)
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Returns path and text of the files whose name ends in `suffix`.
    fn with_suffix<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(suffix))
            .filter_map(|(path, bytes)| Some((path.as_str(), std::str::from_utf8(bytes).ok()?)))
    }

    /// Returns whether the path is a file or a directory of the tree.
    fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(below.clone()..)
                .next()
                .is_some_and(|(first, _)| first.starts_with(&below))
    }
}

/// Runs every check and prints the findings.
///
/// # Errors
///
/// When there are findings, or the tree cannot be read.
pub(crate) fn run() -> Result<(), String> {
    let start = Instant::now();
    let tree = Tree::read()?;
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    println!(
        "tidy: {} files in {} ms, {} findings",
        tree.files.len(),
        start.elapsed().as_millis(),
        findings.len()
    );
    if findings.is_empty() {
        Ok(())
    } else {
        Err(format!("tidy: {} findings", findings.len()))
    }
}

/// Records the current pairing of format sources and documents.
///
/// # Errors
///
/// When a source changed and its document did not.
pub(crate) fn record_formats() -> Result<(), String> {
    let list = formats::record(&Tree::read()?)?;
    fs::write(formats::LIST, list).map_err(|e| format!("{}: {e}", formats::LIST))
}

/// Writes the fuzz targets.
///
/// # Errors
///
/// When a function cannot have one, or a file cannot be written.
pub(crate) fn write_fuzz_targets() -> Result<(), String> {
    fuzz::write(&Tree::read()?)
}

/// Returns every fuzz function: the binary in `fuzz/` that has it, and its name there.
///
/// # Errors
///
/// When a function cannot have a target, or the tree cannot be read.
pub(crate) fn fuzz_functions() -> Result<Vec<(String, String)>, String> {
    fuzz::list(&Tree::read()?)
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = source::check(tree);
    findings.extend(circles::check(tree));
    findings.extend(manifests::check(tree));
    findings.extend(documents::check(tree));
    findings.extend(documents::check_map(tree));
    findings.extend(formats::check(tree));
    findings.extend(fuzz::check(tree));
    findings.extend(guides::check(tree));
    findings.extend(blobs(tree));
    findings.sort();
    findings
}

/// The largest file that may be committed outside test data, in bytes; a record of twenty runs takes half of it.
const MAX_BLOB_BYTES: usize = 512 << 10;

fn blobs(tree: &Tree) -> Vec<Finding> {
    let exempt = |path: &str| {
        path.split('/').any(|part| part == "testdata") || path.starts_with("crates/ui/dist/")
    };
    tree.files
        .iter()
        .filter(|(path, content)| content.len() > MAX_BLOB_BYTES && !exempt(path))
        .map(|(path, content)| {
            let kib = content.len() >> 10;
            Finding::of_file(
                path,
                format!("{kib} KiB; files over 512 KiB belong into testdata"),
            )
        })
        .collect()
}
