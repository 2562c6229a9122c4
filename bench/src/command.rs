//! The commands of the program.
//!
//! **Invariant:** a record is printed and written before its refusal is reported, so that a reader sees the refused
//! result.

use crate::{
    harness::{BenchError, ScenarioFile, Values, cleanup, usage},
    record,
    report::{compare, say, show, terminal, write_page},
    scenario::{self, Scenario, exporter, http, push, query, replay, rules, storage},
    tour,
};
use narthex_cli::{Call, Command, Program, Surroundings, flags};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

flags! {
    /// What `run` takes; flags of the file's scenario may follow.
    struct RunFlags {
        /// The scenario's file, whose keys are the flags of its command. Those may follow it.
        file: PathBuf = "file", positional();
    }
}

flags! {
    /// What `report` takes.
    struct ReportFlags {
        /// The record.
        record: PathBuf = "record", positional();
        /// Where the report goes, one page that loads nothing.
        html: Option<PathBuf> = "html";
    }
}

flags! {
    /// What `compare` takes.
    struct CompareFlags {
        /// A record.
        a: PathBuf = "a", positional();
        /// Another one of the same scenario.
        b: PathBuf = "b", positional();
        /// Where the report goes, one page that loads nothing.
        html: Option<PathBuf> = "html";
    }
}

/// What a command line asks for.
enum Invocation {
    Scenario(&'static Scenario, narthex_cli::Values),
    /// Another command, and the function that runs it.
    Other(fn(&Values) -> Result<(), BenchError>, narthex_cli::Values),
}

/// Returns the command of a scenario.
macro_rules! scenario {
    ($scenario:ident) => {
        Command {
            name: $scenario::SCENARIO.name,
            called_as: &[],
            about: $scenario::SCENARIO.about,
            flags: $scenario::SCENARIO.flags,
            read: |values| Ok(Invocation::Scenario(&$scenario::SCENARIO, values)),
        }
    };
}

/// Returns another command.
macro_rules! other {
    ($name:literal, $about:literal, $flags:ty, $run:expr) => {
        Command {
            name: $name,
            called_as: &[],
            about: $about,
            flags: &[<$flags>::FLAGS],
            read: |values| Ok(Invocation::Other($run, values)),
        }
    };
}

static PROGRAM: Program<Invocation> = Program {
    name: "narthex-bench",
    version: env!("CARGO_PKG_VERSION"),
    about: "Drives servers from outside, on loopback, and measures what they cost. Without a command: the tour.",
    commands: &[
        other!(
            "run",
            "Runs the scenario of a YAML file.",
            RunFlags,
            |values| run_file(&values.get::<PathBuf>("file")?, &[])
        ),
        other!("report", "Shows a record again.", ReportFlags, report),
        other!(
            "compare",
            "Shows two records of one scenario beside each other.",
            CompareFlags,
            compare_records
        ),
        scenario!(storage),
        scenario!(http),
        scenario!(exporter),
        scenario!(query),
        scenario!(push),
        scenario!(replay),
        scenario!(rules),
        other!(
            "tour",
            "Runs all scenarios for about ten minutes, against whatever is installed.",
            tour::Flags,
            |values| tour::run(&values.read(tour::Flags::from_values)?)
        ),
        other!(
            "record-scrapes",
            "Records exporters' scrapes for replay, without what names their machine.",
            replay::RecordFlags,
            |values| {
                cleanup::on_signals()?;
                replay::record(values)
            }
        ),
    ],
    topics: &[],
    tool: "",
};

/// Runs a command line.
pub(crate) fn run(arguments: &[String]) -> Result<(), BenchError> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => call(&["tour"]),
        // The flags of a file's scenario are known when it is read.
        ["run", file, rest @ ..] if !file.starts_with('-') => run_file(Path::new(file), rest),
        ["-h" | "--help" | "help"] => call(&["--help-long"]),
        line => call(line),
    }
}

fn call(line: &[&str]) -> Result<(), BenchError> {
    let rest: Vec<String> = line.iter().skip(1).map(|text| (*text).to_owned()).collect();
    let named = std::iter::once(&PROGRAM.name).chain(line);
    let named: Vec<OsString> = named.map(OsString::from).collect();
    match PROGRAM.call(&named, Surroundings::process())? {
        Call::Print(text) => say(text.trim_end()),
        Call::Run(Invocation::Scenario(scenario, values)) => {
            return measure(scenario, &Values::new(scenario.name, values, &rest));
        }
        Call::Run(Invocation::Other(run, values)) => return run(&Values::new("", values, &rest)),
    }
    Ok(())
}

/// Runs a scenario file with further flags.
fn run_file(path: &Path, flags: &[&str]) -> Result<(), BenchError> {
    let file = ScenarioFile::read(path)?;
    let scenario = scenario::named_in(&file)?;
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    measure(scenario, &scenario.values(&flags)?.with_file(file)?)
}

/// Runs a scenario and shows its record.
fn measure(scenario: &Scenario, values: &Values) -> Result<(), BenchError> {
    // Check these paths now rather than after an hour.
    let (out, page) = (values.output("out")?, values.output("html")?);
    cleanup::on_signals()?;
    show(&(scenario.run)(values)?, out, page)
}

/// Shows an existing record.
fn report(values: &Values) -> Result<(), BenchError> {
    let page = values.output("html")?;
    let record = record::read(&values.get::<PathBuf>("record")?)?;
    say(terminal::render(&record).trim_end_matches('\n'));
    page.map_or(Ok(()), |path| write_page(&path, &record))
}

/// Compares two records.
fn compare_records(values: &Values) -> Result<(), BenchError> {
    let page = values.output("html")?;
    let paths: [PathBuf; 2] = [values.get("a")?, values.get("b")?];
    let [a, b] = [record::read(&paths[0])?, record::read(&paths[1])?];
    if a.scenario != b.scenario {
        let (a, b) = (a.scenario, b.scenario);
        return Err(usage(format!("a record of {a} and one of {b}")));
    }
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().display().to_string();
    let names = paths.each_ref().map(name);
    let names = names.each_ref().map(String::as_str);
    say(compare::render(&a, &b, names).trim_end_matches('\n'));
    page.map_or(Ok(()), |path| {
        write_page(&path, &compare::merged(&a, &b, names))
    })
}

#[cfg(test)]
mod tests;
