//! Shared by tests of scenarios: running one, and reading its record.

use narthex_testkit::{
    TempDir,
    process::{Finished, Spawn},
};
use serde_json::Value;
use std::{
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

/// Timeout of a run, on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(300);
/// The exit code of a run whose generator was late.
const REFUSED: i32 = 3;
const SOUND_TRIES: usize = 5;

fn bench(arguments: &[&str]) -> Finished {
    let work = TempDir::new("bench-work");
    Spawn::new(env!("CARGO_BIN_EXE_narthex-bench"))
        .args(arguments)
        .arg(format!("--dir={}", work.path().display()))
        .run(LIMIT)
}

/// Runs the program until a run counts: on a machine busy with other tests it may be late, and then refuses its result.
pub(crate) fn sound(spawn: impl Fn() -> Spawn) -> Finished {
    let run = || spawn().run(LIMIT);
    let mut runs = std::iter::repeat_with(run).take(SOUND_TRIES);
    let finished = runs.find(|finished| finished.exit.code != Some(REFUSED));
    let finished = finished.expect("the machine is too busy: every run was refused");
    let output = format!("{}{}", finished.stdout, finished.stderr);
    assert_eq!(finished.exit.code, Some(0), "{output}");
    finished
}

/// Runs the program and returns its record.
pub(crate) fn record(arguments: &[&str]) -> Value {
    let out = TempDir::new("bench-out");
    let file = out.join("record.json");
    let flag = format!("--out={}", file.display());
    let mut arguments = arguments.to_vec();
    arguments.push(&flag);
    let finished = bench(&arguments);
    let output = format!("{}{}", finished.stdout, finished.stderr);
    assert_eq!(finished.exit.code, Some(0), "{output}");
    let text = std::fs::read_to_string(&file).expect("the record is written");
    serde_json::from_str(&text).expect("the record is JSON")
}

/// Runs the program with an invalid command line, and returns its output.
pub(crate) fn refused(arguments: &[&str]) -> String {
    let finished = bench(arguments);
    assert_eq!(
        finished.exit.code,
        Some(2),
        "{arguments:?}: {}",
        finished.stderr
    );
    finished.stderr
}

/// Returns a record's runs.
pub(crate) fn runs(record: &Value) -> &[Value] {
    record["runs"].as_array().expect("a record has runs")
}

/// Returns a figure of a run.
pub(crate) fn figure(run: &Value, key: &str) -> f64 {
    let mut figures = run["figures"].as_array().expect("figures").iter();
    let figure = figures.find(|figure| figure["key"] == key);
    let value = figure.and_then(|figure| figure["value"].as_f64());
    value.unwrap_or_else(|| panic!("{key} is missing in {run}"))
}

/// Returns our server, which a build of the whole workspace puts beside the program under test.
///
/// # Panics
///
/// With `CI=true`, when it is not there.
pub(crate) fn narthex() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_BIN_EXE_narthex-bench")).with_file_name("narthex");
    if beside.is_file() {
        return Some(beside);
    }
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "narthex is not built: cargo build -p narthex"
    );
    let note = "narthex is not built, so it takes no part: cargo build -p narthex";
    // A closed standard error hides a courtesy only.
    let _ = writeln!(std::io::stderr(), "{note}");
    None
}
