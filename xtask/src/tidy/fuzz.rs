//! Fuzz targets: each crate with functions `pub fn fuzz_x(data: &[u8])` has a binary in `fuzz/` that can run any of
//! them, there is no other binary, and every function has a memory bound.
//!
//! They are trivial, so `cargo xtask fuzz` generates them and this only compares. One binary per crate, not per
//! function: sixty programs that link the same crates take an hour to build.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use narthex_testkit::fuzz::read_bounds;

use super::{Finding, Tree};
use crate::rust::line_of;

const DIR: &str = "fuzz/";
const TARGETS: &str = "fuzz/fuzz_targets/";
const BOUNDS: &str = "fuzz/bounds.txt";
const COMMAND: &str = "run `cargo xtask fuzz`";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (functions, mut findings) = functions(tree);
    let expected = files(&functions);
    for (path, text) in &expected {
        let fault = match tree.text(path) {
            None => "is missing",
            Some(found) if found != text => "is not what it should be",
            Some(_) => continue,
        };
        findings.push(Finding::of_file(path, format!("{fault}: {COMMAND}")));
    }
    let targets = tree.with_suffix(".rs").map(|(path, _)| path);
    let gone = targets.filter(|path| path.starts_with(TARGETS) && !expected.contains_key(*path));
    let text = format!("has no function to fuzz: {COMMAND}");
    findings.extend(gone.map(|path| Finding::of_file(path, &*text)));
    findings.extend(bounds(tree, &functions));
    findings
}

/// Compares the functions with the table of bounds.
fn bounds(tree: &Tree, crates: &[Crate]) -> Vec<Finding> {
    let text = tree.text(BOUNDS).unwrap_or_default();
    let table = match read_bounds(text) {
        Ok(table) => table,
        Err(error) => return vec![Finding::of_file(BOUNDS, error)],
    };
    let known: Vec<&str> = table.iter().map(|(name, _)| name.as_str()).collect();
    let functions: Vec<String> = names(crates)
        .map(|(binary, name)| format!("{binary}_{name}"))
        .collect();
    let mut findings = Vec::new();
    for name in functions.iter().filter(|name| !known.contains(&&***name)) {
        let text = format!("does not say how much memory {name} may take");
        findings.push(Finding::of_file(BOUNDS, text));
    }
    for (at, name) in known.iter().enumerate() {
        let fault = if known[..at].contains(name) {
            "has a second line"
        } else if !functions.iter().any(|function| function == name) {
            "is no function to fuzz"
        } else {
            continue;
        };
        findings.push(Finding::of_file(BOUNDS, format!("{name} {fault}")));
    }
    findings
}

/// Returns all functions: the binary each is in, and its name there.
fn names(crates: &[Crate]) -> impl Iterator<Item = (String, String)> {
    let pair = |one: &Crate, name: &String| (one.binary(), name.clone());
    crates
        .iter()
        .flat_map(move |one| one.names.iter().map(move |name| pair(one, name)))
}

/// Returns all functions of the repository: the binary each is in, and its name there.
///
/// # Errors
/// When a function takes something else than bytes.
pub(super) fn list(tree: &Tree) -> Result<Vec<(String, String)>, String> {
    let (crates, findings) = functions(tree);
    if let Some(finding) = findings.first() {
        return Err(finding.to_string());
    }
    Ok(names(&crates).collect())
}

/// Writes all targets and their manifest, and removes targets without a function.
///
/// # Errors
/// If a function takes anything but bytes, or a file cannot be written.
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
    /// Directory of its manifest.
    dir: String,
    /// Its package.
    package: String,
    /// Their names without `fuzz_`, sorted.
    names: Vec<String>,
}

impl Crate {
    /// Returns the name of its binary.
    fn binary(&self) -> String {
        let short = self.package.trim_start_matches("narthex-");
        short.replace('-', "_")
    }
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

/// Returns the expected contents of each file.
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
        let binary = one.binary();
        let _ = write!(
            manifest,
            "\n[[bin]]\nname = \"{binary}\"\npath = \"fuzz_targets/{binary}.rs\"\ntest = false\ndoc = false\nbench = false\n"
        );
        let mut text = format!(
            "//! Fuzzes the function of `{crate_name}::fuzz` that `NARTHEX_FUZZ` names.\n#![cfg_attr(fuzzing, no_main)]\n\n{IMPORTS}"
        );
        for name in &one.names {
            let _ = writeln!(text, "    (\"{name}\", {crate_name}::fuzz::fuzz_{name}),");
        }
        let _ = write!(
            text,
            "];\n\n#[cfg(fuzzing)]\nlibfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::run(\"{binary}\", FUNCTIONS, data));\n\n\
             #[cfg(not(fuzzing))]\nfn main() {{\n    fuzz::run_files(\"{binary}\", FUNCTIONS);\n}}\n"
        );
        files.insert(format!("{TARGETS}{binary}.rs"), text);
    }
    files.insert(format!("{DIR}Cargo.toml"), manifest);
    files
}

/// Beginning of each target.
const IMPORTS: &str = "\
use narthex_testkit::alloc::Counting;
use narthex_testkit::fuzz::{self, Function};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[rustfmt::skip]
static FUNCTIONS: &[(&str, Function)] = &[
";

const MANIFEST: &str = "\
# Written by `cargo xtask fuzz`. libFuzzer is a dependency only where `cfg(fuzzing)` holds, as in `fuzz/.cargo/config.toml`.
[package]
name = \"narthex-fuzz\"
description = \"libFuzzer for the functions that read bytes from outside.\"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true

[package.metadata]
cargo-fuzz = true

[lints]
workspace = true

[target.'cfg(fuzzing)'.dependencies]
libfuzzer-sys = \"0.4\"

[dependencies]
narthex-testkit = { workspace = true }
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
        let all_three = [
            "fuzz/Cargo.toml",
            "fuzz/fuzz_targets/a.rs",
            "fuzz/bounds.txt",
        ];
        assert_eq!(paths, all_three);
        let (found, _) = functions(&tree(&[MANIFEST_OF, source]));
        let written = files(&found);
        let mut all: Vec<(&str, &str)> = written.iter().map(|(p, t)| (&**p, &**t)).collect();
        all.extend([MANIFEST_OF, source, (BOUNDS, "a_x 1 2\n")]);
        assert_eq!(check(&tree(&all)), []);
        assert_eq!(
            list(&tree(&all)),
            Ok(vec![("a".to_owned(), "x".to_owned())])
        );
        all.retain(|file| file.0 != source.0);
        let left = check(&tree(&all));
        assert!(
            left.iter().any(|finding| finding.path.ends_with("a.rs")),
            "{left:?}"
        );
    }

    #[test]
    fn a_bound_is_of_one_function() {
        let source = ("crates/a/src/fuzz.rs", "pub fn fuzz_x(data: &[u8]) {}");
        let texts = |table: &str| {
            let tree = tree(&[MANIFEST_OF, source, (BOUNDS, table)]);
            let (crates, _) = functions(&tree);
            let findings = bounds(&tree, &crates);
            findings.into_iter().map(|f| f.text).collect::<Vec<_>>()
        };
        assert_eq!(texts("a_x 1 2\n"), Vec::<String>::new());
        assert_eq!(texts(""), ["does not say how much memory a_x may take"]);
        assert_eq!(texts("a_x 1 2\na_x 1 2\n"), ["a_x has a second line"]);
        assert_eq!(texts("a_x 1 2\na_y 1 2\n"), ["a_y is no function to fuzz"]);
        assert_eq!(texts("a_x 1\n"), ["fuzz/bounds.txt: \"a_x 1\" is no bound"]);
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
