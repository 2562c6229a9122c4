//! The commands: what the first argument means.
//!
//! **Invariant:** a record is printed and written before a refusal is reported, so that a reader sees what was refused.

use crate::{
    frame::{
        ScenarioFile, cleanup,
        cli::{COMMON, Flag, Values, help_of, usage},
        error::BenchError,
    },
    record::{self, summary},
    report::{say, table},
    scenario::{SCENARIOS, Scenario, replay, self_test},
};
use std::path::Path;

/// What runs without a command: a few minutes with whatever is installed.
const SHORT: &[&str] = &[
    "storage",
    "--targets=100",
    "--series=500",
    "--warmup=15s",
    "--duration=60s",
];

/// Runs a command line.
///
/// # Errors
///
/// When it is wrong, or what it started failed or was refused.
pub(crate) fn run(arguments: &[String]) -> Result<(), BenchError> {
    let Some((command, rest)) = arguments.split_first() else {
        let short: Vec<String> = SHORT.iter().map(|text| (*text).to_owned()).collect();
        return run(&short);
    };
    match command.as_str() {
        "run" => file(rest),
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
            measure(scenario, &values(scenario, rest)?)
        }
    }
}

fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

fn values(scenario: &Scenario, arguments: &[String]) -> Result<Values, BenchError> {
    Values::parse(scenario.name, [scenario.flags, COMMON], arguments)
}

/// Runs a scenario file.
fn file(arguments: &[String]) -> Result<(), BenchError> {
    let (path, rest) = arguments
        .split_first()
        .ok_or_else(|| usage("run needs a scenario's file"))?;
    let file = ScenarioFile::read(Path::new(path))?;
    let scenario = find(&file.scenario).ok_or_else(|| {
        let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        let (place, name) = (&file.place, &file.scenario);
        usage(format!("{place}: {name:?} is none of {}", names.join(", ")))
    })?;
    measure(scenario, &values(scenario, rest)?.with_file(file)?)
}

/// Runs a scenario and shows what it measured.
fn measure(scenario: &Scenario, values: &Values) -> Result<(), BenchError> {
    let out = values.output("out")?;
    cleanup::on_signals()?;
    let record = (scenario.run)(values)?;
    say(table::render(&record).trim_end_matches('\n'));
    if let Some(path) = out {
        record::write(&path, &record)?;
        say(&format!("recorded in {}", path.display()));
    }
    if summary::is_refused(&record) {
        return Err(BenchError::Refused(
            "the generator, not the server, was the bottleneck; see REFUSED above".to_owned(),
        ));
    }
    Ok(())
}

/// Returns the help of all commands.
fn help() -> String {
    let mut text = "usage: narthex-bench <command> [<flags>]\n\n\
        Drives servers from outside, on loopback, and measures what they cost. Without a command: a short `storage`.\n\
        \nrun FILE [<flags>]: Runs the scenario of a YAML file, whose keys are the flags of its command.\n"
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
        "record-scrapes: Records exporters' scrapes for replay, without what names their machine.",
        replay::RECORD_FLAGS,
    );
    add(
        "self-test: Measures known CPU time and known bytes.",
        self_test::FLAGS,
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_runs_without_one_is_a_right_one() {
        let rest: Vec<String> = SHORT[1..].iter().map(|text| (*text).to_owned()).collect();
        let values = values(find(SHORT[0]).unwrap(), &rest).unwrap();
        assert_eq!(values.text("targets"), "100");
    }

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
        assert!(help.contains("--targets=850\n") && help.contains("--[no-]gzip\n"));
    }
}
