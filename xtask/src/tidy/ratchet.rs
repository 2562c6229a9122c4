//! Functions over 70 lines: tolerated only as far as the committed list says, and the list only shrinks.

use std::collections::BTreeMap;

use super::source::is_test_file;
use super::{Finding, Tree};
use crate::rust::{blank, functions, line_of, test_regions};

/// Lines of code in a body, without blank lines and comments.
pub(super) const MAX_LINES: usize = 70;
/// `<lines> <path> <function>`, sorted by path.
pub(super) const LIST: &str = "xtask/long-functions.txt";

/// A function over the limit.
pub(super) struct Long {
    path: String,
    name: String,
    line: usize,
    lines: usize,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut listed = parse(tree);
    let mut findings = Vec::new();
    for long in long(tree) {
        let Long {
            path,
            name,
            line,
            lines,
        } = long;
        match listed.remove(&(path.clone(), name.clone())) {
            None => findings.push(Finding::new(
                &path,
                line,
                format!("fn {name} has {lines} lines, limit {MAX_LINES}"),
            )),
            Some(limit) if lines > limit => {
                findings.push(Finding::new(
                    &path,
                    line,
                    format!("fn {name} grew from {limit} to {lines} lines"),
                ));
            }
            Some(limit) if lines < limit => findings.push(shrink(&name, &path)),
            Some(_) => {}
        }
    }
    findings.extend(listed.into_keys().map(|(path, name)| shrink(&name, &path)));
    findings
}

/// Returns the list with every entry lowered to what the tree holds; adds none.
pub(super) fn shrunk(tree: &Tree) -> String {
    let listed = parse(tree);
    let mut out = String::new();
    for Long {
        path, name, lines, ..
    } in long(tree)
    {
        if let Some(limit) = listed.get(&(path.clone(), name.clone())) {
            out.push_str(&format!("{} {path} {name}\n", lines.min(*limit)));
        }
    }
    out
}

/// Returns every function over the limit, by path and position.
pub(super) fn long(tree: &Tree) -> Vec<Long> {
    let mut found = Vec::new();
    for (path, source) in tree
        .with_suffix(".rs")
        .filter(|(path, _)| !is_test_file(path))
    {
        let blanked = blank(source);
        let tests = test_regions(&blanked);
        for function in functions(&blanked) {
            let body = &blanked[function.body.clone()];
            // The braces' own lines do not count.
            let lines = body
                .lines()
                .filter(|line| !line.trim().is_empty())
                .count()
                .saturating_sub(2);
            if lines > MAX_LINES && !tests.iter().any(|region| region.contains(&function.at)) {
                let line = line_of(&blanked, function.at);
                found.push(Long {
                    path: path.to_owned(),
                    name: function.name.to_owned(),
                    line,
                    lines,
                });
            }
        }
    }
    found
}

fn shrink(name: &str, path: &str) -> Finding {
    Finding::new(
        LIST,
        0,
        format!("fn {name} in {path} got shorter: run `cargo xtask tidy --update`"),
    )
}

fn parse(tree: &Tree) -> BTreeMap<(String, String), usize> {
    let text = tree.text(LIST).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ' ');
            let lines = parts.next()?.parse().ok()?;
            Some(((parts.next()?.to_owned(), parts.next()?.to_owned()), lines))
        })
        .collect()
}
