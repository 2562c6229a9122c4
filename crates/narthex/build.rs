//! Has the linker place the functions of steady work together, so that few pages of the program stay resident.
//!
//! The kernel maps sixteen pages around each page of a program that is touched. The functions that a scrape runs are a
//! thirtieth of the program: spread over all of it, they keep nearly half of it in memory.
//!
//! The names are in `functions.txt`, which `cargo xtask function-order` writes. A name that no function has any more
//! places nothing, and a function without a name is placed where it would be anyway.
//!
//! **Invariant:** the order of functions is all that differs; linkers that cannot do this are not asked to.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

fn main() {
    println!("cargo::rerun-if-changed=functions.txt");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    if !is_wanted(&out) {
        return;
    }
    let names = fs::read_to_string("functions.txt").expect("it lies beside this file");
    let script = out.join("functions.ld");
    fs::write(&script, linker_script(&names)).expect("cargo's directory is writable");
    println!("cargo::rustc-link-arg-bins=-T");
    println!("cargo::rustc-link-arg-bins={}", script.display());
}

/// Returns whether this is a release build, which may take seconds longer to link, and its linker, GNU's or LLVM's,
/// reads such a script.
fn is_wanted(out: &Path) -> bool {
    // Profiles that inherit from `release` have other directories: `<profile>/build/<package>/out`.
    let profile = out.ancestors().nth(3).and_then(Path::file_name);
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let chosen = ["RUSTC_LINKER", "CARGO_ENCODED_RUSTFLAGS"];
    let chosen = chosen.map(|name| env::var(name).unwrap_or_default());
    let is_other = |linker| chosen.iter().any(|text| text.contains(linker));
    profile.is_some_and(|profile| profile == "release")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && !["mold", "wild", "gold"].into_iter().any(is_other)
}

/// Adds an output section before the usual ones.
fn linker_script(names: &str) -> String {
    let mut script = String::from("SECTIONS\n{\n  .text.steady :\n  {\n");
    for name in names.lines().filter(|line| !line.starts_with('#')) {
        // What a compiler takes for cold has a section of the other name.
        let _ = writeln!(script, "    *(.text.{name} .text.unlikely.{name})");
    }
    script.push_str("  }\n}\nINSERT BEFORE .text;\n");
    script
}
