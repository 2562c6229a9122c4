//! Prometheus' own `.test` files over the storage engine: once from the head, once from blocks.
//!
//! The query engine's own suite runs them over an in-memory store, so a difference to its numbers is a fault of storage.

use narthex_model::{
    Schema,
    storage::{
        Binding, Outcome, SeriesSample, Sink, StorageError, Store, SyncToken, TimeRange, View,
    },
};
use narthex_promql::{
    Engine,
    testing::{self, TestStore},
};
use narthex_testkit::{TempDir, corpora, go_module};
use narthex_tsdb::{Db, DbOptions, ManualClock, RealIo};
use std::sync::Arc;

/// A database with its directory.
struct Stored {
    db: Db,
    /// Whether samples are moved to blocks before queries.
    flushed: bool,
    dir: TempDir,
}

impl Stored {
    fn open(flushed: bool) -> Self {
        let dir = TempDir::new("promqltest");
        let mut options = DbOptions::new(dir.path());
        (options.tuning.retention_ms, options.tuning.future_limit_ms) = (None, None);
        let db =
            Db::open(Arc::new(RealIo), options, Arc::new(ManualClock::new(0))).expect("a database");
        Self { db, flushed, dir }
    }
}

impl Store for Stored {
    fn view(&self, range: TimeRange) -> Result<Arc<dyn View>, StorageError> {
        if self.flushed {
            self.db.flush().expect("flushed");
            let blocks =
                std::fs::read_dir(self.dir.path().join("blocks")).map_or(0, Iterator::count);
            assert!(
                blocks > 0 || self.db.time_range().is_none(),
                "samples are in blocks"
            );
        }
        self.db.view(range)
    }

    fn time_range(&self) -> Option<TimeRange> {
        self.db.time_range()
    }
}

impl Sink for Stored {
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        self.db.bind(schema)
    }

    fn append_samples(&self, samples: &[SeriesSample]) -> Result<Outcome, StorageError> {
        self.db.append_samples(samples)
    }

    fn sync(&self, token: SyncToken) -> Result<(), StorageError> {
        self.db.sync(token)
    }
}

fn run(flushed: bool) {
    let dir =
        go_module("oracle", "github.com/prometheus/prometheus").join("promql/promqltest/testdata");
    let engine = Engine::new(testing::reference_options());
    let (mut passed, mut total) = (0, 0);
    let mut failures = Vec::new();
    for path in corpora::files(&dir, ".test") {
        let script = std::fs::read_to_string(&path).expect("a readable file");
        let open = || Box::new(Stored::open(flushed)) as Box<dyn TestStore>;
        let report = testing::run(&script, &engine, &open)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        passed += report.passed;
        total += report.total;
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        failures.extend(
            report
                .failures
                .into_iter()
                .map(|failure| (name.clone(), failure)),
        );
    }
    let recorded = include_str!("../../../promql/tests/promqltest-newest.txt");
    let numbers = recorded
        .lines()
        .filter_map(|line| line.split_once(' ')?.1.split_once('/'));
    let of_engine: usize = numbers
        .map(|(passed, _)| passed.parse::<usize>().expect("a number"))
        .sum();
    let first: Vec<String> = failures
        .iter()
        .take(20)
        .map(|(name, failure)| {
            format!(
                "{name}:{} {}\n    {}",
                failure.line, failure.query, failure.reason
            )
        })
        .collect();
    let shown = first.join("\n");
    assert_eq!(
        passed, of_engine,
        "of {total}, flushed: {flushed}:\n{shown}"
    );
}

#[test]
fn reference_files_pass_over_the_head() {
    run(false);
}

#[test]
fn reference_files_pass_over_blocks() {
    run(true);
}
