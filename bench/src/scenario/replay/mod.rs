//! `replay`: real exporters' scrapes, recorded once and served again, for realistic bytes per sample.
//!
//! **Invariant:** every server gets the same rounds in the same order, each once; nothing is looped or invented.

mod corpus;
mod expect;
mod feed;
mod figures;
mod plan;
mod recorder;
mod run;
mod scrub;

use super::prelude::*;
use crate::{harness::Progress, report::say};
use narthex_cli::flags;
use plan::{Flags, Plan};
use recorder::{Recorded, Recording, Target};
use std::{collections::BTreeSet, path::PathBuf, time::Duration};

pub(crate) static SCENARIO: Scenario = Scenario {
    name: "replay",
    about: "Servers scrape what exporters answered when they were recorded.",
    flags: &[Servers::FLAGS, Flags::FLAGS, Common::FLAGS],
    run,
};

/// Serves the corpus to every server.
fn run(values: &Values) -> Result<Record, BenchError> {
    let plan = Plan::from_values(values)?;
    let (servers, mut notes) = ServerSpec::chosen(values)?;
    notes.extend(plan.notes.iter().cloned());
    notes.push(
        "at rest is a snapshot where a server makes one on demand (Prometheus), else its directory after a stop"
            .to_owned(),
    );
    let mut record = values.record(plan.title(), ServerSpec::subjects(&servers), notes);
    let expected = plan.corpora.iter().map(|corpus| {
        let sample = expect::sample(corpus, plan.rounds, plan.flags.compare);
        sample.map_err(BenchError::damaged(&corpus.about().name))
    });
    let expected = match plan.flags.compare {
        0 => plan.corpora.iter().map(|_| Vec::new()).collect(),
        _ => expected.collect::<Result<Vec<_>, _>>()?,
    };
    let each = plan.each();
    for_each_turn(values, &servers, 1, each, |turn, server, progress| {
        let outcome = run::run(&plan, server, &expected, progress)?;
        if let Some(first) = &outcome.compared.first {
            let label = &server.label;
            let note = format!("{label} does not hold what it was sent: {first}");
            record.notes.push(note);
        }
        record.runs.push(figures::run(&outcome).for_turn(turn));
        Ok(())
    })?;
    Ok(record)
}

flags! {
    /// What `record-scrapes` takes.
    #[derive(Debug)]
    pub(crate) struct RecordFlags {
        /// Exporter to record, over http. NAME is its file's name; without a path it is /metrics.
        target: Vec<String> = "target", value("[NAME=]URL");
        /// Time between two scrapes of a target.
        interval: Duration = "interval", default("15s");
        /// Scrapes of each target.
        count: usize = "count", default("240"), within(1, 1_000_000);
        /// Directory the files go to, one for each target.
        out: PathBuf = "out", directory();
    }
}

/// Records exporters' pages, without anything that names their machine.
pub(crate) fn record(values: &Values) -> Result<(), BenchError> {
    let flags = values.read(RecordFlags::from_values)?;
    let targets: Result<Vec<Target>, BenchError> = flags
        .target
        .iter()
        .enumerate()
        .map(|(place, text)| {
            Target::parse(text, place).map_err(|what| values.wrong("target", what))
        })
        .collect();
    let recording = Recording {
        targets: targets?,
        interval: flags.interval,
        count: flags.count,
        out: flags.out,
    };
    if recording.targets.is_empty() || recording.out.as_os_str().is_empty() {
        return Err(values.wrong("target", "record-scrapes needs --target and --out"));
    }
    if recording.interval.is_zero() {
        return Err(values.wrong("interval", "there is no time between scrapes"));
    }
    let mut names = BTreeSet::new();
    for Target { name, .. } in &recording.targets {
        if !names.insert(name) {
            return Err(values.wrong("target", format!("two are called {name}")));
        }
    }
    let rounds = u32::try_from(recording.count).unwrap_or(u32::MAX);
    let mut progress = Progress::new(recording.interval * rounds);
    for recorded in recording.run(&mut progress)? {
        say(&describe(&recorded));
    }
    Ok(())
}

/// Describes the result of one target.
fn describe(recorded: &Recorded) -> String {
    let Recorded { name, rounds, .. } = recorded;
    let (body, file) = (recorded.body_bytes, recorded.file_bytes);
    let mut text = format!("{name}: {rounds} rounds, {body} bytes of text in {file}");
    for (kind, count) in &recorded.replaced {
        text.push_str(&format!(", {count} {} replaced", kind.plural()));
    }
    if let Some(why) = &recorded.failure {
        text.push_str(&format!(", {} failed: {why}", recorded.failed));
    }
    text
}
