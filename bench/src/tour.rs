//! All scenarios in about ten minutes, with the installed servers.
//!
//! **Invariant:** a failed scenario does not end the tour; failed, refused and missing ones are listed at the end.

use crate::{
    harness::{BenchError, ScenarioFile, cleanup, usage},
    report::{say, show},
    scenario,
};
use narthex_cli::flags;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

flags! {
    /// What `tour` takes.
    #[derive(Debug)]
    pub(crate) struct Flags {
        /// Only scenarios of these names.
        only: Vec<String> = "only", value("SCENARIO"),
            offers(&["storage", "push", "replay", "http", "exporter", "query"]);
        /// Where records and reports go, one of each for a scenario.
        reports: PathBuf = "reports", default("narthex-bench-reports"), directory();
    }
}

/// The stops: one scenario file each, short enough for ten minutes in total.
static STOPS: &[(&str, &str)] = &[
    ("storage", include_str!("../scenarios/tour/storage.yml")),
    ("push", include_str!("../scenarios/tour/push.yml")),
    ("replay", include_str!("../scenarios/tour/replay.yml")),
    ("http", include_str!("../scenarios/tour/http.yml")),
    ("exporter", include_str!("../scenarios/tour/exporter.yml")),
    ("query", include_str!("../scenarios/tour/query.yml")),
];

/// Runs all scenarios.
pub(crate) fn run(flags: &Flags) -> Result<(), BenchError> {
    let only = &flags.only;
    let is_known = |name: &&String| STOPS.iter().any(|(stop, _)| stop == name);
    if let Some(name) = only.iter().find(|name| !is_known(name)) {
        return Err(usage(format!("--only: {name:?} is not on the tour")));
    }
    let directory = flags.reports.as_path();
    fs::create_dir_all(directory)
        .map_err(BenchError::io(format!("create {}", directory.display())))?;
    cleanup::on_signals()?;
    let stops = STOPS
        .iter()
        .filter(|(name, _)| only.is_empty() || only.iter().any(|one| one == name));
    let mut worst = None;
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    for (name, text) in stops {
        let began = Instant::now();
        say(&format!("\n=== {name} ==="));
        let result = visit(name, text, directory, &mut notes);
        let seconds = began.elapsed().as_secs();
        match result {
            Ok(()) => lines.push(format!(
                "{name}: {seconds} s, {}",
                directory.join(format!("{name}.html")).display()
            )),
            Err(error) => {
                lines.push(format!("{name}: {seconds} s, {error}"));
                worst = worst.or(Some(error));
            }
        }
    }
    say("\n=== the tour ===");
    lines.iter().for_each(|line| say(line));
    notes.iter().for_each(|note| say(note));
    worst.map_or(Ok(()), Err)
}

fn visit(
    name: &str,
    text: &str,
    directory: &Path,
    notes: &mut Vec<String>,
) -> Result<(), BenchError> {
    let file = ScenarioFile::parse(text, &format!("tour/{name}.yml"))?;
    let scenario = scenario::named_in(&file)?;
    let mut record = (scenario.run)(&scenario.values(&[])?.with_file(file)?)?;
    // To repeat it, use the stop's file, not the flags built here.
    record.command = format!("{} tour --only={name}", record.tool.name);
    notes.extend(record.notes.iter().map(|note| format!("{name}: {note}")));
    let path = |ending: &str| Some(directory.join(format!("{name}.{ending}")));
    show(&record, path("json"), path("html"))
}

#[cfg(test)]
mod tests;
