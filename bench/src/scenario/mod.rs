//! The scenarios, one module each, and the table of all of them.
//!
//! **Invariant:** a scenario turns flags into a record and shows its progress; it prints, plots and compares nothing.

mod exporter;
mod http;
mod push;
mod query;
pub(crate) mod replay;
pub(crate) mod self_test;
mod storage;

use crate::{
    frame::{
        cli::{Flag, Values},
        error::BenchError,
    },
    record::Record,
};

/// One scenario.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// The command that runs it, and `scenario:` in a file.
    pub(crate) name: &'static str,
    /// What it does, in one sentence.
    pub(crate) about: &'static str,
    /// Its own flags; [`crate::frame::cli::COMMON`] go with every one.
    pub(crate) flags: &'static [Flag],
    pub(crate) run: fn(&Values) -> Result<Record, BenchError>,
}

/// All scenarios, in the order of help and of the tour.
pub(crate) static SCENARIOS: &[Scenario] = &[
    storage::SCENARIO,
    http::SCENARIO,
    exporter::SCENARIO,
    query::SCENARIO,
    push::SCENARIO,
    replay::SCENARIO,
];
