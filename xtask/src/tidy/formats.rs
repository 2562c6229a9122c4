//! Format documents: a source that defines bytes on disk and its document change together.
//!
//! Every document is named by the source that writes its bytes, and every document a source names exists.
//! From its second version on a format is also pinned: its document names sources in a line `Source: ` with code
//! spans, the committed list holds a hash of each document and source, and when a source's code changes, its document
//! has to change before `cargo xtask formats` accepts the pair again. Before that it would only slow experiments down.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Tree};
use crate::rust::{blank, line_of};

/// `<hash of document> <document> <hash of source> <source>`, sorted.
pub(super) const LIST: &str = "xtask/formats.txt";
const DIR: &str = "docs/format/";

/// Hashes of a document and of one of its sources.
type Hashes = (String, String);

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (current, mut findings) = pairs(tree);
    let recorded = parse(tree.text(LIST).unwrap_or_default());
    for ((document, source), (document_hash, source_hash)) in &current {
        let text = match recorded.get(&(document.clone(), source.clone())) {
            None => format!("not recorded with {source}: run `cargo xtask formats`"),
            Some((was, now)) if now != source_hash && was == document_hash => {
                format!("{source} changed and this document did not")
            }
            Some((_, now)) if now != source_hash => {
                format!("{source} changed: run `cargo xtask formats`")
            }
            Some(_) => continue,
        };
        findings.push(Finding::of_file(document, text));
    }
    let gone = recorded.keys().filter(|pair| !current.contains_key(*pair));
    findings.extend(gone.map(|(document, source)| {
        let text = "are no longer a pair: run `cargo xtask formats`";
        Finding::of_file(LIST, format!("{document} and {source} {text}"))
    }));
    findings.extend(mentions(tree));
    findings
}

/// Returns the list for the current tree.
///
/// # Errors
///
/// Names the documents that stayed the same while a source of theirs changed. Deleting the pair's line from the list
/// first says: looked at, the bytes are the same.
pub(super) fn record(tree: &Tree) -> Result<String, String> {
    let stale: Vec<String> = check(tree)
        .iter()
        .filter(|f| f.text.ends_with("document did not"))
        .map(ToString::to_string)
        .collect();
    if !stale.is_empty() {
        return Err(stale.join("\n"));
    }
    let (current, _) = pairs(tree);
    let lines = current
        .iter()
        .map(|((document, source), (d, s))| format!("{d} {document} {s} {source}\n"));
    Ok(lines.collect())
}

fn pairs(tree: &Tree) -> (BTreeMap<(String, String), Hashes>, Vec<Finding>) {
    let mut found = BTreeMap::new();
    let mut findings = Vec::new();
    for (document, text) in tree
        .with_suffix(".md")
        .filter(|(path, _)| path.starts_with(DIR))
    {
        if document.ends_with("/README.md") {
            continue;
        }
        let line = text.lines().find(|line| line.starts_with("Source:"));
        for source in line.unwrap_or_default().split('`').skip(1).step_by(2) {
            match tree.text(source) {
                Some(code) => {
                    let hashes = (hash(text), hash(&essence(code)));
                    found.insert((document.to_owned(), source.to_owned()), hashes);
                }
                None => {
                    let text = format!("its source {source} does not exist");
                    findings.push(Finding::of_file(document, text));
                }
            }
        }
    }
    (found, findings)
}

/// Compares the documents that exist with those that sources name.
fn mentions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut named = BTreeSet::new();
    for (path, source) in tree
        .with_suffix(".rs")
        .filter(|(path, _)| !path.starts_with("xtask/"))
    {
        for (at, _) in source.match_indices(DIR) {
            let rest = &source[at..];
            let end = rest.find(".md").map_or(0, |end| end + ".md".len());
            let document = &rest[..end];
            if document.contains(char::is_whitespace) || end == 0 {
                continue;
            }
            if !tree.has(document) {
                let text = format!("no such document: {document}");
                findings.push(Finding::new(path, line_of(source, at), text));
            }
            named.insert(document);
        }
    }
    let documents = tree.with_suffix(".md").map(|(path, _)| path);
    let unnamed = documents.filter(|path| {
        path.starts_with(DIR) && !path.ends_with("/README.md") && !named.contains(path)
    });
    findings.extend(unnamed.map(|path| Finding::of_file(path, "no source names this document")));
    findings
}

/// Reduces code to what can change bytes: no comments, no layout, no unit tests.
fn essence(code: &str) -> String {
    let blanked = blank(code);
    let end = crate::rust::test_regions(&blanked)
        .first()
        .map_or(code.len(), |region| region.start);
    // Literals count (magic numbers are often byte strings), comments do not.
    let kept = code[..end]
        .lines()
        .zip(blanked[..end].lines())
        .filter(|(_, blank)| !blank.trim().is_empty());
    kept.flat_map(|(line, _)| line.split_whitespace())
        .collect::<Vec<_>>()
        .join(" ")
}

/// FNV-1a, 64 bits, as hex: enough to notice a change.
fn hash(text: &str) -> String {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
}

fn parse(text: &str) -> BTreeMap<(String, String), Hashes> {
    text.lines()
        .filter_map(|line| {
            let mut parts = line.split(' ').map(str::to_owned);
            let (document_hash, document) = (parts.next()?, parts.next()?);
            let (source_hash, source) = (parts.next()?, parts.next()?);
            Some(((document, source), (document_hash, source_hash)))
        })
        .collect()
}
