//! Words that do not belong into a repository other people read: addresses of machines and mirrors, references to
//! documents a reader does not have.

use super::{Finding, Tree};

/// Substrings and why each is refused. Split, so that this file does not refuse itself.
const REFUSED: &[(&str, &str)] = &[
    (concat!("index.", "crates.io"), "a registry's address"),
    (concat!("static.", "crates.io"), "a registry's address"),
    (concat!("npm", "mirror"), "a registry's address"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/home/", "user/"), "a path of one machine"),
    (
        concat!("DESIGN", " §"),
        "a document that is not in the repository",
    ),
    (
        concat!("DESIGN", ".md"),
        "a document that is not in the repository",
    ),
    (
        concat!("STYLE", ".md"),
        "a document that is not in the repository",
    ),
    (
        concat!("GOALS", ".md"),
        "a document that is not in the repository",
    ),
    (
        concat!("research/", "spine"),
        "a document that is not in the repository",
    ),
    (
        concat!("research/", "crates"),
        "a document that is not in the repository",
    ),
    (
        concat!("research/", "edge"),
        "a document that is not in the repository",
    ),
    (
        concat!("research/", "server"),
        "a document that is not in the repository",
    ),
    (concat!("COMMON", ".md"), "how the work was handed out"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, bytes) in &tree.files {
        // Lock files name registries by nature; test data and licences are other people's words.
        let lock = path.ends_with("Cargo.lock")
            || path.ends_with("package-lock.json")
            || path.ends_with("go.sum");
        if lock
            || path == "THIRD_PARTY_LICENSES"
            || path
                .split('/')
                .any(|part| matches!(part, "testdata" | "dist"))
        {
            continue;
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            continue;
        };
        for (word, why) in REFUSED {
            if let Some(at) = text.find(word) {
                let line = crate::rust::line_of(text, at);
                findings.push(Finding::new(path, line, format!("{word:?} is {why}")));
            }
        }
    }
    findings
}
