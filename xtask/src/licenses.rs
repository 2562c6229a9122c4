//! THIRD_PARTY_LICENSES: third-party parts of the shipped binary, their licences, and the texts.
//!
//! Invariant: the file is a function of Cargo.lock, the crates' own licence files and ui/THIRD_PARTY.txt: independent
//! of the clock, directory order and machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE: &str = "THIRD_PARTY_LICENSES";
/// Licences of the npm packages bundled into crates/ui/dist, written by the UI's build.
const NPM: &str = "ui/THIRD_PARTY.txt";
/// The platform releases are built for; the list of crates depends on it.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The rules of `deny.toml`, which cargo-deny reads where it is installed.
struct Rules {
    /// In order of preference.
    allowed: Vec<String>,
    banned: Vec<String>,
}

impl Rules {
    fn read(deny: &str) -> Self {
        let quoted = |line: &str| line.split('"').nth(1).map(str::to_owned);
        let list = |head: &str| -> Vec<String> {
            let below = deny.lines().skip_while(|line| *line != head).skip(1);
            below
                .take_while(|line| *line != "]")
                .filter_map(quoted)
                .collect()
        };
        Self {
            allowed: list("allow = ["),
            banned: list("deny = ["),
        }
    }

    /// Returns the licences to comply with: the preferred one of each choice in `(A OR B) AND C`.
    ///
    /// An expression of another form, or with a choice of none that is allowed, is an error, never a guess.
    fn choose(&self, expression: &str) -> Result<Vec<String>, String> {
        // `MIT/Apache-2.0` is how old manifests write OR.
        let expression = expression.replace('/', " OR ");
        let parts: Vec<&str> = expression.split(" AND ").collect();
        let choose = |part: &&str| {
            let inner = part
                .strip_prefix('(')
                .and_then(|rest| rest.strip_suffix(')'));
            let alone = parts.len() == 1 || inner.is_some() || !part.contains(" OR ");
            let names: Vec<&str> = inner.unwrap_or(part).split(" OR ").collect();
            let plain = names.iter().all(|name| !name.contains(['(', ')']));
            let found = self
                .allowed
                .iter()
                .find(|name| names.contains(&name.as_str()));
            found.filter(|_| alone && plain).cloned()
        };
        let chosen: Option<BTreeSet<String>> = parts.iter().map(choose).collect();
        let chosen = chosen.ok_or_else(|| format!("licence {expression:?} is not allowed"))?;
        Ok(chosen.into_iter().collect())
    }
}

/// A third-party crate in the product.
struct Crate {
    name: String,
    version: String,
    licences: Vec<String>,
    repository: String,
    /// Texts that must be distributed with the binary.
    texts: BTreeSet<String>,
}

/// Writes, or with `check` compares, the file.
///
/// # Errors
///
/// When a crate's licence is not allowed, its text cannot be found, a banned crate is present, or the file is stale.
pub(crate) fn run(check: bool) -> Result<(), String> {
    let crates = read_crates()?;
    let npm = fs::read_to_string(NPM).unwrap_or_default();
    let apache = fs::read_to_string("LICENSE").map_err(|e| format!("LICENSE: {e}"))?;
    let text = render(&crates, &apache, &npm);
    if fs::read_to_string(FILE).ok().as_deref() == Some(&text) {
        println!("{FILE}: {} crates, up to date", crates.len());
        return Ok(());
    }
    if check {
        return Err(format!("{FILE} is stale; run `cargo xtask licenses`"));
    }
    fs::write(FILE, text).map_err(|e| format!("{FILE}: {e}"))?;
    println!("{FILE}: {} crates written", crates.len());
    Ok(())
}

