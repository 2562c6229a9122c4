//! Runs Prometheus' own `.test` files and compares the number of passed evaluations with the committed tables: those of
//! 3.14, and those of the release that `testkit/oracle` is built with.

use narthex_model::MemStore;
use narthex_promql::{
    Engine,
    testing::{self, TestStore},
};
use narthex_testkit::go_module;
use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// Number of evaluations in all files.
const ALL: usize = 2214;

/// Returns the reference files sorted by name, or `None` if they are missing.
pub(crate) fn files() -> Option<Vec<PathBuf>> {
    let named = env::var_os("NARTHEX_PROMQLTEST").map(PathBuf::from);
    let path = named.unwrap_or_else(|| {
        PathBuf::from(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../shared/promqltest"
        ))
    });
    scripts(&path)
}

fn scripts(dir: &Path) -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).ok()?;
    let mut names: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    names.retain(|name| name.extension().is_some_and(|ext| ext == "test"));
    names.sort();
    Some(names)
}

#[test]
fn reference_files_pass_as_recorded() {
    let Some(names) = files() else {
        println!("0 of {ALL} reference cases ran");
        assert_ne!(
            env::var("CI").as_deref(),
            Ok("true"),
            "the reference files are missing"
        );
        return;
    };
    assert_eq!(run(names, "promqltest.txt").unwrap_or(ALL), ALL);
}

#[test]
fn files_of_the_newest_release_pass_as_recorded() {
    let module = go_module("oracle", "github.com/prometheus/prometheus");
    let names = scripts(&module.join("promql/promqltest/testdata")).expect("the module's files");
    run(names, "promqltest-newest.txt");
}

/// Compares what passes with a table; returns the number of evaluations unless only one file was run.
fn run(names: Vec<PathBuf>, recorded: &str) -> Option<usize> {
    let engine = Engine::new(testing::reference_options());
    let only = env::var("NARTHEX_PROMQLTEST_ONLY").ok();
    let (mut table, mut ran) = (String::new(), 0);
    for name in names {
        let stem = name.file_stem().unwrap().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != stem) {
            continue;
        }
        let script = fs::read_to_string(&name).unwrap();
        let open = || Box::new(MemStore::new()) as Box<dyn TestStore>;
        let report =
            testing::run(&script, &engine, &open).unwrap_or_else(|e| panic!("{stem}: {e}"));
        for failure in &report.failures {
            println!(
                "{stem}:{} {}\n    {}",
                failure.line, failure.query, failure.reason
            );
        }
        writeln!(table, "{stem} {}/{}", report.passed, report.total).unwrap();
        ran += report.total;
    }
    println!("{ran} reference cases ran\n{table}");
    if only.is_some() {
        return None;
    }
    let recorded = &format!("{}/tests/{recorded}", env!("CARGO_MANIFEST_DIR"));
    if env::var_os("NARTHEX_UPDATE").is_some() {
        fs::write(recorded, &table).unwrap();
    }
    assert_eq!(
        fs::read_to_string(recorded).unwrap_or_default(),
        table,
        "rerun with NARTHEX_UPDATE=1 after a rise"
    );
    Some(ran)
}
