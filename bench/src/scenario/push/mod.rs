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
use crate::harness::server::without_command;
use fleet::Fleet;
use plan::Plan;
use run::Session;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "push",
    about: "Processes push to a gateway that is scraped.",
    flags: flags! {
        [= SERVER]
        ["hosts": "N" = "5", "Hosts of the fleet."]
        ["processes": "N" = "8", "Processes of each host."]
        ["series": "N" = "600", "Series of each process."]
        ["interval": "TIME" = "5s", "Time between pushes of a process."]
        ["format": "text|protobuf" = "text", "What bodies are written in."]
        ["method": "put|post" = "put", "Whether a push replaces its group, or families of it."]
        ["batch": "process|host" = "process",
            "Whether each process pushes its own series, or those of a host are merged into one push."]
        ["encoding": "plain|gzip|snappy" = "plain", "How bodies are compressed."]
        ["gateways": "one|host" = "one", "One gateway for all, or one for each host."]
        [switch "remedies", "Measure the incident's remedies too: a push a host, with gzip, and with a gateway a host."]
        ["pushers": "N" = "25", "Connections that push; a push that is due waits for a free one."]
        ["scrape-every": "TIME" = "15s", "Time between scrapes; with 0s there are none."]
        ["warmup": "TIME" = "5s", "Time of pushing on schedule before measuring."]
        ["duration": "TIME" = "30s", "Time measured, without scrapes and again with them."]
        ["fill-limit": "TIME" = "10m", "How long every group's first push may take, all together."]
        ["push-timeout": "TIME" = "60s", "When a push without an answer has failed."]
        ["max-late": "TIME" = "5ms",
            "Refuse a run whose generator started 1 % of its pushes later than this, and than a tenth of their \
             latency."]
        [switch "persist", "Give the gateways a persistence file, restart them at the end and compare again."]
    },
    run,
};

/// Arguments that `--persist` adds.
const PERSIST: &str = "--persistence.file={dir}/groups --persistence.interval=30s";

/// Returns the built-in gateways, ours first.
fn kinds() -> [ServerKind; 3] {
    let arguments = "--web.listen-address={listen} --log.level=warn";
    let pushgateway =
        |name| ServerKind::built_in(name, "prometheus-pushgateway", arguments, "/-/ready");
    [
        ServerKind::narthex("pushgateway", arguments, "/-/ready"),
        pushgateway("pushgateway"),
        pushgateway("pushgateway-unchecked").with_arguments("--push.disable-consistency-check"),
    ]
}

/// Measures every gateway under every push mode.
fn run(values: &Values) -> Result<Record, BenchError> {
    let plan = Plan::from_values(values)?;
    let (mut servers, mut notes) = ServerSpec::chosen(values, kinds())?;
    without_command(&mut servers, "pushgateway", &mut notes)?;
    if plan.persist {
        for server in &mut servers {
            server.kind = server.kind.clone().with_arguments(PERSIST);
        }
    }
    let mut record = values.record(plan.title());
    let fleets: Vec<Fleet> = plan
        .modes
        .iter()
        .map(|mode| Fleet::new(&plan.settings, *mode))
        .collect();
    record.subjects = servers.iter().map(ServerSpec::subject).collect();
    for_each_turn(
        &servers,
        fleets.len(),
        plan.repetitions,
        plan.each(),
        |turn, server, progress| {
            let fleet = &fleets[turn.variant];
            match Session::start(&plan, fleet, server, progress)?.finish()? {
                Err(why) => notes.push(why),
                Ok(outcome) => {
                    notes.extend(outcome.notes(&server.label, fleet));
                    record
                        .runs
                        .push(figures::run(&plan, fleet, &outcome).for_turn(turn));
                }
            }
            Ok(())
        },
    )?;
    record.notes = notes;
    Ok(record)
}