fn read_crates() -> Result<Vec<Crate>, String> {
    let deny = fs::read_to_string("deny.toml").map_err(|e| format!("deny.toml: {e}"))?;
    let rules = Rules::read(&deny);
    let mut found = BTreeMap::new();
    for line in cargo_tree()?.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [package, licence, repository] = fields[..] else {
            continue;
        };
        // cargo marks packages it has shown before.
        let repository = repository.trim_end_matches(" (*)").to_owned();
        let mut words = package.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            continue;
        };
        let (name, version) = (name.to_owned(), version.trim_start_matches('v').to_owned());
        // Our own crates have a path after the version.
        if words.any(|word| word.starts_with("(/")) {
            continue;
        }
        if rules.banned.contains(&name) {
            return Err(format!("{name} is a second crypto provider"));
        }
        let licences = rules
            .choose(licence)
            .map_err(|e| format!("{name} {version}: {e}"))?;
        found.insert((name, version), (licences, repository));
    }
    let finish =
        |((name, version), (licences, repository)): ((String, String), (Vec<String>, String))| {
            let texts = texts(&source_dir(&name, &version)?, &licences)
                .map_err(|e| format!("{name} {version}: {e}"))?;
            Ok(Crate {
                name,
                version,
                licences,
                repository,
                texts,
            })
        };
    found.into_iter().map(finish).collect()
}

fn cargo_tree() -> Result<String, String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "-p", "narthex", "--target", TARGET])
        .args(["-e", "normal,no-proc-macro"])
        .args(["--prefix", "none", "--format", "{p}\t{l}\t{r}"])
        .output()
        .map_err(|e| format!("cargo tree: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo tree: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns where cargo unpacked a crate.
fn source_dir(name: &str, version: &str) -> Result<PathBuf, String> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))
        .ok_or("neither CARGO_HOME nor HOME is set")?;
    let sources = home.join("registry/src");
    let registries = fs::read_dir(&sources).map_err(|e| format!("{}: {e}", sources.display()))?;
    registries
        .filter_map(Result::ok)
        .map(|registry| registry.path().join(format!("{name}-{version}")))
        .find(|dir| dir.is_dir())
        .ok_or_else(|| {
            format!(
                "{name} {version} is not unpacked below {}; run `cargo fetch`",
                sources.display()
            )
        })
}

/// Collects a crate's licence texts: for Apache-2.0 only its NOTICE, since the licence itself is printed once.
fn texts(dir: &Path, licences: &[String]) -> Result<BTreeSet<String>, String> {
    let mut files = Vec::new();
    licence_files(dir, 2, &mut files)?;
    files.sort();
    let mut kept = BTreeSet::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let notice = name.to_uppercase().starts_with("NOTICE");
        // Deeper files belong to bundled C code or data tables, whose licence the crate's expression need not name.
        let bundled = path.parent() != Some(dir);
        let chosen = licences.iter().any(|licence| speaks_of(&text, licence));
        if chosen || (!is_apache(&text) && (notice || bundled)) {
            kept.insert(normalised(&text));
        }
    }
    let mut others = licences
        .iter()
        .filter(|licence| !licence.starts_with("Apache-2.0"));
    if others.next().is_some() && kept.is_empty() {
        let licences = licences.join(" AND ");
        return Err(format!("no text of {licences} in {}", dir.display()));
    }
    Ok(kept)
}

/// Finds files named like licences, also those of bundled C code a level or two below.
fn licence_files(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), String> {
    const NAMES: &str = "LICENSE LICENCE COPYING COPYRIGHT NOTICE UNLICENSE";
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let path = entry.path();
        if path.is_dir() {
            if depth > 0 && !matches!(name.as_str(), "TESTS" | "BENCHES" | "EXAMPLES" | "PROGRAMS")
            {
                licence_files(&path, depth - 1, found)?;
            }
        } else if NAMES.split(' ').any(|prefix| name.starts_with(prefix)) && !name.ends_with(".RS")
        {
            found.push(path);
        }
    }
    Ok(())
}

fn is_apache(text: &str) -> bool {
    text.contains("TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION")
}

