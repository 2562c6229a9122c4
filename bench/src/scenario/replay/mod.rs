//! `replay`: real exporters' scrapes, recorded once and served again, for honest bytes a sample.
//!
//! **Invariant:** every server meets the same rounds in the same order, each once; nothing is looped or made up.

mod corpus;
mod delta;
mod line;
mod number;
mod recorder;
mod scrub;

use crate::{
    frame::{
        cli::{Flag, Values},
        error::BenchError,
        progress::Progress,
    },
    report::say,
};
pub(crate) use line::Line;
use recorder::{Recorded, Recording, Target};
use std::path::PathBuf;

/// The flags of `record-scrapes`.
pub(crate) static RECORD_FLAGS: &[Flag] = &[
    Flag::list(
        "target",
        "[NAME=]URL",
        "Exporter to record, over http. NAME is its file's name; without a path it is /metrics.",
    ),
    Flag::new(
        "interval",
        "TIME",
        "15s",
        "Time between two scrapes of a target.",
    ),
    Flag::new("count", "N", "240", "Scrapes of each target."),
    Flag::new(
        "out",
        "DIR",
        "",
        "Directory the files go to, one for each target.",
    ),
];

/// Records what exporters answer, without what names their machine.
///
/// # Errors
///
/// When a value is wrong, a file cannot be written, or a target never answered.
pub(crate) fn record(values: &Values) -> Result<(), BenchError> {
    let targets: Result<Vec<Target>, BenchError> = values
        .all("target")
        .enumerate()
        .map(|(place, text)| {
            Target::parse(text, place).map_err(|what| values.wrong("target", what))
        })
        .collect();
    let recording = Recording {
        targets: targets?,
        interval: values.time("interval")?,
        count: values.number("count", 1..=1_000_000)? as usize,
        out: PathBuf::from(values.text("out")),
    };
    if recording.targets.is_empty() || recording.out.as_os_str().is_empty() {
        return Err(values.wrong("target", "record-scrapes needs --target and --out"));
    }
    if recording.interval.is_zero() {
        return Err(values.wrong("interval", "there is no time between scrapes"));
    }
    let names = |at: usize| &recording.targets[at].name;
    for at in 1..recording.targets.len() {
        if (0..at).any(|other| names(other) == names(at)) {
            return Err(values.wrong("target", format!("two are called {}", names(at))));
        }
    }
    let rounds = u32::try_from(recording.count).unwrap_or(u32::MAX);
    let mut progress = Progress::new(recording.interval * rounds);
    for recorded in recording.run(&mut progress)? {
        say(&told(&recorded));
    }
    Ok(())
}

/// Says what became of one target.
fn told(recorded: &Recorded) -> String {
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
