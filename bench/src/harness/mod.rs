//! Shared by all scenarios: the command line, servers under test, meters, progress, and clean exits.
//!
//! **Invariant:** it depends on no scenario.

pub(crate) mod cleanup;
pub(crate) mod cli;
pub(crate) mod error;
mod kind;
pub(crate) mod machine;
pub(crate) mod measure;
pub(crate) mod poll;
pub(crate) mod progress;
pub(crate) mod run_loop;
mod scenario_file;
pub(crate) mod server;
pub(crate) mod sync;
pub(crate) mod ticks;
pub(crate) mod turns;
pub(crate) mod yaml;

pub(crate) use kind::{NARTHEX, PROMETHEUS, ServerKind, VICTORIA_METRICS};
pub(crate) use scenario_file::ScenarioFile;
