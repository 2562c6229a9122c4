//! The conformance suite of stores, on databases in different states.

use crate::support::{Settle, TestDb, options};
use narthex_model::conformance::check;
use narthex_model::storage::Helpers;
use narthex_tsdb::DbOptions;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn in_the_head() {
    check(&mut || Box::new(TestDb::new(options(), Settle::Nothing)));
}

#[test]
fn after_closing_and_opening() {
    check(&mut || Box::new(TestDb::new(options(), Settle::Reopen)));
}

#[test]
fn after_a_kill() {
    check(&mut || Box::new(TestDb::new(options(), Settle::Kill)));
}

#[test]
fn in_many_row_chunks() {
    let options = || DbOptions {
        flush_rows: 3,
        block_window_ms: 7_000,
        ..options()
    };
    check(&mut || Box::new(TestDb::new(options(), Settle::Nothing)));
    check(&mut || Box::new(TestDb::new(options(), Settle::Reopen)));
}

#[test]
fn in_blocks() {
    check(&mut || Box::new(TestDb::new(options(), Settle::Flush)));
}

#[test]
fn in_blocks_after_a_kill() {
    static HELPED: AtomicUsize = AtomicUsize::new(0);
    let begin = || _ = HELPED.fetch_add(1, Ordering::Relaxed);
    let helpers = Helpers::new(1, begin).at_once();
    let options = || DbOptions {
        flush_rows: 7,
        block_window_ms: 20_000,
        helpers: helpers.clone(),
        ..options()
    };
    check(&mut || Box::new(TestDb::new(options(), Settle::FlushAndKill)));
    let helped = HELPED.load(Ordering::Relaxed);
    assert!(helped > 0, "of several blocks two are searched at once");
}
