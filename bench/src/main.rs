//! `narthex-bench`: drives servers from outside, like a user, and measures what they cost.
//!
//! It is: scenarios, the load they need, servers under test, meters, reports. It is not: part of the product.
//! **Invariant:** talks to loopback only, ends within the time it was given, and leaves neither processes nor
//! directories behind.

mod body;
mod cleanup;
mod cli;
mod error;
mod fleet_server;
mod machine;
mod measure;
mod outcome;
mod progress;
mod query;
mod report;
mod run;
mod scenario;
mod schedule;
mod self_test;
mod server;

use cli::Values;
use error::BenchError;
use report::say;
use scenario::Scenario;
use std::{path::Path, process::ExitCode};

/// What runs without a command: a few minutes with whatever is installed.
const SHORT: &[&str] = &[
    "storage",
    "--targets=100",
    "--series=500",
    "--warmup=15s",
    "--duration=60s",
];

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        arguments = SHORT
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect();
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let hint = match error {
                BenchError::Usage(_) => "\nnarthex-bench --help lists commands and flags",
                _ => "",
            };
            progress::complain(&format!("narthex-bench: {error}{hint}"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(arguments: &[String]) -> Result<(), BenchError> {
    let (command, rest) = (arguments[0].as_str(), arguments[1..].iter().cloned());
    match command {
        "storage" => storage(&Values::parse(cli::STORAGE, rest)?, arguments),
        "self-test" => {
            let values = Values::parse(cli::SELF_TEST, rest)?;
            cleanup::on_signals()?;
            self_test::run(&values)
        }
        "burn" => self_test::burn(&Values::parse(cli::BURN, rest)?),
        "--help" | "-h" | "help" => {
            say(cli::help().trim_end());
            Ok(())
        }
        other => Err(cli::usage(format!("{other:?} is no command"))),
    }
}

fn storage(values: &Values, arguments: &[String]) -> Result<(), BenchError> {
    let scenario = Scenario::from_values(values)?;
    let out = values.text("out");
    let directory = Path::new(out)
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty());
    if directory.is_some_and(|dir| !dir.is_dir()) {
        return Err(cli::usage(format!(
            "--out: the directory of {out} does not exist"
        )));
    }
    cleanup::on_signals()?;
    let outcomes = scenario.run()?;
    report::print(&scenario, &outcomes);
    if !out.is_empty() {
        report::write(
            Path::new(out),
            &report::record(&scenario, &outcomes, arguments),
        )?;
        say(&format!("\nrecorded in {out}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::ServerSpec;

    #[test]
    fn the_command_that_runs_without_one_is_a_right_one() {
        assert_eq!(SHORT[0], "storage");
        let values = SHORT[1..].iter().map(|argument| (*argument).to_owned());
        let scenario =
            Values::parse(cli::STORAGE, values).and_then(|values| Scenario::from_values(&values));
        // Without any server installed it says so.
        assert!(
            scenario.is_ok_and(|scenario| scenario.all_series() == 50_000)
                || ServerSpec::installed().0.is_empty()
        );
    }
}
