//! `push`: a fleet of processes pushes to a gateway while a scraper reads everything.
//!
//! The first incident: game servers on 25 hosts pushed to one gateway, and a round that should have taken 5 s took 200.
//! Its three remedies are variants: one push for all processes of a host, compression, and a gateway on every host.
//!
//! **Invariant:** a push is due at its time whatever the gateway does, and the stored data is compared with what was
//! sent.

mod body;
mod figures;
mod fleet;
mod gateways;
mod plan;
mod pushers;
mod run;
mod stored;

use super::prelude::*;
use crate::harness::without_command;
use fleet::Fleet;
use plan::{Flags, Plan};
use run::Session;

pub(crate) static SCENARIO: Scenario = Scenario {
    name: "push",
    about: "Processes push to a gateway that is scraped.",
    flags: &[Servers::FLAGS, Flags::FLAGS, Common::FLAGS],
    run,
};

/// Arguments that `--persist` adds.
const PERSIST: &str = "--persistence.file={dir}/groups --persistence.interval=30s";

/// Measures every gateway under every push mode.
fn run(values: &Values) -> Result<Record, BenchError> {
    let plan = Plan::from_values(values)?;
    let (mut servers, mut notes) = ServerSpec::chosen(values)?;
    without_command(&mut servers, "pushgateway", &mut notes)?;
    if plan.flags.persist {
        for server in &mut servers {
            server.kind = server.kind.clone().with_arguments(PERSIST);
        }
    }
    let mut record = values.record(plan.title(), ServerSpec::subjects(&servers), notes);
    let fleets: Vec<Fleet> = plan
        .modes
        .iter()
        .map(|mode| Fleet::new(&plan.settings, *mode))
        .collect();
    let (modes, each) = (fleets.len(), plan.each());
    for_each_turn(values, &servers, modes, each, |turn, server, progress| {
        let fleet = &fleets[turn.variant];
        match Session::start(&plan, fleet, server, progress)?.finish()? {
            Err(why) => record.notes.push(why),
            Ok(outcome) => {
                record.notes.extend(outcome.notes(&server.label, fleet));
                record
                    .runs
                    .push(figures::run(&plan, fleet, &outcome).for_turn(turn));
            }
        }
        Ok(())
    })?;
    Ok(record)
}
