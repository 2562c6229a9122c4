//! `storage`: servers scrape the same fleet, answer queries meanwhile, and are measured from outside.
//!
//! **Invariant:** every server meets the same fleet in its first round, the same configuration and the same phases:
//! start, warm-up, window, checks, queries, crash. Repetitions alternate their order.

mod config;
mod figures;
mod plan;
mod queries;
mod run;

use super::prelude::*;
use crate::{
    harness::{Progress, Turn, turns},
    record::Run,
};
use plan::{Flags, Plan};
use run::Measured;
use std::{io, thread};

pub(crate) static SCENARIO: Scenario = Scenario {
    name: "storage",
    about: "Servers scrape the same fleet, store it and answer queries.",
    flags: &[Servers::FLAGS, Flags::FLAGS, Common::FLAGS],
    run,
};

/// Measures every server in all repetitions and variants.
fn run(values: &Values) -> Result<Record, BenchError> {
    let plan = Plan::from_values(values)?;
    let (mut servers, mut notes) = ServerSpec::chosen(values)?;
    config::fit_servers(&plan, values, &mut servers, &mut notes)?;
    let mut record = values.record(plan.title(), ServerSpec::subjects(&servers), notes);
    let turns = turns(
        servers.len(),
        plan.variants.len(),
        values.get("repetitions")?,
    );
    let at_once = if plan.flags.parallel {
        servers.len()
    } else {
        1
    };
    let progress = Progress::new(plan.each() * (turns.len() / at_once) as u32);
    for turns in turns.chunks(at_once) {
        let mut started = Vec::with_capacity(at_once);
        // Children die with the thread that starts them.
        for turn in turns {
            let version = record.subjects.get(turn.subject).map_or("", |s| &s.version);
            let server = &servers[turn.subject];
            let with_queries = plan.variants[turn.variant];
            let measured = Measured::start(&plan, server, version, with_queries, &progress)?;
            started.push((*turn, measured));
        }
        for run in together(&plan, started)? {
            record.runs.push(run);
        }
    }
    record.notes.extend(plan.notes());
    let lost: Vec<String> = figures::losses(&record);
    record.notes.extend(lost);
    Ok(record)
}

/// Finishes all started runs concurrently.
fn together(plan: &Plan, started: Vec<(Turn, Measured<'_>)>) -> Result<Vec<Run>, BenchError> {
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(started.len());
        for (turn, measured) in started {
            threads.push(scope.spawn(move || {
                let outcome = measured.finish()?;
                let variant = plan.variant_name(turn.variant);
                Ok(figures::run(plan, variant, &outcome).for_turn(turn))
            }));
        }
        let panicked = || BenchError::io("measure a server")(io::Error::other("it panicked"));
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|result| result.unwrap_or_else(|_| Err(panicked())))
            .collect()
    })
}
