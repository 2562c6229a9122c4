//! Shared by all scenarios: the command line, servers under test, meters, progress, and clean exits.
//!
//! **Invariant:** it depends on no scenario.

pub(crate) mod cleanup;
mod cli;
mod error;
mod kind;
pub(crate) mod machine;
mod measure;
mod poll;
pub(crate) mod progress;
mod run_loop;
mod scenario_file;
mod server;
mod sync;
mod ticks;
pub(crate) mod turns;
pub(crate) mod yaml;

pub(crate) use cleanup::{Group, WorkDir};
pub(crate) use cli::{Common, Values, choices, usage};
pub(crate) use error::BenchError;
pub(crate) use kind::{NARTHEX, PROMETHEUS, ServerKind, VICTORIA_METRICS};
pub(crate) use measure::{
    MachineLoad, Meter, QUIET_CORES, Resident, Usage, Used, cpu_time, directory_bytes, ms,
    own_thread_time, quantile, running_time, running_times,
};
pub(crate) use poll::poll;
pub(crate) use progress::Progress;
pub(crate) use run_loop::for_each_turn;
pub(crate) use scenario_file::ScenarioFile;
pub(crate) use server::{RunningServer, ServerSpec, Servers, without_command};
pub(crate) use sync::{join, lock};
pub(crate) use ticks::{MOST_POINTS, Ticks};
pub(crate) use turns::{Turn, turns};