/// Returns whether a text is that licence, by a sentence unique to it.
fn speaks_of(text: &str, licence: &str) -> bool {
    let flat = normalised(text);
    let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
    flat.contains(match licence {
        "MIT" => "Permission is hereby granted, free of charge",
        "BSD-2-Clause" | "BSD-3-Clause" => "Redistribution and use in source and binary forms",
        "BSL-1.0" => "Boost Software License",
        "ISC" => "Permission to use, copy, modify, and",
        "Zlib" => "This software is provided 'as-is'",
        "Unicode-3.0" => "UNICODE LICENSE V3",
        "CDLA-Permissive-2.0" => "Community Data License Agreement",
        // Apache is printed once; MIT beside it covers C code bundled by crates that chose Apache for themselves.
        _ => return false,
    })
}

/// Removes insignificant differences between copies of one text.
fn normalised(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("{}\n", lines.join("\n").trim_matches('\n'))
}

fn render(crates: &[Crate], apache: &str, npm: &str) -> String {
    const RULE: &str =
        "--------------------------------------------------------------------------------";
    let mut out = String::from(
        "Third-party software in Narthex\n\n\
         Generated by `cargo xtask licenses`; printed by `narthex --licenses`.\n\
         Where a package offers a choice, the licence named here is the one chosen.\n\n\
         Rust crates\n\n",
    );
    let mut by_text: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for package in crates {
        let id = format!("{} {}", package.name, package.version);
        out.push_str(&format!(
            "  {id}: {}  {}\n",
            package.licences.join(" AND "),
            package.repository
        ));
        for text in &package.texts {
            by_text.entry(text).or_default().push(id.clone());
        }
    }
    for (text, users) in by_text {
        out.push_str(&format!("\n{RULE}\n{}\n{RULE}\n\n{text}", users.join(", ")));
    }
    out.push_str(&format!(
        "\n{RULE}\nApache-2.0, for every package above that names it\n{RULE}\n\n{apache}"
    ));
    if !npm.is_empty() {
        out.push_str(&format!(
            "\n{RULE}\nPackages of the web page\n{RULE}\n\n{npm}"
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(expression: &str) -> Result<String, String> {
        let deny = "[licenses]\nallow = [\n    \"Apache-2.0\",\n    \"MIT\",\n    \"ISC\",\n]\n\"GPL-3.0\"\n\
                    deny = [\n    { crate = \"ring\" },\n]\n";
        let rules = Rules::read(deny);
        assert_eq!(
            (rules.allowed.len(), &*rules.banned),
            (3, &["ring".to_owned()][..])
        );
        rules
            .choose(expression)
            .map(|licences| licences.join(" AND "))
    }

    #[test]
    fn chooses_what_is_allowed() {
        for (expression, expected) in [
            ("MIT OR Apache-2.0", "Apache-2.0"),
            ("MIT/Apache-2.0", "Apache-2.0"),
            ("Unlicense OR MIT", "MIT"),
            ("(MIT OR Apache-2.0) AND ISC", "Apache-2.0 AND ISC"),
            ("ISC AND (MIT OR GPL-3.0)", "ISC AND MIT"),
        ] {
            assert_eq!(chosen(expression).as_deref(), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn refuses_what_is_not() {
        for expression in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "",
            "(MIT",
            "MIT ISC",
            "MIT WITH x",
            "GPL-3.0 OR (ISC AND MIT)",
            "MIT OR ISC AND GPL-3.0",
            "MIT OR GPL-3.0 AND ISC",
        ] {
            assert!(chosen(expression).is_err(), "{expression:?}");
        }
    }

    #[test]
    fn texts_are_shared_and_the_order_is_fixed() {
        let package = |name: &str, text: &str| Crate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licences: vec!["MIT".to_owned()],
            repository: String::new(),
            texts: BTreeSet::from([normalised(text)]),
        };
        let crates = [
            package("a", "MIT of x  \n\n"),
            package("b", "MIT of x"),
            package("c", "MIT of y"),
        ];
        let text = render(&crates, "APACHE\n", "uplot\n");
        assert_eq!(text.matches("MIT of x").count(), 1);
        assert!(text.contains("a 1.0.0, b 1.0.0\n"));
        assert!(text.find("MIT of x") < text.find("MIT of y"));
        assert!(text.contains("APACHE") && text.ends_with("uplot\n"));
    }
}
