//! Documents that the product generates from its own tables, so that flag, help and reference cannot disagree.
//!
//! Invariant: nothing in these files is written by hand; `--check` compares bytes.

use std::fs;
use std::process::Command;

use crate::product;

/// A generated file and the arguments that make `narthex` print it.
const GENERATED: &[(&str, &[&str])] = &[
    ("docs/cli.md", &["--reference"]),
    ("docs/config.md", &["--config-reference"]),
];

/// Writes, or with `check` compares, every generated document.
///
/// # Errors
///
/// When the binary does not build, refuses, or a file is stale.
pub(crate) fn run(check: bool) -> Result<(), String> {
    let mut stale = Vec::new();
    let program = product::build("dev")?;
    for (path, args) in GENERATED {
        let output = Command::new(&program)
            .args(*args)
            .output()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        if !output.status.success() {
            return Err(format!(
                "narthex {}: {}",
                args.join(" "),
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        if fs::read(path).ok().as_deref() == Some(&output.stdout) {
            continue;
        }
        if check {
            stale.push(*path);
        } else {
            fs::write(path, &output.stdout).map_err(|e| format!("{path}: {e}"))?;
            println!("wrote {path}");
        }
    }
    if stale.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "stale: {}; run `cargo xtask gen-docs`",
            stale.join(", ")
        ))
    }
}
