//! The commands, selected by the first argument.
//!
//! **Invariant:** a record is printed and written before its refusal is reported, so that a reader sees the refused
//! result.

use crate::{
    harness::{
        ScenarioFile, cleanup,
        cli::{COMMON, Flag, Values, help_of, usage},
        error::BenchError,
        flag_table::flags,
    },
    record,
    report::{compare, say, show, terminal, write_page},
    scenario::{self, SCENARIOS, Scenario, find, replay, self_test},
    tour,
};
use std::path::Path;

/// The flags of commands that show records.
static SHOW: &[Flag] = flags! {
    ["html": "FILE" = "", "Where the report goes, one page that loads nothing."]
};

/// Runs a command line.
pub(crate) fn run(arguments: &[String]) -> Result<(), BenchError> {
    let Some((command, rest)) = arguments.split_first() else {
        return tour::run(&Values::parse("tour", [tour::FLAGS, &[]], &[])?);
    };
    if rest
        .iter()
        .any(|argument| argument == "--help" || argument == "-h")
    {
        say(help_about(command).trim());
        return Ok(());
    }
    match command.as_str() {
        "run" => file(rest),
        "tour" => tour::run(&Values::parse("tour", [tour::FLAGS, &[]], rest)?),
        "report" => report(rest),
        "compare" => compared(rest),
        "self-test" => {
            let values = Values::parse("self-test", [self_test::FLAGS, &[]], rest)?;
            cleanup::on_signals()?;
            self_test::run(&values)
        }
        "record-scrapes" => {
            let values = Values::parse("record-scrapes", [replay::RECORD_FLAGS, &[]], rest)?;
            cleanup::on_signals()?;
            replay::record(&values)
        }
        "burn" => self_test::burn(&Values::parse("burn", [self_test::BURN, &[]], rest)?),
        "--help" | "-h" | "help" => {
            say(help().trim_end());
            Ok(())
        }
        name => {
            let scenario = find(name).ok_or_else(|| usage(format!("{name:?} is no command")))?;
            measure(scenario, &scenario.values(rest)?)
        }
    }
}

/// Runs a scenario file.
fn file(arguments: &[String]) -> Result<(), BenchError> {
    let (path, rest) = arguments
        .split_first()
        .ok_or_else(|| usage("run needs a scenario's file"))?;
    let file = ScenarioFile::read(Path::new(path))?;
    let scenario = scenario::named_in(&file)?;
    measure(scenario, &scenario.values(rest)?.with_file(file)?)
}

/// Runs a scenario and shows its record.
fn measure(scenario: &Scenario, values: &Values) -> Result<(), BenchError> {
    // Check these paths now rather than after an hour.
    let (out, page) = (values.output("out")?, values.output("html")?);
    cleanup::on_signals()?;
    show(&(scenario.run)(values)?, out, page)
}

/// Shows an existing record.
fn report(arguments: &[String]) -> Result<(), BenchError> {
    let Some((path, rest)) = arguments.split_first() else {
        return Err(usage("report needs a record"));
    };
    let values = Values::parse("report", [SHOW, &[]], rest)?;
    let page = values.output("html")?;
    let record = record::read(Path::new(path))?;
    say(terminal::render(&record).trim_end_matches('\n'));
    page.map_or(Ok(()), |path| write_page(&path, &record))
}

/// Compares two records.
fn compared(arguments: &[String]) -> Result<(), BenchError> {
    let [a, b, rest @ ..] = arguments else {
        return Err(usage("compare needs two records"));
    };
    let values = Values::parse("compare", [SHOW, &[]], rest)?;
    let page = values.output("html")?;
    let records = [record::read(Path::new(a))?, record::read(Path::new(b))?];
    if records[0].scenario != records[1].scenario {
        let names = records.map(|record| record.scenario);
        let [a, b] = names;
        return Err(usage(format!("a record of {a} and one of {b}")));
    }
    let names = [a, b].map(|path| {
        Path::new(path)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
    });
    let names = names.each_ref().map(|name| name.as_ref());
    let [a, b] = &records;
    say(compare::render(a, b, names).trim_end_matches('\n'));
    page.map_or(Ok(()), |path| {
        write_page(&path, &compare::merged(a, b, names))
    })
}

/// Returns the help of one command, or of all if it is not a scenario.
fn help_about(command: &str) -> String {
    let Some(scenario) = find(command) else {
        return help();
    };
    let mut text = format!("{}: {}\n", scenario.name, scenario.about);
    help_of(scenario.flags, &mut text);
    text.push_str("\nevery scenario:\n");
    help_of(COMMON, &mut text);
    text
}

/// Returns the help of all commands.
fn help() -> String {
    let mut text = "usage: narthex-bench <command> [<flags>]\n\n\
        Drives servers from outside, on loopback, and measures what they cost. Without a command: the tour.\n\
        \nrun FILE [<flags>]: Runs the scenario of a YAML file, whose keys are the flags of its command.\n\
        \nreport RECORD [--html=FILE]: Shows a record again.\n\
        \ncompare A B [--html=FILE]: Shows two records of one scenario beside each other.\n"
        .to_owned();
    let mut add = |title: &str, flags: &[Flag]| {
        text.push_str(&format!("\n{title}\n"));
        help_of(flags, &mut text);
    };
    for scenario in SCENARIOS {
        add(
            &format!("{}: {}", scenario.name, scenario.about),
            scenario.flags,
        );
    }
    add("every scenario:", COMMON);
    add(
        "tour: Runs all scenarios for about ten minutes, against whatever is installed.",
        tour::FLAGS,
    );
    add(
        "record-scrapes: Records exporters' scrapes for replay, without what names their machine.",
        replay::RECORD_FLAGS,
    );
    add(
        "self-test: Measures known CPU time, known bytes and a known stall.",
        self_test::FLAGS,
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_flag_and_no_name_is_twice() {
        let help = help();
        for scenario in SCENARIOS {
            let flags = || scenario.flags.iter().chain(COMMON);
            for flag in flags() {
                assert!(help.contains(flag.help), "{}", flag.name);
                let same = flags().filter(|other| other.name == flag.name);
                assert_eq!(same.count(), 1, "{} of {}", flag.name, scenario.name);
            }
        }
        assert!(help.contains("--duration=120s\n") && help.contains("--[no-]gzip\n"));
    }
}
