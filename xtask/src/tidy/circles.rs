//! Modules must not import each other in circles: code that two files need belongs in a third.
//!
//! A module and its submodules are exempt: they are one unit in several files.
//!
//! Invariant: a file in a circle is tolerated only while it is on the committed list, and the list only shrinks.

use std::collections::{BTreeMap, BTreeSet};

use super::source::is_test_file;
use super::{Finding, Tree};
use crate::rust::{blank, test_regions};

/// Paths of files in circles, sorted.
pub(super) const LIST: &str = "xtask/circles.txt";

type Module = Vec<String>;

/// One crate's modules: where each is, and what it imports.
#[derive(Default)]
struct Modules<'a> {
    paths: BTreeMap<Module, &'a str>,
    imports: BTreeMap<Module, BTreeSet<Module>>,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut listed: BTreeSet<&str> = tree.text(LIST).unwrap_or_default().lines().collect();
    let mut findings = Vec::new();
    for modules in crates(tree).values() {
        for circle in circles(&modules.imports) {
            let paths: Vec<&str> = circle.iter().map(|module| modules.paths[*module]).collect();
            // One finding per circle, unless all of it is known.
            let new = paths.iter().filter(|path| !listed.contains(*path)).count();
            if new > 0 {
                let text = format!("imports in a circle: {}", paths.join(", "));
                findings.push(Finding::of_file(paths[0], text));
            }
            listed.retain(|path| !paths.contains(path));
        }
    }
    let gone = listed.into_iter().map(|path| {
        let text = format!("{path} is in no circle any more: remove the line");
        Finding::of_file(LIST, text)
    });
    findings.extend(gone);
    findings
}

/// Collects the modules of every crate of the tree, by the directory of its sources.
fn crates(tree: &Tree) -> BTreeMap<&str, Modules<'_>> {
    let mut crates: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    let mut sources = Vec::new();
    for (path, text) in tree.with_suffix(".rs") {
        let Some((root, inside)) = path.split_once("/src/").filter(|_| !is_test_file(path)) else {
            continue;
        };
        let module = module_of(inside);
        crates
            .entry(root)
            .or_default()
            .paths
            .insert(module.clone(), path);
        sources.push((root, module, text));
    }
    for (root, module, text) in sources {
        let modules = crates.entry(root).or_default();
        let imported = imports(text, &module);
        let resolved = imported.iter().filter_map(|path| {
            let inner = (1..=path.len()).rev().map(|len| path[..len].to_vec());
            inner
                .into_iter()
                .find(|path| modules.paths.contains_key(path))
        });
        let others = resolved.filter(|other| !other.starts_with(&module));
        let others = others.filter(|other| !module.starts_with(other)).collect();
        modules.imports.insert(module, others);
    }
    crates
}

/// Returns the module that a file under `src` is.
fn module_of(inside: &str) -> Module {
    let inside = inside.trim_end_matches(".rs");
    let mut module: Module = inside.split('/').map(str::to_owned).collect();
    if matches!(
        module.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        module.pop();
    }
    module
}

/// Lists what a source names of its own crate, as paths from the root.
fn imports(source: &str, module: &[String]) -> Vec<Module> {
    let mut text = blank(source);
    for region in test_regions(&text) {
        text.replace_range(region.clone(), &" ".repeat(region.len()));
    }
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let before = text[..at].trim_end_matches(' ');
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            // `pub(in crate::db)` is a visibility.
            if text[..at].ends_with(is_word) || before.ends_with("(in") {
                continue;
            }
            let base = match start {
                "crate::" => Vec::new(),
                _ => module[..module.len().saturating_sub(1)].to_vec(),
            };
            branches(&text[at + start.len()..], base, &mut found);
        }
    }
    found
}

/// Follows a path and all branches of its braces; returns the text after it.
fn branches<'t>(text: &'t str, mut path: Module, found: &mut Vec<Module>) -> &'t str {
    let mut rest = text.trim_start();
    loop {
        if let Some(mut inner) = rest.strip_prefix('{') {
            loop {
                inner = branches(inner, path.clone(), found).trim_start();
                match inner.strip_prefix(',') {
                    Some(more) => inner = more,
                    None => return inner.strip_prefix('}').unwrap_or(inner),
                }
            }
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
        match word {
            "super" => drop(path.pop()),
            "self" | "" => {}
            _ => path.push(word.to_owned()),
        }
        match behind.strip_prefix("::") {
            Some(more) if !word.is_empty() => rest = more.trim_start(),
            _ => {
                found.push(path);
                // `*`, and another name after `as`.
                let end = behind.find([',', '}', ';']);
                return &behind[end.unwrap_or(behind.len())..];
            }
        }
    }
}

/// Returns the circles: groups of modules that all reach each other, each sorted.
fn circles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<&Module>> {
    let reaches: BTreeMap<&Module, BTreeSet<&Module>> = imports
        .keys()
        .map(|from| (from, reach(imports, from)))
        .collect();
    let mut circles = Vec::new();
    let mut seen: BTreeSet<&Module> = BTreeSet::new();
    for (from, all) in &reaches {
        if !all.contains(*from) || seen.contains(*from) {
            continue;
        }
        let back = |other: &&&Module| reaches.get(**other).is_some_and(|r| r.contains(*from));
        let circle: Vec<&Module> = all.iter().filter(back).copied().collect();
        seen.extend(&circle);
        circles.push(circle);
    }
    circles
}

/// Returns all modules reachable from one.
fn reach<'a>(
    imports: &'a BTreeMap<Module, BTreeSet<Module>>,
    from: &Module,
) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = imports.get(from).into_iter().flatten().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(imports.get(module).into_iter().flatten());
        }
    }
    reached
}
