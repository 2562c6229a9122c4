//! Cargo manifests: crate edges and the budget of direct dependencies.

use std::collections::BTreeSet;

use super::{Finding, Tree};
use crate::edges::{self, Edges};

/// One line of a dependency table.
struct Dependency<'a> {
    name: &'a str,
    line: usize,
    dev: bool,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut direct = BTreeSet::new();
    let edges = Edges::read(tree.text(edges::FILE).unwrap_or_default());
    for (path, manifest) in tree.with_suffix("Cargo.toml") {
        let Some(package) = package_name(manifest) else {
            continue;
        };
        // A separate workspace (peers to measure against) is not part of this one.
        if manifest.lines().any(|line| line.trim() == "[workspace]") {
            continue;
        }
        for dependency in dependencies(manifest) {
            if let Some(text) = edges.objection(package, dependency.name, dependency.dev) {
                findings.push(Finding::new(path, dependency.line, text));
            }
            let ours = edges.has(dependency.name);
            if !dependency.dev && !ours && !edges::NOT_PRODUCT.contains(&edges::short(package)) {
                direct.insert(dependency.name);
            }
        }
        if !manifest.contains("[lints]\nworkspace = true") {
            let text = "the workspace's lints are missing: [lints] workspace = true";
            findings.push(Finding::of_file(path, text));
        }
    }
    if direct.len() > edges::DIRECT_BUDGET {
        let text = format!(
            "{} direct dependencies in the product, budget {}",
            direct.len(),
            edges::DIRECT_BUDGET
        );
        findings.push(Finding::of_file("Cargo.toml", text));
    }
    findings
}

pub(super) fn package_name(manifest: &str) -> Option<&str> {
    let section = manifest.split("[package]").nth(1)?;
    let line = section
        .lines()
        .find(|line| line.trim_start().starts_with("name"))?;
    line.split('"').nth(1)
}

fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    // Whether the current table lists dependencies, and of which kind.
    let mut table = None;
    for (i, line) in manifest.lines().enumerate() {
        let dependency = |name, dev| Dependency {
            name,
            line: i + 1,
            dev,
        };
        if let Some(section) = line
            .trim()
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            let dev = section.contains("dev-dependencies");
            let (before, name) = section.rsplit_once('.').unwrap_or(("", section));
            table = name.ends_with("dependencies").then_some(dev);
            if before.ends_with("dependencies") {
                found.push(dependency(name, dev));
            }
        } else if let (Some(dev), Some((key, _))) = (table, line.split_once('=')) {
            let name = key.trim().split('.').next().unwrap_or_default();
            if !name.is_empty() && !name.starts_with('#') {
                found.push(dependency(name, dev));
            }
        }
    }
    found
}
