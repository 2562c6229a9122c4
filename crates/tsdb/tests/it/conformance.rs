//! The conformance suite of stores, on databases in different states.

use crate::support::{Settle, TestDb, options};
use narthex_model::conformance::check;
use narthex_tsdb::DbOptions;

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
    let options = || DbOptions {
        flush_rows: 7,
        block_window_ms: 20_000,
        ..options()
    };
    check(&mut || Box::new(TestDb::new(options(), Settle::FlushAndKill)));
}
