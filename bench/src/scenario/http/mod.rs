//! `http`: requests at a constant rate while a page of metrics is scraped, and while it is not.
//!
//! A server that renders its metrics where it serves requests delays the requests behind the scrape. The delay shows
//! only in latencies from due times, and only compared with the same load without scrapes.
//!
//! **Invariant:** with and without scrapes, everything else is the same: the same process, one right after the other,
//! in alternating order. The generator's own lateness is measured separately and refuses a run.

mod figures;
mod measure;
mod plan;
mod presets;
mod target;

use super::prelude::*;
use crate::{
    harness::{Progress, turns},
    record::Subject,
};
use measure::Session;
use plan::{Flags, Plan, Subjects};

pub(crate) static SCENARIO: Scenario = Scenario {
    name: "http",
    about: "Requests at a constant rate, with and without scrapes of the same server.",
    flags: &[Servers::FLAGS, Flags::FLAGS, Common::FLAGS],
    run,
};

/// Loads every subject.
fn run(values: &Values) -> Result<Record, BenchError> {
    let plan = Plan::from_values(values)?;
    let subjects = match &plan.subjects {
        Subjects::Servers(servers) => ServerSpec::subjects(servers),
        Subjects::Url { load, .. } => vec![Subject {
            label: load.host.clone(),
            version: "unknown".to_owned(),
            command: format!("http://{}{}", load.host, load.path),
        }],
    };
    let mut record = values.record(plan.title(), subjects, plan.notes.clone());
    let turns = turns(
        record.subjects.len(),
        plan.series.len(),
        values.get("repetitions")?,
    );
    let progress = Progress::new(plan.each() * turns.len() as u32);
    for turn in turns {
        let series = plan.series[turn.variant];
        let phases = match &plan.subjects {
            Subjects::Servers(servers) => {
                let server = &servers[turn.subject];
                Session::measure_server(&plan, server, series, turn.repetition, &progress)?
            }
            Subjects::Url { load, scrape } => {
                Session::measure_url(&plan, load, scrape.as_ref(), turn.repetition, &progress)?
            }
        };
        let runs = phases.iter().map(|measured| {
            let variant = match (&plan.subjects, measured.phase.name()) {
                (Subjects::Servers(_), phase) => format!("{series} series, {phase}"),
                (Subjects::Url { .. }, phase) => phase.to_owned(),
            };
            figures::run(variant, &plan, measured).for_turn(turn)
        });
        record.runs.extend(runs);
    }
    record.differences = figures::with_against_without(&record);
    Ok(record)
}
