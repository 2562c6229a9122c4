//! The scenarios, one module each, and the table of all of them.
//!
//! **Invariant:** a scenario turns flags into a record and shows its progress; it prints, plots and compares nothing.

pub(crate) mod exporter;
pub(crate) mod http;
pub(crate) mod push;
pub(crate) mod query;
pub(crate) mod replay;
pub(crate) mod rules;
pub(crate) mod storage;

use crate::{
    harness::{BenchError, ScenarioFile, Values, usage},
    record::Record,
};
use narthex_cli::Flag;

/// What scenarios declare themselves with.
mod prelude {
    pub(super) use super::Scenario;
    pub(super) use crate::harness::{
        BenchError, Common, ServerSpec, Servers, Values, for_each_turn,
    };
    pub(super) use crate::record::Record;
}

/// One scenario.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// The command that runs it, and `scenario:` in a file.
    pub(crate) name: &'static str,
    /// Description, in one sentence.
    pub(crate) about: &'static str,
    pub(crate) flags: &'static [&'static [Flag]],
    pub(crate) run: fn(&Values) -> Result<Record, BenchError>,
}

/// All scenarios.
pub(crate) static SCENARIOS: &[&Scenario] = &[
    &storage::SCENARIO,
    &http::SCENARIO,
    &exporter::SCENARIO,
    &query::SCENARIO,
    &push::SCENARIO,
    &replay::SCENARIO,
    &rules::SCENARIO,
];

impl Scenario {
    /// Reads its flags.
    pub(crate) fn values(&self, arguments: &[String]) -> Result<Values, BenchError> {
        Values::parse(self.name, self.flags, arguments)
    }
}

/// Returns the scenario of that name.
pub(crate) fn find(name: &str) -> Option<&'static Scenario> {
    let mut all = SCENARIOS.iter().copied();
    all.find(|scenario| scenario.name == name)
}

/// Returns the scenario that a file names.
pub(crate) fn named_in(file: &ScenarioFile) -> Result<&'static Scenario, BenchError> {
    find(&file.scenario).ok_or_else(|| {
        let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        let (place, name) = (&file.place, &file.scenario);
        usage(format!("{place}: {name:?} is none of {}", names.join(", ")))
    })
}
