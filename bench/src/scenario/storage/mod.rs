//! `storage`: servers scrape the same fleet and are measured from outside.
//!
//! **Invariant:** every server meets the same fleet in its first round, the same configuration and the same phases:
//! start, warm-up, window, checks, queries, crash.

mod config;
mod figures;
mod outcome;
mod plan;
mod query;
mod run;

use super::Scenario;
use crate::{
    frame::{
        Preset,
        cli::{Flag, Values},
        error::BenchError,
        progress::Progress,
        server::{SERVER, ServerSpec},
        turns::turns,
    },
    record::Record,
};
use plan::Plan;
use run::Measured;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "storage",
    about: "Servers scrape the same fleet and store it.",
    flags: FLAGS,
    run,
};

static FLAGS: &[Flag] = &[
    SERVER,
    Flag::new("targets", "N", "850", "Targets of the fleet."),
    Flag::new("series", "N", "588", "Series of each target."),
    Flag::new(
        "interval",
        "TIME",
        "5s",
        "Time between scrapes of a target.",
    ),
    Flag::new("warmup", "TIME", "30s", "Time before measuring starts."),
    Flag::new(
        "duration",
        "TIME",
        "120s",
        "Time measured, for each server.",
    ),
    Flag::switch("gzip", "Compress the bodies."),
    Flag::switch(
        "line-labels",
        "Write cluster, namespace, service, pod and node into every line, instead of giving them as target labels.",
    ),
];

/// The servers that are built in, ours first.
static PRESETS: &[Preset] = &[
    Preset {
        name: "narthex",
        program: "narthex",
        package: "",
        arguments: &[
            "server",
            "--config.file={config}",
            "--storage.tsdb.path={data}",
            "--web.listen-address={listen}",
            "--log.level=warn",
        ],
        version: &["server", "--version"],
        config: "{scrape}",
        ready: "/-/ready",
    },
    Preset {
        name: "prometheus",
        program: "prometheus",
        package: "prometheus",
        arguments: &[
            "--config.file={config}",
            "--storage.tsdb.path={data}",
            "--web.listen-address={listen}",
            "--log.level=warn",
        ],
        version: &["--version"],
        config: "{scrape}",
        ready: "/-/ready",
    },
    Preset {
        name: "victoria-metrics",
        program: "victoria-metrics",
        package: "victoria-metrics",
        arguments: &[
            "-promscrape.config={config}",
            "-storageDataPath={data}",
            "-httpListenAddr={listen}",
            "-loggerLevel=WARN",
        ],
        version: &["-version"],
        config: "{scrape}",
        ready: "/health",
    },
];

/// Measures every server.
///
/// # Errors
///
/// When a value is out of range, or a server cannot be found, fails or answers wrongly.
fn run(values: &Values) -> Result<Record, BenchError> {
    let plan = Plan::from_values(values)?;
    let (servers, notes) = ServerSpec::chosen(values, PRESETS)?;
    let mut record = values.record(plan.title());
    record.notes = notes;
    record.subjects = servers.iter().map(ServerSpec::subject).collect();
    let turns = turns(servers.len(), 1, plan.repetitions);
    let mut progress = Progress::new(plan.each() * turns.len() as u32);
    for turn in turns {
        let outcome = Measured::start(&plan, &servers[turn.subject], &mut progress)?.finish()?;
        let mut run = figures::run(&plan, &outcome);
        (run.subject, run.repetition) = (turn.subject, turn.repetition);
        record.runs.push(run);
    }
    Ok(record)
}
