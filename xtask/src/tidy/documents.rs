//! Markdown: every link, anchor and path in it exists, and ARCHITECTURE.md stays short.

use super::{Finding, Tree};
use crate::edges;

/// A code span that begins with one of these is a path from the root and has to exist.
const ROOTS: &[&str] = &[
    "crates/",
    "clients/",
    "bench/",
    "docs/",
    "xtask/",
    "testkit/",
    "testdata/",
    "ui/",
    "fuzz/",
    ".ci/",
    ".cargo/",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_suffix(".md") {
        for (number, line) in prose(text) {
            for target in links(line) {
                if let Some(problem) = broken_link(tree, path, target) {
                    findings.push(Finding::new(path, number, problem));
                }
            }
            for span in line.split('`').skip(1).step_by(2) {
                if let Some(missing) = missing_path(tree, span) {
                    let problem = format!("no such path: {missing}");
                    findings.push(Finding::new(path, number, problem));
                }
            }
        }
    }
    findings
}

/// Limits the length of ARCHITECTURE.md.
pub(super) fn check_map(tree: &Tree) -> Option<Finding> {
    const MAX_LINES: usize = 300;
    let lines = tree.text(edges::FILE)?.lines().count();
    let text = || format!("over {MAX_LINES} lines: a map, not the territory");
    (lines > MAX_LINES).then(|| Finding::of_file(edges::FILE, text()))
}

/// Returns numbered lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((i + 1, line))
    })
}

/// Returns the targets of `[text](target)` and `[name]: target` in a line.
fn links(line: &str) -> Vec<&str> {
    let mut found: Vec<&str> = line
        .match_indices("](")
        .filter_map(|(at, _)| line[at + 2..].split([')', ' ']).next())
        .collect();
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        found.push(target.trim());
    }
    found
}

fn broken_link(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target
        .split_once('#')
        .map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() {
        from.to_owned()
    } else {
        resolve(from, file)?
    };
    if !tree.has(&path) {
        return Some(format!("broken link: {target}"));
    }
    let anchor = anchor?;
    let found = tree
        .text(&path)
        .is_some_and(|text| prose(text).any(|(_, line)| slug(line).as_deref() == Some(anchor)));
    (!found && path.ends_with(".md")).then(|| format!("no such heading: {target}"))
}

/// Resolves a relative link; `None` for one that leaves the repository, which cannot be checked.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match from.rsplit_once('/') {
        Some((dir, _)) if !target.starts_with('/') => dir.split('/').collect(),
        _ => Vec::new(),
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the anchor that forges give a heading.
fn slug(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let keep = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    Some(
        heading
            .to_lowercase()
            .chars()
            .filter(keep)
            .map(|c| if c == ' ' { '-' } else { c })
            .collect(),
    )
}

fn missing_path<'a>(tree: &Tree, span: &'a str) -> Option<&'a str> {
    let pattern = |c: char| "*<>{}$… |".contains(c);
    if !ROOTS.iter().any(|root| span.starts_with(root)) || span.contains(pattern) {
        return None;
    }
    // `crates/tsdb/src/wal.rs:12` and `…#L12` point into a file.
    let path = span.split([':', '#']).next().unwrap_or(span);
    (!tree.has(path)).then_some(path)
}
