//! Repository chores, run as `cargo xtask <command>`.
//!
//! Invariant: uses nothing but `std` and testkit, which does the same, so that it builds in seconds and the checks never depend on what they check.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]

mod browser;
mod ci;
mod dev;
mod edges;
mod function_order;
mod fuzz;
mod gendocs;
mod licenses;
mod product;
mod rust;
mod soak;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy                    check what compilers do not: file headers and sizes, crate edges, paths in documents,
                          format documents
  formats                 record that format sources and their documents belong together again
  fuzz                    write the targets in fuzz/ for the functions that read bytes from outside
  fuzz run [--seconds=60] [name...]
                          run libFuzzer over all functions, those of a crate (tsdb) or one (tsdb_wal), inputs kept
  gen-docs [--check]      write (or compare) the documents generated from the binary's own tables
  licenses [--check]      write (or compare) THIRD_PARTY_LICENSES
  function-order          profile the release build and list the functions that the linker places together
  browser                 start the server and look at its page in headless Chromium
  ci [step|crate...]      everything CI runs, or some of it, ending in one line 'N passed, N failed'
  check                   what takes seconds, for before a commit: formatting, tidy, the page's types
  dev [flag...]           build, serve and restart the server on every change of a source, the page too
  soak [part...]          what takes hours: tests, fuzz, crash, segments, bodies, disk, cluster, churn
";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace");
    if let Err(e) = std::env::set_current_dir(root) {
        eprintln!("xtask: {}: {e}", root.display());
        return ExitCode::FAILURE;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["tidy"] => tidy::run(),
        ["formats"] => tidy::record_formats(),
        ["fuzz"] => tidy::write_fuzz_targets(),
        ["fuzz", "run", args @ ..] => fuzz::run(args),
        ["gen-docs"] => gendocs::run(false),
        ["gen-docs", "--check"] => gendocs::run(true),
        ["licenses"] => licenses::run(false),
        ["licenses", "--check"] => licenses::run(true),
        ["function-order"] => function_order::run(),
        ["browser"] => browser::run(),
        ["ci", steps @ ..] => ci::run(steps),
        ["check"] => ci::check(),
        ["dev", flags @ ..] => dev::run(flags),
        ["soak", parts @ ..] => soak::run(parts),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            // `ci` has printed everything on its last line of output.
            if !text.is_empty() {
                eprintln!("{}", text.trim_end());
            }
            ExitCode::FAILURE
        }
    }
}
