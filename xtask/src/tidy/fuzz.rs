//! Fuzz targets: each `pub fn fuzz_x(data: &[u8])` of a crate's `fuzz` module has one in `fuzz/`, and no other exists.
//!
//! They are as thin as can be, so they are written by `cargo xtask fuzz` and only compared here.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::{Finding, Tree};
use crate::rust::line_of;

const DIR: &str = "fuzz/";
const TARGETS: &str = "fuzz/fuzz_targets/";
const COMMAND: &str = "run `cargo xtask fuzz`";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (functions, mut findings) = functions(tree);
    let expected = files(&functions);
    for (path, text) in &expected {
        match tree.text(path) {
            None => findings.push(Finding::new(path, 0, format!("is missing: {COMMAND}"))),
            Some(found) if found != text => {
                findings.push(Finding::new(
                    path,
                    0,
                    format!("is not what it should be: {COMMAND}"),
                ));
            }
            Some(_) => {}
        }
    }
    let targets = tree.with_suffix(".rs").map(|(path, _)| path);
    let gone = targets.filter(|path| path.starts_with(TARGETS) && !expected.contains_key(*path));
    findings.extend(
        gone.map(|path| Finding::new(path, 0, format!("has no function to fuzz: {COMMAND}"))),
    );
    findings
}

/// Writes all targets and their manifest, and removes those that have no function.
///
/// # Errors
/// When a function takes something else than bytes, or a file cannot be written.
pub(super) fn write(tree: &Tree) -> Result<(), String> {
    let (functions, findings) = functions(tree);
    if !findings.is_empty() {
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        return Err(lines.join("\n"));
    }
    let expected = files(&functions);
    let on_disk = tree.with_suffix(".rs").map(|(path, _)| path);
    for path in on_disk.filter(|path| path.starts_with(TARGETS)) {
        if !expected.contains_key(path) {
            fs::remove_file(path).map_err(|e| format!("{path}: {e}"))?;
        }
    }
    fs::create_dir_all(TARGETS).map_err(|e| format!("{TARGETS}: {e}"))?;
    for (path, text) in expected {
        fs::write(&path, text).map_err(|e| format!("{path}: {e}"))?;
    }
    Ok(())
}

/// The functions of one crate.
struct Crate {
    /// Where its manifest is.
    dir: String,
    /// Its package.
    package: String,
    /// What follows `fuzz_` in their names, sorted.
    names: Vec<String>,
}

/// Finds the functions of all crates.
fn functions(tree: &Tree) -> (Vec<Crate>, Vec<Finding>) {
    let mut found: BTreeMap<String, Crate> = BTreeMap::new();
    let mut findings = Vec::new();
    let begin = "pub fn fuzz_";
    for (path, source) in tree
        .with_suffix(".rs")
        .filter(|(path, _)| !path.starts_with("xtask/"))
    {
        let Some((dir, _)) = path.split_once("/src/") else {
            continue;
        };
        for (at, _) in source.match_indices(begin) {
            let rest = &source[at + begin.len()..];
            let Some((name, rest)) = rest.split_once('(') else {
                continue;
            };
            if !rest.starts_with("data: &[u8])") {
                let text = format!("fuzz_{name} must take `data: &[u8]` alone");
                findings.push(Finding::new(path, line_of(source, at), text));
                continue;
            }
            let manifest = tree.text(&format!("{dir}/Cargo.toml")).unwrap_or_default();
            let package = super::manifests::package_name(manifest).unwrap_or_default();
            let of_crate = found.entry(dir.to_owned()).or_insert_with(|| Crate {
                dir: dir.to_owned(),
                package: package.to_owned(),
                names: Vec::new(),
            });
            of_crate.names.push(name.to_owned());
            of_crate.names.sort();
        }
    }
    (found.into_values().collect(), findings)
}

/// Returns what is to be in each file.
fn files(crates: &[Crate]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut manifest = MANIFEST.to_owned();
    for one in crates {
        let _ = writeln!(
            manifest,
            "{} = {{ path = \"../{}\" }}",
            one.package, one.dir
        );
    }
    for one in crates {
        let crate_name = one.package.replace('-', "_");
        let short = Path::new(&one.package).to_string_lossy();
        let short = short.trim_start_matches("narthex-").replace('-', "_");
        for name in &one.names {
            let target = format!("{short}_{name}");
            let _ = write!(
                manifest,
                "\n[[bin]]\nname = \"{target}\"\npath = \"fuzz_targets/{target}.rs\"\ntest = false\ndoc = false\nbench = false\n"
            );
            let text = format!(
                "//! Fuzzes `{crate_name}::fuzz::fuzz_{name}`.\n#![no_main]\n\nlibfuzzer_sys::fuzz_target!(|data: &[u8]| {crate_name}::fuzz::fuzz_{name}(data));\n"
            );
            files.insert(format!("{TARGETS}{target}.rs"), text);
        }
    }
    files.insert(format!("{DIR}Cargo.toml"), manifest);
    files
}

const MANIFEST: &str = "\
# Written by `cargo xtask fuzz`. A workspace of its own: libFuzzer is no part of the product.
[workspace]

[package]
name = \"narthex-fuzz\"
description = \"One target for each function that reads bytes from outside.\"
version = \"0.1.0\"
edition = \"2024\"
license = \"Apache-2.0\"
publish = false

[package.metadata]
cargo-fuzz = true

[dependencies]
libfuzzer-sys = \"0.4\"
";

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
        Tree {
            files: files.collect(),
        }
    }

    const MANIFEST_OF: (&str, &str) = ("crates/a/Cargo.toml", "[package]\nname = \"narthex-a\"\n");

    #[test]
    fn a_function_without_a_target_and_a_target_without_a_function_are_found() {
        let source = ("crates/a/src/fuzz.rs", "pub fn fuzz_x(data: &[u8]) {}");
        let missing = check(&tree(&[MANIFEST_OF, source]));
        let paths: Vec<&str> = missing.iter().map(|finding| &*finding.path).collect();
        assert_eq!(paths, ["fuzz/Cargo.toml", "fuzz/fuzz_targets/a_x.rs"]);
        let (found, _) = functions(&tree(&[MANIFEST_OF, source]));
        let written = files(&found);
        let mut all: Vec<(&str, &str)> = written.iter().map(|(p, t)| (&**p, &**t)).collect();
        all.extend([MANIFEST_OF, source]);
        assert_eq!(check(&tree(&all)), []);
        all.retain(|file| file.0 != source.0);
        let left = check(&tree(&all));
        assert!(
            left.iter().any(|finding| finding.path.ends_with("a_x.rs")),
            "{left:?}"
        );
    }

    #[test]
    fn a_function_that_takes_more_than_bytes_is_found() {
        let source = (
            "crates/a/src/fuzz.rs",
            "\npub fn fuzz_x(data: &[u8], more: bool) {}",
        );
        let findings = check(&tree(&[MANIFEST_OF, source]));
        let text = "fuzz_x must take `data: &[u8]` alone";
        assert!(
            findings.contains(&Finding::new(source.0, 2, text)),
            "{findings:?}"
        );
    }
}
